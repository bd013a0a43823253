"""`rubric-judge score`, `view`, `reliability` and `calibrate` on recorded trajectories."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge.cli import main
from rubric_judge.testing import FakeCall, FakeEndpoint

RECORDED = Path(__file__).with_name("recorded_traces.jsonl")
"""One run each of vf-eval of verifiers 0.4, of OpenAI's client 2.54 (chat), of inspect_ai 0.3.285
and of OpenAI's client 3.57 (responses, in a row as NeMo Gym keeps them): two parallel calls of a
tool, and a reply."""


def _criterion(name: str, judges: str | None) -> Criterion:
    return Criterion(id=name, weight=1, description="Is good.", judges=judges)


TASK = Task(
    question="How warm is it in Oslo and Rome?",
    grounding=Grounding("Oslo: 4 degrees. Rome: 4 degrees."),
    rubric=Rubric(
        criteria=(
            _criterion("looks", "tool_use"),
            _criterion("says", None),
            _criterion("polite", "every_turn"),
            _criterion("all", "full_trace"),
            _criterion("third", "turn_3"),
        )
    ),
)


def _award(call: FakeCall) -> float:
    """Full marks for calls, half for the last turn, and nothing for the first."""
    text = call.messages[-1]["content"]
    if "BEGIN REPLY 2" in text:
        return 0.5
    return 0.0 if "BEGIN REPLY 1" in text else 1.0


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "llm.yaml"
    with FakeEndpoint(_award) as endpoint:
        path.write_text(
            "type: llm\nmodel: openai/fake\ntransport: direct\n"
            f"api_base: {endpoint.url}\n",
            encoding="utf-8",
        )
        yield path


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, [TASK])
    return path


class Ran(NamedTuple):
    """Exit status of a command, and what it said."""

    status: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Return a function that runs `rubric-judge` with some words."""

    def ran(*words: object) -> Ran:
        monkeypatch.setattr("sys.argv", ["rubric-judge", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Ran(int(ended.value.code or 0), said.out, said.err)

    yield ran
    structlog.reset_defaults()


def _rows(path: Path, rows: list[object]) -> Path:
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    path.write_text(lines.replace("TASK", TASK.task_id), encoding="utf-8")
    return path


def _recorded() -> list[Any]:
    return [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_score_judges_recorded_trajectories_by_what_criteria_name(
    tasks: Path, judge: Path, tmp_path: Path, run: Run
) -> None:
    text_only = {"task_id": TASK.task_id, "response": [_reply("Hello.")]}
    responses = _rows(tmp_path / "r.jsonl", [*_recorded(), text_only])
    out = tmp_path / "judged.jsonl"

    words = (tasks, responses, "--judge", judge)
    scored = run("score", *words, "--out", out, "--show", 1)
    assert scored.status == 0

    rows = _lines(out)
    formats = [row["trace"]["format"] for row in rows]
    assert formats == ["verifiers", "messages", "messages", "responses", "messages"]
    for row in rows[:4]:
        assert row["result"]["scores"] == {
            "looks": 1.0, "says": 1.0, "polite": 0.0, "all": 0.5, "third": 0.0,
        }  # fmt: skip
        assert row["reward"] == pytest.approx(2.5 / 5)
        assert row["trace"] | {"format": ""} == {
            "format": "",
            "turns": 2,
            "calls": 2,
            "judged": {
                "looks": "tool_use",
                "says": "last_reply",
                "polite": "turn_1",
                "all": "full_trace",
                "third": "missing",
            },
        }
    assert rows[4]["trace"]["turns"] == 1
    shown = scored.out
    assert "trajectories read as" in shown
    assert "verifiers 1, messages 3, responses 1" in " ".join(shown.split())
    assert "== tool_use: looks\n[call 1]\nweather_weather(" in shown
    assert "[result 1]\nOslo: 4 degrees" in shown

    page = tmp_path / "view.html"
    assert run("view", out, "--out", page).status == 0
    assert "[result 1]\\nOslo: 4 degrees" in page.read_text("utf-8")
    out_again = tmp_path / "again"
    assert run("reliability", *words, "--out", out_again).status == 0
    (again,) = out_again.glob("judgements_*_0.jsonl")
    assert [row["reward"] for row in _lines(again)] == [row["reward"] for row in rows]


def _reply(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def _call(result: str | None) -> list[dict[str, object]]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    messages = [{**_reply("Look."), "tool_calls": [call]}]
    if result is not None:
        messages.append({"role": "tool", "tool_call_id": "c", "content": result})
    return messages


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ([], "an empty list is no trajectory that is read"),
        ({"answer": "4"}, "an object with answer is no trajectory that is read"),
        ([*_call(None), _reply("4")], "steps.0 makes a tool call 'c' that has no"),
        ([{"role": "tool", "content": "r"}], "names no call"),
        ([{"role": "user", "content": "r"}], "the trace is empty"),
        ([{"role": "assistant", "content": [{"type": "x"}]}], "is of the kind 'x'"),
        (4, "field 'response'"),
        (None, "field 'response'"),
    ],
)
def test_score_names_the_line_of_what_it_cannot_read(
    response: object,
    problem: str,
    tasks: Path,
    judge: Path,
    tmp_path: Path,
    run: Run,
) -> None:
    rows: list[object] = [
        {"task_id": "TASK", "response": _call("r")},
        {"task_id": "TASK", "response": response},
    ]
    responses = _rows(tmp_path / "r.jsonl", rows)
    status, _, said = run(
        "score", tasks, responses, "--judge", judge, "--out", tmp_path / "x.jsonl"
    )

    assert status == 2
    assert f"{responses}:2: " in said
    assert problem in said


def test_a_text_beside_messages_is_the_response(
    tasks: Path, judge: Path, tmp_path: Path, run: Run
) -> None:
    plain = _plain(tasks)
    row = {"task_id": plain.task_id, "response": "It is.", "messages": _call("r")}
    responses = _rows(tmp_path / "r.jsonl", [row])
    out = tmp_path / "j.jsonl"

    scored = run("score", tasks, responses, "--judge", judge, "--out", out)

    assert scored.status == 0
    assert "trajectories" not in scored.out

    (judged,) = _lines(out)
    assert "trace" not in judged
    assert judged["result"]["scores"] == {"a": 1.0}


def _plain(tasks: Path) -> Task:
    """Write one task that judges the last reply alone."""
    plain = Task(
        question="Q?",
        grounding=Grounding("g"),
        rubric=Rubric(criteria=(_criterion("a", None),)),
    )
    write_tasks(tasks, [plain])
    return plain


_MESSAGES = [{"role": "user", "content": "Q?"}, *_call("r"), _reply("It is.")]
_OTHER_MESSAGES = [*_call("r"), _reply("It is not.")]
_ITEMS = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}]
_ATIF = {"schema_version": "ATIF-v1.4", "steps": [{"source": "agent", "message": "4"}]}


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(_MESSAGES),
        json.dumps(_MESSAGES, indent=1),
        json.dumps({"messages": _MESSAGES}),
        json.dumps(_ITEMS),
        json.dumps({"output": _ITEMS}),
        json.dumps(_ATIF),
        json.dumps({"nodes": [{"message": _MESSAGES[0]}]}),
        json.dumps({"task": {}, "traces": [{"nodes": [{"message": _reply("4")}]}]}),
        str(_MESSAGES),
        f"array({_MESSAGES}, dtype=object)",
    ],
)
def test_a_trajectory_written_as_one_text_is_refused_as_a_response(
    written: str, tasks: Path, judge: Path, tmp_path: Path, run: Run
) -> None:
    row = {"task_id": _plain(tasks).task_id, "response": written}
    out = tmp_path / "j.jsonl"
    responses = _rows(tmp_path / "r.jsonl", [row])
    words = (tasks, responses, "--judge", judge, "--out", out)

    refused = run("score", *words)
    again = run("rejudge", responses, tasks, *words[2:])
    _rows(responses, [{**row, "thought": "none"}])
    scored = run("score", *words)

    for ran in (refused, again):
        assert ran.status == 2
        assert f"{responses}:1: the response is a trajectory that was wri" in ran.err
        assert '`"thought": "none"` beside it' in " ".join(ran.err.split())
    assert scored.status == 0
    assert "trace" not in _lines(out)[0]


@pytest.mark.parametrize(
    "answer",
    [
        '{"role": "assistant", "content": "One message."}',
        '[{"role": "user", "content": "No assistant."}]',
        '[{"role": "assistant"}, {"role": "owner"}]',
        '[{"role": "assistant", "rights": "read"}]',
        '{"output": [1, 2]}',
        '{"messages": ["a", "b"]}',
        '{"steps": ["a"]}',
        "[1, 2",
        '[{"type": "message", "text": "4"}, {"kind": "x"}]',
        "[{'role': 'admin'}]",
        "[{'role': 'assistant', 'content': text}]\nis what the template takes.",
        '{"nodes": [], "edges": []}',
        '{"nodes": [{"id": 1, "message": "Start."}, {"id": 2}], "edges": [[1, 2]]}',
        '{"task": "build", "traces": [{"nodes": [{"id": 1}]}]}',
        '{"schema_version": "1.0", "steps": [{"run": "make"}]}',
        '{"output": [{"type": "message", "text": "4"}, {"type": "reasoning"}]}',
        '[{"type": "message", "text": "4"}, {"type": "message", "text": "5"}]',
    ],
)
def test_an_answer_that_is_json_stays_an_answer(
    answer: str, tasks: Path, judge: Path, tmp_path: Path, run: Run
) -> None:
    row = {"task_id": _plain(tasks).task_id, "response": answer}
    responses = _rows(tmp_path / "r.jsonl", [row])
    out = tmp_path / "j.jsonl"

    scored = run("score", tasks, responses, "--judge", judge, "--out", out)

    assert scored.status == 0
    assert "trace" not in _lines(out)[0]


@pytest.mark.parametrize(
    "columns",
    [
        {"messages": json.dumps(_MESSAGES)},
        {"completion": json.dumps(_MESSAGES), "prompt": json.dumps(_MESSAGES[:1])},
        {"output": json.dumps([*_ITEMS, {"type": "function_call_output",
                                         "call_id": "c", "output": "r"},
                               {"type": "message", **_reply("It is.")}])},
    ],
)  # fmt: skip
def test_a_column_of_messages_may_hold_them_as_json_text(
    columns: dict[str, str], tasks: Path, judge: Path, tmp_path: Path, run: Run
) -> None:
    row = {"task_id": TASK.task_id, **columns}
    responses = _rows(tmp_path / "r.jsonl", [row])
    out = tmp_path / "j.jsonl"

    scored = run("score", tasks, responses, "--judge", judge, "--out", out, "--show", 1)

    assert scored.status == 0
    assert _lines(out)[0]["trace"]["turns"] == 2
    assert "[result 1]\nr" in scored.out
    assert "[user 1]\n[{" not in scored.out


def test_messages_as_python_writes_them_are_refused(
    tasks: Path, judge: Path, tmp_path: Path, run: Run
) -> None:
    row = {"task_id": TASK.task_id, "messages": str(_MESSAGES)}
    responses = _rows(tmp_path / "r.jsonl", [row])

    words = (tasks, responses, "--judge", judge, "--out", tmp_path / "j.jsonl")
    refused = run("score", *words)

    assert refused.status == 2
    assert f"{responses}:1: 'messages' is a text that is no JSON" in refused.err


@pytest.mark.parametrize("response", ["It is.", [_reply("It is.")]])
@pytest.mark.parametrize(
    "beside",
    [
        {"messages": _OTHER_MESSAGES},
        {"messages": json.dumps(_OTHER_MESSAGES)},
        {"completion": _OTHER_MESSAGES},
        {"output": [{"type": "message", **_reply("No.")}]},
    ],
)
def test_a_response_beside_a_trajectory_that_ends_otherwise_is_refused(
    response: object,
    beside: dict[str, object],
    tasks: Path,
    judge: Path,
    tmp_path: Path,
    run: Run,
) -> None:
    row = {"task_id": _plain(tasks).task_id, "response": response, **beside}
    responses = _rows(tmp_path / "r.jsonl", [row])

    words = (tasks, responses, "--judge", judge, "--out", tmp_path / "j.jsonl")
    refused = run("score", *words)

    assert refused.status == 2
    (column,) = beside
    said = f"{responses}:1: the response and the last reply in {column!r} differ"
    assert said in refused.err


def test_a_text_beside_the_trajectory_it_ends_is_judged_with_it_where_that_is_needed(
    tasks: Path, judge: Path, tmp_path: Path, run: Run
) -> None:
    out = tmp_path / "j.jsonl"
    row = {"response": " It is.", "messages": _MESSAGES}
    words = ("--judge", judge, "--out", out)

    given = {"task_id": _plain(tasks).task_id, **row}
    responses = _rows(tmp_path / "r.jsonl", [given])
    assert run("score", tasks, responses, *words).status == 0
    assert "trace" not in _lines(out)[0]

    write_tasks(tasks, [TASK])
    _rows(responses, [{"task_id": TASK.task_id, **row}])
    assert run("score", tasks, responses, *words).status == 0
    assert _lines(out)[0]["trace"]["judged"]["looks"] == "tool_use"


def test_calibrate_judges_a_labelled_trajectory_by_its_parts(
    tasks: Path, judge: Path, tmp_path: Path, run: Run
) -> None:
    responses = _rows(tmp_path / "r.jsonl", [*_recorded(), *_recorded()])
    labels = [
        {
            "line": line,
            "task_id": TASK.task_id,
            "criterion": name,
            "score": float(name in ("looks", "says")),
            "rater": "ann",
        }
        for line in range(1, 7)
        for name in TASK.rubric.ids
    ]
    given = _rows(tmp_path / "labels.jsonl", list(labels))
    out = tmp_path / "calibrated"
    words = (tasks, responses, "--labels", given, "--judge", judge)

    assert run("calibrate", *words, "--out", out).status == 0

    (judged,) = out.glob("judgements_*_0.jsonl")
    assert _lines(judged)[0]["result"]["scores"]["looks"] == 1.0
    assert _lines(judged)[0]["trace"]["judged"]["polite"] == "turn_1"


def test_thresholds_of_a_cascade_are_not_found_on_trajectories(
    tasks: Path, tmp_path: Path, run: Run
) -> None:
    responses = _rows(tmp_path / "r.jsonl", _recorded())
    label = {"line": 2, "task_id": "TASK", "criterion": "says", "score": 1.0}
    labels = _rows(tmp_path / "labels.jsonl", [{**label, "rater": "ann"}])
    cascade = tmp_path / "cascade.yaml"
    cascade.write_text(
        "type: cascade\nuncertainty: margin\njudges:\n  - type: lexical\n  - type: claims\n"
        "calibration: none.json\n",
        encoding="utf-8",
    )
    words = (tasks, responses, "--labels", labels, "--judge", cascade)

    stopped = run(
        "calibrate", *words, "--cascade", "--risk", 0.1, "--out", tmp_path / "o"
    )

    assert stopped.status == 2
    assert "line 1 is a trajectory" in stopped.err
