from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_synth.config import Corruption
from rubric_synth.quality.answers import corrupted_copies

_KINDS: tuple[Corruption, ...] = get_args(Corruption)
_ANSWER = "Yeast turns 12.5 grams of sugar into gas. The gas lifts the dough. It takes 3 hours."
_PASSAGE = "Bakers keep the cellar cold. Flour holds starch, gluten and enzymes. Salt slows it."


def _task(answer: str = _ANSWER, passage: str = _PASSAGE) -> Task:
    criterion = Criterion(
        id="c",
        weight=1,
        required_elements=("12.5 grams",),
        expected_keywords=("sugar", "gas"),
    )
    return Task(
        question="Why does dough rise?",
        grounding=Grounding(passage),
        rubric=Rubric(criteria=(criterion,)),
        reference_answer=answer,
    )


def _copy(kind: Corruption, answer: str = _ANSWER, passage: str = _PASSAGE) -> str:
    return corrupted_copies(_task(answer, passage), (kind,))[kind]


def test_half_keeps_the_smaller_part_of_the_sentences() -> None:
    assert _copy("half") == "The gas lifts the dough."
    kept = _copy(
        "half", answer="One is here. Two is here. Three is here. Four is here."
    )
    assert kept in {"One is here. Three is here.", "Two is here. Four is here."}
    assert _copy("half", answer="one two three four five") == "one two"


def test_half_of_code_is_half_of_its_lines() -> None:
    code = "```python\ndef f(x):\n    y = x + 1\n    return y\n```\nIt adds."
    assert _copy("half", answer=code).count("\n") < code.count("\n")


def test_the_first_sentence_stands_alone() -> None:
    assert _copy("first_sentence") == "Yeast turns 12.5 grams of sugar into gas."


def test_other_terms_leave_none_that_the_rubric_asks_for() -> None:
    copy = _copy("terms")
    assert copy.startswith("Yeast turns ")
    assert len(copy.split()) == len(_ANSWER.split())
    assert {"sugar", "gas", "grams", "12.5"}.isdisjoint(copy.replace(".", " ").split())


def test_every_number_changes_and_nothing_else() -> None:
    copy = _copy("numbers")
    assert "12.5" not in copy
    assert " 3 " not in copy
    letters = [c for c in _ANSWER if not c.isdigit()]
    assert [c for c in copy if not c.isdigit()] == letters


def test_another_kind_stands_in_where_one_changes_nothing() -> None:
    task = _task("The gas lifts the dough. It takes hours.")
    assert list(corrupted_copies(task, ("numbers",))) == ["half"]
    assert list(corrupted_copies(task, ("numbers", "terms"))) == ["terms"]


def test_a_single_word_that_nothing_changes_has_no_copy() -> None:
    assert corrupted_copies(_task("Yes"), _KINDS) == {}
    assert list(corrupted_copies(_task("42"), ("half",))) == ["numbers"]


def test_a_passage_without_other_words_leaves_terms_as_they_are() -> None:
    assert list(corrupted_copies(_task(passage="gas"), ("terms",))) in (
        ["terms"],
        ["half"],
    )


@pytest.mark.parametrize("kind", _KINDS)
@given(
    answer=st.text(min_size=1, max_size=300),
    passage=st.text(max_size=100).map("x".__add__),
)
def test_a_copy_differs_and_is_the_same_each_time(
    kind: Corruption, answer: str, passage: str
) -> None:
    try:
        task = _task(answer, passage)
    except ValueError:
        return  # a text that no task may hold
    copies = corrupted_copies(task, (kind,))
    assert copies == corrupted_copies(_task(answer, passage), (kind,))
    for copy in copies.values():
        assert copy.split() != answer.split()
        assert copy.strip()
