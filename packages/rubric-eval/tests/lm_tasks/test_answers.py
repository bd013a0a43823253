"""What is taken for a response's answer, and what is taken for the right one."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rubric_eval.lm_tasks.answers.equivalence import is_equivalent
from rubric_eval.lm_tasks.answers.expressions import (
    is_expression,
    is_number,
    stated_expression,
    stated_number,
)
from rubric_eval.lm_tasks.answers.stated import stated_letter

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
        ("The answer is 10^{5}.", "100000"),
        (r"\boxed{3} and then \boxed{}", "3"),
        (r"\framebox{3}", "3"),
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
    ("response", "whole", "cut"),
    [
        # The last number of the last line is what a cut response was at, not what it says.
        ("The house is worth $150,0", "0", None),
        ("First, 3 * 4 = 12", "12", None),
        ("1. She has 16 eggs.\n2. She", "2", None),
        # What is stated counts, but for the word that the cut may have gone through.
        ("The answer is $150,0", "150", None),
        ("The answer is 1", "1", None),
        ("#### 1", "1", None),
        (r"\boxed 4", "4", None),
        (r"So \boxed{18}", "18", "18"),
        (r"It is \boxed{18}, which", "18", "18"),
        ("The answer is $18$", "18", "18"),
        ("The answer is **18**", "18", "18"),
        ("The answer is 18 dollars, for 7", "18", "18"),
        ("#### 18\nLet me check: 9 * 2 = 1", "18", "18"),
        (r"\boxed{3}, no: the answer is 4", "4", "3"),
    ],
)
def test_a_cut_response_has_the_answer_that_it_states(
    response: str, whole: str | None, cut: str | None
) -> None:
    assert stated_number(response) == whole
    assert stated_number(response, is_cut=True) == cut


def test_a_cut_response_ends_on_no_expression_and_no_letter() -> None:
    formula, letter = (
        "Thus $a=1$ and so $x=5$.",
        "I compare them.\nOption A is correct.",
    )

    assert stated_expression(formula) == "x=5"
    assert stated_expression(formula, is_cut=True) is None
    assert stated_expression(r"So \boxed{5}. Then $y=7$", is_cut=True) == "5"
    assert stated_letter(letter, CHOICES) == "A"
    assert stated_letter(letter, CHOICES, is_cut=True) is None
    assert stated_letter("I think so.\nB", CHOICES, is_cut=True) is None
    assert (
        stated_letter("The answer is A", CHOICES, is_cut=True) is None
    )  # "… large molecule"
    assert stated_letter("The answer is (B", CHOICES, is_cut=True) is None
    assert stated_letter("The answer is (B). It has", CHOICES, is_cut=True) == "B"


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
        ("The answer is $5$ or $6$.", "5"),
        ("The answers are 5 and 6.", "5"),
        ("The answer is 5 to 6", "5"),
        ("The answer is (5, 6).", "5"),
        ("The answer is 5:30.", "5"),
        ("So it is 5.\nThe answer is 50%.", "0.5"),
    ],
)
def test_another_number_is_wrong(response: str, target: str) -> None:
    assert not is_number(stated_number(response) or "", target)


@pytest.mark.parametrize(
    "answer", ["18", "18.0", "18.00", r"\frac{36}{2}", "9*2", "18%"]
)
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
        (r"\boxed{5}" + "\nLet me check: the answer is consistent with 4 + 1.", "5"),
        (r"\boxed{5}, no: the answer is $6$.", "6"),
        ("The answer is $5$ or $6$.", "5, 6"),
        ("The answers are $1$, $2$ and $3$.", "1, 2, 3"),
        ("The answer is approximately 3.14.", "3.14"),
        ("The answer is the number 5.", "5"),
        (r"The answer is (a+5)(b+2).", "(a+5)(b+2)"),
        ("The answer is a = 5.", "a = 5"),
        (
            r"The answer is \boxed{\left\{\frac{1}{2}, 3\right\}}",
            r"\left\{\frac{1}{2}, 3\right\}",
        ),
        (r"\[ \boxed{" + "\n" + r"\frac{1}{2}" + "\n} \\]", r"\frac{1}{2}"),
        ("**Final Answer**\n\n5", "5"),
        ("I calculate.\n**x = 5**", "x = 5"),
    ],
)
def test_an_expression_is_found_where_it_is_stated(
    response: str, expression: str
) -> None:
    assert stated_expression(response) == expression


@pytest.mark.parametrize(
    "response",
    [
        "",
        r"\boxed{}",
        r"Answer: \boxed{}",
        r"The answer is $\boxed{5",
        r"\boxed{\frac{1}{2",
        "The answer is not known to anybody in this room.",
        "She has 5 eggs.",
    ],
)
def test_what_states_no_expression_has_no_answer(response: str) -> None:
    assert stated_expression(response) is None


SAME = [
    (r"\frac{1}{2}", "0.5"),
    (r"\frac12", r"\dfrac{1}{2}"),
    (r"\tfrac{a}b", r"\frac{a}{b}"),
    ("5", "x = 5"),
    ("5", r"\text{Area} = 5"),
    ("5", "AB = 5"),
    ("5", "2 + 3 = 5"),
    ("2x+1", "y = 2x + 1"),
    ("y = 2x + 1", "y - 2x = 1"),
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)"),
    ("p - q", "-q + p"),
    ("10,080", r"10{,}080"),
    ("10,080", r"10,\!080"),
    ("1000000", "1 000 000"),
    (r"\$1,234.50", "1234.5"),
    (r"\text{Evelyn}", "Evelyn"),
    (r"\text{Evelyn}", "evelyn"),
    ("even", "Even"),
    (r"90^\circ", "90"),
    ("90°", r"90^{\circ}"),
    (r"5 \text{ cm}^2", "5"),
    (r"864 \mbox{ inches}^2", "864"),
    (r"\text{(C)}", "C"),
    (r"\text{C, E}", "C,E"),
    (r"6 - 5i", "-5i+6"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    (r"\sqrt{2}", "√2"),
    (r"x^2-1", "x²−1"),
    ("-5", "−5"),
    ("-5", "–5"),
    (r"50\%", "50"),
    (r"50\%", "50%"),
    (r"50\%", "50 percent"),
    (r"50\text{\%}", "50"),
    (r"3\frac{1}{2}", r"\frac{7}{2}"),
    ("1.25", "1 1/4"),
    (r"-1\frac{1}{4}", "-1.25"),
    (r"2 \pm \sqrt{3}", r"2-\sqrt{3}, 2+\sqrt{3}"),
    ("1, -2", "-2, 1"),
    (r"1 \text{ or } 2", "1, 2"),
    ("x=1 or x=2", "1, 2"),
    (r"\{1,2\}", "2, 1"),
    ("(1,2)", "1, 2"),
    (r"(0,\infty)", "x > 0"),
    (r"(0,\infty)", "(0, ∞)"),
    ("[-1,1]", r"-1 \le x \le 1"),
    (r"(-\infty, 2) \cup (3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"2516_8", "2516_{8}"),
    ("6:30", r"6{:}30"),
    (r"\emptyset", r"\varnothing"),
    (r"3 \times 10^5", "300000"),
    ("5", "5."),
    ("5", r"5\,"),
]
OTHER = [
    ("5", "6"),
    ("5", ""),
    ("", r"\text{}"),
    ("5", "4, 5"),
    ("5", "5 or 6"),
    (r"\frac{1}{2}", r"\frac{2}{1}"),
    (r"\frac{1}{2}", r"-\frac{1}{2}"),
    ("(1,2)", "(2,1)"),
    ("(2,1)", "1, 2"),
    ("[1,2]", "(1,2)"),
    ("(1,2)", "(1,2]"),
    ("(1,2)", r"\{1,2\}"),
    ("(1,2),(3,4)", "(1,3),(2,4)"),
    ("p - q", "q - p"),
    (r"2\pi", "6.28"),
    ("12", "1,2"),
    ("36", "3 6"),
    ("1200", "1, 200"),
    (r"50\%", "0.5"),
    (r"50\%", r"\frac{1}{2}"),
    (r"100\%", "1"),
    (r"\frac{2}{3}", r"66.7\%"),
    ("x = 5", "y = 5"),
    ("x + y = 1", "1"),
    ("5x - 7y + 11z + 4 = 0", "0"),
    (r"\pm 1", "1"),
    (r"x \ge 3", "3"),
    ("2.75", "1 1/4"),
    ("Evelyn", "Evenly"),
    (r"\text{east}", r"\text{seat}"),
    (r"\text{June 20}", r"\text{June 21}"),
    ("2516_8", "2516_7"),
    ("40_9", "40"),
    ("12", "12:30"),
    (
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
        r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}",
    ),
]


@pytest.mark.parametrize(("target", "answer"), SAME)
def test_one_expression_is_written_in_many_ways(target: str, answer: str) -> None:
    assert is_equivalent(target, answer)
    assert is_equivalent(answer, target)


@pytest.mark.parametrize(("target", "answer"), OTHER)
def test_another_expression_is_wrong(target: str, answer: str) -> None:
    assert not is_equivalent(target, answer)
    assert not is_equivalent(answer, target)


_VALUES = st.sampled_from(sorted({text for pair in (*SAME, *OTHER) for text in pair}))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_VALUES, _VALUES)
def test_which_of_two_expressions_is_the_target_makes_no_difference(
    one: str, other: str
) -> None:
    assert is_equivalent(one, other) == is_equivalent(other, one)


_HUNDREDTHS = st.integers(1, 9999).map(lambda number: number / 100)
_WRITTEN = st.sampled_from(
    ["{0}", r"{0}\%", "{0}%", "x = {0}", r"{0}\text{{ percent}}", "{0:.2f}"]
)


@settings(max_examples=100, deadline=None)
@given(_HUNDREDTHS, _HUNDREDTHS, _WRITTEN, _WRITTEN)
def test_percent_is_a_unit_and_no_hundredth(
    one: float, other: float, form: str, other_form: str
) -> None:
    """Numbers are the same by their digits alone, so that 0.5 is 50 by no detour over 50 %."""
    written, other_written = form.format(one), other_form.format(other)

    assert is_equivalent(written, other_written) == (one == other)
    assert is_equivalent(form.format(one), other_form.format(one))
    assert not is_equivalent(form.format(one), other_form.format(round(100 * one, 4)))


def test_the_base_of_a_numeral_need_not_be_said_again() -> None:
    assert is_expression("2516", "2516_8")
    assert is_expression("2516_{8}", "2516_8")
    assert not is_expression("2516_7", "2516_8")
    assert not is_expression("40_9", "40")


def test_an_equation_that_ends_in_the_target_answers_the_question() -> None:
    assert is_expression("a + b = 5", "5")
    assert not is_expression("5", "a + b = 5")
    assert not is_expression("a + b = 6", "5")
    assert is_expression("x+y=1", "y = 1 - x")


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
        ("The answer is [A].", "A"),
        ("The answer is A\u200b.", "A"),
        ("I compare them.\nOption A is correct.", "A"),
        ("(A) is the correct answer, for its sign fits.", "A"),
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
        "I wonder whether A is correct.",
        "A is correct for one, B is correct for the other.",
        r"\boxed{E}, though A is correct",
    ],
)
def test_what_states_no_letter_has_no_answer(response: str) -> None:
    assert stated_letter(response, CHOICES) is None


def test_a_choice_that_is_there_twice_is_no_letter() -> None:
    assert stated_letter("The answer is 1.", ("1", "1", "2", "3")) is None
