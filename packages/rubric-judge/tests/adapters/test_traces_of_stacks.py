"""Traces as stacks hand them over: judged by what criteria name, credited by turn."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Rubric,
    SchemaError,
    Task,
    criterion_attribution,
    group_advantages,
)
from rubric_judge import JudgeSetupError, LexicalJudge
from rubric_judge.adapters import skyrl
from rubric_judge.adapters.scoring import RubricScorer, Submission
from rubric_judge.adapters.trl import rubric_reward as trl_reward
from rubric_judge.adapters.verifiers import credit_turns, rubric_reward
from rubric_judge.testing import ScriptedJudge

PASSAGE = "The grounding says: cross entropy."
FOUND = "A tool found it."


def _task() -> Task:
    return Task(
        question="Which loss is minimised?",
        grounding=Grounding(PASSAGE),
        rubric=Rubric(
            criteria=(
                Criterion(id="asks", weight=2, judges="turn_1"),
                Criterion(id="finds", weight=1, judges="tool_use"),
                Criterion(id="answers", weight=1),
                Criterion(id="goes_on", weight=1, judges="turn_3"),
            )
        ),
    )


def _judge() -> ScriptedJudge:
    """Full marks for a text of the policy that holds "good", or a call with "found"."""

    def award(view: JudgeView) -> float:
        is_call = view.excerpt is not None and view.excerpt.judges == "tool_use"
        return float(("found" if is_call else "good") in view.quotable)

    return ScriptedJudge(award)


def _messages(first: str, call: str, last: str) -> list[dict[str, Any]]:
    calls = [{"id": "c1", "type": "function", "name": "find", "arguments": call}]
    return [
        {"role": "user", "content": "Which loss is minimised?"},
        {"role": "assistant", "content": first, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": f"good {FOUND}"},
        {"role": "assistant", "content": last, "tool_calls": None},
    ]


class _Message(SimpleNamespace):
    def model_dump(self) -> dict[str, Any]:
        return dict(vars(self))


class _Trace(SimpleNamespace):
    """The part of a trace of verifiers that the adapter reads and writes."""

    def record_metric(self, name: str, value: float) -> None:
        self.metrics[name] = value


def _trace(name: str, messages: list[dict[str, Any]]) -> _Trace:
    nodes = [
        SimpleNamespace(
            message=_Message(**message),
            parent=place - 1 if place else None,
            sampled=message["role"] == "assistant",
            # The scaffold of a message is no sampled token, its body is.
            mask=[False, *[message["role"] == "assistant"] * (place + 1)],
            advantages=None,
        )
        for place, message in enumerate(messages)
    ]
    replies = [node.message for node in nodes if node.sampled]
    return _Trace(
        id=name,
        nodes=nodes,
        metrics={},
        info={},
        is_truncated=False,
        root_reply=None,
        assistant_messages=replies,
        last_reply=replies[-1].content,
    )


def _judged(task: Task, traces: list[_Trace]) -> list[float]:
    reward = rubric_reward(
        judge=_judge(), tasks={task.task_id: task}, log_judgements=True
    )
    data = SimpleNamespace(
        model_dump=lambda: {"task_id": task.task_id}, prompt_text=task.question
    )
    return [asyncio.run(reward(data, trace)) for trace in traces]


def test_a_trace_of_verifiers_is_judged_by_what_its_criteria_name() -> None:
    traces = [
        _trace("a", _messages("good", "no", "no")),
        _trace("b", _messages("no", "found", "no")),
        _trace("c", _messages("no", "no", "good")),
        _trace("d", _messages("no", "no", "no")),
    ]

    rewards = _judged(_task(), traces)

    # Shares 2/5, 1/5, 1/5 and 1/5; nobody takes a third turn.
    assert rewards == pytest.approx([0.4, 0.2, 0.2, 0.0], abs=1e-4)
    record = json.loads(traces[0].info["rubric/judgement"])
    assert record["turns"] == {"asks": 1, "goes_on": 3}
    for trace in traces:
        shown = json.dumps([trace.info, trace.metrics])
        assert PASSAGE not in shown
        assert FOUND not in shown


def test_a_call_that_ends_an_episode_of_verifiers_needs_no_result() -> None:
    task = _task()
    messages = _messages("good", "found", "")[:2]

    (reward,) = _judged(task, [_trace("a", messages)])

    assert reward == pytest.approx(2 / 5 + 1 / 5 + 1 / 5, abs=1e-4)


def test_the_credit_of_a_turn_goes_to_its_tokens() -> None:
    task = _task()
    traces = [
        _trace("a", _messages("good", "no", "good")),
        _trace("b", _messages("no", "found", "no")),
        _trace("c", _messages("no", "no", "good")),
    ]
    # A node of a side branch, off the final one.
    stray = _trace("x", _messages("", "", ""))
    traces[2].nodes.insert(1, stray.nodes[1])
    traces[2].nodes[2].parent = 0
    traces[2].nodes[3].parent = 2
    traces[2].nodes[4].parent = 3
    _judged(task, traces)

    credit_turns(traces)

    z = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    weights = [2.0, 1.0, 1.0, 1.0]
    parts = criterion_attribution([z], [weights])[0]
    rewards = [sum(a * b for a, b in zip(row, weights, strict=True)) / 5 for row in z]
    whole = group_advantages([rewards])[0]
    for g, trace in enumerate(traces):
        own = [node for node in trace.nodes if node.sampled]
        if g == 2:
            stray_node = own.pop(0)
            rest = whole[g] - parts[g, 0]
            assert stray_node.advantages == pytest.approx([rest] * 2)
        first, last = own
        assert first.advantages == pytest.approx([whole[g]] * sum(first.mask))
        rest = whole[g] - parts[g, 0]
        assert last.advantages == pytest.approx([rest] * sum(last.mask))
        given = [node for node in trace.nodes if not node.sampled]
        assert all(node.advantages is None for node in given)


def test_traces_without_a_record_or_of_two_tasks_are_refused() -> None:
    traces = [_trace(name, _messages("good", "no", "no")) for name in "ab"]

    with pytest.raises(ConfigError, match="'a' has no rubric/judgement: judge it by"):
        credit_turns(traces)
    _judged(_task(), traces[:1])
    other = _task().model_copy(
        update={"rubric": Rubric(criteria=(Criterion(id="asks", weight=1),))}
    )
    _judged(other, traces[1:])
    with pytest.raises(ConfigError, match="have different rubrics"):
        credit_turns(traces)
    same = _task().model_copy(update={"question": "Another one?"})
    _judged(same, traces[1:])
    with pytest.raises(ConfigError, match="have different rubrics"):
        credit_turns(traces)


def test_a_trace_without_a_judgement_is_no_reward_of_0() -> None:
    traces = [_trace(name, _messages("good", "no", "no")) for name in "ab"]
    _judged(_task(), traces)
    record = json.loads(traces[1].info["rubric/judgement"])
    lost = {**record, "outcome": "unavailable", "z": {}}
    traces[1].info["rubric/judgement"] = json.dumps(lost)

    with pytest.raises(ConfigError, match="has no judgement: credit the others alone"):
        credit_turns(traces)


@pytest.mark.parametrize("ids", ["given", "left out"])
def test_a_completion_of_trl_in_messages_is_a_trace(ids: str) -> None:
    task = _task()
    reward = trl_reward(judge=_judge(), tasks={task.task_id: task})
    completions: list[list[dict[str, Any]]] = []
    for _, *messages in (_messages("good", "no", "no"), _messages("no", "no", "good")):
        call = messages[0]["tool_calls"][0]
        named = {"name": call["name"], "arguments": {"q": call["arguments"]}}
        messages[0]["tool_calls"] = [{"type": "function", "function": named}]
        if ids == "given":
            messages[0]["tool_calls"][0]["id"] = "c1"
        else:
            del messages[1]["tool_call_id"]
        completions.append(messages)
    prompts = [[{"role": "user", "content": task.question}]] * 2

    rewards = asyncio.run(
        reward(prompts=prompts, completions=completions, task_id=[task.task_id] * 2)
    )

    assert rewards == pytest.approx([0.4, 0.2], abs=1e-4)


def test_a_text_has_no_third_turn() -> None:
    task = _task()
    reward = trl_reward(judge=_judge(), tasks={task.task_id: task})

    with pytest.raises(
        SchemaError, match="'finds' judges 'tool_use', and the response"
    ):
        asyncio.run(reward(prompts=["?"], completions=["good"], task_id=[task.task_id]))


def test_a_generator_of_skyrl_gets_a_reward_at_the_end_of_each_turn(
    tmp_path: Path,
) -> None:
    from rubric_core.traces import chat_trace

    task = _task()
    _, *messages = _messages("good", "no", "good")
    scorer = RubricScorer(
        judge=_judge(),
        tasks={task.task_id: task},
        ledger=tmp_path / "l.sqlite",
    )
    submission = Submission(
        {"task_id": task.task_id},
        messages,
        task.question,
        trace=lambda: chat_trace(messages),
    )
    (judgement,) = scorer.judge_from_thread([submission])
    scorer.close()

    rewards = skyrl.turn_rewards(judgement, [1, 1, 0, 0, 1, 1, 1])

    assert rewards == pytest.approx([0, 0.4, 0, 0, 0, 0, 0.2], abs=1e-4)
    assert sum(rewards) == judgement.reward


def test_a_trace_is_not_read_where_criteria_judge_the_last_reply() -> None:
    plain = Task(
        question="?",
        grounding=Grounding("g"),
        rubric=Rubric(criteria=(Criterion(id="a", weight=1),)),
    )
    scorer = RubricScorer(judge=_judge(), tasks={plain.task_id: plain})

    def unreadable() -> Any:
        raise NotImplementedError

    (views,) = scorer.views(
        [Submission({"task_id": plain.task_id}, "good", trace=unreadable)]
    )

    assert views.views == [plain.judge_view("good")]


MARK = "CANARY-7731"


def _marked() -> Task:
    criteria = [
        Criterion(
            id=f"c{number}",
            weight=1,
            judges=judges,
            name=f"{MARK} name",
            description=f"{MARK} description",
            required_elements=(f"{MARK} element",),
            scoring_guide=f"{MARK} guide",
            expected_keywords=(f"{MARK} keyword",),
            expected_concepts=(f"{MARK} concept",),
        )
        for number, judges in enumerate(
            ("turn_1", "turn_2", "every_turn", "tool_use", "full_trace", None)
        )
    ]
    return Task(
        question="Which loss is minimised?",
        grounding=Grounding(f"{MARK} passage"),
        rubric=Rubric(criteria=tuple(criteria)),
        reference_answer=f"{MARK} reference",
    )


def _telling(view: JudgeView) -> JudgeResult:
    """Half marks, with a reason that quotes all that is hidden."""
    scores = {criterion.id: 0.5 for criterion in view.rubric}
    reasons = f"{view.grounding.reveal()} {view.rubric.reveal()}"
    return JudgeResult.scored(view.rubric, scores, judge="j", reasoning=reasons)


def test_nothing_hidden_reaches_what_the_policy_s_side_of_a_trace_shows(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    task = _marked()
    tasks = {task.task_id: task}
    trace = _trace("a", _messages("no", "no", "no"))
    other = _trace("b", _messages("no", "no", "good"))
    reward = rubric_reward(
        judge=ScriptedJudge(_telling), tasks=tasks, log_judgements=True
    )
    data = SimpleNamespace(
        model_dump=lambda: {"task_id": task.task_id}, prompt_text=task.question
    )
    for one in (trace, other):
        assert asyncio.run(reward(data, one)) == 0.5
    credit_turns([trace, other])
    shown = [repr(trace), repr(other), repr(vars(trace))]

    logged: list[Any] = []
    by_trl = trl_reward(judge=ScriptedJudge(_telling), tasks=tasks)
    _, *messages = _messages("no", "no", "no")
    rewards = asyncio.run(
        by_trl(
            prompts=["?", "?"],
            completions=[messages, messages],
            task_id=[task.task_id] * 2,
            log_extra=lambda name, values: logged.append((name, values)),
            log_metric=lambda name, value: logged.append((name, value)),
        )
    )
    shown += [repr(rewards), repr(logged)]
    assert logged

    for broken in (messages[:1] + messages[2:], messages[1:]):
        with pytest.raises(SchemaError) as caught:
            asyncio.run(
                by_trl(prompts=["?"], completions=[broken], task_id=[task.task_id])
            )
        shown.append(repr(caught.value))
    refused = trl_reward(judge=LexicalJudge(), tasks=tasks)
    with pytest.raises(JudgeSetupError, match="judges 'tool_use'") as stopped:
        asyncio.run(
            refused(prompts=["?"], completions=[messages], task_id=[task.task_id])
        )
    shown += [str(stopped.value), caplog.text, *capsys.readouterr()]
    # What a policy is asked, and what a tool could be handed with it.
    view = task.policy_view()
    shown += [repr(view), view.model_dump_json(), json.dumps(view.messages)]

    assert not [text for text in shown if MARK in text]
