"""Finished evaluations that were edited: refused with file and line, or accepted and said."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from rubric_eval.comparison import EvalComparison
from rubric_eval.hacking.results import HackingPanel
from rubric_eval.records.files import read_run
from rubric_eval.records.inputs import EvalFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Edit = Callable[[EvalFolder], None]
    Command = Callable[..., int]

QUICK = ("--resamples", 299)


class Evaluations(Protocol):
    """What the fixture writes."""

    root: Path

    def heldout(self, **changes: object) -> EvalFolder: ...

    def transfer(self, **changes: object) -> EvalFolder: ...


def _rows(path: Path, change: Callable[[dict[str, Any], int], None]) -> None:
    """Change every row of a file, as an editor or a script would."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for number, row in enumerate(rows):
        change(row, number)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _run(folder: EvalFolder, change: Callable[[dict[str, Any]], None]) -> None:
    run = json.loads(folder.run.read_bytes())
    change(run)
    folder.run.write_text(json.dumps(run), encoding="utf-8")


def _in_scores(**changes: object) -> Edit:
    return lambda folder: _rows(
        folder.scores("lexical", "base", 0), lambda row, _: row.update(changes)
    )


def _second_score(**changes: object) -> Edit:
    def change(row: dict[str, Any], number: int) -> None:
        if number == 1:
            row.update(changes)

    return lambda folder: _rows(folder.scores("lexical", "base", 0), change)


def _in_questions(folder: EvalFolder) -> None:
    _rows(folder.questions, lambda row, number: row.update(doc_hash=f"own {number}"))


def _other_questions(folder: EvalFolder) -> None:
    def change(row: dict[str, Any], number: int) -> None:
        if number == 2:
            row["question"] = "What else?"

    _rows(folder.questions, change)


def _in_answers(folder: EvalFolder) -> None:
    _rows(folder.answers("base", 0), lambda row, _: row.update(doc_hash="other"))


def _one_fingerprint(folder: EvalFolder) -> None:
    def change(run: dict[str, Any]) -> None:
        run["models"][1]["fingerprint"] = run["models"][0]["fingerprint"]

    _run(folder, change)


def _one_model(folder: EvalFolder) -> None:
    """Consistently: only the answers' keys are of the former model."""

    def change(run: dict[str, Any]) -> None:
        run["models"][1] |= {
            name: run["models"][0][name] for name in ("fingerprint", "identity")
        }

    _run(folder, change)


def _colder(folder: EvalFolder) -> None:
    _run(folder, lambda run: run["decoding"].update(temperature=0.5))


def _unavailable(folder: EvalFolder) -> None:
    lost = {
        "outcome": "unavailable",
        "reason": "timeout",
        "reward": None,
        "criteria_z": {},
    }
    _in_scores(**lost)(folder)


def _emptied(folder: EvalFolder) -> None:
    folder.answers("base", 0).write_bytes(b"")


def _earlier(folder: EvalFolder) -> None:
    _run(folder, lambda run: run.update(started="2020-01-01T00:00:00+00:00"))


CONTRADICTIONS: dict[str, tuple[Edit, str]] = {
    "all rewards": (
        _in_scores(reward=1.0),
        "seed_0.jsonl:1: its reward is not what its criteria add up to",
    ),
    "a reward": (
        _second_score(reward=1.0),
        "seed_0.jsonl:2: its reward is not what its criteria add up to",
    ),
    "other criteria": (
        _second_score(criteria_z={"other": 0.5}),
        "seed_0.jsonl:2: its criteria are not those of its question",
    ),
    "no criteria": (
        _second_score(criteria_z={}),
        "seed_0.jsonl:2: its criteria are not those of its question",
    ),
    "documents of scores": (
        _in_scores(doc_hash="zz"),
        "seed_0.jsonl:1: its doc_hash is not that of its question",
    ),
    "documents of questions": (
        _in_questions,
        "seed_0.jsonl:1: its doc_hash is not that of its question",
    ),
    "documents of answers": (
        _in_answers,
        "base/seed_0.jsonl:1: its doc_hash is not that of its question",
    ),
    "a question": (
        _other_questions,
        "questions.jsonl: its questions are not those of the sha256 in run.json",
    ),
    "one fingerprint": (
        _one_fingerprint,
        "run.json: the fingerprint of model 'grpo' is not that of its identity",
    ),
    "one model": (
        _one_model,
        "grpo/seed_0.jsonl:1: its key is not that of the model, decoding and seed",
    ),
    "decoding": (
        _colder,
        "base/seed_0.jsonl:1: its key is not that of the model, decoding and seed",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_contradicts_itself_is_refused_with_file_and_line(
    command: Command,
    evaluations: Evaluations,
    sealed: Edit,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    edit, said = CONTRADICTIONS[name]
    for has_fitting_digests in (False, True):
        folder = evaluations.heldout(name=f"held-out {has_fitting_digests}")
        edit(folder)
        if has_fitting_digests:
            sealed(folder)
        assert command("compare", folder.root, *QUICK) == 2
        shown = capsys.readouterr().err
        assert said in shown
        assert "--accept-edited" in shown
        assert shown.count("\n") == 1
        assert not folder.comparison.exists()


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (_unavailable, "scores/lexical/base/seed_0.jsonl"),
        (_emptied, "answers/base/seed_0.jsonl"),
        (_earlier, "run.json"),
    ],
)
def test_what_only_digests_can_see_is_refused_with_its_file(
    command: Command,
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    edit: Edit,
    changed: str,
) -> None:
    folder = evaluations.heldout()
    edit(folder)
    for name in ("compare", "hacking", "report"):
        assert command(name, folder.root) == 2
        shown = capsys.readouterr().err
        assert (
            f"{folder.root / changed}: is not as the evaluation's end left it" in shown
        )


def test_a_pipe_in_place_of_a_file_is_named_and_not_waited_for(
    command: Command, evaluations: Evaluations, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = evaluations.heldout(), evaluations.transfer()
    for folder in folders:
        assert command("compare", folder.root, *QUICK) == 0
    assert command("hacking", folders[0].root) == 0
    for folder in folders:
        for path in [path for path in folder.root.rglob("*") if path.is_file()]:
            content = path.read_bytes()
            path.unlink()
            os.mkfifo(path)
            capsys.readouterr()
            statuses = {
                command(name, folder.root, "--accept-edited")
                for name in ("compare", "hacking", "report")
            }
            shown = capsys.readouterr().err
            assert 2 in statuses
            assert f"{path}: this is a named pipe" in shown
            path.unlink()
            path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["judgements/lexical/base/seed_0.jsonl", "scores/new/a.jsonl"]
)
def test_files_that_came_or_went_are_noticed(
    command: Command,
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    folder = evaluations.heldout()
    path = folder.root / name
    path.parent.mkdir(parents=True)
    path.write_text("{}\n", encoding="utf-8")
    assert command("compare", folder.root) == 2
    assert f"{path}: was not there at the evaluation's end" in capsys.readouterr().err
    path.unlink()
    folder.answers("base", 0).unlink()
    assert command("compare", folder.root) == 2
    assert f"{folder.answers('base', 0)}: is gone since" in capsys.readouterr().err


def test_numbers_of_run_json_are_held_against_the_files_before_anything_is_listed(
    command: Command, evaluations: Evaluations, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evaluations.heldout()
    _run(folder, lambda run: run.update(samples=10**12))
    for name in ("compare", "hacking", "report"):
        assert command(name, folder.root) == 2
        assert (
            f"holds scores of 30 answers, not of {30 * 10**12}"
            in capsys.readouterr().err
        )


def test_numbers_beyond_their_bounds_are_refused_with_their_line(
    command: Command, evaluations: Evaluations, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evaluations.heldout()
    bounds = (
        ({"reward": 5.0}, "'reward'"),
        ({"reward": float("nan")}, "'reward'"),
        ({"reward": 0.5, "criteria_z": {"sorts": 9e9}}, "'criteria_z.sorts'"),
    )
    for changes, field in bounds:
        _second_score(**changes)(folder)
        assert command("compare", folder.root, "--accept-edited", *QUICK) == 2
        assert f"seed_0.jsonl:2: field {field}" in capsys.readouterr().err


@pytest.mark.parametrize("weight", [-1.0, 0.0, float("inf")])
def test_weights_that_no_rubric_has_are_refused_with_their_line(
    command: Command,
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    weight: float,
) -> None:
    folder = evaluations.heldout()
    _rows(
        folder.questions,
        lambda row, _: row.update(weights=dict.fromkeys(row["weights"], weight)),
    )
    assert command("compare", folder.root, "--accept-edited", *QUICK) == 2
    assert "questions.jsonl:1: field 'weights." in capsys.readouterr().err


def test_accepted_edits_are_said_wherever_their_numbers_are(
    command: Command, evaluations: Evaluations, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evaluations.heldout()
    _in_scores(reward=1.0)(folder)
    place = folder.scores("lexical", "base", 0)
    what = "its reward is not what its criteria add up to; the same is true of 29 other lines"
    first = f"{place}:1: {what}"
    for name in ("compare", "hacking", "report"):
        assert command(name, folder.root, "--accept-edited") == 0
        shown = capsys.readouterr().out
        assert f"edited, and accepted: {first}" in shown
        assert (
            f"edited, and accepted: {place}: is not as the evaluation's end left it"
            in shown
        )
    compared = EvalComparison.model_validate_json(folder.comparison.read_bytes())
    assert compared.edited[0] == first
    assert (
        HackingPanel.model_validate_json(folder.hacking.read_bytes()).edited[0] == first
    )
    page = folder.report.read_text("utf-8")
    assert "Made of edited files." in page
    assert "its reward is not what its criteria add up to" in page


def _in_second_item(**changes: object) -> Edit:
    def change(row: dict[str, Any], number: int) -> None:
        if number == 1:
            row.update(changes)

    return lambda folder: _rows(folder.items("rubric_gsm8k", "base", 0), change)


def _swapped(folder: EvalFolder) -> None:
    path = folder.items("rubric_gsm8k", "base", 0)
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join([lines[1], lines[0], *lines[2:]]), encoding="utf-8")


ITEMS: dict[str, tuple[Edit, str]] = {
    "unanswered": (
        _in_second_item(correct=True, is_answered=False),
        ":2: it is right, and says that no answer was found",
    ),
    "none": (
        _in_second_item(correct=None),
        ":2: it has an answer, and says that none came",
    ),
    "order": (_swapped, ": its items are not those of the sha256 in run.json"),
    "target": (_in_second_item(target="5"), ": is not as the evaluation's end left it"),
}


@pytest.mark.parametrize("name", ITEMS)
def test_edited_items_are_refused(
    command: Command,
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    edit, said = ITEMS[name]
    folder = evaluations.transfer()
    edit(folder)
    assert command("compare", folder.root, *QUICK) == 2
    place = folder.items("rubric_gsm8k", "base", 0)
    assert f"{place}{said}" in capsys.readouterr().err
    assert command("compare", folder.root, "--accept-edited", *QUICK) == 0
    assert f"edited, and accepted: {place}{said}" in capsys.readouterr().out


def test_an_edited_prompt_is_refused_also_where_nothing_can_be_compared_then(
    command: Command, evaluations: Evaluations, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evaluations.transfer()
    _in_second_item(prompt_sha256="0")(folder)
    assert command("compare", folder.root, *QUICK) == 2
    shown = capsys.readouterr().err
    assert ":2: its prompt_sha256 is not that of its question" in shown
    assert "Accepting it would fail with: 'grpo' and 'base' on 'rubric_gsm8k'" in shown


@pytest.mark.parametrize("name", ["comparison", "hacking"])
def test_an_edited_finding_is_found_anew_by_the_report(
    command: Command, evaluations: Evaluations, name: str
) -> None:
    folder = evaluations.heldout()
    assert command("compare", folder.root) == 0
    assert command("hacking", folder.root) == 0
    path: Path = getattr(folder, name)
    found = json.loads(path.read_bytes())
    found["notes"] = ["EDITED: nothing to see here"]
    path.write_text(json.dumps(found), encoding="utf-8")
    assert command("report", folder.root) == 0
    assert "EDITED" not in folder.report.read_text("utf-8")


def test_a_layout_of_run_json_is_no_edit(
    command: Command, evaluations: Evaluations
) -> None:
    folder = evaluations.heldout()
    _run(folder, lambda _: None)
    assert command("compare", folder.root, *QUICK) == 0


def test_the_manifest_names_every_file_of_a_finished_evaluation(
    evaluations: Evaluations,
) -> None:
    folder = evaluations.heldout()
    run = read_run(folder)
    there = {
        path.relative_to(folder.root).as_posix()
        for path in folder.root.rglob("*.jsonl")
    }
    assert {one.path for one in run.files} == there
    for one in run.files:
        content = (folder.root / one.path).read_bytes()
        assert one.sha256 == hashlib.sha256(content).hexdigest()
