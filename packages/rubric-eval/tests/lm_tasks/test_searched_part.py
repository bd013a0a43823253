"""What of a response is read: no thought, nothing behind a question of its own, tagged answers."""

from __future__ import annotations

import pytest

from rubric_core import Finish, Thought
from rubric_eval.lm_tasks.answers.expressions import (
    is_expression,
    is_number,
    stated_expression,
    stated_number,
)
from rubric_eval.lm_tasks.answers.stated import stated_letter
from rubric_eval.lm_tasks.scoring import Response, stated
from rubric_eval.records.files import AnswerRow

pytest.importorskip("math_verify")

CHOICES = ("32 degrees", "64 degrees", "128 degrees", "none of these")


def _response(text: str, *, finish: Finish = Finish.TRUNCATED) -> Response:
    row = AnswerRow(
        task_id="t",
        sample=0,
        key="k",
        doc_hash="d",
        prompt_sha256="p",
        text=text,
        finish=finish,
    )
    return Response(row)


@pytest.mark.parametrize("benchmark", ["gsm8k", "math", "gpqa_main"])
@pytest.mark.parametrize(
    "response",
    [
        r"<think>Say \boxed{18}, so (B).</think>It cannot be told.",
        r"Say \boxed{18}, so \boxed{B}.</think>It cannot be told.",
        r"<think>The answer is 18? Wait, that is (B). So \boxed{18} is",
        r"[THINK]The answer is (B), or \boxed{18}.",
        "<think>a</think>4 <think>The answer is (B), so 18",
    ],
)
def test_a_thought_states_nothing(benchmark: str, response: str) -> None:
    for text in (
        response,
        _response(response),
        _response(response, finish=Finish.COMPLETE),
    ):
        assert stated(benchmark, text, CHOICES) is None


def test_a_row_without_an_answer_states_nothing() -> None:
    row = _response("").row.model_copy(update={"thought": Thought.UNCLOSED})
    assert stated("gsm8k", Response(row)) is None


@pytest.mark.parametrize("rule", [stated_number, stated_expression])
@pytest.mark.parametrize(
    "doubted",
    [
        "The answer is $3$? Wait, negative roots count as well, so",
        "The answer is 3? Let me see whether",
        "So the answer is 3. Wait, I forgot the",
        "The answer is $3$. Hmm, but the second",
    ],
)
def test_what_a_cut_response_goes_on_to_doubt_is_not_stated(
    rule: object, doubted: str
) -> None:
    assert callable(rule)
    assert rule(doubted, is_cut=True) is None


RUN_ON = [
    "\n\nQuestion: How many legs have 3 cats?\nAnswer: \\boxed{12}",
    "\n\nQuestion: What is 6 + 6?\nAnswer: 6 + 6 = 12\n#### 12",
    "\n\nSolve the following problem. Step by step.\n\nTom has 3.\n\nThe answer is \\boxed{7}.",
    "\n\n**Question 2:** Which is it?\n\n(A) a\n\nThe answer is (D).",
    "\n\n### Problem 2\nThe answer is 9.",
    "\nProblem: The answer is \\boxed{9}.",
    "\n\nQ: And then?\nA: \\boxed{9}",
    "\n\nNext question: The answer is 9.",
    "\n\nHuman: And 5?\n\nAssistant: The answer is \\boxed{5}",
    "<|im_start|>user\nAnd 5?<|im_end|>\nThe answer is \\boxed{5}",
]


@pytest.mark.parametrize("further", RUN_ON)
def test_a_response_is_read_up_to_a_question_of_its_own(further: str) -> None:
    for text in ("2 + 2 = 4. The answer is \\boxed{4}.", "The answer is 4.", "#### 4"):
        assert stated_number(text + further) == "4"
    assert stated_expression(f"So $x = \\boxed{{\\frac12}}$.{further}") == r"\frac12"
    assert stated_letter(f"The answer is \\boxed{{B}}.{further}", CHOICES) == "B"


def test_a_model_without_a_format_is_read_up_to_the_next_question_too() -> None:
    assert (
        stated_number(
            "She makes 9 * 2 = 18 dollars.\n\nQuestion: Tom has 3.\nAnswer: 3"
        )
        == "18"
    )
    assert stated_number("18\n\nQ: What of 3?\nA: 3") == "18"
    assert stated_letter("B\n\nQuestion: Which?\nAnswer: C", CHOICES) == "B"


@pytest.mark.parametrize(
    "response",
    [
        "Question: How many cups?\nAnswer: \\boxed{4}",
        "I read it again.\n\nQuestion: how many cups in all?\n\nIt is \\boxed{4}.",
        "**Problem:** 2 + 2\n\nThe answer is 4.",
        "Step 1: 3.\nExample: 1 + 1 = 2.\nThe answer is 4.",
    ],
)
def test_the_question_itself_may_be_said_again(response: str) -> None:
    assert stated_number(response) == "4"


@pytest.mark.parametrize(
    ("response", "target"),
    [
        ("<answer>18</answer>", "18"),
        ("<answer>\n18\n</answer>\nDone in 3 steps.", "18"),
        ("It is 3 or 18.\n<answer>The answer is 18 eggs</answer>", "18"),
        (r"<answer>\boxed{18}</answer>", "18"),
        ("<answer>3</answer> No, the answer is 18.", "18"),
        ("Thus <answer>18", "18"),
        ("answer is 1 800", "1800"),
        ("The answer is 12 345 678.", "12345678"),
        ("A: 18\n\nSo that is 18 cups of 250 ml", "18"),
        ("18 is the answer. It took 3 steps.", "18"),
        ("So **18** is the correct answer, in 3 steps.", "18"),
        ("The answer is $18/week$", "18"),
        (r"\boxed{\$18/\text{week}}", "18"),
        ("She earns 18 dollars.\n\nLet me know if you need 2 more examples!", "18"),
        ("She earns 18 dollars.\n\nI hope this helps! 3 more?", "18"),
        ("The answer is £1.5 million.", "1500000"),
        (r"\boxed{1.5 \text{ million}}", "1500000"),
        ("That is 2 thousand", "2000"),
        (r"\boxed{18}, or in words \boxed{18}", "18"),
    ],
)
def test_numbers_as_models_write_them(response: str, target: str) -> None:
    found = stated_number(response)
    assert found is not None
    assert is_number(found, target)


@pytest.mark.parametrize(
    "response",
    [
        r"$\boxed{3}$, $\boxed{5}$ and $\boxed{7}$",
        "What is the answer? 3 of 7",
        "The answer is 7 500 ml bottles",
    ],
)
def test_several_boxes_and_amounts_of_something_are_not_one_number(
    response: str,
) -> None:
    assert not is_number(stated_number(response) or "", "7500")
    assert stated_number(response) != "3"


@pytest.mark.parametrize(
    ("response", "target", "is_right"),
    [
        (
            r"The integers are $\boxed{3}$, $\boxed{5}$ and $\boxed{7}$.",
            "3, 5, 7",
            True,
        ),
        (r"The integers are $\boxed{3}$, $\boxed{5}$ and $\boxed{7}$.", "7", False),
        (r"Thus $n=\boxed{1}$ or $n=\boxed{-2}$.", "1,-2", True),
        (
            r"$\boxed{15\frac{39}{40}}$ or $\boxed{\frac{639}{40}}$",
            r"\frac{639}{40}",
            True,
        ),
        (
            r"First I had \boxed{4}, which was a slip. The answer is \boxed{5}.",
            "5",
            True,
        ),
        (r"We had \boxed{4}, and then \boxed{5}", "5", True),
        ("Therefore the number of ways is **12**.", "12", True),
        ("So the number of ways is $12$.\n\nI hope this helps!", "12", True),
        ("<answer>$x = 5$</answer>", "5", True),
        ("<answer>Evelyn</answer>", r"\text{Evelyn}", True),
        ("$5$ is the answer.", "5", True),
        ("It is the answer.", "It", False),
    ],
)
def test_expressions_as_models_write_them(
    response: str, target: str, *, is_right: bool
) -> None:
    found = stated_expression(response)
    assert (found is not None and is_expression(found, target)) is is_right


@pytest.mark.parametrize(
    ("answer", "target", "is_same"),
    [
        (r"10^{-20}", r"10^{-21}", False),
        (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}", False),
        (r"\frac{2}{2^{100}}", r"\frac{1}{2^{99}}", True),
        (r"1-\frac{1}{2^{100}}", r"1-\frac{1}{2^{99}}", False),
        (r"\{10^{-20}\}", r"\{10^{-21}\}", False),
        (r"(10^{-20}, 1)", r"(10^{-21}, 1)", False),
        (r"\frac{1}{10^8}", "0.00000002", False),
        ("0.333333", r"\frac{1}{3}", True),
        (r"\sqrt{3+2\sqrt{2}}", r"1+\sqrt{2}", True),
        (r"\{1+i\}", r"\{i+1\}", True),
    ],
)
def test_numbers_near_to_each_other_are_two(
    answer: str, target: str, *, is_same: bool
) -> None:
    assert is_expression(answer, target) is is_same
    assert is_expression(target, answer) is is_same


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("<answer>C</answer>", "C"),
        ("<answer>\n(C) 128 degrees\n</answer>", "C"),
        ("ANSWER: b", "B"),
        ("I compare them.\n\nANSWER: $c$", "C"),
        ("B. 64 degrees", "B"),
        ("**B) 64 degrees**", "B"),
        ("**(B) 64 degrees**", "B"),
        ("B: 64 degrees\n\nFor it doubles.", "B"),
        ("I choose (C).", "C"),
        ("I would pick B — a safe choice.", "B"),
        ("I'll go with option D.", "D"),
        ("[[C]]", "C"),
        ("My answer: [[C]]", "C"),
        ("(C) is the answer.", "C"),
        ("B. 64 degrees seems likely.\nThe answer is (A).", "A"),
    ],
)
def test_letters_as_models_write_them(response: str, letter: str) -> None:
    assert stated_letter(response, CHOICES) == letter


@pytest.mark.parametrize(
    "response",
    [
        "Answer: b",  # an article may be what is left of it
        "(A) 32 degrees\n(B) 64 degrees\n(C) 128 degrees\nI cannot tell.",
        "B. 32 degrees",
        "I think B.",
        "Which is the answer?",
        r"$\boxed{A}$ and $\boxed{B}$",
    ],
)
def test_no_letter_is_read_into_a_response(response: str) -> None:
    assert stated_letter(response, CHOICES) is None
