"""`rubric-eval compare` as a person gives it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from rubric_eval.comparison import EvalComparison
from rubric_eval.records.digests import changed_inputs
from rubric_eval.records.files import QuestionRow, read_rows, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_eval.records.inputs import EvalFolder

QUICK = ("--resamples", 299)


class Evaluations(Protocol):
    """What the fixture writes."""

    root: Path
    tasks: Path

    def heldout(self, **changes: object) -> EvalFolder: ...

    def transfer(self, **changes: object) -> EvalFolder: ...


def _written(folder: EvalFolder) -> EvalComparison:
    return EvalComparison.model_validate_json(folder.comparison.read_bytes())


def test_both_kinds_of_evaluation_are_compared_at_once(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
) -> None:
    held_out, transfer = evaluations.heldout(), evaluations.transfer()
    assert command("compare", held_out.root, transfer.root, *QUICK) == 0
    shown = capsys.readouterr().out
    assert re.search(r"heldout, lexical +\+29\.\d +\+2\d\.\d to \+3\d\.\d .* \*", shown)
    assert "* significant at 5 %, correction holm" in shown
    assert re.search(
        r"average over 2 benchmarks of suite paper: grpo − base \+\d+", shown
    )
    assert "comparison.json" in shown
    found = _written(held_out)
    assert [(one.benchmark, one.test) for one in found.differences] == [
        ("heldout", "BCa bootstrap, Student's t and sign flips"),
        ("rubric_gsm8k", "exact McNemar"),
        ("rubric_gpqa_main", "exact McNemar"),
    ]
    assert found.folders == (".", "../transfer")


def test_tables_of_80_columns_break_no_name_of_ours(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    held_out = evaluations.heldout()
    transfer = evaluations.transfer(models={"base": 0.05, "grpo": 0.1})
    assert command("compare", held_out.root, transfer.root, *QUICK) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in rows if row[:1] == ["rubric_gpqa_main"]][:2] == [
        ["rubric_gpqa_main", "base"],
        ["rubric_gpqa_main", "grpo"],
    ]
    assert [row[:3] for row in rows if row[:1] == ["heldout,"]][:2] == [
        ["heldout,", "lexical", "base"],
        ["heldout,", "lexical", "grpo"],
    ]


def test_a_comparison_knows_when_it_is_stale(
    command: Callable[..., int], evaluations: Evaluations
) -> None:
    held_out = evaluations.heldout()
    assert command("compare", held_out.root, *QUICK) == 0
    found = _written(held_out)
    assert (
        changed_inputs(found.inputs, beside=held_out.comparison, folders=[held_out])
        == []
    )
    evaluations.heldout(models={"base": 0.3, "grpo": 0.7})
    assert "scores/lexical/grpo/seed_0.jsonl" in changed_inputs(
        found.inputs, beside=held_out.comparison, folders=[held_out]
    )


def test_settings_are_kept_with_the_numbers(
    command: Callable[..., int], evaluations: Evaluations
) -> None:
    folder = evaluations.transfer(seeds=(0, 1))
    options = (
        "--pair",
        "base:grpo",
        "--correction",
        "bh",
        "--confidence",
        0.9,
        "--family",
        "all",
    )
    assert command("compare", folder.root, *options, *QUICK) == 0
    found = _written(folder)
    assert found.settings.pairs == (("base", "grpo"),)
    assert found.settings.correction == "bh"
    assert {one.test for one in found.differences} == {"cluster sign-flip permutation"}
    assert all(one.mean < 0 for one in found.differences)


@pytest.mark.parametrize("kind", ["heldout", "transfer"])
def test_a_chat_and_plain_prompts_are_not_compared(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    folder: EvalFolder = getattr(evaluations, kind)()
    run = json.loads(folder.run.read_bytes())
    for model, form in zip(run["models"], ("plain", "chat"), strict=True):
        model["prompt_form"] = form
    folder.run.write_text(json.dumps(run))
    assert command("compare", folder.root, *QUICK) == 2
    assert "prompts differ, chat and plain" in capsys.readouterr().err


def test_every_judge_of_an_evaluation_is_a_column(
    command: Callable[..., int],
    evaluations: Evaluations,
    sealed: Callable[[EvalFolder], None],
) -> None:
    folder = evaluations.heldout(judges=("lexical", "stern"))
    folder.scores("stern", "grpo", 0).unlink()  # of a judge that came later
    sealed(folder)
    assert command("compare", folder.root, *QUICK) == 0
    found = _written(folder)
    assert [(one.judge, one.model) for one in found.scores] == [
        ("lexical", "base"),
        ("lexical", "grpo"),
        ("stern", "base"),
    ]
    assert len(found.differences) == 1
    assert found.notes[0].startswith("stern has not judged grpo: `rubric-eval rejudge`")


def test_another_place_can_be_named(
    command: Callable[..., int], evaluations: Evaluations
) -> None:
    folder = evaluations.heldout()
    out = evaluations.root / "elsewhere" / "found.json"
    assert command("compare", folder.root, "--out", out, *QUICK) == 0
    found = EvalComparison.model_validate_json(out.read_bytes())
    assert found.folders == ("../held-out",)
    assert changed_inputs(found.inputs, beside=out, folders=[folder]) == []
    assert not folder.comparison.exists()


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"status": "running"}, (), "is running, not finished"),
        ({"status": "failed"}, (), "is failed, not finished"),
        ({"models": {"base": 0.3}}, (), "two models or more, there is base"),
        ({}, ("--pair", "grpo:sft"), "no model 'sft'; there are base, grpo"),
        ({}, ("--pair", "grpo"), "--pair 'grpo' is no pair: give two models as A:B"),
        ({}, ("--confidence", 2), "confidence"),
        ({}, ("--resamples", 3), "resamples"),
        ({}, ("--resamples", 10**10), "resamples: must be 1000000 or less"),
        ({}, ("--power", 0.03), "power"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    options: tuple[object, ...],
    said: str,
) -> None:
    folder = evaluations.heldout(**changes)
    assert command("compare", folder.root, *options) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
    assert not folder.comparison.exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"decoding": {"temperature": 0.5}},
            "protocol differs, temperature 0.5 and 0.0;",
        ),
        ({"passage": "1" * 64}, "against other passages"),
        ({"judges": "stern"}, "base on heldout by lexical; grpo on heldout by stern"),
    ],
)
def test_evaluations_that_were_made_otherwise_are_told_apart(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    said: str,
) -> None:
    judges = (changes.get("judges", "lexical"),)
    one = evaluations.heldout(name="one", models={"base": 0.3})
    other = evaluations.heldout(name="other", models={"grpo": 0.6}, judges=judges)
    run = json.loads(other.run.read_bytes())
    run["decoding"] |= changes.get("decoding", {})
    other.run.write_text(json.dumps(run))
    if "passage" in changes:
        rows = read_rows(other.questions, QuestionRow)
        other_passage = {"passage_sha256": changes["passage"]}
        write_rows(
            other.questions, [row.model_copy(update=other_passage) for row in rows]
        )
    assert command("compare", one.root, other.root) == 2
    assert said in capsys.readouterr().err


def test_one_name_for_two_models_is_refused(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
) -> None:
    held_out, transfer = (
        evaluations.heldout(),
        evaluations.transfer(fingerprint="others"),
    )
    assert command("compare", held_out.root, transfer.root) == 2
    assert "'base' is another model in" in capsys.readouterr().err


def test_folders_must_be_named_once_and_hold_an_evaluation(
    command: Callable[..., int],
    evaluations: Evaluations,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = evaluations.heldout()
    assert command("compare", folder.root, folder.root) == 2
    assert "is named twice" in capsys.readouterr().err
    assert command("compare") == 2
    assert "no evaluation to compare" in capsys.readouterr().err
    assert command("compare", evaluations.root) == 2
    assert "holds no evaluation" in capsys.readouterr().err
    assert command("hacking", folder.root, "--tasks", "none.jsonl") == 2
    assert "rubric-eval: none.jsonl: No such file" in capsys.readouterr().err
    for path in (folder.root / "scores").rglob("*.jsonl"):
        path.unlink()
    assert command("compare", folder.root) == 2
    assert "holds no score" in capsys.readouterr().err
