"""The views of a judge on a trace, and one judgement of their results."""

import hashlib
import json
import operator
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    Answer,
    Criterion,
    Grounding,
    JudgeResult,
    Outcome,
    Reason,
    Rubric,
    SchemaError,
    Task,
    Thought,
    Unanswered,
    Usage,
    normalized_reward,
)
from rubric_core.traces import (
    PartKind,
    Trace,
    TraceStep,
    answer_view,
    chat_trace,
    trace_views,
)

TARGETS = (None, "every_turn", "turn_1", "full_trace")


def _task(*judges: str | None, weight: float = 1.0) -> Task:
    criteria = tuple(
        Criterion(id=f"c{n}", weight=weight, description=f"Asks {n}.", judges=target)
        for n, target in enumerate(judges)
    )
    return Task(
        question="Which loss?",
        grounding=Grounding("It is the cross entropy."),
        rubric=Rubric(criteria=criteria),
    )


def _trace(**options: Any) -> Trace:
    def call(name: str) -> dict[str, object]:
        return {"id": name, "function": {"name": "find", "arguments": name}}

    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "First.", "tool_calls": [call("q1")]},
        {"role": "tool", "tool_call_id": "q1", "content": "Found one."},
        {"role": "assistant", "content": "", "tool_calls": [call("q2")]},
        {"role": "tool", "tool_call_id": "q2", "content": "Found two."},
        {"role": "user", "content": "Hurry."},
        {"role": "assistant", "content": "Last."},
    ]
    return chat_trace(messages, prompt=[{"role": "user", "content": "?"}], **options)


def _scored(rubric: Rubric, *scores: float, **call: Any) -> JudgeResult:
    named = dict(zip(rubric.ids, scores, strict=True))
    return JudgeResult.scored(rubric, named, judge="j").with_call(**call)


def _of_one_turn(answer: Answer) -> Trace:
    step = TraceStep(
        role="assistant", text=answer.text, thought=answer.thought, sampled=True
    )
    return Trace(steps=(step,))


def test_a_trace_of_one_reply_is_judged_as_the_reply_alone() -> None:
    task = _task(*TARGETS)
    plain = _task(*[None for _ in TARGETS])
    answer = Answer("The cross entropy.", Thought.CLOSED)

    views = trace_views(task.whole_view(answer), _of_one_turn(answer))

    (view,) = views.views
    alone = plain.judge_view(answer).model_copy(update={"task_id": task.task_id})
    assert view == alone
    assert view.excerpt is None
    assert task.judge_view(answer) == view
    result = _scored(view.rubric, 1, 0, 1, 1)
    assert views.joined([result]) is result


def test_a_rubric_that_names_nothing_keeps_its_bytes() -> None:
    criterion = Criterion(
        id="a",
        weight=2,
        description="Names the loss.",
        required_elements=("cross entropy",),
        kind="cause",  # pyright: ignore[reportArgumentType]
    )
    task = Task(
        question="Which loss?",
        grounding=Grounding("The cross entropy."),
        rubric=Rubric(criteria=(criterion, Criterion(id="b", weight=1))),
    )
    row = json.dumps(task.to_json(reveal_grounding=True)).encode()

    # Of the version before criteria named what they judge.
    assert task.task_id == "e6fb93d12f352414"
    assert hashlib.sha256(row).hexdigest()[:16] == "e53cfe3b087ffadf"
    view = task.whole_view(Answer("It is."))
    assert trace_views(view, _trace()).views[0].rubric is task.rubric


def test_the_last_reply_is_the_one_that_the_stack_names() -> None:
    # verifiers names the reply of the root agent, which need not end the final branch.
    task = _task(None, "turn_1")
    trace = _trace()

    views = trace_views(task.whole_view(Answer("Of the root.")), trace)

    assert [view.response for view in views.views] == ["Of the root.", "First."]


def test_each_target_has_its_view() -> None:
    task = _task(None, "turn_1", "turn_3", "tool_use", "full_trace", "turn_1")
    trace = _trace()

    views = trace_views(task.whole_view(trace.answer), trace)

    assert [(part.judges, part.view.rubric.ids) for part in views.parts] == [
        ("last_reply", ("c0",)),
        ("turn_1", ("c1", "c5")),
        ("turn_3", ("c2",)),
        ("tool_use", ("c3",)),
        ("full_trace", ("c4",)),
    ]
    assert not any(view.rubric.judges_traces for view in views.views)
    last, first, third, tools, full = views.views
    assert (last.response, last.excerpt) == ("Last.", None)
    assert [view.response for view in (first, third, tools, full)] == [
        "First.",
        "Last.",
        "",
        "First.\n\nLast.",
    ]
    kinds = [
        [(part.kind.value, part.turn, part.text) for part in view.excerpt.parts]
        for view in (first, third, tools, full)
        if view.excerpt is not None
    ]
    assert kinds[0] == [("reply", 1, "First."), ("call", 1, "find(q1)")]
    assert kinds[1] == [
        ("earlier_reply", 1, "First."),
        ("earlier_call", 1, "find(q1)"),
        ("result", 1, "Found one."),
        ("earlier_call", 2, "find(q2)"),
        ("result", 2, "Found two."),
        ("user", 2, "Hurry."),
        ("reply", 3, "Last."),
    ]
    assert kinds[2] == [
        ("call", 1, "find(q1)"),
        ("result", 1, "Found one."),
        ("call", 2, "find(q2)"),
        ("result", 2, "Found two."),
    ]
    assert [kind for kind, _, _ in kinds[3]] == [
        "reply", "call", "result", "call", "result", "user", "reply",
    ]  # fmt: skip


@pytest.mark.parametrize("target", ["tool_use", "full_trace", "turn_2"])
def test_results_stand_in_the_order_of_the_calls_that_they_answer(target: str) -> None:
    def call(name: str) -> dict[str, object]:
        return {"id": name, "function": {"name": "read", "arguments": name}}

    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "value b"},
        {"role": "tool", "tool_call_id": "a", "content": "value a"},
        {"role": "assistant", "content": "Done.", "tool_calls": [call("c")]},
        {"role": "tool", "tool_call_id": "c", "content": "value c"},
        {"role": "assistant", "content": "Done."},
    ]
    task = _task(target)
    trace = chat_trace(messages)

    (view,) = trace_views(task.whole_view(trace.answer), trace).views

    assert view.excerpt is not None
    texts = [part.text for part in view.excerpt.parts]
    assert texts[:4] == ["read(a)", "read(b)", "value a", "value b"]


def test_what_a_tool_returned_is_no_text_of_the_policy() -> None:
    task = _task("turn_1", "turn_3", "tool_use", "full_trace", "every_turn")
    trace = _trace()

    views = trace_views(task.whole_view(trace.answer), trace)

    for view in views.views:
        assert "Found" not in view.response
        assert "Found" not in view.quotable
        assert "Hurry" not in view.quotable


def test_every_turn_passes_over_turns_that_only_call_tools() -> None:
    task = _task("every_turn")
    trace = _trace()

    views = trace_views(task.whole_view(trace.answer), trace)

    assert [part.judges for part in views.parts] == ["turn_1", "turn_3"]
    assert [view.response for view in views.views] == ["First.", "Last."]


def test_the_lowest_turn_is_the_score_of_every_turn() -> None:
    task = _task("every_turn", None)
    trace = _trace()
    views = trace_views(task.whole_view(trace.answer), trace)
    first, last, reply = views.views

    joined = views.joined(
        [_scored(first.rubric, 0.25), _scored(last.rubric, 1), _scored(reply.rubric, 1)]
    )

    assert joined.scores == {"c0": 0.25, "c1": 1.0}
    assert normalized_reward(joined, task.rubric) == 0.625


@given(
    st.lists(st.sampled_from(["every_turn", "turn_1", "turn_2", "full_trace", None]),
             min_size=1, max_size=6),
    st.integers(min_value=2, max_value=5),
    st.data(),
)  # fmt: skip
def test_scores_are_joined_as_a_loop_over_criteria_joins_them(
    judges: list[str | None], turns: int, data: st.DataObject
) -> None:
    task = _task(*judges)
    steps = tuple(
        TraceStep(role="assistant", text=f"Turn {n}.", sampled=True)
        for n in range(1, turns + 1)
    )
    trace = Trace(steps=steps)
    views = trace_views(task.whole_view(trace.answer), trace)
    scores = [
        [data.draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])) for _ in view.rubric]
        for view in views.views
    ]

    joined = views.joined(
        [_scored(v.rubric, *each) for v, each in zip(views.views, scores, strict=True)]
    )

    expected: dict[str, float] = {}
    for criterion in task.rubric:
        seen: list[float] = []
        for part, each in zip(views.parts, scores, strict=True):
            for name, score in zip(part.view.rubric.ids, each, strict=True):
                if name == criterion.id:
                    seen.append(score)
        times = turns if criterion.judges == "every_turn" else 1
        assert len(seen) == times
        expected[criterion.id] = min(seen)
    assert joined.scores == expected


def test_a_turn_that_is_not_there_is_refused_or_scores_0() -> None:
    task = _task("turn_4", None)
    trace = _trace()
    whole = task.whole_view(trace.answer)

    with pytest.raises(
        SchemaError, match="'c0' judges turn 4, and the trace has 3: name a turn"
    ) as caught:
        trace_views(whole, trace)
    assert caught.value.field == "criteria.c0.judges"
    views = trace_views(whole, trace, missing_turn="zero")
    (view,) = views.views
    joined = views.joined([_scored(view.rubric, 1)])
    assert joined.scores == {"c0": 0.0, "c1": 1.0}
    assert "c0: its turn is not there" in joined.reasoning
    nothing = trace_views(
        _task("turn_4").whole_view(trace.answer), trace, missing_turn="zero"
    )
    assert nothing.joined([]).scores == {"c0": 0.0}


@pytest.mark.parametrize("judges", ["turn_2", "tool_use"])
def test_one_response_has_no_later_turn_and_no_tools(judges: str) -> None:
    task = _task(judges, None)

    with pytest.raises(SchemaError, match=f"'c0' judges '{judges}', and the response"):
        task.judge_view("The cross entropy.")
    with pytest.raises(SchemaError, match="hand over the trace"):
        answer_view(task.whole_view(Answer("It is.")))


def test_that_no_tool_was_called_can_be_judged() -> None:
    task = _task("tool_use")
    trace = _of_one_turn(Answer("I did not look."))

    (view,) = trace_views(task.whole_view(trace.answer), trace).views

    assert view.excerpt is not None
    assert view.excerpt.parts == ()
    assert view.unanswered is None


def test_a_turn_without_text_is_unanswered_unless_it_calls_a_tool() -> None:
    task = _task("turn_1", "turn_2", "turn_3")
    silent = TraceStep(role="assistant", sampled=True)
    unclosed = silent.model_copy(update={"thought": Thought.UNCLOSED})
    calling = _trace().turns[1]
    result = TraceStep(role="tool", call_id="q2", text="Found.")
    trace = Trace(steps=(silent, calling, result, unclosed))

    views = trace_views(task.whole_view(trace.answer), trace).views

    assert [view.unanswered for view in views] == [
        Unanswered.EMPTY,
        None,
        Unanswered.UNCLOSED_THOUGHT,
    ]
    assert views[1].unwritten is Unanswered.EMPTY


def _parts(count: int) -> tuple[Any, Sequence[Rubric]]:
    trace = _trace()
    task = _task(None, "turn_1", "tool_use")
    views = trace_views(task.whole_view(trace.answer), trace)
    return views, [view.rubric for view in views.views][:count]


def test_one_failure_is_the_failure_of_the_whole() -> None:
    views, (first, _, _) = _parts(3)
    late = JudgeResult.unavailable(Reason.TIMEOUT)
    broken = JudgeResult.invalid(Reason.NOT_JSON, detail="no object")
    broken = broken.with_fields(reasoning="Sure!")

    joined = views.joined([_scored(first, 1), late, broken])

    assert (joined.outcome, joined.reason) == (Outcome.INVALID, Reason.NOT_JSON)
    assert (joined.detail, joined.reasoning) == ("tool_use: no object", "Sure!")
    joined = views.joined([_scored(first, 1), late, late])
    assert (joined.outcome, joined.detail) == (Outcome.UNAVAILABLE, "turn_1: timeout")


def test_what_all_calls_took_is_summed() -> None:
    views, rubrics = _parts(3)
    usage = Usage(prompt_tokens=10, completion_tokens=2)
    results = [_scored(r, 1, usage=usage, attempts=2, latency_s=3.0) for r in rubrics]

    joined = views.joined(results)

    assert joined.usage == Usage(prompt_tokens=30, completion_tokens=6)
    assert (joined.attempts, joined.latency_s, joined.judge) == (6, 3.0, "j")


def test_a_trace_without_any_text_is_a_response_without_an_answer() -> None:
    task = _task(None, "turn_1")
    silent = TraceStep(role="assistant", sampled=True)
    trace = Trace(steps=(silent, TraceStep(role="user", text="Well?"), silent))
    views = trace_views(task.whole_view(trace.answer), trace)

    (view,) = views.views
    joined = views.joined(
        [JudgeResult.without_answer(view.rubric, Unanswered.EMPTY, judge="j")]
    )

    assert joined.unanswered is Unanswered.EMPTY


def test_a_part_without_weight_is_not_asked_for() -> None:
    criteria = (
        Criterion(id="a", weight=1),
        Criterion(id="b", weight=0, judges="turn_1"),
    )
    task = _task(None).model_copy(update={"rubric": Rubric(criteria=criteria)})
    trace = _trace()

    views = trace_views(task.whole_view(trace.answer), trace)

    assert [part.judges for part in views.parts] == ["last_reply"]
    joined = views.joined([_scored(views.views[0].rubric, 1)])
    assert joined.scores == {"a": 1.0, "b": 0.0}


def test_what_came_before_is_read_once_for_all_turns() -> None:
    task = _task("every_turn")
    silent = TraceStep(role="assistant", text="Same.", sampled=True)
    user = TraceStep(role="user", text="And?")
    trace = Trace(steps=(silent, user) * 400)

    views = trace_views(task.whole_view(trace.answer), trace).views

    assert len(views) == 400
    excerpts = [view.excerpt.parts for view in views if view.excerpt is not None]
    assert [len(parts) for parts in excerpts] == list(range(3, 801, 2))
    for parts in excerpts:
        assert all(map(operator.is_, parts[:-1], excerpts[-1]))


def test_no_dump_of_a_view_shows_a_part_of_the_trace() -> None:
    task = _task("full_trace")
    trace = _trace()

    (view,) = trace_views(task.whole_view(trace.answer), trace).views

    for shown in (repr(view), view.model_dump_json(), repr(view.excerpt)):
        assert "Found" not in shown
        assert "First" not in shown
    assert PartKind.RESULT.is_judged is False
