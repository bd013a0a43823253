"""What stacks hand over of a completion, and the answer in it."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from rubric_core import (
    Answer,
    ConfigError,
    JudgeView,
    SchemaError,
    Task,
    Thought,
    ThoughtTags,
)
from rubric_core.traces.messages import answer_from, text_of
from rubric_judge import LexicalJudge
from rubric_judge.adapters.answers import answer_behind
from rubric_judge.adapters.openrlhf import answer_in
from rubric_judge.adapters.scoring import RubricScorer, Submission
from rubric_judge.adapters.verl import compute_score
from rubric_judge.testing import ScriptedJudge

THOUGHT = "It is the cross entropy, I guess."
SAID = "I do not know."
CLOSED = Answer(SAID, Thought.CLOSED)
CUT = Answer("", Thought.UNCLOSED)


def found(response: object, *, opened: bool = False, thoughts: Any = "cut") -> Answer:
    return answer_from(response, thoughts, opened=opened)._replace(close="")


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": SAID, "reasoning_content": THOUGHT},
        {"role": "assistant", "content": f"\n\n{SAID}", "reasoning": THOUGHT},
        {"role": "assistant", "content": SAID, "thinking": THOUGHT},
        {
            "role": "assistant",
            "content": SAID,
            "reasoning_details": [{"text": THOUGHT}],
        },
        {
            "role": "assistant",
            "content": f"<think>{THOUGHT}</think>\n{SAID}",
            "reasoning": None,
        },
        {
            "role": "assistant",
            "content": f"{THOUGHT}</think>{SAID}",
            "reasoning_content": THOUGHT,
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": THOUGHT},
                {"type": "text", "text": SAID},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": THOUGHT},
                {"type": "text", "text": SAID},
            ],
        },
        {
            "role": "assistant",
            "content": [{"text": THOUGHT, "thought": True}, {"text": SAID}],
        },
    ],
)
def test_a_thought_beside_the_content_is_no_part_of_the_answer(
    message: dict[str, Any],
) -> None:
    user = {"role": "user", "content": "Which loss?"}

    assert found(message) == found([user, message]) == CLOSED
    assert found(np.array([user, message], dtype=object)) == CLOSED
    assert THOUGHT in found(message, thoughts="kept").text


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "reasoning_content": THOUGHT},
        {"role": "assistant", "content": "", "reasoning": THOUGHT},
        {"role": "assistant", "content": f"<think>{THOUGHT}"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": THOUGHT}]},
        {"role": "assistant", "content": [{"type": "reasoning", "reasoning": THOUGHT}]},
    ],
)
def test_a_thought_without_content_is_one_that_does_not_end(
    message: dict[str, Any],
) -> None:
    assert found([message]) == CUT


def test_a_message_that_only_calls_a_tool_has_ended_its_thought() -> None:
    call = {
        "role": "assistant",
        "content": None,
        "reasoning": THOUGHT,
        "tool_calls": [{"id": "1"}],
    }

    assert found([call]) == Answer("", Thought.CLOSED)
    assert found([{"role": "user", "content": "Why?"}]) == Answer("")


def test_the_thought_of_an_output_of_items_is_an_item() -> None:
    thought = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": THOUGHT}],
    }
    parts = [{"type": "output_text", "text": SAID}]
    message = {"type": "message", "role": "assistant", "content": parts}
    call = {"type": "function_call", "name": "search"}

    assert found([thought, message]) == CLOSED
    assert found([thought, call, {"type": "function_call_output"}, message]) == Answer(
        SAID
    )
    assert found([thought, message, thought]) == found([thought]) == CUT
    assert found([thought, call]) == found([]) == Answer("")
    assert text_of([message], role="assistant") == SAID


def test_what_is_neither_text_nor_messages_is_refused() -> None:
    for value in (None, 3, ["a"], [3], np.array([1.0])):
        with pytest.raises(SchemaError, match="a text or a list of messages"):
            answer_from(value)


IDS = {"<think>": 1, "</think>": 2, "<|im_end|>": 3}


class Marked:
    """A tokenizer of one character a token, whose marks are special tokens."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        marks = {number: mark for mark, number in IDS.items()}
        shown = ("" if skip_special_tokens else mark for mark in marks.values())
        table = dict(zip(marks, shown, strict=True))
        return "".join(table.get(one, chr(one)) for one in token_ids)


def tokens(text: str) -> list[int]:
    for mark, number in IDS.items():
        text = text.replace(mark, chr(number))
    return list(map(ord, text))


def test_the_cut_is_made_on_tokens_where_they_come_along() -> None:
    def behind(text: str, *, opened: bool = False) -> Answer:
        return answer_behind(tokens(text), Marked(), "cut", opened=opened)._replace(
            close=""
        )

    assert behind(f"<think>{THOUGHT}</think>{SAID}<|im_end|>") == CLOSED
    assert behind(f"<think>{THOUGHT}<|im_end|>") == behind(THOUGHT, opened=True) == CUT
    assert behind(f"{SAID}<|im_end|>") == Answer(SAID)


PROMPT = "<|im_start|>user\nWhich loss?<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("prompt", "completion", "answer"),
    [
        (PROMPT, f"<think>\n{THOUGHT}\n</think>\n\n{SAID}<|im_end|>", CLOSED),
        (f"{PROMPT}<think>\n", f"{THOUGHT}\n</think>\n\n{SAID}<|im_end|>", CLOSED),
        (f"{PROMPT}<think>\n", THOUGHT, CUT),
        (f"{PROMPT}<think>\n\n</think>\n\n", f"{SAID}<|im_end|>", Answer(SAID)),
        (
            PROMPT,
            f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|END_OF_TURN_TOKEN|>",
            Answer("", Thought.CLOSED),
        ),
    ],
)
def test_openrlhf_hands_over_the_prompt_which_may_open_a_thought(
    prompt: str, completion: str, answer: Answer
) -> None:
    assert answer_in(prompt + completion, prompt)._replace(close="") == answer


def judged(
    scorer: RubricScorer, task: Task, *responses: object
) -> list[dict[str, float]]:
    batch = [Submission({"task_id": task.task_id}, response) for response in responses]
    return [one.metrics for one in scorer.judge_from_thread(batch)]


def test_the_judge_sees_no_thought_and_the_metrics_count_them(
    tasks: dict[str, Task], task: Task
) -> None:
    judge = ScriptedJudge(1.0)
    scorer = RubricScorer(judge=judge, tasks=tasks)

    rows = judged(
        scorer,
        task,
        f"<think>{THOUGHT}</think>{SAID}",
        f"<think>{THOUGHT}",
        " \n",
        SAID,
    )

    assert [view.response for view in judge.calls] == [SAID, SAID]
    names = ("score", "thought", "unclosed_thought", "empty_answer")
    assert [[row[f"rubric/{name}"] for name in names] for row in rows] == [
        [1.0, 1.0, 0.0, 0.0],
        [0.0, 1.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0, 0.0],
    ]


@pytest.mark.parametrize(
    ("thoughts", "seen"),
    [
        ("cut", ["4", "<hm>a</hm>5"]),
        ("kept", ["<think>a</think>4", "<hm>a</hm>5"]),
        (ThoughtTags(open="<hm>", close="</hm>"), ["<think>a</think>4", "5"]),
        ({"open": "<hm>", "close": "</hm>"}, ["<think>a</think>4", "5"]),
        ("opened", ["4"]),
    ],
)
def test_a_setting_says_how_thoughts_are_told(
    thoughts: Any, seen: list[str], tasks: dict[str, Task], task: Task
) -> None:
    judge = ScriptedJudge(1.0)
    scorer = RubricScorer(judge=judge, tasks=tasks, thoughts=thoughts)

    judged(scorer, task, "<think>a</think>4", "<hm>a</hm>5")

    assert [view.response for view in judge.calls] == seen


def test_an_unknown_way_of_telling_thoughts_is_refused(tasks: dict[str, Task]) -> None:
    with pytest.raises(ConfigError, match="thoughts"):
        RubricScorer(judge=LexicalJudge(), tasks=tasks, thoughts="drop")  # pyright: ignore[reportArgumentType]


def test_a_policy_that_does_not_end_its_thoughts_is_told_of_once(
    tasks: dict[str, Task], task: Task
) -> None:
    def told(*batches: int) -> list[tuple[int, int]]:
        """Judge batches of four with so many thoughts that do not end."""
        scorer = RubricScorer(judge=LexicalJudge(), tasks=tasks)
        with capture_logs() as logs:
            for count in batches:
                judged(scorer, task, *["<think>"] * count, *["y"] * (4 - count))
        assert {log["event"] for log in logs} <= {"judge.reward.thoughts_unclosed"}
        return [(log["unclosed"], log["of"]) for log in logs]

    assert told(0, 2, 2) == []
    assert told(2, 3, 4) == [(3, 4)]


def test_single_responses_are_looked_at_together(
    tasks: dict[str, Task], task: Task
) -> None:
    scorer = RubricScorer(judge=LexicalJudge(), tasks=tasks)
    with capture_logs() as logs:
        for response in ["<think>"] * 4 + ["y"] * 3 + ["<think>"] * 8:
            judged(scorer, task, response)

    assert [(log["unclosed"], log["of"]) for log in logs] == [(5, 8)]


def test_a_row_out_of_parquet_through_pandas_is_judged(
    row: dict[str, Any], tmp_path: Path
) -> None:
    pd = pytest.importorskip("pandas")  # not with this package alone
    rows = [row, {**row, "rubric": [{**row["rubric"][0], "description": "more"}]}]
    pd.DataFrame({"extra_info": rows}).to_parquet(tmp_path / "rows.parquet")
    read = pd.read_parquet(tmp_path / "rows.parquet")["extra_info"]
    assert isinstance(read[0]["rubric"], np.ndarray)

    def score(text: str, columns: Any) -> float:
        judge = LexicalJudge()
        return asyncio.run(compute_score("x", text, None, columns, judge=judge))[
            "score"
        ]

    said = f"<think>{SAID}</think>It is the cross entropy."
    assert [score(said, one) for one in read] == [0.75, 1.0]


def test_a_view_of_a_row_keeps_what_stood_before_the_answer(
    row: dict[str, Any],
) -> None:
    seen: list[JudgeView] = []
    judge = ScriptedJudge(lambda view: (seen.append(view), 1.0)[1])
    scorer = RubricScorer(judge=judge)
    batch = [
        Submission(
            {"rubric": json.dumps(row["rubric"])}, f"<think>a</think>{SAID}", "Why?"
        )
    ]

    scorer.judge_from_thread(batch)

    assert [(view.response, view.thought) for view in seen] == [(SAID, Thought.CLOSED)]
