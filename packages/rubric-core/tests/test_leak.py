import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import LeakError, SchemaError, Task, check_no_leak, leaked_ngrams

PASSAGE = "The quick brown fox jumps over the lazy dog near the river bank today."


def task_of(question: str, passage: str = PASSAGE, **criterion: object) -> Task:
    return Task.from_json(
        {
            "question": question,
            "passage": passage,
            "criteria": [{"id": "c", "weight": 1, **criterion}],
        }
    )


def test_eight_words_of_the_passage_in_the_question_leak() -> None:
    (overlap,) = leaked_ngrams(
        task_of("Why does quick brown fox jumps over the lazy dog hold?")
    )

    ngram = "quick brown fox jumps over the lazy dog"
    assert overlap.source == "passage"
    assert overlap.count == 1
    assert overlap.sha256 == (hashlib.sha256(ngram.encode()).hexdigest(),)


def test_seven_words_do_not() -> None:
    assert (
        leaked_ngrams(task_of("Why does quick brown fox jumps over the lazy cat hold?"))
        == ()
    )


def test_names_in_backticks_are_no_leak() -> None:
    task = task_of(
        "Explain `convolve2d` from scipy.signal with `in1`, `in2`, `mode`: what it does.",
        passage="convolve2d(in1, in2, mode='full', boundary='fill') from scipy.signal convolves.",
        required_elements=["convolve2d", "in1", "in2", "mode"],
    )

    assert leaked_ngrams(task) == ()


def test_case_and_punctuation_do_not_hide_a_leak() -> None:
    task = task_of("THE QUICK, brown\n\nFox -- jumps: over; the (lazy) dog?")

    assert leaked_ngrams(task)[0].count == 2


@pytest.mark.parametrize(
    "field", ["name", "description", "scoring_guide", "verification_method"]
)
def test_every_text_of_a_criterion_is_compared(field: str) -> None:
    text = "names the eight words that a good answer holds"
    (overlap,) = leaked_ngrams(task_of(f"Which answer {text}?", **{field: text}))

    assert (overlap.source, overlap.count) == ("criterion c", 2)


@pytest.mark.parametrize(
    "field", ["required_elements", "expected_keywords", "expected_concepts"]
)
def test_every_list_of_a_criterion_is_compared(field: str) -> None:
    text = "names the eight words that a good answer holds"
    (overlap,) = leaked_ngrams(
        task_of(f"Which answer {text}?", **{field: ["short", text]})
    )

    assert (overlap.source, overlap.count) == ("criterion c", 2)


def test_words_of_two_elements_do_not_join_to_a_run() -> None:
    task = task_of(
        "one two three four five six seven eight?",
        required_elements=["one two three four", "five six seven eight"],
    )

    assert leaked_ngrams(task) == ()


def test_a_shorter_run_can_be_asked_for() -> None:
    task = task_of("Is the lazy dog lazy?")

    assert leaked_ngrams(task, n=3)[0].count == 1
    assert leaked_ngrams(task, n=4) == ()


def test_a_question_shorter_than_a_run_cannot_leak() -> None:
    assert leaked_ngrams(task_of("fox?")) == ()


@given(st.integers(0, 6), st.integers(1, 14))
def test_a_quotation_leaks_if_and_only_if_it_is_long_enough(
    start: int, words: int
) -> None:
    quoted = PASSAGE.rstrip(".").split()[start : start + words]
    overlaps = leaked_ngrams(task_of(f"Discuss {' '.join(quoted)} please"))

    assert sum(overlap.count for overlap in overlaps) == max(0, len(quoted) - 7)


def test_words_within_other_words_are_no_leak() -> None:
    task = task_of(
        "In the art of war he is an ant.", passage="Winter, there; party, soft, warned."
    )

    assert leaked_ngrams(task, n=3) == ()


@pytest.mark.parametrize("others", [0, 7, 8, 150, 300])
def test_a_leak_is_found_wherever_a_question_holds_it(others: int) -> None:
    before = " ".join(f"word{number} the" for number in range(others))
    task = task_of(f"{before} quick brown fox jumps over the lazy dog {before}")

    assert leaked_ngrams(task, n=8)[0].count == 1 + bool(others)


def test_a_dataset_without_leaks_passes() -> None:
    check_no_leak(task_of(f"Question {k}?") for k in range(3))


def test_a_dataset_with_leaks_is_refused_by_its_tasks() -> None:
    clean = task_of("Why?")
    leaky = [task_of(f"Case {k}: {PASSAGE}") for k in range(5)]

    with pytest.raises(
        LeakError, match="5 questions share runs of 8 or more words"
    ) as caught:
        check_no_leak([clean, *leaky])

    assert caught.value.task_ids == tuple(task.task_id for task in leaky)
    assert leaky[0].task_id in str(caught.value)
    assert leaky[4].task_id not in str(caught.value)
    assert "fox" not in str(caught.value)


def test_a_run_has_at_least_one_word() -> None:
    with pytest.raises(SchemaError, match="not 0"):
        leaked_ngrams(task_of("Why?"), n=0)
