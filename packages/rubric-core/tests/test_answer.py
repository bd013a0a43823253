"""What stands behind the last close of a thought is the answer, in text and in tokens."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    KNOWN_TAGS,
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
    ThoughtTags,
    Unanswered,
    answer_of,
    answer_of_tokens,
    normalized_reward,
    opens_thought,
)
from rubric_core.schema.answer import Thoughts

_WHOLE = [tags for tags in KNOWN_TAGS if tags.counts not in ("pair", "glued")]


@pytest.mark.parametrize(
    "tags", KNOWN_TAGS, ids=lambda tags: f"{tags.open} {tags.close}"
)
def test_a_closed_thought_is_no_part_of_the_answer(tags: ThoughtTags) -> None:
    found = answer_of(
        f"{tags.open}\nIt is 4, I guess.\n{tags.close}\n\nI do not know.\n"
    )
    assert found == Answer("I do not know.", Thought.CLOSED, tags.close)
    assert found.unanswered is None


@pytest.mark.parametrize("tags", _WHOLE, ids=lambda tags: f"{tags.open} {tags.close}")
def test_a_thought_that_does_not_end_is_an_empty_answer(tags: ThoughtTags) -> None:
    found = answer_of(f"\n{tags.open}It is 4. Let me check the")
    assert (found.text, found.thought) == ("", Thought.UNCLOSED)
    assert found.unanswered is Unanswered.UNCLOSED_THOUGHT


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("It is 4.\n</think>\n\nI do not know.", "I do not know."),  # the template opened it
        ("<think>a</think>one<think>b</think>two", "two"),
        ("<think>I close by `</think>`. So</think>4", "4"),
        ("<think>a</think>It is `<think>` to `</think>`.", "It is `<think>` to `</think>`."),
        ("<think></think>", ""),
        ("analysis of the heat: 4 W", "analysis of the heat: 4 W"),
        ("analysisIt is 4, I guess.assistantfinalNone.", "None."),  # gpt-oss without special tokens
        ('analysisIt is 4.assistantfinal json{"power": 4}', '{"power": 4}'),
        ("<|channel|>analysis<|message|>4<|channel|>final <|constrain|>json<|message|>{}", "{}"),
        ("Here's my thought process: It is 4.\n\nHere is my response: None.", "None."),
        # A fence or a code span beside a mark does not make it a mention.
        ("<think>It prints 4.</think>```python\nprint(4)\n```", "```python\nprint(4)\n```"),
        ("<think>```python\nprint(4)\n```</think>None.", "None."),
        ("<think>So `x`</think>`y` is it.", "`y` is it."),
        ("Write `<think>why</think>` first.", "Write `<think>why</think>` first."),
        ("In XML, <reasoning> holds why.", "In XML, <reasoning> holds why."),
        ("a</reasoning>b", "a</reasoning>b"),
        (" No thought at all. ", " No thought at all. "),
        ("", ""),
    ],
)  # fmt: skip
def test_the_answer_of_a_completion(completion: str, answer: str) -> None:
    assert answer_of(completion).text == answer


@pytest.mark.parametrize(
    "completion",
    [
        *(
            "One. <think>two",
            "<think>a</think>one<think>two",
            "<thinking>a</think>b<think>",
        ),
        *("analysisWe guess it is 4. Let me", "```<think>two"),
    ],
)
def test_a_second_thought_that_does_not_end_leaves_no_answer(completion: str) -> None:
    assert answer_of(completion).unanswered is Unanswered.UNCLOSED_THOUGHT


def test_a_prompt_may_have_opened_the_thought() -> None:
    assert opens_thought("<|im_start|>assistant\n<think>\n")
    assert not opens_thought("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not opens_thought("What does <think> mean?<|im_start|>assistant\n")
    assert answer_of("It is 4. Let me", opened=True).thought is Thought.UNCLOSED
    assert answer_of("It is 4. Let me", "opened").thought is Thought.UNCLOSED
    assert answer_of("It is 4.</think>5", "opened").text == "5"
    assert answer_of("a</reasoning>5", opened=True).text == "5"


def test_a_setting_says_otherwise() -> None:
    kept = "<think>a</think>b"
    assert answer_of(kept, "kept") == Answer(kept)
    assert answer_of("<think>a", "kept", opened=True) == Answer("<think>a")
    assert not opens_thought("<think>", "kept")
    mine = ThoughtTags(open="((", close="))", opened=True)
    assert answer_of("a))<think>b", mine).text == "<think>b"
    assert answer_of("a", mine).thought is Thought.UNCLOSED
    assert opens_thought("((", mine)


@pytest.mark.parametrize("end", ["open", "close"])
def test_a_tag_has_letters(end: str) -> None:
    with pytest.raises(SchemaError, match=end):
        ThoughtTags.model_validate({"open": "<a>", "close": "</a>", end: ""})


_SPECIAL = {1: "[THINK]", 2: "[/THINK]", 3: "<|end|>"}


def _decode(token_ids: Sequence[int], *, skip_special: bool) -> str:
    """A vocabulary of letters, three special tokens, and one that ends a mark and begins a word."""
    pieces = _SPECIAL | {4: "</think", 5: ">\n4"}
    return "".join(
        pieces.get(one) or chr(one)
        for one in token_ids
        if not (skip_special and one in _SPECIAL)
    )


def _tokens(*parts: int | str) -> list[int]:
    return [
        one
        for part in parts
        for one in ([part] if isinstance(part, int) else map(ord, part))
    ]


@pytest.mark.parametrize(
    ("token_ids", "answer"),
    [
        (
            _tokens(1, "It is 4.", 2, " None.", 3),
            Answer("None.", Thought.CLOSED, "[/THINK]"),
        ),
        (
            _tokens(1, "a", 2, "b", 1, "c", 2, "d", 3),
            Answer("d", Thought.CLOSED, "[/THINK]"),
        ),
        (_tokens("<think>It", 4, 5, "2", 3), Answer("42", Thought.CLOSED, "</think>")),
        (_tokens(1, "It is 4."), Answer("", Thought.UNCLOSED)),
        (_tokens("It is 4.", 3), Answer("It is 4.")),
        ([], Answer("")),
    ],
)
def test_tokens_are_cut_before_special_ones_vanish(
    token_ids: list[int], answer: Answer
) -> None:
    assert answer_of_tokens(token_ids, _decode) == answer


def test_tokens_of_a_prompt_that_opened_the_thought() -> None:
    assert answer_of_tokens(_tokens("a", 3), _decode, opened=True) == Answer(
        "", Thought.UNCLOSED
    )
    assert answer_of_tokens(_tokens("a", 2, "b"), _decode, opened=True).text == "b"
    kept = answer_of_tokens(_tokens(1, "a", 2, "b"), _decode, "kept")
    assert kept == Answer("ab")


_MARKS = ("<think>", "</think>", "[THINK]", "[/THINK]", "<thinking>")
_PIECES = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "[THINK]",
            "[/THINK]",
            "`",
            "```",
            "a",
            " ",
            "\n",
            "<thinking>",
        ]
    )
).map("".join)


@given(_PIECES, st.sampled_from(["cut", "opened", "kept"]), st.booleans())
def test_an_answer_has_no_thought_of_its_own(
    text: str,
    thoughts: Thoughts,
    opened: bool,  # noqa: FBT001  # from hypothesis
) -> None:
    found = answer_of(text, thoughts, opened=opened)
    assert found.text in text
    assert (found.thought is Thought.UNCLOSED) <= (found.text == "")
    again = answer_of(found.text, "kept" if thoughts == "kept" else "cut")
    assert again.text == found.text
    as_tokens = answer_of_tokens(_tokens(text), _decode, thoughts, opened=opened)
    assert as_tokens == found


_TASK = Task(
    question="What is the power?",
    grounding=Grounding("The heater takes 4 W."),
    rubric=Rubric(
        criteria=(Criterion(id="power", weight=2, required_elements=("4 W",)),)
    ),
)


def test_the_judge_sees_the_answer_alone() -> None:
    view = _TASK.judge_view("<think>It takes 4 W.</think>I do not know.")
    assert (view.response, view.thought) == ("I do not know.", Thought.CLOSED)
    assert (
        _TASK.judge_view("<think>It takes 4 W.").unanswered
        is Unanswered.UNCLOSED_THOUGHT
    )
    assert _TASK.judge_view(" \n").unanswered is Unanswered.EMPTY
    kept = _TASK.judge_view(answer_of("<think>4 W", "kept"))
    assert (kept.response, kept.unanswered) == ("<think>4 W", None)


@pytest.mark.parametrize("why", Unanswered)
def test_no_answer_is_a_score_of_zero_with_its_reason(why: Unanswered) -> None:
    result = JudgeResult.without_answer(_TASK.rubric, why, judge="lexical")
    assert (result.outcome, result.unanswered, result.attempts) == (
        Outcome.SCORED,
        why,
        0,
    )
    assert normalized_reward(result, _TASK.rubric) == 0
    assert JudgeResult.model_validate_json(result.model_dump_json()) == result


def test_an_answer_that_is_missing_has_no_score_above_zero() -> None:
    scored = JudgeResult.scored(_TASK.rubric, {"power": 1.0}, judge="lexical")
    with pytest.raises(SchemaError, match="score of 0"):
        JudgeResult.model_validate({**dict(scored), "unanswered": Unanswered.EMPTY})


def test_no_reason_of_a_judge_is_taken_for_a_response_without_an_answer() -> None:
    assert {str(one) for one in Unanswered}.isdisjoint(map(str, Reason))
