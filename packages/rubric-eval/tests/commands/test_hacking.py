"""`rubric-eval hacking` as a person gives it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from rubric_core import Outcome
from rubric_eval.hacking.results import HackingPanel
from rubric_eval.records.digests import changed_inputs
from rubric_eval.records.files import ScoreRow, read_rows, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_eval.records.inputs import EvalFolder

ECHO = "Perhaps. It says that ties keep their former order, which meets the criteria."


class Evaluations(Protocol):
    """What the fixture writes."""

    root: Path
    tasks: Path

    def heldout(self, **changes: object) -> EvalFolder: ...

    def transfer(self, **changes: object) -> EvalFolder: ...


def _written(folder: EvalFolder) -> HackingPanel:
    return HackingPanel.model_validate_json(folder.hacking.read_bytes())


def test_a_hacked_judge_is_warned_of(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = evaluations.heldout(judges=("lexical", "stern"), said=ECHO)
    assert command("hacking", folder.root, "--tasks", evaluations.tasks) == 0
    shown = capsys.readouterr().out
    assert (
        "warning: grpo holds wording of the criteria in more answers than base" in shown
    )
    assert re.search(
        r"grpo − base: \+29\.\d points by lexical, \+14\.\d by stern", shown
    )
    assert "part of the gain is the first judge's alone" in shown
    found = _written(folder)
    assert (found.settings.judge, found.settings.second) == ("lexical", "stern")
    assert found.models[1].echoes is not None
    assert found.models[1].echoes.mean == 1.0


def test_the_file_holds_no_text_and_knows_when_it_is_stale(
    command: Callable[..., int], evaluations: Evaluations
) -> None:
    folder = evaluations.heldout(said=ECHO)
    assert command("hacking", folder.root, "--tasks", evaluations.tasks) == 0
    text = folder.hacking.read_text("utf-8")
    for secret in ("CANARY", "former order", "absolute value"):
        assert secret not in text
    found = _written(folder)
    assert found.folder == "."
    assert changed_inputs(found.inputs, beside=folder.hacking, folders=[folder]) == []
    evaluations.tasks.write_text("", encoding="utf-8")
    assert changed_inputs(found.inputs, beside=folder.hacking, folders=[folder]) == [
        "../tasks.jsonl"
    ]


def test_a_judge_that_the_evaluation_does_not_have_judges_a_sample(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = evaluations.heldout()
    spec = evaluations.root / "second.yaml"
    spec.write_text("type: lexical\n", encoding="utf-8")
    asked = ("--second-judge", spec, "--sample", 12)
    assert command("hacking", folder.root, *asked) == 2
    assert "--second-judge needs --tasks" in capsys.readouterr().err
    assert command("hacking", folder.root, *asked, "--tasks", evaluations.tasks) == 0
    found = _written(folder)
    assert [one.n for one in found.opinions] == [12, 12]
    assert found.divergences[0].n == 12
    assert found.divergences[
        0
    ].is_diverging  # the lexical judge finds nothing in these answers
    assert folder.ledger.exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--baseline": "sft"}, "no model 'sft' to set the others against"),
        ({"--judge": "other"}, "has no judge 'other'"),
        ({"--tasks": "fewer.jsonl"}, "30 of 30 questions are not among the tasks"),
        ({"--second-judge": "down.yaml"}, "127.0.0.1:9"),
    ],
)
def test_a_new_judge_has_no_ledger_before_everything_fits(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str],
    said: str,
) -> None:
    folder = evaluations.heldout()
    monkeypatch.chdir(evaluations.root)
    Path("fewer.jsonl").write_text("", encoding="utf-8")
    Path("second.yaml").write_text("type: lexical\n", encoding="utf-8")
    Path("down.yaml").write_text(
        "type: llm\nmodel: openai/m\napi_base: http://127.0.0.1:9/v1\ntransport: direct\n",
        encoding="utf-8",
    )
    options = {
        "--second-judge": "second.yaml",
        "--tasks": "tasks.jsonl",
        "--sample": "30",
    }
    options |= changed
    assert (
        command(
            "hacking", folder.root, *(part for pair in options.items() for part in pair)
        )
        == 2
    )
    assert said in capsys.readouterr().err
    assert not folder.ledger.exists()
    assert not folder.hacking.exists()


def test_a_new_judge_makes_no_folder_where_there_is_no_evaluation(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = evaluations.root / "second.yaml"
    spec.write_text("type: lexical\n", encoding="utf-8")
    missing = evaluations.root / "misspelt"
    asked = ("--second-judge", spec, "--tasks", evaluations.tasks)
    assert command("hacking", missing, *asked) == 2
    assert "holds no evaluation" in capsys.readouterr().err
    assert not missing.exists()


def test_answers_without_a_judgement_are_counted_and_scores_of_no_answer_are_refused(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    sealed: Callable[[EvalFolder], None],
) -> None:
    folder = evaluations.heldout()
    path = folder.scores("lexical", "base", 0)
    rows = read_rows(path, ScoreRow)
    lost = {"outcome": Outcome.UNAVAILABLE, "reward": None, "criteria_z": {}}
    rows[:3] = [row.model_copy(update=lost) for row in rows[:3]]
    write_rows(path, rows)
    sealed(folder)
    assert command("hacking", folder.root) == 0
    assert [(one.answers, one.unjudged) for one in _written(folder).models] == [
        (27, 3),
        (30, 0),
    ]
    shown = capsys.readouterr().out
    assert "note: base: answers left out because lexical gave no judgement: 3" in shown
    write_rows(path, [rows[0].model_copy(update={"key": "other"}), *rows[1:]])
    sealed(folder)
    assert command("hacking", folder.root) == 2
    assert "is of no answer" in capsys.readouterr().err


def test_without_a_second_judge_and_tasks_it_is_said_what_is_missing(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = evaluations.heldout()
    assert command("hacking", folder.root) == 0
    shown = capsys.readouterr().out
    assert "note: no second judge" in shown
    assert "note: echoes of the criteria were not counted: give the tasks" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--judge", "other"), "has no judge 'other', it has lexical, stern"),
        (("--second", "other"), "has no judge 'other'"),
        (("--judge", "stern", "--second", "stern"), "'stern' is both judges"),
        (
            ("--baseline", "sft"),
            "no model 'sft' to set the others against; there are base, grpo",
        ),
        (("--sample", 0), "--sample. Must be >= 1."),
    ],
)
def test_what_is_not_there_is_said_in_one_line(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    options: tuple[object, ...],
    said: str,
) -> None:
    folder = evaluations.heldout(judges=("lexical", "stern"))
    assert command("hacking", folder.root, *options) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
    assert not folder.hacking.exists()


def test_benchmarks_have_no_judge_to_hack(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = evaluations.transfer()
    assert command("hacking", folder.root) == 2
    assert "is a transfer evaluation without a judge" in capsys.readouterr().err


def test_judges_can_change_places(
    command: Callable[..., int], evaluations: Evaluations
) -> None:
    folder = evaluations.heldout(judges=("lexical", "stern"))
    assert command("hacking", folder.root, "--judge", "stern") == 0
    found = _written(folder)
    assert (found.settings.judge, found.settings.second) == ("stern", "lexical")
    assert not found.divergences[0].is_diverging  # the second sees the larger gain
    assert command("hacking", folder.root, "--second", "lexical") == 0
    assert _written(folder).settings == found.settings


def test_a_file_that_cannot_be_written_is_named_before_anything_is_judged(
    command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("of somebody")
    out = tmp_path / "file" / "panel.json"

    assert command("hacking", tmp_path / "evaluation", "--out", out) == 2
    assert f"--out {out}: Not a directory" in capsys.readouterr().err

    out = tmp_path / "new" / "folder" / "panel.json"
    assert command("hacking", tmp_path / "evaluation", "--out", out) == 2
    assert "holds no evaluation" in capsys.readouterr().err
