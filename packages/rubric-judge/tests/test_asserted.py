"""Which number of a response is its answer, as people and models write answers."""

import time

import pytest

from rubric_judge.checks.numeric import read_numeric, states_number
from rubric_judge.checks.quantities import plain_numbers, read_quantities


def _states(directive: str, response: str) -> bool:
    return states_number(read_numeric(directive), response)


NO_ANSWER = [
    # Denied, compared, computed.
    "The answer is not 5.", "The answer isn't 5.", "It cannot be 5", "answer: never 5",
    "answer: 5 is wrong", "5 is not the answer", "≠ 5", "x != 5", r"x \neq 5", "answer: < 5",
    "answer: > 5", "x >= 5", r"x \le 5", "less than 5", "at least 5", "at most 5", "5 at most",
    "no more than 5", "up to 5", "5 or more", "above 5", "3 ≤ x ≤ 5", "4 < 5", "2 · 5", "10 - 5",
    "x + 5", "x/5", "5 + x", "5 * x", "log 5", r"\log 5", r"\sqrt 5", "√5", "√ 5", "sqrt(5)",
    "f(5)",    "twice 5", "negative 5", "±5", "- 5", "–5", "answer: - 5",
    # One of several.
    "3, or 5", "It is 3, or 5.", "either 3 or, 5", "three or 5", "3 or possibly 5", "3 and/or 5",
    "3 (or 5)", "maybe 5", "3 versus 5", "3 vs. 5", "3 through 5", "3 ~ 5", "3 up to 5", "3 → 5",
    "3 – maybe 5", "[3, 5]", "(3, 5)", "3; 5", "3 5", "3\n5", "1, 2, 3, 4, 5", "3 m to 5 m",
    "answer: $3$ or $5$", "x = 3 or x = 5", "3 plus 5", "4 in 5", "3 or 5, 5",
    "3 or about 5",
    # Another number.
    "0,5", "3,5", "1.000,5", "12:5", "12 : 5", "5:30", "2024-03-05", "5 million", "5 thousand",
    "5k", "5M", "5%", "5 %", "5 percent", "5th", "5x", "5i", "5!", "5-fold", "5 hundred",
    "5 squared",
    "5/2", "|5|", "5₂",
    r"\boxed{\sqrt{5}}", r"\boxed{5!}", r"\boxed{5x}", r"\boxed{5 x}", r"\boxed{5\pi}",
    r"\boxed{5 \sqrt{x}}", r"\boxed{2^5}", r"\boxed{x_5}", r"\boxed{5^2}", r"\boxed{|5|}",
    r"\boxed{5i}", r"\boxed{3,5}", r"\boxed{3 \text{ or maybe } 5}", r"\boxed{10-5}",
    r"\boxed{2(5)}", r"\boxed{5\%}", r"\boxed{x < 5}", r"\boxed{5 + x}", r"\boxed{[3, 5]}",
    r"\boxed{\text{not } 5}", r"\boxed{\pm 5}", r"\boxed{5 = x}",
]  # fmt: skip


@pytest.mark.parametrize("response", NO_ANSWER)
def test_what_does_not_say_that_it_is_5_is_no_5(response: str) -> None:
    assert not _states("5 ± 0.01", response)


ANSWERS = [
    "5", "5.", "**5**", "`5`", "*5*", "(5)", "5.0", "+5", "5e0", "10/2", r"\frac{10}{2}", "$5$",
    "x = 5", "x=5", "x ≈ 5", r"x \approx 5", r"\Rightarrow x = 5", "=> 5", "-> 5", "x: 5",
    "The answer is 5.", "The answer is 5, since 4 is too small and 10/2 = 5.", "Answer: **5**",
    "Answer: 5 apples", "So she has 5 apples left.", "It equals 5", "It is about 5.",
    "The total comes to 5.", "6 - 1 = 5", "6-1=5", "2x = 10 => x = 5", "3 + 2 = 5.", "- x = 5",
    "Results:\n- 5", "It does not slip, so a = 5.", "Whether or not it moves, the answer is 5.",
    "We tried 3. Now it is 5.", "It is not 3 but 5.", "From 3 to 5 is 2, and so x = 5",
    "More than one way leads here: x = 5", "The least of them is 5.", "Question 12: 5", "5 = 5",
    "answer: 5, 5", "5 ± 0.02", "It is 5 m long.", "12 / 4 = 3\n\n5", "€5",
    r"\boxed{5}", r"\boxed{x = 5}", r"\boxed{\frac{10}{2}}", r"\boxed{5 \text{ apples}}",
    r"\boxed{\mathbf{5}}", r"\boxed{5.0 \pm 0.1}", r"\boxed{\$5}", r"$\boxed{5}$, not 3 or 4.",
]  # fmt: skip


@pytest.mark.parametrize("response", ANSWERS)
def test_what_says_that_it_is_5_is_5(response: str) -> None:
    assert _states("5 ± 0.01", response)


@pytest.mark.parametrize(
    ("directive", "response", "passes"),
    [
        # Words that are units as well.
        ("2 s", "It takes 2 s, the same for 3 as for 4.", True),
        ("2 s", "It takes 2 s. We saw this 3 a day", True),
        ("0.127 m", "The length is 0.127 m, which we found for 3 in the study.", True),
        ("10 m", "answer: 10 m (3 in total)", True),
        ("10 m", "10 m (Fig. 3 in A)", True),
        ("1 Pa", "1 Pa, 3 at most", True),
        ("5 km", "5 km at 3 a.m.", True),
        ("10 m", "It is 10 m. I counted 7 in all.", True),
        ("2.54 cm", "It is 1 in.", True),
        ("2.54 cm", "It is 1in long.", True),
        ("2.54 cm", "It is 1 in", True),
        ("1 in", "It is 1 in long.", True),
        ("1 ± 0.01 in", "2.54 cm", True),
        ("5 m", "7 m in 3 s", False),
        # The same rules beside a unit.
        ("5 m", "3–5 m", False),
        ("5 m", "3 to 5 m", False),
        ("5 m", "5 m to 7", False),
        ("5 m", "5 m or 500 cm", True),
        ("5 m", "5 m (or 500 cm)", True),
        ("5 ± 0.1 m", "The length is 5 m, or about 16.4 ft.", True),
        ("5 ± 0.1 m", "The length is 4 m, or about 16.4 ft.", False),
        ("5 m", "not 5 m or 500 cm", False),
        ("5 m", "3 m or 5 m, 5 m", False),
        ("5 m", "not 5 m", False),
        ("5 m", "less than 5 m", False),
        ("5 m", "3,5 m", False),
        ("5 m", "√5 m", False),
        ("5 m", "5 million m", False),
        ("5 m", "500 cm = 5 m", True),
        ("5 m", "after 3 s, 5 m!", True),
        ("5000 km", "5 million m", True),
        ("5 million", "5000000", True),
        ("5 ± 0.1 million people", "4.95 million people", True),
        ("5 ± 0.1 million people", "5 people", False),
        ("3 apples", "3 apples or pears", True),
        ("3 apples", "2 or 3 apples", False),
        # Where any number counts, it is still a number of its own.
        ("5; where=any", "3, 5, 7", True),
        ("5; where=any", r"\boxed{5} and 7", True),
        ("5; where=any", "3,5 then 7", False),
        ("5; where=any", "5x and 5% and 5! and 5 million and √5", False),
    ],
)
def test_a_number_with_its_unit_is_read_by_the_same_rules(
    directive: str,
    response: str,
    passes: bool,  # noqa: FBT001
) -> None:
    assert _states(directive, response) is passes


def test_a_word_of_prose_is_a_unit_only_where_it_can_be_one() -> None:
    text = plain_numbers("3 in the study, 4 in. 5in 6 a day, 7 at most, 8 as 9 am")

    assert [one.unit for one in read_quantities(text, units=True)] == [
        "", "in", "in", "", "", "", "am"
    ]  # fmt: skip
    assert [
        one.unit for one in read_quantities("3 in the", units=True, own_unit="in/s")
    ] == ["in"]


@pytest.mark.parametrize(
    "unit", ["5 or ", "not ", "5 \\", "{", "5 million ", "5 in ", "5-", "is "]
)
def test_the_rules_take_bounded_time(unit: str) -> None:
    started_s = time.process_time()

    for directive in ("5", "5 m", "5 apples", "5; where=any"):
        _states(directive, unit * (20_000 // len(unit)) + "5")

    assert time.process_time() - started_s < 3.0
