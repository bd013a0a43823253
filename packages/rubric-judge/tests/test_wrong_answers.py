"""Answers that deserve nothing, which stats, held-out controls and attacks share."""

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_judge.quality.wrong_answers import (
    fixed_template,
    negated,
    other_references,
    shuffled,
)


def test_a_shuffled_text_keeps_words_and_end_marks() -> None:
    text = "The gauge records high water. It is slow!"
    mixed = shuffled(text, seed="a")
    assert mixed != text
    assert mixed == shuffled(text, seed="a")
    assert sorted(mixed.split(".")[0].split()) == sorted(
        ["The", "gauge", "records", "high", "water"]
    )
    assert mixed.endswith("!")


@pytest.mark.parametrize(
    ("sentence", "denied"),
    [
        ("It is slow.", "It is not slow."),
        ("It takes a gauge.", "It does not take a gauge."),
        ("It returns a level.", "It does not return a level."),
        ("It must not be used.", "It must be used."),
        ("It cannot be used.", "It can be used."),
        ("It fixes what is slow.", "It does not fix what is slow."),
        ("`f` copies the array.", "`f` does not copy the array."),
        ("The levels of Cd rose.", "It is not true that the levels of Cd rose."),
        (
            "NumPy 2.0 raised it, e.g. for masks.",
            "It is not true that NumPy 2.0 raised it, e.g. for masks.",
        ),
        ("Salt weakened it.", "It is not true that salt weakened it."),
        ("It can be a list.", "It cannot be a list."),
        ("It has a limit.", "It does not have a limit."),
        ("It doesn't copy the data.", "It copies the data."),
        ("However, it is slow.", "However, it is not slow."),
        (
            "Note that salt weakened it.",
            "Note that it is not true that salt weakened it.",
        ),
        # A "not" of another clause stays, and the main statement is denied.
        (
            "`f` raises ValueError if `a` is not positive.",
            "`f` does not raise ValueError if `a` is not positive.",
        ),
        (
            "A protist is a cell that is no plant.",
            "A protist is not a cell that is no plant.",
        ),
        # A condition that is denied would say nothing of the case.
        (
            "If `a` is not given, the mean is used.",
            "It is not true that if `a` is not given, the mean is used.",
        ),
        # One verb of two would leave the other statement as it is.
        (
            "The rate is constant, and the level rises.",
            "It is not true that the rate is constant, and the level rises.",
        ),
        (
            "It does not say whether to copy or not.",
            "It says whether to copy or not.",
        ),
        ("All values are kept.", "It is not true that all values are kept."),
        ("No order is kept.", "It is not true that no order is kept."),
        ("This series is short.", "This series is not short."),
        ("It `is not` set.", "It is not true that it `is not` set."),
    ],
)
def test_a_negated_sentence_says_the_opposite(sentence: str, denied: str) -> None:
    assert negated(sentence) == denied


def test_the_template_knows_only_the_question() -> None:
    assert fixed_template("Explain `f` from m with `a`, `b`: what it does.") == (
        "`f` is a function that is used to compute the values of an array. It takes `a` and `b` as "
        "the input of the function. It returns the array of the output values. Note that the input "
        "must be given if it is not the default."
    )
    assert fixed_template("How does the tide at Hull rise?").startswith(
        "The tide hull is a"
    )


def test_another_reference_is_of_another_document() -> None:
    rubric = Rubric(criteria=(Criterion(id="c", weight=1.0),))
    tasks = [
        Task(
            question="Which?",
            grounding=Grounding(passage),
            rubric=rubric,
            reference_answer=text,
        )
        for passage, text in (("One.", "a"), ("One.", "b"), ("Two.", "c"))
    ]
    tasks = [
        one.model_copy(update={"question": f"{n}?"}) for n, one in enumerate(tasks)
    ]
    found = other_references(tasks)
    assert [found[one.task_id] for one in tasks[:2]] == ["c", "c"]
    assert found[tasks[2].task_id] in {"a", "b"}
    assert other_references(tasks[::-1]) == found
    assert other_references(tasks[:2]) == {}
