"""What is taken for a response's answer, and what is taken for the right one."""

from __future__ import annotations

import pytest

from rubric_eval.lm_tasks.answers import (
    is_equivalent,
    is_number,
    stated_expression,
    stated_letter,
    stated_number,
)

pytest.importorskip("math_verify")

CHOICES = ("10 GeV", "a large molecule", "10^{-4} eV", "None of these")


@pytest.mark.parametrize(
    ("response", "number"),
    [
        (r"So it is \boxed{18}.", "18"),
        (r"So it is $\boxed{\boxed{18}}$", "18"),
        (r"\boxed{1{,}234}", "1234"),
        (r"\boxed{1\,234}", "1234"),
        (r"\boxed{\$1,234.50}", "1234.50"),
        (r"\boxed{18 \text{ dollars}}", "18"),
        (r"\boxed{\text{18 eggs}}", "18"),
        (r"\boxed{x = 18}", "18"),
        (r"\boxed{9 \times 2 = 18}", "18"),
        (r"\boxed{-5}", "-5"),
        (r"\boxed{10\%}", "10"),
        (r"\boxed{3}, no: I forgot one, so \boxed{4}", "4"),
        (r"\boxed{3}. Wait, that is wrong. The answer is 4.", "4"),
        ("The answer is 3. Let me check. The answer is 4.", "4"),
        ("9 * 2 = $18 every day\n#### 18", "18"),
        ("The final answer is **18**.", "18"),
        ("The answer is: $18", "18"),
        ("Answer: 1,234 people", "1234"),
        ("**Answer:** 18", "18"),
        ("The answer is approximately 18 dollars, for 7 days", "18"),
        ("The answer is 9 * 2 = 18 dollars", "18"),
        ("The answer is 18. This is because 3 < 4.", "18"),
        (r"\boxed{18}" + "\nThe answer is reasonable because 2 < 3.", "18"),
        (r"The answer is \(18\).", "18"),
        ("She has 9 eggs.\n\nSo she makes $18.", "18"),
        (r"The answer is:" + "\n$$\n18\n$$", "18"),
        ("The answer is −5.", "-5"),
        ("The answer is –5.", "-5"),
        ("The answer is – 18", "18"),
        ("The answer is .5", "0.5"),
        (r"The answer is \frac{36}{2}", "18"),
        (r"The answer is $-\tfrac{36}{2}$", "-18"),
        (r"The answer is −\frac{36}{2}", "-18"),
        ("The answer is 5 times 3 = 15", "15"),
        (r"The answer is $9 \times 2 = 18$", "18"),
        (r"\boxed{42}. Check the answer: 42 = 6*7", "42"),
        (r"\boxed{18}. We can check this answer: 9*2", "18"),
        (r"\boxed{3}, no." + "\n**Final answer:** 4", "4"),
        (r"\boxed{3}, no. Answer: 4", "4"),
    ],
)
def test_a_number_is_found_where_it_is_stated(response: str, number: str) -> None:
    assert stated_number(response) is not None
    assert is_number(stated_number(response) or "", number)


@pytest.mark.parametrize(
    "response",
    [
        "",
        "   \n ",
        "I do not know.",
        r"So \boxed{",
        r"\boxed{}",
        "She sells 18 eggs.\nIt is a lot.",
    ],
)
def test_what_states_no_number_has_no_answer(response: str) -> None:
    assert stated_number(response) is None


@pytest.mark.parametrize(
    ("response", "target"),
    [
        (r"\boxed{17} because \$18 is too much", "18"),
        (r"18 is near, but \boxed{180}", "18"),
        (r"\boxed{1.8}", "18"),
        (r"\boxed{2 hours 30 minutes}", "30"),
        (r"The answer is 1,800", "18"),
        (r"The answer is -18", "18"),
        (r"The answer is −18", "18"),
        (r"\boxed{1, 8}", "18"),
        (r"\boxed{1,8}", "18"),
        (r"\boxed{5,3}", "53"),
        (r"\boxed{3 6}", "36"),
        (r"\boxed{12,5}", "125"),
        (r"\boxed{1,23,456}", "123456"),
        (r"\boxed{1, 234}", "1234"),
    ],
)
def test_another_number_is_wrong(response: str, target: str) -> None:
    assert not is_number(stated_number(response) or "", target)


@pytest.mark.parametrize("answer", ["18", "18.0", "18.00", r"\frac{36}{2}", "9*2", "18%"])
def test_one_number_is_written_in_many_ways(answer: str) -> None:
    assert is_number(answer, "18")


@pytest.mark.parametrize(
    ("response", "expression"),
    [
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\frac{\sqrt{3}}{2}} and done", r"\frac{\sqrt{3}}{2}"),
        (r"\boxed{\left\{ 1, 2 \right\}}", r"\left\{ 1, 2 \right\}"),
        (r"\boxed 4.", "4"),
        (r"\fbox{4}", "4"),
        (r"$\boxed{\boxed{4}}$", "4"),
        (r"\boxed{2} or, better, \boxed{3}", "3"),
        (r"\boxed{2}. The answer is therefore clear.", "2"),
        (r"The answer is $x = 5$.", "x = 5"),
        (r"The answer is \(\frac12\).", r"\frac12"),
        (r"The answer is: 3.5.", "3.5"),
        ("The answer is Evelyn.", "Evelyn"),
        (r"Final Answer: The final answer is $2\pi$. I hope it is correct.", r"2\pi"),
        (r"Thus $a=1$ and so $x=5$.", "x=5"),
        (r"So \boxed{4} first" + "\n" + r"then \boxed{unfinished", "4"),
    ],
)
def test_an_expression_is_found_where_it_is_stated(response: str, expression: str) -> None:
    assert stated_expression(response) == expression


@pytest.mark.parametrize(
    "response",
    ["", r"\boxed{}", r"\boxed{\frac{1}{2", "The answer is not known to anybody in this room."],
)
def test_what_states_no_expression_has_no_answer(response: str) -> None:
    assert stated_expression(response) is None


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        (r"\frac{1}{2}", "0.5"),
        (r"\frac12", r"\dfrac{1}{2}"),
        ("5", "x = 5"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)"),
        ("p - q", "-q + p"),
        ("10,080", r"10{,}080"),
        (r"\text{Evelyn}", "Evelyn"),
        (r"90^\circ", "90"),
        (r"\text{(C)}", "C"),
        (r"6 - 5i", "-5i+6"),
        (r"\sqrt{8}", r"2\sqrt{2}"),
    ],
)
def test_one_expression_is_written_in_many_ways(target: str, answer: str) -> None:
    assert is_equivalent(target, answer)


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        ("5", "6"),
        ("5", ""),
        ("5", "4, 5"),
        ("5", "5 or 6"),
        (r"\frac{1}{2}", r"\frac{2}{1}"),
        ("(1,2)", "(2,1)"),
        ("[1,2]", "(1,2)"),
        ("p - q", "q - p"),
        (r"2\pi", "6.28"),
        ("12", "1,2"),
        ("36", "3 6"),
    ],
)
def test_another_expression_is_wrong(target: str, answer: str) -> None:
    assert not is_equivalent(target, answer)


def test_a_tower_of_powers_neither_holds_up_nor_ends_the_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rubric_eval.lm_tasks.answers.equivalence._TIME_LIMIT_S", 3.0)

    assert not is_equivalent("5", "9^{9^{9^{9^{9}}}} + x")
    assert is_equivalent("p - q", "-q + p")


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("The answer is (B).", "B"),
        ("The correct answer is B", "B"),
        ("The answer is B) a large molecule", "B"),
        ("Answer: **C**", "C"),
        ("**Answer: (C) 10^{-4} eV**", "C"),
        (r"\boxed{B}", "B"),
        (r"\boxed{\text{(B)}}", "B"),
        (r"$\boxed{\textbf{B}}$", "B"),
        (r"\boxed{b}", "B"),
        (r"The answer is \(\boxed{D}\).", "D"),
        ("The answer is option A.", "A"),
        ("The answer is a large molecule.", "B"),
        ("The answer is 10 GeV.", "A"),
        (r"\boxed{10^{-4}\,\text{eV}}", "C"),
        ("(A) is too small and (B) too large. The answer is (D).", "D"),
        ("The answer is (A). No: the answer is (D).", "D"),
        (r"\boxed{A} was my guess, but the answer is (D).", "D"),
        ("The answer is (B) 10 GeV", "B"),
        ("I think so.\n\nB", "B"),
        ("I think so.\n(B)", "B"),
        ("Answer: D. None of these", "D"),
        ("The correct option is B.", "B"),
        ("The correct choice is (C).", "C"),
        ("The answer is (A), and B is wrong.", "A"),
    ],
)
def test_a_letter_is_found_where_it_is_stated(response: str, letter: str) -> None:
    assert stated_letter(response, CHOICES) == letter


@pytest.mark.parametrize(
    "response",
    [
        "",
        "A photon has no mass.",
        "(A), (B), (C) and (D) are all plausible.",
        "The answer is A photon of high energy",
        "The answer is not (A).",
        "The answer is a photon.",
        r"\boxed{",
        r"\boxed{AB}",
        r"\boxed{A, B}",
        "The answer is (A) or (B).",
        "Answer: B and C",
        "The correct option is not B.",
    ],
)
def test_what_states_no_letter_has_no_answer(response: str) -> None:
    assert stated_letter(response, CHOICES) is None


def test_a_choice_that_is_there_twice_is_no_letter() -> None:
    assert stated_letter("The answer is 1.", ("1", "1", "2", "3")) is None
