from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from rubric_synth.collect.duplicates.question_index import QuestionIndex

_QUESTION = (
    "Explain how the gauge at the pier of the harbour records the level of the water every hour, "
    "and state which limits apply to its readings in a storm that lasts for several days."
)


def test_the_task_of_the_earliest_twin_is_given_back() -> None:
    index = QuestionIndex(0.8)
    assert index.find_or_add(_QUESTION, "first") is None
    assert (
        index.find_or_add(_QUESTION.upper().replace(" ", "\n").replace(",", ""), "2")
        == "first"
    )
    assert index.find_or_add(_QUESTION.replace("several", "many"), "3") == "first"
    assert index.find_or_add("Describe how yeast raises a dough.", "4") is None
    assert index.find_or_add("Describe how yeast raises a dough", "5") == "4"


def test_questions_about_other_objects_are_other_questions() -> None:
    index = QuestionIndex(0.9)
    asked = "Describe the method `{}` of lab.Generator with `loc` and `scale`: what it does."
    for name in ("laplace", "gumbel", "laplace_2", "f300", "f350"):
        assert index.find_or_add(asked.format(name), name) is None
    assert index.find_or_add("Is a < b for the given load?", "less") is None
    assert index.find_or_add("Is a > b for the given load?", "more") is None


def test_hostile_questions_are_compared_like_any_other() -> None:
    index = QuestionIndex(0.9)
    for question in ("", "\ud800 of \0", "?" * 10_000, "word " * 10_000):
        twin = index.find_or_add(question, question[:3])
        assert twin == (None if question.strip("?") or not question else "")
        assert index.find_or_add(question, "again") is not None


@given(
    st.lists(
        st.lists(st.sampled_from(string.ascii_lowercase), min_size=4, max_size=12),
        max_size=20,
    ),
    st.sampled_from([0.3, 0.6, 0.9]),
)
def test_a_question_is_a_twin_where_an_earlier_kept_one_shares_enough_runs(
    questions: list[list[str]], jaccard: float
) -> None:
    index = QuestionIndex(jaccard)
    kept: list[set[tuple[str, ...]]] = []
    for words in questions:
        runs = set(zip(words, words[1:], words[2:], strict=False))
        is_near = any(len(runs & other) > jaccard * len(runs | other) for other in kept)
        twin = index.find_or_add(" ".join(words), str(len(kept)))
        assert (twin is not None) == is_near
        if twin is None:
            kept.append(runs)
