"""Roles: what is needed, what stands in whose place, and of which name something is said."""

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_judge import ClaimJudge


def scored(claim: str, answer: str, *required: str) -> float:
    criterion = Criterion(
        id="c",
        weight=1,
        description=f"Says that {claim}.",
        required_elements=required,
    )
    task = Task(
        question="What should one know about `sort` with `side`?",
        grounding=Grounding(f"{claim}."),
        rubric=Rubric(criteria=(criterion,)),
    )
    result = ClaimJudge().judge_now(task.judge_view(answer))
    assert result.scores is not None
    return result.scores["c"]


@pytest.mark.parametrize(
    ("claim", "right", "wrong"),
    [
        (
            "the input need not be sorted",
            "The input does not need to be sorted.",
            "The input needs to be sorted.",
        ),
        (
            "the input need not be sorted",
            "Sorted input is not needed.",
            "Sorted input is needed.",
        ),
        (
            "the sum is used instead of the mean",
            "It uses the sum in place of the mean.",
            "The mean is used instead of the sum.",
        ),
        (
            "the sum is used instead of the mean",
            "It uses the sum and not the mean.",
            "It uses the mean and not the sum.",
        ),
        (
            "the sum and not the mean is used",
            "The sum is used instead of the mean.",
            "The mean is used instead of the sum.",
        ),
        (
            "rows are read rather than columns",
            "Instead of columns, rows are read.",
            "Instead of rows, columns are read.",
        ),
        (
            "the array is contiguous in memory",
            "In memory the array is contiguous.",
            "The array is anything but contiguous in memory.",
        ),
    ],
)
def test_need_not_is_not_needed_and_what_takes_whose_place_is_told(
    claim: str, right: str, wrong: str
) -> None:
    assert (scored(claim, right), scored(claim, wrong)) == (1, 0)


@pytest.mark.parametrize("value", ["two-sided", "1-D", "w+", "2-point"])
def test_a_value_of_several_words_is_held_with_quotes_and_without(value: str) -> None:
    claim = f"by default `side` is '{value}'"

    assert scored(claim, f"By default `side` is '{value}'.", value) == 1
    assert scored(claim, "By default `side` is 'left-most'.", value) == 0


@pytest.mark.parametrize(
    "claim",
    [
        "all values in `a` are assumed to have one unit",
        "`func` is a method of at least two variables",
        "the fields are padded as the compiler would",
        "it is the type of the array and of the accumulator in which elements are summed",
    ],
)
def test_a_pair_alone_puts_no_sentence_out_of_order(claim: str) -> None:
    assert scored(claim, f"{claim[0].upper()}{claim[1:]}.") == 1


def test_what_holds_for_one_name_is_not_said_of_another() -> None:
    texts = (
        "`mask` says whether hidden values are discarded or counted twice",
        "`index` says whether the places of the copies are returned as well",
    )
    task = Task(
        question="In a call to `unique`, what do `mask` and `index` mean?",
        grounding=Grounding(". ".join(texts) + "."),
        rubric=Rubric(
            criteria=tuple(
                Criterion(id=f"c{n}", weight=1, description=f"Says that {text}.")
                for n, text in enumerate(texts)
            )
        ),
    )
    right = (
        "`index` says if the places of copies come back too. "
        "With `mask` hidden values count twice or are discarded."
    )
    first, second = texts
    swapped = f"{first.replace('mask', 'index')}. {second.replace('index', 'mask')}."

    def judged(answer: str) -> tuple[float, str]:
        result = ClaimJudge().judge_now(task.judge_view(answer))
        assert result.scores is not None
        return sum(result.scores.values()), result.reasoning

    assert judged(right)[0] == 2
    credit, reasoning = judged(swapped)
    assert credit == 0
    assert "says of “index” what holds for “mask”" in reasoning


@pytest.mark.parametrize(("right", "wrong"), [("s", "ms"), ("seconds", "minutes")])
def test_a_number_with_another_unit_of_time_is_another(right: str, wrong: str) -> None:
    claim = "by default `side` is 30 seconds"

    assert scored(claim, f"By default `side` is 30 {right}.", "30") == 1
    assert scored(claim, f"By default `side` is 30 {wrong}.", "30") == 0


@pytest.mark.parametrize(
    ("claim", "right", "wrong"),
    [
        (
            "if `axis` is None, the array is flattened before the sum",
            "If `axis` is None, the array is flattened before the sum.",
            "If `axis` is not None, the array is flattened before the sum.",
        ),
        (
            "the default of `method` is 'linear'",
            "By default `method` is 'linear'.",
            "'linear' is never the default of `method`.",
        ),
        (
            "the default of `method` is 'linear'",
            "'linear' is the default of `method`.",
            "`method` has no default; 'linear' must be passed.",
        ),
    ],
)
def test_what_is_not_none_or_not_the_default_is_denied(
    claim: str, right: str, wrong: str
) -> None:
    assert scored(claim, right) == 1
    assert scored(claim, wrong) == 0
