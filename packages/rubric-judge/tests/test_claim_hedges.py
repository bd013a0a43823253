"""An answer that lists what may be right has said nothing."""

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_judge import ClaimJudge

PASSAGE = (
    "Sort the elements of an array. `side` is a string. By default `side` is 'left'. "
    "`axis` is the axis along which the array is sorted. By default `axis` is -1. "
    "`sort` returns 3 results: a sorted copy of the array, the indices and the number of swaps."
)
DEFAULT = "by default `axis` is -1"
MEANING = "`axis` is the axis along which the array is sorted"


def scored(claim: str, answer: str) -> float:
    criterion = Criterion(id="c", weight=1, description=f"Says that {claim}.")
    other = Criterion(
        id="d", weight=1, description="Says that by default `side` is 'left'."
    )
    task = Task(
        question="What does `sort` do? What are `axis` and `side`, and their defaults?",
        grounding=Grounding(PASSAGE),
        rubric=Rubric(criteria=(criterion, other)),
    )
    result = ClaimJudge().judge_now(task.judge_view(answer))
    assert result.scores is not None
    return result.scores["c"]


@pytest.mark.parametrize("other", ["None", "True", "0", "'auto'", "17"])
def test_two_defaults_of_one_parameter_are_none(other: str) -> None:
    right = "By default `axis` is -1."
    wrong = f"By default `axis` is {other}."
    assert scored(DEFAULT, right) > 0.9
    assert scored(DEFAULT, f"{right} {wrong}") == 0.0
    assert scored(DEFAULT, f"{wrong} {right}") == 0.0


def test_another_form_of_words_is_another_default_all_the_same() -> None:
    answer = (
        "By default `axis` is -1. If nothing is given, `axis` has the default None."
    )
    assert scored(DEFAULT, answer) == 0.0


def test_defaults_of_two_parameters_do_not_take_each_other_back() -> None:
    answer = "By default `side` is 'left'. By default `axis` is -1."
    assert scored(DEFAULT, answer) > 0.9
    answer = (
        "`side` is a string, and the default is 'left'. For `axis`, the default is -1."
    )
    assert scored(DEFAULT, answer) > 0.9


def test_a_default_that_is_said_twice_or_explained_stays_one() -> None:
    answer = "By default `axis` is -1. By default `axis` is -1, so it is the last one."
    assert scored(DEFAULT, answer) > 0.9


def test_three_things_that_a_parameter_may_be_are_none_and_two_are_type_and_meaning() -> (
    None
):
    right = "`axis` is the axis along which the array is sorted."
    answer = f"`axis` is an integer. {right}"
    assert scored(MEANING, answer) > 0.9
    answer = f"`axis` is the number of threads. {right} `axis` is the name of a file on disk."
    assert scored(MEANING, answer) == 0.0


@pytest.mark.parametrize(
    "claims",
    [
        (
            "`sort` returns the sorted copy, as first of 3 results",
            "`sort` returns the indices, as second of 3 results",
            "`sort` returns the number of swaps, as third of 3 results",
        ),
        (
            "`sort` raises ValueError if `axis` is a word",
            "`sort` raises IndexError if the array has no such dimension",
            "`sort` raises TypeError if the objects cannot be compared",
        ),
        (
            "`axis` is an int",
            "`axis` is the dimension along which the elements are put in order",
            "`axis` is one of 0, 1 or -1",
        ),
    ],
)
def test_as_many_ends_as_the_claims_have_stand_together(
    claims: tuple[str, ...],
) -> None:
    criteria = tuple(
        Criterion(id=f"c{place}", weight=1, description=f"Says that {claim}.")
        for place, claim in enumerate(claims)
    )
    task = Task(
        question="What does one have to know about `sort`?",
        grounding=Grounding(PASSAGE),
        rubric=Rubric(criteria=criteria),
    )
    result = ClaimJudge().judge_now(task.judge_view(". ".join(claims) + "."))
    assert result.scores is not None
    assert min(result.scores.values()) > 0.9


def test_the_reasons_say_which_openings_end_in_several_ways() -> None:
    task = Task(
        question="What is `axis` of `sort`?",
        grounding=Grounding(PASSAGE),
        rubric=Rubric(
            criteria=(Criterion(id="c", weight=1, description=f"Says that {MEANING}."),)
        ),
    )
    answer = "`axis` is the disk. `axis` is the thread pool. `axis` is the axis that is sorted."
    result = ClaimJudge().judge_now(task.judge_view(answer))
    assert "one of 3 ends of “axis is …”" in (result.reasoning or "")
