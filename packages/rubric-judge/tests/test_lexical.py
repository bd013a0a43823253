import time
from collections.abc import Callable

import pytest

from rubric_core import Criterion, Grounding, JudgeView, Outcome, Reason, Rubric
from rubric_judge import LexicalConfig, LexicalJudge

Score = Callable[..., float]

PROSE = (
    "`lfilter` filters data along one dimension with a digital filter. "
    "It takes the coefficients `b` and `axis` as arrays. "
    "It returns the output of the filter. "
    "Note that the filter is not stable for every input."
)


@pytest.fixture
def score(make_view: Callable[..., JudgeView]) -> Score:
    """Return a function that scores one criterion of weight 1: z times what is not repetition."""

    def of(
        response: str, *, question: str = "What is it?", **criterion: object
    ) -> float:
        rubric = Rubric(criteria=(Criterion(id="c", weight=1.0, **criterion),))
        view = make_view(response, rubric=rubric, question=question)
        return LexicalJudge().judge_now(view).scores["c"]

    return of


def test_z_is_the_share_of_credited_units(score: Score) -> None:
    # lfilter, axis and the stem of "filters" are there, "cascade" is not.
    z = score(
        PROSE,
        required_elements=("lfilter", "axis"),
        expected_keywords=("filtering",),
        expected_concepts=("cascade",),
    )
    assert z == 3 / 4


@pytest.mark.parametrize(
    ("element", "found"),
    [
        ("lfilter", True),
        ("LFILTER", False),
        ("Lfilter", False),
        ("digital filter", True),
        ("digital  FILTER", True),
        ("filter digital", False),
        ("filt", False),
        ("`axis`", True),
    ],
)
def test_required_elements_are_whole_words_as_written(
    score: Score, element: str, *, found: bool
) -> None:
    assert score(PROSE, required_elements=(element,)) == found


@pytest.mark.parametrize(
    ("element", "response"),
    [
        ("C++", "It is written in C++ for speed."),
        ("O(n log n)", "It sorts the keys in O(n log n) steps."),
        ("scipy.signal", "It is a function of `scipy.signal` for filters."),
        ("p < 0.05", "The effect was significant at p < 0.05 in the trial."),
        ("naïve", "It is a naïve estimate of the mean."),
    ],
)
def test_elements_with_symbols_are_found_as_written(
    score: Score, element: str, response: str
) -> None:
    assert score(response, required_elements=(element,)) == 1.0
    assert score(response, required_elements=(f"{element}x",)) == 0.0


def test_a_concept_of_several_words_needs_all_of_them_in_one_sentence(
    score: Score,
) -> None:
    concept = {"expected_concepts": ("stability of the filter",)}
    assert score("The filters are known for the stability they have.", **concept) == 1.0
    assert (
        score("It is a filter of the data. The stability is not known.", **concept)
        == 0.0
    )


@pytest.mark.parametrize(
    ("method", "credited"),
    [
        ("sentences: first", {"lfilter"}),
        ("sentences: lead", {"lfilter", "coefficients"}),
        ("sentences: last", {"stable"}),
        ("sentences: any", {"lfilter", "coefficients", "output", "stable"}),
        ("sentences: any; skip_first", {"coefficients", "output", "stable"}),
        ("sentences: any; one", {"lfilter"}),
        ("sentences: any; skip_first; one", {"coefficients"}),
        ("sentences: with(axis|b)", {"coefficients"}),
        ("sentences: with(returned)", {"output"}),
        ("sentences: with(filter); skip_first; one", {"output"}),
        ("Anything for a reader.", {"lfilter", "coefficients", "output", "stable"}),
    ],
)
def test_a_term_counts_in_the_sentences_of_its_scope(
    score: Score, method: str, credited: set[str]
) -> None:
    for term in ("lfilter", "coefficients", "output", "stable"):
        z = score(PROSE, required_elements=(term,), verification_method=method)
        assert z == (term in credited), term


def test_presence_is_a_unit_only_beside_another(score: Score) -> None:
    method = "sentences: with(note); presence"
    assert (
        score(PROSE, expected_keywords=("stable",), verification_method=method) == 1.0
    )
    assert (
        score(PROSE, expected_keywords=("causal",), verification_method=method) == 0.0
    )
    both = ("stable", "causal")
    assert score(PROSE, expected_keywords=both, verification_method=method) == 2 / 3


@pytest.mark.parametrize(
    ("checks", "z"),
    [
        ("order(b|axis -> return)", 1.0),
        ("order(return -> axis)", 0.0),
        ("order(lfilter -> axis -> return -> note)", 1.0),
        ("order(b -> axis)", 0.0),
        ("count 3..7", 1.0),
        ("count 5..7", 0.0),
        ("clean_end", 1.0),
        ("order(return -> axis); count 3..7; clean_end", 2 / 3),
    ],
)
def test_structure_is_graded_check_by_check(
    score: Score, checks: str, z: float
) -> None:
    assert score(PROSE, verification_method=f"structure: {checks}") == pytest.approx(z)


def test_a_broken_sentence_fails_count_and_clean_end(score: Score) -> None:
    broken = f"{PROSE} And then the"
    assert score(broken, verification_method="structure: count 1..9") == 0.0
    assert score(broken, verification_method="structure: clean_end") == 0.0


@pytest.mark.parametrize(
    ("method", "z"),
    [
        ("contains_all: digital filter | output", 1.0),
        ("contains_all: digital filter | cascade", 0.0),
        ("contains_any: cascade | output", 1.0),
        ("contains_any: cascade | ladder", 0.0),
        (r"regex: (?i)NOTE that \w+", 1.0),
        (r"regex: ^It", 0.0),
    ],
)
def test_executable_checks_are_all_or_nothing(
    score: Score, method: str, z: float
) -> None:
    # The elements describe the criterion; the check alone decides.
    assert score(PROSE, required_elements=("cascade",), verification_method=method) == z


@pytest.mark.parametrize(
    ("check", "response", "z"),
    [
        ("3.14 ± 0.01", "The ratio is 3.15.", 1.0),
        ("3.14 ± 0.01", "The ratio is 3.16.", 0.0),
        ("3.14", "3.14", 1.0),
        ("1000 ± 1", "About 1,000.4 of them", 1.0),
        ("-5 ± 0.5", "It falls to −5.2 in winter", 1.0),
        ("5", "a range of 3-5 units", 1.0),
        ("0.0015 ± 1e-5", "1.5e-3", 1.0),
        ("2.5 ± 0.1 [m/s]", "at 2.5 m/s on average", 1.0),
        ("2.5 ± 0.1 [m/s]", "at 2.5 km/h on average", 0.0),
        ("5 m", "a length of 5 mm", 0.0),
        ("14", "version 3.14", 0.0),
        ("7 ± 1", " ".join(map(str, range(30))), 0.0),
    ],
)
def test_numbers_are_compared_within_their_tolerance(
    score: Score, check: str, response: str, z: float
) -> None:
    assert score(response, verification_method=f"numeric: {check}") == z


def test_a_worked_example(make_view: Callable[..., JudgeView]) -> None:
    rubric = Rubric(
        criteria=(
            Criterion(
                id="named",
                weight=2.0,
                required_elements=("lfilter",),
                verification_method="sentences: first",
            ),
            Criterion(
                id="terms",
                weight=3.0,
                expected_keywords=("digital", "dimensions", "recursive"),
                verification_method="sentences: lead",
            ),
            Criterion(
                id="caveat",
                weight=2.0,
                expected_keywords=("stable", "causal"),
                verification_method="sentences: with(note|only); skip_first; presence",
            ),
            Criterion(
                id="form", weight=1.0, verification_method="structure: count 3..4"
            ),
        )
    )
    result = LexicalJudge().judge_now(make_view(PROSE, rubric=rubric))
    # 1/1, 2/3, (1 + presence)/3, 1/1; nothing is repeated.
    assert result.scores == pytest.approx(
        {"named": 2, "terms": 2, "caveat": 4 / 3, "form": 1}
    )
    assert result.total == pytest.approx(19 / 3)
    assert "terms 2/3" in result.reasoning


def test_all_scores_fall_with_the_share_of_repetition(score: Score) -> None:
    # 6 + 6 words: 10 runs of three, of which the 4 of the second sentence are repeats.
    twice = "It is the output of filters. " * 2
    assert score(twice, required_elements=("output",)) == pytest.approx(1 - 4 / 10)


def test_a_sentence_earns_at_most_one_unit_for_two_words_over_all_criteria(
    make_view: Callable[..., JudgeView],
) -> None:
    rubric = Rubric(
        criteria=(
            Criterion(id="a", weight=1.0, required_elements=("gain", "phase")),
            Criterion(id="b", weight=1.0, required_elements=("delay",)),
        )
    )
    # Five words: room for two units, and the first criterion takes both.
    result = LexicalJudge().judge_now(
        make_view("The gain, phase and delay.", rubric=rubric)
    )
    assert result.scores == {"a": 1.0, "b": 0.0}


def test_repeating_the_question_earns_nothing(score: Score) -> None:
    question = (
        "Explain `lfilter` with `b`, `a` and `axis`: what it does and what it returns."
    )
    terms = ("lfilter", "axis")
    assert score(question, question=question, required_elements=terms) == 0.0
    changed = question.replace("Explain", "This explains")
    assert score(changed, question=question, required_elements=terms) == 0.0
    assert (
        score(
            "It takes `b`, `a` and `axis`.", question=question, required_elements=terms
        )
        == 0.5
    )


def test_repeating_the_rubric_earns_nothing(score: Score) -> None:
    description = "States that the impulse response is finite."
    credit = {"description": description, "expected_keywords": ("impulse",)}
    assert score(description, **credit) == 0.0
    assert score("The impulse response is finite.", **credit) == 1.0


@pytest.mark.parametrize(
    "response",
    [
        "lfilter axis output stable digital filter coefficients",
        "lfilter, axis, output, stable, digital, filter, coefficients.",
        "lfilter.\naxis.\noutput.\nstable.",
        "lfilter " * 50,
        '{"lfilter": 1, "axis": 1, "output": 1}',
        "",
        "\x00\u202e   \n\n",
    ],
)
def test_lists_of_terms_earn_nothing(score: Score, response: str) -> None:
    assert (
        score(response, required_elements=("lfilter", "axis", "output", "stable"))
        == 0.0
    )


def test_a_criterion_that_a_program_cannot_check_scores_0_and_says_so(
    make_view: Callable[..., JudgeView],
) -> None:
    rubric = Rubric(
        criteria=(Criterion(id="taste", weight=1.0, description="Is it elegant?"),)
    )
    result = LexicalJudge().judge_now(make_view(PROSE, rubric=rubric))
    assert result.scores == {"taste": 0.0}
    assert "taste has nothing that a program can look for" in result.reasoning


def test_a_directive_with_a_typing_error_makes_the_judgement_unavailable(
    make_view: Callable[..., JudgeView],
) -> None:
    rubric = Rubric(
        criteria=(
            Criterion(id="where", weight=1.0, verification_method="sentences: frist"),
        )
    )
    result = LexicalJudge().judge_now(make_view(PROSE, rubric=rubric))
    assert (result.outcome, result.reason) == (Outcome.UNAVAILABLE, Reason.JUDGE_ERROR)
    assert "criterion 'where'" in result.detail
    assert "frist" not in result.detail


def test_a_pattern_that_backtracks_without_end_is_stopped(
    make_view: Callable[..., JudgeView],
) -> None:
    rubric = Rubric(
        criteria=(
            Criterion(id="p", weight=1.0, verification_method="regex: (?:a|aa)+b"),
        )
    )
    judge = LexicalJudge(LexicalConfig(regex_timeout_s=0.05))
    # Scored, not masked: a response that provokes it must not escape its 0.
    result = judge.judge_now(make_view("a" * 5000 + "!", rubric=rubric))
    assert (result.outcome, result.scores) == (Outcome.SCORED, {"p": 0.0})
    assert "p 0/1 (its pattern ran past 0.05 s)" in result.reasoning


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ("It is.", "1 too short"),
        ("It is " + "the word " * 50 + ".", "1 too long"),
        ("It is the output of a filter", "1 no end mark"),
        ("Digital filter output signal array.", "1 few function words"),
        ("It is that which it is.", "1 few other words"),
        ("The gain of the gain of the gain of it.", "1 repeated words"),
        ("It is 1234567890 of 1234567890.", "1 few letters"),
        (f"{PROSE} {PROSE}", "4 said before"),
    ],
)
def test_the_reasoning_says_why_sentences_earn_nothing(
    make_view: Callable[..., JudgeView], response: str, why: str
) -> None:
    rubric = Rubric(
        criteria=(Criterion(id="c", weight=1.0, expected_keywords=("stable",)),)
    )
    reasoning = LexicalJudge().judge_now(make_view(response, rubric=rubric)).reasoning
    assert f"(others: {why})" in reasoning


def test_the_reasoning_holds_no_text_of_rubric_or_response(
    make_view: Callable[..., JudgeView],
) -> None:
    rubric = Rubric(
        criteria=(Criterion(id="c", weight=1.0, expected_keywords=("stable",)),)
    )
    result = LexicalJudge().judge_now(make_view(PROSE, rubric=rubric))
    assert "stable" not in result.model_dump_json()


def test_a_response_of_any_length_is_read_in_bounded_time_and_to_a_bound(
    make_view: Callable[..., JudgeView],
) -> None:
    rubric = Rubric(
        criteria=(
            Criterion(id="early", weight=1.0, required_elements=("lfilter",)),
            Criterion(id="late", weight=1.0, required_elements=("cascade",)),
        )
    )
    response = f"{PROSE} {'a. ' * 300_000} It is a cascade of filters."
    started_s = time.process_time()

    result = LexicalJudge().judge_now(make_view(response, rubric=rubric))

    assert time.process_time() - started_s < 1.5
    assert (result.scores["early"] > 0, result.scores["late"]) == (True, 0.0)
    assert f"only 100000 of {len(response)} characters were read" in result.reasoning


def test_a_schema_is_checked_and_unit_tests_are_not_run(score: Score) -> None:
    schema = 'json_schema: {"required": ["a"]}'
    assert score('{"a": 1}', verification_method=schema) == 1.0
    assert score('{"b": 1}', verification_method=schema) == 0.0
    tests = "python_tests:\nassert f() == 1"
    assert score("```python\ndef f(): return 1\n```", verification_method=tests) == 0.0
    terms = {"required_elements": ("lfilter",), "verification_method": tests}
    assert score(PROSE, **terms) == score(PROSE, required_elements=("lfilter",))


_PASSAGE = Grounding(
    "The filter removes the mean of the signal. It does not change the length of the signal. "
    "A ValueError is raised if the order is not positive."
)


@pytest.mark.parametrize(
    ("response", "z"),
    [
        ("This filter removes the mean of a signal.", 1.0),
        ("This filter does not remove the mean of a signal.", 0.0),
        ("This filter never removes the mean of a signal.", 0.0),
        ("It is not true that this filter removes the mean of a signal.", 0.0),
        ("It is a common mistake to think that the filter removes the mean.", 0.0),
        ("No evidence was ever found that the filter removes the mean.", 0.0),
        ("None of this is right. The filter removes the mean.", 0.0),
        ("The length of the signal is not changed, and the mean is removed.", 1.0),
        ("It changes the length of the signal, and it removes the mean.", 0.0),
        ("It removes the mean if the order is not positive.", 1.0),
        ("It removes not only the trend but also the mean.", 1.0),
        (
            "It does not need a window, and it removes the mean.",
            1.0,
        ),  # of which nothing is said
    ],
)
def test_a_sentence_against_the_passage_earns_nothing(
    make_view: Callable[..., JudgeView], response: str, z: float
) -> None:
    rubric = Rubric(
        criteria=(Criterion(id="c", weight=1.0, expected_keywords=("mean",)),)
    )
    view = make_view(
        response, rubric=rubric, question="What is it?", grounding=_PASSAGE
    )
    assert LexicalJudge().judge_now(view).scores["c"] == z


def test_without_a_passage_nothing_is_against_it(
    make_view: Callable[..., JudgeView],
) -> None:
    rubric = Rubric(
        criteria=(Criterion(id="c", weight=1.0, expected_keywords=("mean",)),)
    )
    response = "This filter does not remove the mean of a signal."
    view = make_view(
        response, rubric=rubric, question="What is it?", grounding=Grounding("")
    )
    assert LexicalJudge().judge_now(view).scores["c"] == 1.0
