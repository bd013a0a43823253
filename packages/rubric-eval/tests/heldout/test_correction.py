"""Held-out rewards corrected by labels of the same answers, and what is refused."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest

from rubric_core import ConfigError, write_tasks
from rubric_eval.findings.reading import ReportSources
from rubric_eval.heldout.run import run_heldout
from rubric_eval.heldout.table import HeldoutTable
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.report.page import write_report
from rubric_eval.scores.scoring import read_judges
from rubric_judge import LexicalJudge
from rubric_judge.pool.ledger.entry import hash_answer, hash_question, hash_rubric
from rubric_judge.quality.calibration.correction import corrected_mean
from rubric_judge.quality.calibration.record import (
    Calibration,
    RewardCalibration,
    RewardPair,
)
from rubric_judge.quality.responses import read_responses
from rubric_judge.statistics.estimate import UNKNOWN
from rubric_judge.testing import FakeCall, FakeEndpoint, ServedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rubric_core import Ask, Task
    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.responders.opening import OpenModel
    from rubric_eval.scores.scoring import NamedJudge

    Write = Callable[..., Path]


def _worth(call: FakeCall) -> dict[str, float]:
    found = re.search(r"worth (\d+)%", call.messages[-1]["content"])
    return (
        {name: w * int(found[1]) / 100 for name, w in call.weights.items()}
        if found
        else {}
    )


@pytest.fixture
def tasks(make_task: Callable[..., Task]) -> tuple[Task, ...]:
    """Twelve questions, each of a document of its own."""
    return tuple(make_task(number) for number in range(12))


@pytest.fixture
def judge(judge_file: Callable[..., Path]) -> Iterator[NamedJudge]:
    with FakeEndpoint(_worth) as endpoint:
        yield read_judges([str(judge_file(endpoint.url))])[0]


@pytest.fixture
def pairs(tasks: tuple[Task, ...]) -> tuple[RewardPair, ...]:
    """Labels of the answers of `like`, about .2 below the judge's rewards."""
    return tuple(
        RewardPair(
            task_id=task.task_id,
            document=task.doc_hash,
            judge=0.35 + n * 0.04,
            label=0.15 + n * 0.04 + n % 3 / 50,
            answer=hash_answer(task.task_id, like(n)),
        )
        for n, task in enumerate(tasks)
    )


def like(number: int) -> str:
    """Answer as the model that is labelled does."""
    return f"That is worth {35 + 4 * number}%."


@pytest.fixture
def write(tmp_path: Path, judge: NamedJudge, pairs: tuple[RewardPair, ...]) -> Write:
    """Write calibration.json of the judge, with what is given changed."""

    def write_changed(**changed: Any) -> Path:
        figures = dict.fromkeys(
            RewardCalibration.model_fields.keys() - {"pairs"}, UNKNOWN
        )
        given = {
            "version": 1,
            "judge": judge.name,
            "judge_fingerprint": judge.entry.identity["fingerprint"],
            "rubrics": {},
            "answers": tuple(one.answer for one in pairs),
            "raters": ("ann",),
            "criteria": (),
            "reward": RewardCalibration(pairs=pairs, **figures),
        }
        path = tmp_path / "calibration.json"
        path.write_text(
            Calibration(**(given | changed)).model_dump_json(), encoding="utf-8"
        )
        return path

    return write_changed


@pytest.fixture
def run(
    tmp_path: Path,
    make_plan: Callable[..., HeldoutPlan],
    scripted: Callable[..., OpenModel],
    judge: NamedJudge,
) -> Callable[..., HeldoutTable]:
    """Evaluate a model whose answers are labelled, and one that the judge loves as much."""

    def script(ask: Ask, *, prefix: str = "") -> str:
        number = int(re.findall(r"\d+", ask.view.question)[0])
        return prefix + like(number)

    def evaluate(calibration: Path | None) -> HeldoutTable:
        models = [
            scripted("like", script),
            scripted("loved", partial(script, prefix="Surely: ")),
        ]
        out = tmp_path / "eval"
        given = partial(
            run_heldout, out, make_plan(), models, [judge], calibration=calibration
        )
        return anyio.run(given)

    return evaluate


def test_labels_correct_the_model_that_they_are_of_and_no_other(
    run: Callable[..., HeldoutTable],
    write: Write,
    pairs: tuple[RewardPair, ...],
    tmp_path: Path,
    tasks: tuple[Task, ...],
) -> None:
    table = run(write())

    like, loved = table.corrected
    rewards = [0.35 + 0.04 * n for n in range(12)]
    wanted = corrected_mean(
        rewards,
        pairs,
        answers_N=[one.answer for one in pairs],
        documents_N=[task.doc_hash for task in tasks],
    )
    assert like.mean == pytest.approx(wanted.mean)
    assert (like.ci_low, like.ci_high) == pytest.approx((wanted.ci_low, wanted.ci_high))
    assert like.raw == pytest.approx(float(np.mean(rewards))) == table.rows[0].mean
    assert like.mean is not None
    assert like.mean < like.raw - 0.15
    assert (like.refused, like.labelled) == ("", 12)

    # The judge gives it the very same rewards, and nobody knows how far it is to be believed there.
    assert (loved.mean, loved.ci_low, loved.labelled) == (None, None, 0)
    assert loved.raw == like.raw
    assert "one of these to 0 of 12 questions" in loved.refused
    assert "the judge's own mean stands, uncorrected" in loved.refused
    answers = "answers/loved/seed_0.jsonl"
    assert f"rubric-judge label TASKS EVAL/{answers} --out LABELS" in loved.refused
    views = read_responses(
        tmp_path / "eval" / answers, {task.task_id: task for task in tasks}
    )
    assert len(views) == len(tasks)

    files = write_report(ReportSources((tmp_path / "eval",)))
    page = files.page.read_text(encoding="utf-8")
    assert "Held-out reward corrected by labels." in page
    assert "loved is not corrected" in page
    shown = (tmp_path / "eval/tables/corrected_heldout.md").read_text(encoding="utf-8")
    assert f"{100 * wanted.mean:.1f}" in shown


def test_labels_of_two_models_correct_both_and_tell_where_the_judge_errs_otherwise(
    run: Callable[..., HeldoutTable], write: Write, pairs: tuple[RewardPair, ...]
) -> None:
    figures = dict.fromkeys(RewardCalibration.model_fields.keys() - {"pairs"}, UNKNOWN)
    loved = tuple(
        one.model_copy(
            update={
                "answer": hash_answer(one.task_id, f"Surely: {like(n)}"),
                "label": one.judge - 0.3 + n % 3 / 50,
            }
        )
        for n, one in enumerate(pairs)
    )
    both = RewardCalibration(pairs=pairs + loved, **figures)
    table = run(write(reward=both, answers=tuple(one.answer for one in both.pairs)))

    assert [row.labelled for row in table.corrected] == [12, 12]
    assert [row.mean for row in table.corrected] == pytest.approx(
        [float(np.mean([one.label for one in some])) for some in (pairs, loved)]
    )
    assert "leaves out 0" in table.corrected[1].population


def test_the_folder_keeps_its_calibration_until_it_is_given_another(
    run: Callable[..., HeldoutTable], write: Write, tmp_path: Path
) -> None:
    assert run(None).corrected == ()
    first = run(write()).corrected
    assert run(None).corrected == first
    kept = EvalFolder(tmp_path / "eval").calibration
    assert kept.read_bytes() == write().read_bytes()


def test_the_command_prints_what_is_corrected_and_why_not(
    command: Callable[..., None],
    write: Write,
    tasks: tuple[Task, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_tasks(tmp_path / "test.jsonl", tasks)
    (tmp_path / "lexical.yaml").write_text("type: lexical", encoding="utf-8")
    calibration = write(judge_fingerprint=LexicalJudge().fingerprint)
    served = ServedModel(answer=lambda call: call.messages[-1]["content"], name="m")
    with FakeEndpoint(served=served) as endpoint:
        command(
            *(
                "heldout",
                f"m=server:{endpoint.url}#m",
                "--tasks",
                tmp_path / "test.jsonl",
            ),
            *("--judge", tmp_path / "lexical.yaml", "--out", tmp_path / "e"),
            *("--calibration", calibration),
        )
    shown = capsys.readouterr().out
    assert re.search(r"m +lexical +0\.0 % +uncorrected +– +– +0", shown)
    assert (
        "m by lexical is not corrected: the calibration's labels were drawn from other"
        in shown
    )
    assert f"label TASKS {tmp_path}/e/answers/m/seed_0.jsonl --out" in " ".join(
        shown.split()
    )
    assert re.search(r"λ +labelled", shown)


def test_too_few_labels_correct_nothing_and_say_how_many_more(
    run: Callable[..., HeldoutTable], write: Write, pairs: tuple[RewardPair, ...]
) -> None:
    figures = dict.fromkeys(RewardCalibration.model_fields.keys() - {"pairs"}, UNKNOWN)
    few = write(reward=RewardCalibration(pairs=pairs[:4], **figures))
    assert [row.mean for row in run(few).corrected] == [None, None]
    assert "label 6 more" in run(few).corrected[0].refused


def test_a_calibration_of_something_else_is_refused_before_anything_is_asked(
    run: Callable[..., HeldoutTable],
    write: Write,
    tmp_path: Path,
    tasks: tuple[Task, ...],
) -> None:
    with pytest.raises(ConfigError, match=r"of the judge 'other prompt', not of"):
        run(write(judge_fingerprint="other prompt"))
    rubrics = {hash_question(tasks[0]): (hash_rubric(tasks[0].rubric)[::-1],)}
    with pytest.raises(
        ConfigError, match=f"rubric of task '{tasks[0].task_id}' has changed"
    ):
        run(write(rubrics=rubrics))
    with pytest.raises(ConfigError, match=r"cannot be read \(No such file"):
        run(tmp_path / "none.json")
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="this is no calibration"):
        run(wrong)
    assert not EvalFolder(tmp_path / "eval").run.exists()
