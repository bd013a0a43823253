"""The study of judges that a report shows, as `rubric-judge reliability` writes it."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

import pytest

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    Rubric,
    RubricFileError,
    Task,
    write_tasks,
)
from rubric_eval.findings.studies import read_studies
from rubric_eval.report.views import reliability_tables
from rubric_judge.quality.responses import JudgedResponse, write_judgements

if TYPE_CHECKING:
    from pathlib import Path

JUDGES = ("first", "second")


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a study of two judges, three judgements each of two responses to six tasks."""
    pytest.importorskip("krippendorff")
    from rubric_judge.cli import main

    rubric = Rubric(
        criteria=tuple(Criterion(id=name, weight=0.5) for name in ("purpose", "shape"))
    )
    tasks = [
        Task(
            question=f"What is {n}?",
            grounding=Grounding(f"Passage {n}."),
            rubric=rubric,
        )
        for n in range(6)
    ]
    monkeypatch.chdir(tmp_path)
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    views = [
        task.judge_view(text)
        for task in tasks
        for text in ("It sorts.", "It does not.")
    ]
    turns = count()
    for judge in JUDGES:
        for replicate in range(3):
            judged = [
                JudgedResponse(
                    line=line,
                    view=view,
                    result=JudgeResult.scored(
                        rubric,
                        {id_: next(turns) * 7 % 6 / 10 for id_ in rubric.ids},
                        judge=judge,
                    ),
                )
                for line, view in enumerate(views, start=1)
            ]
            write_judgements(tmp_path / f"{judge}_{replicate}.jsonl", judged)
    files = sorted(path.name for path in tmp_path.glob("*_?.jsonl"))
    words = [
        "tasks.jsonl",
        "--judgements",
        *files,
        "--resamples",
        "30",
        "--out",
        "study",
    ]
    monkeypatch.setattr("sys.argv", ["rubric-judge", "reliability", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    return tmp_path / "study"


def test_what_the_command_wrote_is_read_and_shown(study: Path) -> None:
    written = json.loads((study / "reliability.json").read_text("utf-8"))

    found = read_studies(reliability=study).reliability

    assert found is not None

    assert [one.judge for one in found.judges] == list(JUDGES)
    for shown, of in zip(found.judges, written["judges"], strict=True):
        for name in ("icc1_within", "flips", "tau2"):
            assert getattr(shown, name).value == of[name]["value"]
            assert getattr(shown, name).low == of[name]["low"]
    alone, together = reliability_tables(found)
    assert [row.name for row in alone.rows] == list(JUDGES)
    assert together.rows[0].cells[1].value == written["pairs"][0]["bias"]["value"]


def test_another_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "reliability.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RubricFileError, match=r"rubric-judge reliability` wrote"):
        read_studies(reliability=tmp_path)


def test_the_best_pass_of_a_training_is_none_whose_mean_is_no_number(
    tmp_path: Path,
) -> None:
    means = ("NaN", "0.2", "0.3")
    lines = [
        f'{{"step": {step}, "reward_mean": {mean}, "zero_reward_frac": 0.1, "n": 2}}\n'
        for step, mean in enumerate(means)
    ]
    (tmp_path / "heldout.jsonl").write_text("".join(lines), encoding="utf-8")

    training = read_studies(training=tmp_path).training

    assert training is not None
    assert training.best is not None
    assert training.best.step == 2
