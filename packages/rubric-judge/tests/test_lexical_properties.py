import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_core import Criterion, Grounding, JudgeView, Outcome, Rubric
from rubric_judge import LexicalJudge

TERMS = ("lfilter", "axis", "in1", "impulse response", "O(n log n)", "C++", "loss")
METHODS = (
    "",
    "Read it and decide.",
    "sentences: first",
    "sentences: lead; skip_first",
    "sentences: last",
    "sentences: any; one",
    "sentences: with(note|axis); presence",
    "structure: order(axis -> return); count 2..5; clean_end",
    "contains_all: lfilter | loss",
    "contains_any: lfilter | loss",
    "regex: l(filter|oss)",
    "numeric: 3.14 ± 0.01",
)
SENTENCES = (
    "`lfilter` is the filter of a signal along one `axis`.",
    "It takes `in1` and gives the impulse response.",
    "Note that the loss of the filter is about 3.14 for most inputs.",
    "It returns the output of this filter in O(n log n) steps.",
    "It is written in C++ for the sake of speed.",
)
UNRELATED = "Yesterday my neighbours walked over the hill with their old dog."

terms = st.lists(st.sampled_from(TERMS), max_size=3, unique=True).map(tuple)


@st.composite
def rubrics(draw: st.DrawFn) -> Rubric:
    weights = st.floats(min_value=0, max_value=1e6, allow_nan=False)
    size = draw(st.integers(1, 4))
    return Rubric(
        criteria=tuple(
            Criterion(
                id=f"c{number}",
                weight=draw(weights) + (1.0 if number == 0 else 0.0),
                description=draw(
                    st.sampled_from(("", "Names the filter and its axis."))
                ),
                required_elements=draw(terms),
                expected_keywords=draw(terms),
                expected_concepts=draw(terms),
                verification_method=draw(st.sampled_from(METHODS)),
            )
            for number in range(size)
        )
    )


prose = st.lists(st.sampled_from(SENTENCES), max_size=6).map(" ".join)
anything = st.one_of(
    st.text(max_size=300), prose, st.builds("{} {}".format, prose, st.text())
)


def _view(rubric: Rubric, response: str) -> JudgeView:
    return JudgeView(
        task_id="t",
        question="What does `lfilter` do?",
        grounding=Grounding("passage"),
        response=response,
        rubric=rubric,
    )


def _reward(rubric: Rubric, response: str) -> float:
    result = LexicalJudge().judge_now(_view(rubric, response))
    assert result.total is not None
    return result.total / rubric.total_weight


@given(rubrics(), anything)
def test_every_score_is_between_0_and_its_weight(rubric: Rubric, response: str) -> None:
    result = LexicalJudge().judge_now(_view(rubric, response))
    assert result.outcome is Outcome.SCORED
    for criterion in rubric:
        assert 0.0 <= result.scores[criterion.id] <= criterion.weight


@given(rubrics(), anything)
def test_the_same_text_gets_the_same_result(rubric: Rubric, response: str) -> None:
    judge, view = LexicalJudge(), _view(rubric, response)
    first = judge.judge_now(view)
    # A second judge, and the same one with the rubric compiled already.
    assert LexicalJudge().judge_now(view) == first
    assert judge.judge_now(view) == first


@given(rubrics(), st.permutations(TERMS), st.integers(1, 20))
def test_keyword_spam_earns_nothing_beyond_checks_of_form(
    rubric: Rubric, words: list[str], times: int
) -> None:
    graded = Rubric(
        criteria=tuple(c.model_copy(update={"verification_method": ""}) for c in rubric)
    )
    for spam in (
        " ".join(words * times),
        ", ".join(words * times) + ".",
        ". ".join(words) + ".",
    ):
        assert _reward(graded, spam) == 0.0


@given(rubrics(), prose, st.integers(2, 30))
def test_saying_it_again_never_pays(rubric: Rubric, response: str, times: int) -> None:
    once = [c for c in rubric if "count" not in c.verification_method]
    if not any(c.weight for c in once):
        return
    graded = Rubric(criteria=tuple(once))
    assert (
        _reward(graded, " ".join([response] * times))
        <= _reward(graded, response) + 1e-12
    )


@given(
    st.permutations(SENTENCES), st.sampled_from(["first", "lead", "with(axis)", "any"])
)
def test_an_unrelated_sentence_at_the_end_never_raises_a_score(
    sentences: list[str], place: str
) -> None:
    rubric = Rubric(
        criteria=(
            Criterion(
                id="c",
                weight=1.0,
                required_elements=TERMS,
                verification_method=f"sentences: {place}",
            ),
        )
    )
    # Sentences without a common run of three words, so that nothing dilutes a repetition.
    response = " ".join(sentences[:3])
    assert _reward(rubric, f"{response} {UNRELATED}") <= _reward(rubric, response)


@given(rubrics())
def test_an_echo_of_the_rubric_earns_nothing_beyond_checks_of_form(
    rubric: Rubric,
) -> None:
    graded = Rubric(
        criteria=tuple(c.model_copy(update={"verification_method": ""}) for c in rubric)
    )
    echo = "\n".join(
        text
        for criterion in graded
        for text in (
            criterion.id,
            criterion.description,
            ", ".join(criterion.required_elements),
            "; ".join(criterion.expected_keywords + criterion.expected_concepts),
        )
    )
    assert _reward(graded, echo) == 0.0


@given(st.text(alphabet="ab .\n`1-(", max_size=2000))
@settings(max_examples=20)
def test_odd_text_is_scored_in_reasonable_time(response: str) -> None:
    rubric = Rubric(criteria=(Criterion(id="c", weight=1.0, required_elements=TERMS),))
    started_s = time.process_time()
    LexicalJudge().judge_now(_view(rubric, response))
    assert time.process_time() - started_s < 1.0


@pytest.mark.parametrize(
    "unit", ["a. ", "1,000 ", "a b c. ", "`", "- - ", "word\n", "e.g. "]
)
def test_time_grows_with_the_length_of_a_response_and_no_faster(unit: str) -> None:
    rubric = Rubric(
        criteria=(
            Criterion(id="c", weight=1.0, required_elements=TERMS),
            Criterion(id="n", weight=1.0, verification_method="numeric: 7 [m]"),
        )
    )
    view = _view(rubric, unit * 30_000)
    started_s = time.process_time()
    LexicalJudge().judge_now(view)
    assert time.process_time() - started_s < 3.0
