import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import DocumentAnalysis, Judge, Reason, Task
from rubric_judge import ClaimJudge, LexicalJudge
from rubric_judge.testing import FailingJudge, ScriptedJudge
from rubric_synth import CriterionDraft, Document, Draft, QualityConfig, StageRefusal
from rubric_synth.quality.answers import (
    check_executable_criteria,
    check_rewards,
    check_wrong_answers,
)
from rubric_synth.quality.claims import states_nothing
from rubric_synth.quality.draft import check_draft, check_unrepeated

_TEXT = (
    "The moon raises two bulges of water by its gravity. Inertia raises the second bulge. "
    "Every coast passes both within a lunar day, so that it records two high waters. "
    "Friction at the sea floor slows the rotation of the planet."
)
_DOCUMENT = Document(title="Tides", text=_TEXT, source="a.md")
_ANSWER = (
    "The moon raises the ocean by its gravity. On the far side inertia forms a second bulge. "
    "Each coast passes both in one lunar day. Friction at the bottom brakes the rotation."
)
_POINTS = {
    "cause": "gravity",
    "far_side": "inertia",
    "period": "lunar",
    "brake": "friction",
    "result": "rotation",
}

_KEYWORDS = {
    "gravity": "moon",
    "inertia": "bulge",
    "lunar": "coast",
    "friction": "brakes",
    "rotation": "bottom",
}
"""Beside each point in the sentence of the answer that makes it."""


def _criterion(
    name: str = "cause", term: str = "gravity", **changes: object
) -> CriterionDraft:
    values: dict[str, object] = {
        "id": name,
        "weight": 2.0,
        "name": f"Names the {name}",
        "description": f"Says that {term} is what it takes.",
        "scoring_guide": "All or nothing.",
        "verification_method": "sentences: any",
        "required_elements": (term,),
        "expected_keywords": (_KEYWORDS.get(term, term),),
    }
    return CriterionDraft.model_validate({**values, **changes})


_CRITERIA = tuple(_criterion(name, term) for name, term in _POINTS.items())


def _with(**changes: object) -> tuple[CriterionDraft, ...]:
    """The criteria, the last of them changed."""
    last = _CRITERIA[-1].model_dump()
    return (*_CRITERIA[:-1], CriterionDraft.model_validate({**last, **changes}))


def _draft(**changes: object) -> Draft:
    values: dict[str, object] = {
        "question": "How do tides arise, and what do they do to the planet?",
        "passage": _TEXT,
        "criteria": _CRITERIA,
        "question_rationale": "It asks for causes.",
        "reference_answer": _ANSWER,
    }
    return Draft.model_validate({**values, **changes})


def _task(draft: Draft, analysis: DocumentAnalysis | None = None) -> Task:
    return check_draft(
        _DOCUMENT, analysis or DocumentAnalysis(), draft, QualityConfig()
    )


async def _check(draft: Draft, judge: Judge, config: QualityConfig) -> Task:
    """All checks, in the order of a worker."""
    task = _task(draft)
    await check_executable_criteria(draft, config)
    await check_rewards(task, judge.judge, config)
    return task


def _refusal(
    draft: Draft, judge: Judge | None = None, **config: object
) -> StageRefusal:
    settings = QualityConfig.model_validate(config)
    judge = judge or LexicalJudge()
    with pytest.raises(StageRefusal) as caught:
        anyio.run(_check, draft, judge, settings)
    return caught.value


def test_a_sound_draft_becomes_a_task_of_its_document() -> None:
    task = anyio.run(_check, _draft(), LexicalJudge(), QualityConfig())
    assert task.doc_hash == _DOCUMENT.doc_hash
    assert task.rubric.ids == tuple(_POINTS)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"question": " "}, "empty_question"),
        ({"criteria": _CRITERIA[:4]}, "too_few_criteria"),
        ({"criteria": [_criterion(f"c{i}", f"t{i}") for i in range(11)]}, "too_many_criteria"),
        ({"criteria": _with(weight=-1)}, "negative_weight"),
        ({"criteria": _with(weight="inf")}, "negative_weight"),
        ({"criteria": _with(weight="nan")}, "negative_weight"),
        ({"criteria": [c.model_copy(update={"weight": 0.5}) for c in _CRITERIA]},
         "low_total_weight"),
        ({"criteria": [c.model_copy(update={"weight": 0.0}) for c in _CRITERIA]},
         "low_total_weight"),
        ({"criteria": [c.model_copy(update={"weight": 1.7e308}) for c in _CRITERIA]},
         "weight_out_of_range"),
        ({"criteria": _with(weight=1_001)}, "weight_out_of_range"),
        ({"criteria": _with(weight=80)}, "weight_out_of_range"),
        ({"criteria": _with(name="")}, "missing_field"),
        ({"criteria": _with(description="\n")}, "missing_field"),
        ({"criteria": _with(scoring_guide=" ")}, "missing_field"),
        ({"criteria": _with(id=" ")}, "missing_field"),
        ({"criteria": _with(expected_keywords=[" "])}, "missing_field"),
        ({"criteria": _with(required_elements=["", "\n"])}, "missing_field"),
        ({"passage": " "}, "missing_field"),
        ({"criteria": _with(id="cause")}, "invalid_schema"),
        ({"criteria": _with(id="Cause")}, "repeated_criterion"),
        ({"criteria": (*_CRITERIA, _criterion("again", "friction"))}, "repeated_criterion"),
        ({"reference_answer": ""}, "no_reference"),
        ({"question": "Why does the moon raise tides? " * 400}, "field_too_long"),
        ({"passage": "water " * 50_000}, "field_too_long"),
        ({"reference_answer": "The tide comes and goes. " * 5_000}, "field_too_long"),
        ({"question_rationale": "so " * 10_000}, "field_too_long"),
        ({"criteria": _with(scoring_guide="2 for all. " * 5_000)}, "field_too_long"),
        ({"criteria": _with(expected_keywords=["a"] * 30_000)}, "field_too_long"),
        ({"criteria": _with(id="c" * 201)}, "field_too_long"),
        ({"question": "What does the passage say about tides?"}, "not_self_contained"),
        ({"criteria": _with(description="The answer gives the value of Table 2.")},
         "not_self_contained"),
        ({"question": "Is it so that every coast passes both within a lunar day?"}, "leak"),
        ({"question": f"Is this right? {_ANSWER}", "passage": "The sea."}, "leak"),
        ({"question": "So inertia forms one bulge of two?",
          "reference_answer": "Inertia forms one bulge."}, "leak"),
        ({"reference_answer": "Nobody knows what it is or was."}, "low_reference_reward"),
    ],
)  # fmt: skip
def test_each_fault_has_its_reason(changes: dict[str, object], reason: str) -> None:
    assert _refusal(_draft(**changes)).reason == reason


def test_an_analysis_gone_wrong_is_no_part_of_the_dataset() -> None:
    with pytest.raises(StageRefusal) as caught:
        _task(_draft(), DocumentAnalysis(concepts=("tide",) * 20_000))
    assert caught.value.reason == "field_too_long"


def test_a_refusal_repeats_no_text_of_the_draft() -> None:
    word = "Zanzibar"
    for draft in (
        _draft(question=f"What does the passage say of {word}?"),
        _draft(criteria=_with(description=f"It names {word}, see Figure 3.")),
        _draft(criteria=(*_CRITERIA, _criterion("x", word), _criterion("y", word))),
        _draft(question=f"{word} " * 2_000),
    ):
        refusal = _refusal(draft)
        assert word not in str(refusal)
        assert refusal.detail


@pytest.mark.parametrize(
    "method", ["Read it.", "regex: rotation", "numeric: 2", "sentences: any"]
)
@pytest.mark.parametrize("component", ["required_elements", "expected_keywords"])
def test_a_criterion_needs_both_kinds_of_terms_whoever_checks_it(
    method: str, component: str
) -> None:
    criteria = _with(**{component: (), "verification_method": method})
    refusal = _refusal(_draft(criteria=criteria))
    assert (refusal.reason, refusal.detail) == ("missing_field", f"result: {component}")


@pytest.mark.parametrize(
    "method", ["regex: (", "regex: Nobody", "regex: ^", "contains_any: Mars"]
)
def test_an_executable_criterion_tells_the_reference_from_nothing(method: str) -> None:
    judge = ScriptedJudge(1.0)
    draft = _draft(criteria=_with(verification_method=method))
    refusal = _refusal(draft, judge)
    assert refusal.reason == "broken_check"
    assert "result" in refusal.detail
    assert not judge.calls


def test_a_rubric_that_rewards_nothing_or_the_question_is_refused() -> None:
    paid = ScriptedJudge(lambda view: 1.0 if view.response == _ANSWER else 0.5)
    assert _refusal(_draft(), paid).reason == "rewarded_empty_answer"
    echoed = ScriptedJudge(lambda view: float(view.response != ""))
    assert _refusal(_draft(), echoed).reason == "rewarded_question_echo"


def test_a_rubric_that_half_an_answer_satisfies_is_refused() -> None:
    form = _with(weight=60, verification_method="regex: [.]$")
    refusal = _refusal(_draft(criteria=form))
    assert refusal.reason == "not_discriminating"
    assert refusal.detail.startswith("half: ")


@pytest.mark.parametrize("kind", ["half", "first_sentence", "terms"])
def test_a_judge_that_pays_for_any_answer_does_not_discriminate(kind: str) -> None:
    judge = ScriptedJudge(
        lambda view: float(view.response not in {"", _draft().question})
    )
    refusal = _refusal(_draft(), judge, corruptions=[kind])
    assert refusal.reason == "not_discriminating"
    apart = "closer than the 0.1 of quality.min_discrimination"
    assert refusal.detail == f"{kind}: 1.00 and 1.00, {apart}"


def test_every_answer_is_judged_once_and_the_reference_first() -> None:
    judge = ScriptedJudge(lambda view: float(view.response == _ANSWER))
    config = QualityConfig(corruptions=("half", "terms"))
    anyio.run(_check, _draft(), judge, config)
    responses = [view.response for view in judge.calls]
    assert responses[:3] == [_ANSWER, "", _draft().question]
    assert len(set(responses)) == len(responses) == 5
    assert len({view.task_id for view in judge.calls}) == 1


def test_no_answer_is_judged_after_the_first_refusal() -> None:
    judge = ScriptedJudge(0.0)
    _refusal(_draft(), judge)
    assert len(judge.calls) == 1


def test_a_judge_that_cannot_be_reached_is_a_reason_of_its_own() -> None:
    refusal = _refusal(_draft(), FailingJudge())
    assert refusal.reason == "judge_unavailable"
    assert not refusal.reason.is_settled


def test_an_invalid_judgement_is_no_reward_of_zero() -> None:
    refusal = _refusal(_draft(), FailingJudge(Reason.NOT_JSON))
    assert refusal.reason == "judge_invalid"
    assert refusal.reason.is_settled
    assert refusal.detail == "reference: not_json"


@pytest.mark.parametrize(("place", "name"), [(1, "empty"), (2, "echo"), (3, "half")])
def test_an_invalid_judgement_of_any_answer_refuses_the_draft(
    place: int, name: str
) -> None:
    good, bad = ScriptedJudge(1.0), FailingJudge(Reason.NOT_JSON)
    low = ScriptedJudge(0.0)
    calls = iter([good, *[low] * (place - 1), bad])

    class _Judge:
        async def judge(self, view: object) -> object:
            return await next(calls).judge(view)  # type: ignore[arg-type]

    refusal = _refusal(_draft(), _Judge())  # type: ignore[arg-type]
    assert (refusal.reason, refusal.detail) == ("judge_invalid", f"{name}: not_json")


def test_a_question_of_the_same_document_is_asked_once() -> None:
    accepted = ["How do tides arise and what do they do to the planet"]
    with pytest.raises(StageRefusal) as caught:
        check_unrepeated(_draft(), accepted)
    assert caught.value.reason == "duplicate_question"
    check_unrepeated(_draft(), ["How do tides arise?"])
    check_unrepeated(_draft(question="f(x) = 2x - 1?"), ["f(x) = 2x + 1?"])


@given(st.permutations(sorted(Draft.model_fields)))
def test_the_order_of_fields_means_nothing(order: list[str]) -> None:
    values = _draft().model_dump()
    task = _task(Draft.model_validate({name: values[name] for name in order}))
    assert task == _task(_draft())


@given(st.permutations(_CRITERIA))
def test_the_order_of_criteria_decides_nothing(criteria: list[CriterionDraft]) -> None:
    draft = _draft(criteria=criteria)
    anyio.run(_check, draft, LexicalJudge(), QualityConfig())


@given(st.integers(min_value=11, max_value=60))
def test_a_criterion_above_the_maximum_is_too_many(count: int) -> None:
    many = tuple(_criterion(f"c{i}", f"t{i}") for i in range(count))
    assert _refusal(_draft(criteria=many)).reason == "too_many_criteria"


@given(st.floats(min_value=1e-6, max_value=500))
def test_the_scale_of_weights_decides_nothing_but_their_total(factor: float) -> None:
    scaled = tuple(
        c.model_copy(update={"weight": c.weight * factor}) for c in _CRITERIA
    )
    draft = _draft(criteria=scaled)
    if sum(c.weight for c in scaled) < QualityConfig().min_total_weight:
        assert _refusal(draft).reason == "low_total_weight"
    else:
        anyio.run(_check, draft, LexicalJudge(), QualityConfig())


@pytest.mark.parametrize(
    "description",
    [
        "The answer explains the part that effect plays",
        "Explains the role of keepdims.",
        "Discusses the influence of the grid on the solution.",
        "The response must clearly describe the mechanism of corrosion.",
        "Mentions the main advantages.",
        "Says what the axis does.",
    ],
)
def test_a_description_that_names_a_topic_alone_states_nothing(
    description: str,
) -> None:
    assert states_nothing(description)


@pytest.mark.parametrize(
    "description",
    [
        "Says that `keepdims=True` leaves the searched axis with length one.",
        "Names oxygen, water and salt as the causes of rust: all three are needed.",
        "Explains that salt speeds corrosion.",
        "Identifies the anode because electrons leave it.",
        "Gives 12.5 metres for the tidal range.",
        "The pressure rises when the valve closes.",
        "Explains how paint slows rust by keeping oxygen away.",
    ],
)
def test_a_description_with_a_statement_states_one(description: str) -> None:
    assert not states_nothing(description)


@pytest.mark.anyio
async def test_a_criterion_without_a_claim_is_refused_by_name() -> None:
    with pytest.raises(StageRefusal, match="no_claim: criterion result"):
        _task(_draft(criteria=_with(description="Explains the role of rotation.")))
    # what a program runs states its claim to the program
    directive = "contains_all: rotation"
    of_program = _with(description="Names the effect.", verification_method=directive)
    _task(_draft(criteria=of_program))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("wrong", "is_refused"),
    [
        ("The gravity of the moon raises two bulges of water.", True),
        ("The cold of the night dries the land.", False),
    ],
)
async def test_a_criterion_that_pays_for_its_wrong_answer_is_refused(
    wrong: str, *, is_refused: bool
) -> None:
    claim = "Says that the gravity of the moon raises two bulges of water."
    changed = {"description": claim, "kind": "cause", "wrong_answer": wrong}
    draft = _draft(criteria=(_criterion(**changed), *_CRITERIA[1:]))
    task = _task(draft)
    assert "wrong_answer" not in str(task.to_json())
    if is_refused:
        with pytest.raises(StageRefusal, match="rewarded_wrong_answer: cause"):
            await check_wrong_answers(draft, task, ClaimJudge().judge)
    else:
        await check_wrong_answers(draft, task, ClaimJudge().judge)
