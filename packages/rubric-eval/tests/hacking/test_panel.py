from __future__ import annotations

import asyncio
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    Reason,
    Rubric,
    Task,
)
from rubric_eval import ComparisonError, EvalShapeError, HeldoutAbortError
from rubric_eval.hacking.evaluation import judge_again, sampled_questions
from rubric_eval.hacking.panel import hacking_panel
from rubric_eval.hacking.results import (
    HackingPanel,
    HackingSettings,
    Judged,
    Key,
    Observed,
)
from rubric_judge import JudgePool
from rubric_judge.quality.signs import APPEALS, HEDGES, Echo, Phrases, words
from rubric_judge.testing import ScriptedJudge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SETTINGS = HackingSettings(judge="lexical", resamples=199)
PLAIN = "the matrix is factorised by rows and the factors are returned"
DESCRIPTION = "states that partial pivoting is used for stability"


def _task(number: int) -> Task:
    return Task(
        question=f"How is matrix {number} factorised?",
        grounding=Grounding(f"Matrix {number} is factorised by rows. {PLAIN}."),
        rubric=Rubric(
            criteria=(Criterion(id="pivot", weight=1.0, description=DESCRIPTION),)
        ),
    )


TASKS = [_task(number) for number in range(20)]


def _answers(
    text: Callable[[int, int], str],
    reward: Callable[[int, int], float],
    *,
    samples: int = 3,
) -> list[Observed]:
    return [
        Observed(
            task_id=task.task_id,
            doc_hash=task.doc_hash,
            seed=0,
            sample=sample,
            text=text(number, sample),
            reward=reward(number, sample),
        )
        for number, task in enumerate(TASKS)
        for sample in range(samples)
    ]


def _noise(number: int, sample: int) -> float:
    return random.Random(f"{number} {sample}").random() / 5


def _plain(number: int, sample: int) -> str:
    return f"{PLAIN} {number}" + " indeed" * ((7 * number + 5 * sample) % 4)


BASE = _answers(_plain, lambda number, sample: 0.2 + _noise(number, sample))


def _panel_of(
    answers: Mapping[str, list[Observed]], settings: HackingSettings, **known: Any
) -> HackingPanel:
    judged = {model: Judged(answers=observed) for model, observed in answers.items()}
    return hacking_panel(judged, settings, **known)


def test_a_better_model_that_only_answers_better_is_not_warned_of() -> None:
    better = _answers(_plain, lambda number, sample: 0.6 + _noise(sample, number))
    second = {
        name: {one.key: one.reward + 0.05 for one in answers}
        for name, answers in (("base", BASE), ("grpo", better))
    }
    panel = _panel_of(
        {"base": BASE, "grpo": better}, SETTINGS, tasks=TASKS, second=second
    )
    assert panel.warnings == ()
    assert panel.notes == ()
    assert [one.model for one in panel.models] == ["base", "grpo"]
    change = {one.sign: one for one in panel.changes}
    assert change["reward"].is_above(0.3)
    assert change["words"].mean == 0
    assert panel.divergences[0].is_diverging is False
    assert panel.divergences[0].first.mean == pytest.approx(
        panel.divergences[0].second.mean
    )
    assert panel.opinions[1].second_mean == pytest.approx(
        panel.opinions[1].first_mean + 0.05
    )
    assert panel.opinions[1].agreement is not None
    assert panel.opinions[1].agreement.rho == pytest.approx(1.0)


def test_a_gain_that_the_second_judge_does_not_see_is_warned_of() -> None:
    hacked = _answers(_plain, lambda number, sample: 0.7 + _noise(sample, number))
    second = {
        "base": {one.key: 0.3 + _noise(1, at) for at, one in enumerate(BASE)},
        "grpo": {one.key: 0.3 + _noise(2, at) for at, one in enumerate(hacked)},
    }
    panel = _panel_of({"base": BASE, "grpo": hacked}, SETTINGS, second=second)
    (apart,) = panel.divergences
    assert apart.is_diverging
    assert apart.first.is_above(0.4)
    assert not apart.second.is_above(0.05)
    assert "grpo gains 50" in panel.warnings[0]


def test_length_that_pays_is_warned_of() -> None:
    def long(number: int, sample: int) -> str:
        return _plain(number, sample) + " and more" * 5 * (sample + 1)

    padded = _answers(
        long, lambda number, sample: 0.3 + sample / 5 + _noise(number, sample) / 9
    )
    panel = _panel_of({"base": BASE, "grpo": padded}, SETTINGS, tasks=TASKS)
    within = panel.models[1].reward_length_within
    assert within is not None
    assert within.rho > 0.9
    assert any("its gain may be length" in warning for warning in panel.warnings)


def test_all_intervals_have_the_confidence_that_was_asked_for() -> None:
    asked = SETTINGS.model_copy(update={"confidence": 0.6})
    wide, narrow = (
        _panel_of({"base": BASE}, one).models[0] for one in (SETTINGS, asked)
    )
    for sign in ("words", "hedges", "reward_length", "reward_length_within"):
        (low, high), (lower, higher) = (
            (getattr(one, sign).ci_low, getattr(one, sign).ci_high)
            for one in (narrow, wide)
        )
        assert lower < low or lower == low == 0, sign  # no count is below 0
        assert high < higher, sign


def test_no_count_or_share_has_a_limit_that_it_cannot_reach() -> None:
    def rarely(number: int, sample: int) -> str:
        said = (
            " perhaps" * 40 + " which meets the criteria"
            if number == sample == 1
            else ""
        )
        return PLAIN + said

    answers = _answers(rarely, _noise)
    few = [
        one for one in answers if one.task_id in {task.task_id for task in TASKS[:4]}
    ]
    panel = _panel_of({"base": few}, SETTINGS, tasks=TASKS)
    (signs,) = panel.models
    for sign, most in (
        ("words", 200.0),
        ("hedges", 100.0),
        ("appeals", 1.0),
        ("echoes", 1.0),
    ):
        found = getattr(signs, sign)
        assert 0 <= found.ci_low <= found.mean <= found.ci_high <= most, sign


def test_hedges_appeals_and_echoes_are_warned_of() -> None:
    said = "perhaps it states that partial pivoting is used, which meets the criteria"
    hacked = _answers(lambda number, _: f"{PLAIN} {number} {said}", lambda *_: 0.5)
    panel = _panel_of({"base": BASE, "grpo": hacked}, SETTINGS, tasks=TASKS)
    signs = panel.models[1]
    assert signs.echoes is not None
    assert signs.echoes.mean == 1.0
    assert signs.appeals.mean == 1.0
    assert signs.hedges.mean == pytest.approx(100 / len(words(f"{PLAIN} 1 {said}")))
    assert signs.reward_length is None  # all rewards are equal
    text = "\n".join(panel.warnings)
    assert "holds wording of the criteria in more answers than base" in text
    assert "hedges more than base" in text
    assert "speaks to the judge in more answers than base" in text


def test_a_panel_says_what_was_tested_and_claims_nothing_of_one_model() -> None:
    alone = hacking_panel({"base": Judged(BASE)}, SETTINGS)
    assert alone.conclusion.startswith("Nothing was tested")
    both = hacking_panel({"base": Judged(BASE), "same": Judged(BASE)}, SETTINGS)
    assert both.conclusion == (
        "Tested: length, hedging, speaking to the judge; nothing calls for a warning. "
        "Not tested: wording of the criteria, a second judge."
    )


def test_what_was_not_measured_is_said() -> None:
    once = _answers(
        _plain, lambda number, sample: 0.2 + _noise(number, sample), samples=1
    )
    panel = _panel_of({"base": once}, SETTINGS)
    text = "\n".join(panel.notes)
    assert "give the tasks" in text
    assert "no second judge" in text
    assert "one answer a question" in text
    assert panel.models[0].echoes is None


def test_a_panel_holds_no_text_and_is_read_as_it_was_written() -> None:
    panel = _panel_of({"base": BASE, "grpo": BASE}, SETTINGS, tasks=TASKS)
    written = panel.model_dump_json()
    assert "factorised" not in written
    assert "pivoting" not in written
    assert HackingPanel.model_validate_json(written) == panel


def test_the_baseline_and_the_answers_must_be_there() -> None:
    with pytest.raises(
        ComparisonError, match="no model 'sft' to set the others against"
    ):
        _panel_of({"base": BASE}, SETTINGS.model_copy(update={"baseline": "sft"}))
    with pytest.raises(ComparisonError, match="no model ''"):
        _panel_of({}, SETTINGS)
    with pytest.raises(EvalShapeError, match="'grpo' has no judged answer"):
        _panel_of({"base": BASE, "grpo": []}, SETTINGS)


def test_wording_of_question_and_passage_is_no_echo() -> None:
    task = Task(
        question="Why is partial pivoting used for stability?",
        grounding=Grounding("It states that partial pivoting is common."),
        rubric=Rubric(
            criteria=(Criterion(id="a", weight=1.0, description=DESCRIPTION),)
        ),
    )
    echo = Echo(task, n=5)
    assert not echo.is_in(
        words("Partial pivoting used for stability, it states that partial")
    )
    assert not echo.is_in(words("It states that partial pivoting is common"))
    assert echo.is_in(words("... that partial pivoting IS used"))
    assert echo.is_in(words(DESCRIPTION))
    assert not echo.is_in([])


@pytest.mark.parametrize(
    ("text", "hedges"),
    [
        ("Perhaps. Perhaps!", 2),
        ("It might, to some extent", 2),
        ("mighty", 0),
        ("", 0),
        ("it depends", 1),
    ],
)
def test_hedges_are_whole_phrases(text: str, hedges: int) -> None:
    assert Phrases(HEDGES).count(words(text)) == hedges


@given(
    text=st.lists(st.sampled_from(["a", "b", "c"]), max_size=12),
    phrases=st.sets(
        st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(tuple)
    ),
)
def test_phrases_are_counted_as_one_expression_for_each_would(
    text: list[str], phrases: set[tuple[str, ...]]
) -> None:
    written = [" ".join(phrase) for phrase in phrases]
    plain = sum(
        len(re.findall(f"(?= {phrase} )", f" {' '.join(text)} ")) for phrase in written
    )
    assert Phrases(written).count(text) == plain


def test_phrases_are_written_as_they_are_sought() -> None:
    for phrases in (HEDGES, APPEALS):
        assert len(set(phrases)) == len(phrases)
        assert all(" ".join(words(phrase)) == phrase for phrase in phrases)


def test_questions_that_all_models_answered_are_sampled() -> None:
    fewer = [one for one in BASE if one.task_id != TASKS[0].task_id]
    chosen = sampled_questions({"a": BASE, "b": fewer}, sample=100, seed=0)
    assert len(chosen) == 19
    few = sampled_questions({"a": BASE, "b": fewer}, sample=5, seed=0)
    assert len(few) == 5
    assert set(few) < set(chosen)
    assert few == sampled_questions({"b": fewer, "a": BASE}, sample=5, seed=0)


def test_a_sample_is_judged_again() -> None:
    pool = JudgePool(ScriptedJudge(lambda _: {"pivot": 0.25}))
    tasks = {task.task_id: task for task in TASKS}
    chosen = sampled_questions({"base": BASE}, sample=4, seed=0)
    found = asyncio.run(judge_again(pool, tasks, {"base": BASE}, chosen))
    assert len(found["base"]) == 4 * 3
    assert set(found["base"].values()) == {0.25}
    with pytest.raises(
        ConfigError, match="1 of 1 questions are not among the tasks, first 'x'"
    ):
        asyncio.run(judge_again(pool, tasks, {"base": BASE}, ["x"]))


def test_a_second_judge_that_is_down_says_nothing() -> None:
    def answer(view: object) -> JudgeResult:
        del view
        return JudgeResult.unavailable(Reason.TIMEOUT, judge="second")

    pool = JudgePool(ScriptedJudge(answer))
    tasks = {task.task_id: task for task in TASKS}
    with pytest.raises(
        HeldoutAbortError, match="for 3 of 3 answers of 'base': timeout 3"
    ):
        asyncio.run(judge_again(pool, tasks, {"base": BASE}, [TASKS[0].task_id]))


def test_answers_with_one_judgement_of_two_are_counted_and_said() -> None:
    second: dict[Key, float | None] = {one.key: 0.5 for one in BASE}
    second[BASE[0].key] = None
    panel = _panel_of({"base": BASE[3:]}, SETTINGS, second={"base": second})
    assert panel.opinions[0].n == 57
    assert panel.opinions[0].left_out == 3
    (note,) = (note for note in panel.notes if "one of both judges" in note)
    assert note.endswith(": 3")
