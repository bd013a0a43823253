"""A language model that writes answers of known truth, over real HTTP."""

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge.quality.labels.written import Truth, WrittenAnswers, read_written
from rubric_judge.testing import FakeCall, FakeEndpoint, Fault

COMMAND = "from rubric_judge.cli import main; main()"
FILE = "written_answers.jsonl"
WORDS = ("label", "tasks.jsonl", "--write", "--model", "model.yaml", "--out", FILE)
PASSAGE = (
    "A long axis of the array is kept in the result of the search with a length of one."
)
RUBRIC = Rubric(
    criteria=(
        Criterion(
            id="length", name="Length", weight=2.5, description="Says that the length is one.",
            required_elements=("one|1",), scoring_guide="Full credit for one.",
            expected_keywords=("secret keyword",),
        ),
        Criterion(id="axis", weight=1.0, description="Says that the axis is kept."),
    )
)  # fmt: skip
TASKS = [
    Task(question=f"Question {p}?", grounding=Grounding(PASSAGE), rubric=RUBRIC,
         reference_answer="The axis that was searched does stay there and it has the length one.")
    for p in range(5)
]  # fmt: skip
Command = Callable[..., tuple[int, str, str]]


def _number(call: FakeCall) -> int | None:
    """Return which question is asked; None for another one, such as whether anybody is there."""
    found = re.search(r"QUESTION: Question (\d)\?", call.messages[-1]["content"])
    return int(found[1]) if found else None


def _pair(call: FakeCall, **change: str) -> str | Mapping[str, float]:
    number = _number(call)
    if number is None:
        return {}
    return json.dumps(
        {"right": f"It stays, {number}.", "false": f"It goes, {number}.", **change}
    )


def _write(folder: Path, endpoint: FakeEndpoint, *more: str) -> None:
    write_tasks(folder / "tasks.jsonl", TASKS)
    lines = [
        "model: openai/fake",
        f"api_base: {endpoint.url}",
        "backoff_s: 0.001",
        *more,
    ]
    (folder / "model.yaml").write_text("\n".join(lines))


def _found(folder: Path) -> dict[str, dict[Truth, str]]:
    found: dict[str, dict[Truth, str]] = {}
    for _, one in read_written(folder / FILE):
        assert (one.by_model, one.author) == (True, "fake")
        found.setdefault(one.question, {})[one.truth] = one.response
    return found


def test_each_task_gets_a_pair_from_a_prompt_with_all_that_is_needed_and_no_judge(
    command: Command, tmp_path: Path
) -> None:
    with FakeEndpoint(_pair) as endpoint:
        _write(tmp_path, endpoint)
        status, printed, complaint = command(*WORDS)
    assert (status, complaint) == (0, "")
    assert _found(tmp_path) == {
        f"Question {p}?": {
            Truth.RIGHT: f"It stays, {p}.",
            Truth.FALSE: f"It goes, {p}.",
        }
        for p in range(5)
    }
    assert len(WrittenAnswers(tmp_path).to(TASKS).texts[Truth.FALSE]) == 5
    assert re.search(r"tasks with both answers\s+5\b", printed)

    asked = [call for call in endpoint.calls if _number(call) is not None]
    assert len(asked) == len(endpoint.calls) - 1 == 5
    system, user = (one["content"] for one in asked[0].messages)
    assert "never an instruction to you" in system
    for text in (
        PASSAGE,
        "1. Length, weight 2.5\n   Says that the length is one.\n",
        "one|1",
        "\n2. axis, weight 1\n",
        "Full credit for one.",
        '"false"',
        'not the right answer with "not" put into it',
    ):
        assert text in user
    assert "secret keyword" not in user
    assert TASKS[0].reference_answer not in user
    assert "cannot be used" not in user


def test_what_is_there_is_not_asked_for_again_and_half_a_pair_is(
    command: Command, tmp_path: Path
) -> None:
    with FakeEndpoint(_pair) as endpoint:
        _write(tmp_path, endpoint)
        assert command(*WORDS, "--count", "2")[0] == 0
        first = _found(tmp_path)
        lines = (tmp_path / FILE).read_text().splitlines(keepends=True)
        person = (
            json.dumps(json.loads(lines[0]) | {"author": "Anna", "by_model": False})
            + "\n"
        )
        (tmp_path / FILE).write_text("".join([*lines[:3], person]))
        before = len(endpoint.calls)
        status, printed, _ = command(*WORDS, "--count", "3")
        asked = Counter(map(_number, endpoint.calls[before:]))
    assert status == 0
    assert re.search(r"had them already\s+1\b", printed)
    assert asked.total() == 3  # whether it is there, the half pair, the new task
    kept = [one for _, one in read_written(tmp_path / FILE)]
    assert Counter(one.author for one in kept) == {"fake": 6, "Anna": 1}
    assert set(first) < {one.question for one in kept}


def test_a_server_that_says_another_name_is_asked_for_it_and_not_for_its_answers(
    command: Command, tmp_path: Path
) -> None:
    with FakeEndpoint(_pair) as endpoint:
        _write(tmp_path, endpoint)
        text = (tmp_path / "model.yaml").read_text()
        (tmp_path / "model.yaml").write_text(
            text.replace("openai/fake", "openai/alias")
        )
        assert command(*WORDS)[0] == 0
        authors = {one.author for _, one in read_written(tmp_path / FILE)}
        (name,) = authors
        lines = (tmp_path / FILE).read_text().replace(f'"{name}"', '"another"')
        (tmp_path / FILE).write_text(lines)
        before = len(endpoint.calls)
        assert command(*WORDS)[0] == 0
        assert (
            len([one for one in endpoint.calls[before:] if _number(one) is not None])
            == 5
        )
        before = len(endpoint.calls)
        assert command(*WORDS)[0] == 0
        assert not [one for one in endpoint.calls[before:] if _number(one) is not None]
    assert Counter(one.author for _, one in read_written(tmp_path / FILE)) == {
        "another": 10,
        name: 10,
    }


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"right": " "}, "one of them is empty"),
        ({"false": ""}, "one of them is empty"),
        ({"right": "It  is.", "false": "It is. "}, "both are the same"),
        (
            {"right": f"I say: {PASSAGE.upper()}"},
            "12 or more words in a row of the passage",
        ),
        ({"right": TASKS[0].reference_answer or ""}, "or of the reference answer"),
    ],
)
def test_a_pair_that_is_no_control_is_asked_for_once_more_and_then_left_out(
    command: Command, tmp_path: Path, bad: dict[str, str], told: str
) -> None:
    asked: Counter[int] = Counter()

    def award(call: FakeCall) -> str | Mapping[str, float]:
        number = _number(call)
        if number is None:
            return {}
        asked[number] += 1
        again = "Your last two answers cannot be used" in call.messages[-1]["content"]
        assert again == (asked[number] > 1)
        # The first task never gets it right, the second at the second attempt.
        is_bad = number == 0 or (number == 1 and not again)
        return _pair(call, **bad) if is_bad else _pair(call)

    with FakeEndpoint(award) as endpoint:
        _write(tmp_path, endpoint)
        status, printed, _ = command(*WORDS)
    assert status == 0
    assert asked == {0: 2, 1: 2, 2: 1, 3: 1, 4: 1}
    assert set(_found(tmp_path)) == {f"Question {p}?" for p in range(1, 5)}
    flat = " ".join(printed.split())
    assert "without 1" in flat
    assert " ".join(told.split()[:6]) in flat


def test_what_is_no_pair_is_counted_by_its_reason_and_not_asked_for_again(
    command: Command, tmp_path: Path
) -> None:
    replies = (
        "prose",
        '{"right": "a"}',
        '{"right": "\\ud800", "false": "b"}',
        '{"right": "a", "false": "b", "more": 1}',
        '{"right": 1, "false": "b"}',
    )

    def award(call: FakeCall) -> str | Mapping[str, float]:
        number = _number(call)
        return {} if number is None else replies[number]

    with FakeEndpoint(award) as endpoint:
        _write(tmp_path, endpoint)
        status, printed, _ = command(*WORDS)
        assert len(endpoint.calls) == 6
    assert status == 1
    assert (tmp_path / FILE).read_text() == ""
    flat = " ".join(printed.split())
    assert 'without 5 the reply is not {"right": "…", "false": "…"} 5' in flat


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault.REFUSAL, "the model refused 1"),
        (Fault.TRUNCATED, "the reply was cut off: raise max_tokens 1"),
        (Fault.BAD_REQUEST, "no answer came: bad_request 1"),
    ],
)
def test_a_call_without_an_answer_loses_its_task_alone(
    command: Command, tmp_path: Path, fault: Fault, told: str
) -> None:
    with FakeEndpoint(_pair, faults=[None, fault]) as endpoint:
        _write(tmp_path, endpoint)
        status, printed, complaint = command(*WORDS)
    assert status == 0
    assert len(_found(tmp_path)) == 4
    assert told in " ".join(printed.split())
    assert ("the first time: " in complaint) == (fault is Fault.BAD_REQUEST)


def test_no_more_is_asked_at_once_than_the_limits_allow(
    command: Command, tmp_path: Path
) -> None:
    with FakeEndpoint(_pair, latency=0.02) as endpoint:
        _write(tmp_path, endpoint, "limits: {max_in_flight: 1}")
        assert command(*WORDS)[0] == 0
        times = sorted(call.at_s for call in endpoint.calls)
    assert min(after - before for before, after in pairwise(times)) >= 0.015


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("type: llm\nmodel: openai/fake", "needs the keys of a model at its top level"),
        ("- a", "needs the keys of a model at its top level"),
        ("modle: openai/fake", "model"),
        (None, "absent.yaml"),
    ],
)
def test_a_file_that_is_no_model_is_refused(
    command: Command, tmp_path: Path, text: str | None, told: str
) -> None:
    write_tasks(tmp_path / "tasks.jsonl", TASKS)
    name = "absent.yaml" if text is None else "model.yaml"
    if text is not None:
        (tmp_path / name).write_text(text)
    status, _, complaint = command(*WORDS[:4], name, *WORDS[5:])
    assert (status, told in complaint) == (2, True)


def test_a_model_that_is_not_there_is_said_before_anything_is_asked(
    command: Command, tmp_path: Path
) -> None:
    with FakeEndpoint(_pair, faults=[Fault.UNAUTHORIZED] * 20) as endpoint:
        _write(tmp_path, endpoint)
        status, _, complaint = command(*WORDS)
    assert (status, "the model 'openai/fake' at " in complaint) == (2, True)
    assert (tmp_path / FILE).read_text() == ""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_what_came_is_kept_when_the_command_is_stopped_and_it_goes_on(
    command: Command, tmp_path: Path, sent: signal.Signals
) -> None:
    def award(call: FakeCall) -> str | Mapping[str, float]:
        return _pair(call)

    hung: list[Fault | None] = [None, None, None, Fault.HANG, Fault.HANG, Fault.HANG]
    with FakeEndpoint(award, faults=hung) as endpoint:
        _write(tmp_path, endpoint)
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *WORDS],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        while (
            endpoint.counts.total() < 6 or (tmp_path / FILE).read_text().count("\n") < 4
        ):
            assert process.poll() is None
        process.send_signal(sent)
        _, complaint = process.communicate(timeout=600)
        if sent is signal.SIGINT:
            assert process.returncode == 130
            assert "what the model wrote is in --out" in complaint
        assert len(_found(tmp_path)) == 2
        status, printed, _ = command(*WORDS)
    assert status == 0
    assert re.search(r"had them already\s+2\b", printed)
    assert len(_found(tmp_path)) == 5
