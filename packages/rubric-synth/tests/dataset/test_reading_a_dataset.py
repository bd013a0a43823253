"""Controls by a judge of one's own, tasks in the terminal, and damaged files."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import structlog
import yaml

from rubric_judge import LexicalJudge
from rubric_judge.quality.wrong_answers import CONTROLS
from rubric_judge.testing import FailingJudge, FakeEndpoint
from rubric_judge.ui.page.rendering import visible
from rubric_synth import SynthReport, check_dataset, dataset_statistics
from rubric_synth.calls import CallTotals
from rubric_synth.cli import main
from rubric_synth.document import Rejection, RejectionReason
from rubric_synth.run.dataset.folder import Usage
from rubric_synth.run.dataset.writing import asked_of_models
from rubric_synth.stats.controls import OF_CONTEXT, WRITTEN
from rubric_synth.stats.page import _left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rubric_core import JudgeResult, JudgeView
    from rubric_synth.document import DocumentOutcome

_HOSTILE = "a\x00b\x1b[31mc\u202ed\u2066e\ud800f"


class _Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., _Done]]:
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> _Done:
        capsys.readouterr()
        status = 0
        try:
            main([*map(str, arguments)])
        except SystemExit as stop:
            status = int(stop.code or 0)
        return _Done(status, *capsys.readouterr())

    yield call
    structlog.reset_defaults()


@pytest.fixture
def dataset(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> Path:
    write(outcomes)
    return tmp_path / "data"


def _page(dataset: Path) -> str:
    return (dataset / "stats.html").read_text(encoding="utf-8")


def _line(draft: object = None, **fields: object) -> bytes:
    row = Rejection(
        source="s", stage="quality", reason=RejectionReason.LEAK, doc_hash="0" * 64
    )
    return (
        json.dumps({**row.model_dump(mode="json"), "draft": draft, **fields}) + "\n"
    ).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"\x80\xff\x00\x93\n",
        b"[" * 200_000 + b"\n",
        b"{}\n",
        b"null\n",
        b'{"source": ' + b"9" * 5_000 + b"}\n",
        _line(stage="nowhere"),
        _line(reason=["leak"]),
        _line(draft="text"),
    ],
    ids=range(8),
)
def test_a_damaged_line_of_what_was_left_out_is_skipped_and_counted(
    dataset: Path, line: bytes, command: Callable[..., _Done]
) -> None:
    with (dataset / "rejected.jsonl").open("ab") as file:
        file.write(line)
    done = command("stats", dataset)
    assert done.status == 0
    assert "1 damaged line of rejected.jsonl left out" in done.err
    assert "1 damaged line of rejected.jsonl left out" in _page(dataset)
    assert "too few criteria" in _page(dataset)
    assert command("show", dataset, "--rejected").status == 0


def test_statistics_name_the_first_of_what_was_left_out(
    dataset: Path, command: Callable[..., _Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(dataset.parent)
    shown = " ".join(command("stats", "data").out.split())
    assert "line by line in data/rejected.jsonl" in shown
    assert "quality: too_few_criteria notes/thin.md, 3 criteria" in shown


@pytest.mark.parametrize(
    "draft",
    [
        {"criteria": 5},
        {"criteria": {"a": 1}},
        {"criteria": [None, 5, "text", []]},
        {"criteria": [{"weight": 10**400, "required_elements": 7, "name": {"a": []}}]},
        {
            "criteria": [
                {"weight": "heavy", "expected_keywords": [1, {"a": 2}], "id": None}
            ]
        },
        {
            "criteria": [{"weight": True, "required_elements": {"a": 1}}],
            "question": [[]],
        },
        {"question": 10**4000, "passage": [1], "reference_answer": {"a": 1}},
        {"question": "\ud800"},
    ],
)
def test_a_draft_of_any_form_can_be_shown(
    dataset: Path, draft: dict[str, Any], command: Callable[..., _Done]
) -> None:
    with (dataset / "rejected.jsonl").open("ab") as file:
        file.write(_line(draft))
    assert command("stats", dataset, "--reveal-grounding").status == 0
    shown = command("show", dataset, "--rejected", "--limit", 9, "--reveal-grounding")
    assert (shown.status, "quality · leak" in shown.out) == (0, True)
    assert "is no rejection" not in "".join(check_dataset(dataset).problems)


def test_the_judge_of_the_training_scores_the_controls(
    tmp_path: Path, dataset: Path, command: Callable[..., _Done]
) -> None:
    with FakeEndpoint(0.75) as endpoint:
        judge = {
            "type": "llm",
            "model": "m",
            "api_base": endpoint.url,
            "transport": "direct",
        }
        (tmp_path / "judge.yaml").write_text(yaml.safe_dump(judge))
        done = command(
            "stats", dataset, "--judge", tmp_path / "judge.yaml", "--controls", 4
        )
    assert done.status == 0, done.err
    assert (
        "controls: 4 tasks with 10 answers each, 40 calls of the judge at most"
        in done.err
    )
    assert "words only" not in done.err
    found = json.loads((dataset / "stats.json").read_text())
    assert (found["control_tasks"], found["control_failures"]) == (4, 0)
    assert found["controls"]["reference"] == pytest.approx(0.75)
    assert 36 <= len(endpoint.calls) <= 41


def test_a_judge_that_is_not_there_ends_with_its_own_status(
    tmp_path: Path, dataset: Path, command: Callable[..., _Done]
) -> None:
    judge = {"type": "llm", "model": "m", "api_base": "http://127.0.0.1:9/v1"}
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump(judge))
    done = command("stats", dataset, "--judge", tmp_path / "judge.yaml")
    assert done.status == 4
    assert "127.0.0.1:9" in done.err


def test_answers_that_could_not_be_judged_are_counted_and_in_no_mean(
    dataset: Path,
) -> None:
    found = dataset_statistics(dataset, judge=FailingJudge(), controls=2)
    # An empty answer is worth 0 by rule: no judge is asked.
    assert (found.controls, found.control_failures) == ({"empty": 0.0}, 18)
    assert "18 answers could not be judged" in _page(dataset)


def test_criteria_in_free_text_are_said_to_be_judged_by_words(
    tmp_path: Path,
    outcomes: list[DocumentOutcome],
    write: Callable[..., SynthReport],
    command: Callable[..., _Done],
) -> None:
    row = json.loads(json.dumps(outcomes[0].tasks[0]))
    row["criteria"][0] |= {
        "description": "Explains what it is for.",
        "verification_method": "An expert reads it.",
    }
    write([outcomes[0].model_copy(update={"tasks": (row,)}), *outcomes[1:]])
    done = command("stats", tmp_path / "data")
    said = "Judged by words only: 1 of 50 criteria"
    assert said in done.err
    assert said in _page(tmp_path / "data")

    class OfAnotherPackage:
        """Neither of ours: a judge says of itself whether it looks for words."""

        name = "acme"
        reads_claims = False

        async def judge(self, view: JudgeView) -> JudgeResult:
            return LexicalJudge().judge_now(view)

    found = dataset_statistics(tmp_path / "data", judge=OfAnotherPackage(), controls=2)
    assert found.unread_criteria == 1


def test_rubrics_that_a_program_reads_are_not_said_to_be_judged_by_words(
    dataset: Path,
) -> None:
    assert dataset_statistics(dataset).unread_criteria == 0
    assert "words only" not in _page(dataset)


def test_of_one_task_there_is_no_other_reference(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    write(outcomes[:1])
    found = dataset_statistics(tmp_path / "data")
    assert found.controls.keys() == CONTROLS.keys() - {
        "other_reference",
        *OF_CONTEXT,
        *WRITTEN,
    }


def test_show_prints_a_task_whole_and_its_passage_on_request(
    dataset: Path, command: Callable[..., _Done]
) -> None:
    done = command("show", dataset, "--limit", 1)
    for part in (
        "Question",
        "Rubric, total weight 15",
        "Point 5",
        "sentences: any",
        "Reference",
    ):
        assert part in done.out
    assert "is measured every day" not in done.out
    assert "is measured every day" in command("show", dataset, "--reveal-grounding").out
    assert command("show", dataset, "--limit", 1).out == done.out
    others = {command("show", dataset, "--limit", 1, "--seed", n).out for n in range(9)}
    assert len(others) > 1


def test_show_prints_what_was_left_out_and_why(
    dataset: Path, command: Callable[..., _Done]
) -> None:
    out = command("show", dataset, "--rejected").out
    for part in (
        "quality · too_few_criteria · notes/thin.md",
        "3 criteria",
        "thinland",
        "Point 1",
    ):
        assert part in out


def test_show_of_another_split_or_of_no_dataset_says_so(
    tmp_path: Path, dataset: Path, command: Callable[..., _Done]
) -> None:
    assert "test · task" in command("show", dataset, "--split", "test").out
    assert "rubric-synth run" in command("show", tmp_path / "none").err
    assert command("show", dataset, "--limit", 0).status != 0


def test_characters_that_steer_what_shows_them_are_named(
    tmp_path: Path,
    outcomes: list[DocumentOutcome],
    write: Callable[..., SynthReport],
    command: Callable[..., _Done],
) -> None:
    text = _HOSTILE.replace("\ud800", "")
    row = {
        **outcomes[0].tasks[0],
        "question": f"[bold]{text}[/bold]",
        "reference_answer": text,
    }
    row["criteria"][0] |= {"name": text, "required_elements": [text]}
    row["document_analysis"] |= {"genre": f"x_{text}"}
    write([outcomes[0].model_copy(update={"tasks": (row,)}), *outcomes[-2:]])
    with (tmp_path / "data" / "rejected.jsonl").open("ab") as file:
        file.write(_line({"question": _HOSTILE}))
    dataset_statistics(tmp_path / "data")
    split = next(
        s for s in ("train", "validation", "test") if _holds(tmp_path / "data", s)
    )
    page, shown = (
        _page(tmp_path / "data"),
        command("show", tmp_path / "data", "--split", split).out,
    )
    for character in _HOSTILE:
        if not character.isprintable():
            assert character not in page
            assert character not in shown
    assert "a[U+0000]b[U+001B][31mc[U+202E]d[U+2066]e" in page
    assert "[bold]a[U+0000]b[U+001B][31mc[U+202E]d[U+2066]e" in shown


def _holds(dataset: Path, split: str) -> bool:
    return bool((dataset / f"{split}.jsonl").read_bytes())


def test_lines_and_tabs_stay_as_they_are() -> None:
    assert visible("a\r\nb\tc\nd é 漢 א") == "a\nb\tc\nd é 漢 א"


def test_calls_of_a_judge_that_is_a_program_are_not_those_of_a_model() -> None:
    model = CallTotals(calls=3, attempts=4, prompt_tokens=9, completion_tokens=1)
    program = CallTotals(calls=12, attempts=12)
    total = CallTotals(calls=15, attempts=16, prompt_tokens=9, completion_tokens=1)
    usage = Usage(total=total, by_stage={"analyse": model, "quality": program})
    assert asked_of_models(usage) == Usage(total=model, by_stage={"analyse": model})
    assert (
        asked_of_models(Usage(total=program, by_stage={"quality": program})) == Usage()
    )


def test_what_made_the_tasks_is_named_as_it_is(
    outcomes: list[DocumentOutcome], write: Callable[..., SynthReport], tmp_path: Path
) -> None:
    write(outcomes, model={"model": "some/model"})
    dataset_statistics(tmp_path / "data")
    assert "Synthesis by some/model" in _page(tmp_path / "data")
    write(outcomes)
    dataset_statistics(tmp_path / "data")
    assert "Extractive synthesis" in _page(tmp_path / "data")


def test_names_that_are_not_drawn_are_counted_in_words() -> None:
    names = {f"n{number}": 1 for number in range(15)}
    assert _left(names) == "and 3 more, each once"
    assert _left({**dict.fromkeys(map(str, range(12)), 9), "a": 3, "b": 2}) == (
        "and 2 more, 5 together"
    )


def test_a_reader_that_stops_early_ends_the_command_quietly(dataset: Path) -> None:
    for _ in range(12):  # more than a pipe holds
        rows = (dataset / "train.jsonl").read_bytes()
        (dataset / "train.jsonl").write_bytes(rows + rows)
    command = [
        sys.executable,
        "-m",
        "rubric_synth.cli",
        "questions",
        str(dataset),
        "--out",
        "-",
    ]
    questions = subprocess.Popen(
        [*command, "--split", "train"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert questions.stdout is not None
    assert questions.stderr is not None
    assert questions.stdout.readline()
    questions.stdout.close()
    assert questions.stderr.read() == b""
    questions.stderr.close()
    assert questions.wait() == 141
