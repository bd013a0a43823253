"""Questions that a program checks: from a document through the stages to a hybrid judge."""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from rubric_core import Outcome, Task
from rubric_judge import load_judge
from rubric_judge.testing import FakeEndpoint
from rubric_synth import Document, SynthConfig
from rubric_synth.calls import DocumentCalls
from rubric_synth.run.engines.worker import WorkerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_core import JudgeResult
    from rubric_judge.testing import FakeCall
    from rubric_synth.document import DocumentOutcome

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or find_spec("rubric_sandbox") is None,
    reason="needs Linux and rubric-judge[sandbox]",
)

TEXT = """A body that falls through air is slowed by a force that grows with its squared speed.

The force is k v^2. The coefficient k depends on the shape and the cross section of the body and on
the density of the air, and it is found by experiment.

When the force of the air has become as large as m g, nothing accelerates the body any more. From
then on its speed stays as it is: the terminal speed.

Heavier bodies of one shape fall faster in the end, by the root of the ratio of the masses."""
DOCUMENT = Document(source="fall.md", title="Falling bodies", text=TEXT)

ANALYSIS = {
    "genre": "textbook section",
    "contribution": "Derives the terminal speed of a falling body.",
    "concepts": ["terminal speed", "drag"],
    "depth": "introductory",
    "reasoning_mode": "derivation",
}


def _criterion(
    name: str, weight: float, check: dict[str, Any] | None = None
) -> dict[str, Any]:
    words = name.replace("_", " ")
    return {
        "id": name,
        "kind": "relation",
        "name": words.capitalize(),
        "description": f"Says that the {words} of the solution follows from drag and weight.",
        "wrong_answer": f"The {words} of the solution has nothing to do with drag.",
        "required_elements": [f"a correct {words}"],
        "expected_keywords": [words],
        "verification_method": f"Read the {words}.",
        "check": check,
        "scoring_guide": "All of it, half for a slip, nothing otherwise.",
        "weight": weight,
    }


QUANTITATIVE: dict[str, Any] = {
    "question_rationale": "It takes the balance of two forces and its solution.",
    "task_type": "quantitative",
    "first_paragraph": 1,
    "last_paragraph": 3,
    "question": "A sphere of mass 0.5 kg falls through still air, whose drag on it is 0.034 kg/m "
    "times its squared speed. With g = 9.81 m/s^2, at which constant speed does it end up? Finish "
    "with a line that begins with Answer: and gives number and unit.",
    "criteria": [
        _criterion("set_up", 2),
        _criterion("substitution", 1),
        _criterion("units", 1),
        _criterion("explanation", 1),
        _criterion(
            "number",
            4,
            {
                "kind": "numeric",
                "value": 12.01,
                "unit": "m/s",
                "tolerance": 2,
                "tolerance_as": "percent",
                "where": "answer",
            },
        ),
        _criterion(
            "balance",
            1,
            {
                "kind": "numeric",
                "value": 4.905,
                "unit": "N",
                "tolerance": 0.05,
                "tolerance_as": "absolute",
                "where": "any",
            },
        ),
    ],
    "reference_answer": "The set up: drag balances gravity, k v^2 = m g = 4.905 N. Substitution: "
    "v = sqrt(m g / k) = sqrt(144.3 m^2/s^2). The units agree. Explanation: without a net force "
    "the speed no longer changes.\nAnswer: 12.01 m/s",
}
CODE: dict[str, Any] = {
    "question_rationale": "It takes the formula, and what has no terminal speed.",
    "task_type": "code",
    "first_paragraph": 2,
    "last_paragraph": 4,
    "question": "Write a Python function terminal_speed(mass_kg, drag_kg_per_m) that returns in "
    "m/s how fast a sphere ends up falling, for g = 9.81 m/s^2 and drag proportional to the "
    "squared velocity. A value that is not positive raises ValueError.",
    "criteria": [
        _criterion("formula", 1),
        _criterion("reasoning", 1),
        _criterion("refusal", 1),
        _criterion(
            "cost", 1, {"kind": "contains_any", "phrases": ["square root", "sqrt"]}
        ),
        _criterion(
            "tests",
            5,
            {
                "kind": "python_tests",
                "tests": "import math\n"
                "assert math.isclose(terminal_speed(0.5, 0.034), 12.0110, rel_tol=1e-4)\n"
                "assert math.isclose(terminal_speed(2, 0.034), 24.0220, rel_tol=1e-4)\n"
                "def test_no_mass():\n"
                "    try:\n"
                "        terminal_speed(0, 1)\n"
                "    except ValueError:\n"
                "        return\n"
                "    raise AssertionError\n"
                "def test_no_drag():\n"
                "    try:\n"
                "        terminal_speed(1, 0)\n"
                "    except ValueError:\n"
                "        return\n"
                "    raise AssertionError\n",
            },
        ),
    ],
    "reference_answer": "The formula follows from equal forces.\nThe reasoning is that v is the "
    "square root of m g / k, and the refusal comes first.\n\n```python\ndef terminal_speed("
    "mass_kg, drag_kg_per_m):\n    if mass_kg <= 0 or drag_kg_per_m <= 0:\n        raise "
    "ValueError('give positive values')\n    return (9.81 * mass_kg / drag_kg_per_m) ** 0.5\n```",
}


class Model:
    """Plays the model of the stages and the judge of what is read."""

    def __init__(self, *drafts: Mapping[str, Any]) -> None:
        self.drafts = drafts

    def __call__(self, call: FakeCall) -> str | float:
        match call.body["response_format"]["json_schema"]["name"]:  # type: ignore[index]
            case "AnalysisReply":
                return json.dumps(ANALYSIS)
            case "CheckedSynthesisReply":
                return json.dumps({"drafts": self.drafts})
            case "EnrichmentReply":
                # A criterion that the reply leaves out stays as it is.
                return json.dumps({"criteria": []})
            case "JudgeReply":
                # Reads well what shows its reasons, and nothing else.
                answer = call.messages[-1]["content"][-1200:]
                reasons = ("agree",), ("equal forces", "reasoning is")
                return float(
                    any(all(map(answer.__contains__, shown)) for shown in reasons)
                )
            case other:
                raise AssertionError(other)


def _config(
    url: str, *, python_tests: bool = True, addresses: tuple[str, ...] = ()
) -> SynthConfig:
    model = {"model": "fake", "transport": "direct", "api_base": addresses or url}
    return SynthConfig.model_validate(
        {
            "synthesiser": {
                "type": "llm",
                "model": model,
                "questions_per_document": 3,
                "task_types": ["quantitative", "code"],
            },
            "quality": {
                "judge": {
                    "type": "hybrid",
                    "python_tests": python_tests,
                    "judge": {**model, "type": "llm", "api_base": url},
                }
            },
        }
    )


def _synthesised(
    *drafts: Mapping[str, Any], python_tests: bool = True
) -> DocumentOutcome:
    async def work(url: str) -> DocumentOutcome:
        worker = WorkerSpec(_config(url, python_tests=python_tests)).build()
        try:
            return await worker.process(DOCUMENT, DocumentCalls())
        finally:
            await worker.aclose()

    with FakeEndpoint(Model(*drafts)) as endpoint:
        return anyio.run(work, endpoint.url)


def _judged(task: Task, *answers: str) -> list[JudgeResult]:
    async def work(url: str) -> list[JudgeResult]:
        judge = load_judge(_config(url).quality.judge)
        try:
            return [await judge.judge(task.judge_view(answer)) for answer in answers]
        finally:
            await judge.aclose()  # type: ignore[attr-defined]

    with FakeEndpoint(Model()) as endpoint:
        results = anyio.run(work, endpoint.url)
    assert {result.outcome for result in results} == {Outcome.SCORED}
    return results


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    outcome = _synthesised(QUANTITATIVE, CODE)
    assert [(r.reason, r.detail) for r in outcome.rejections] == []
    found = [Task.from_json(task) for task in outcome.tasks]
    return dict(zip(("quantitative", "code"), found, strict=True))


def test_both_kinds_come_through_the_stages_with_their_directives(
    tasks: dict[str, Task],
) -> None:
    quantitative, code = tasks["quantitative"].rubric, tasks["code"].rubric

    assert quantitative["number"].verification_method.startswith(
        "numeric: 12.01 ± 2.0%; unit=m/s; where=answer\n"
    )
    assert quantitative["set_up"].verification_method == "Read the set up."
    assert code["tests"].verification_method.startswith(
        "python_tests:\nimport math\nassert "
    )
    assert code["cost"].verification_method.startswith(
        "contains_any: square root | sqrt\n"
    )


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("Answer: 12.01 m/s", 4),
        ("Answer: 12 m/s", 4),
        ("Answer: 11.9 m s^-1", 4),
        ("Answer: 43.2 km/h", 4),
        ("Answer: 1.2 × 10^3 cm/s", 4),
        (r"\boxed{12.0\,\mathrm{m/s}}", 4),
        ("It ends at 7 m/s... no.\nAnswer: 12.0 m/s", 4),
        ("Answer: 12.01", 0),
        ("Answer: 12.01 m", 0),
        ("Answer: 12.5 m/s", 0),
        ("Answer: 12.01 km/h", 0),
        ("Answer: 24.02 m/s", 0),
        ("Answer: -12.01 m/s", 0),
        ("Answer: 11 or 12 m/s", 0),
        ("Answer: not 12.01 m/s", 0),
        ("It is 12.01 m/s.\nAnswer: 9.81 m/s", 0),
        ("", 0),
        (QUANTITATIVE["question"], 0),
    ],
)
def test_the_right_number_in_any_notation_earns_its_weight_and_a_wrong_one_nothing(
    tasks: dict[str, Task], answer: str, number: float
) -> None:
    (result,) = _judged(tasks["quantitative"], answer)

    assert result.scores["number"] == number
    assert result.scores["balance"] == 0


def test_a_program_and_a_model_share_one_rubric(tasks: dict[str, Task]) -> None:
    reference = QUANTITATIVE["reference_answer"]
    right, wrong = _judged(
        tasks["quantitative"], reference, reference.replace("12.01", "13.01")
    )

    assert (right.total, right.scores["balance"]) == (10, 1)
    assert {k: v for k, v in right.scores.items() if v != wrong.scores[k]} == {
        "number": 4
    }


def test_code_earns_the_share_of_the_tests_that_it_passes(
    tasks: dict[str, Task],
) -> None:
    reference = CODE["reference_answer"]
    results = _judged(
        tasks["code"],
        reference,
        reference.replace("9.81 * mass_kg", "9.81 * mass_kg * 2"),
        reference.replace("raise ValueError('give positive values')", "return None"),
        "v is the square root of m g / k.",
        "",
        CODE["question"],
        "```python\nimport os\nos._exit(0)\n```",
    )

    assert [result.scores["tests"] for result in results] == [5, 2.5, 2.5, 0, 0, 0, 0]
    assert [result.scores["cost"] for result in results] == [1, 1, 1, 1, 0, 0, 0]


def _with(draft: Mapping[str, Any], position: int, **check: object) -> dict[str, Any]:
    criteria = [dict(criterion) for criterion in draft["criteria"]]
    criteria[position]["check"] = {**criteria[position]["check"], **check}
    return {**draft, "criteria": criteria}


@pytest.mark.parametrize(
    ("draft", "stage"),
    [
        (_with(QUANTITATIVE, 4, value=13.01), "quality"),
        (_with(QUANTITATIVE, 4, unit="m"), "quality"),
        (_with(QUANTITATIVE, 4, value=0.034, unit="kg/m", where="any"), "quality"),
        (_with(QUANTITATIVE, 4, unit="m/sec2"), "synthesise"),
        (_with(QUANTITATIVE, 4, tolerance=60), "synthesise"),
        (_with(CODE, 3, phrases=["sphere"]), "quality"),
        (_with(CODE, 4, tests="assert callable(terminal_speed)"), "quality"),
        (_with(CODE, 4, tests="assert terminal_speed(1, 1) == 2"), "quality"),
        (_with(CODE, 4, tests="assert terminal_speed(1, 1 =="), "synthesise"),
        (
            {
                **CODE,
                "reference_answer": "The reasoning is the square root of m g / k.",
            },
            "quality",
        ),
    ],
)
def test_a_check_that_does_not_check_leaves_out_its_own_question_alone(
    draft: dict[str, Any], stage: str
) -> None:
    other = CODE if draft["task_type"] == "quantitative" else QUANTITATIVE

    outcome = _synthesised(draft, other)

    assert [(r.stage, str(r.reason)) for r in outcome.rejections] == [
        (stage, "broken_check")
    ]
    assert [Task.from_json(task).question for task in outcome.tasks] == [
        other["question"]
    ]


def test_tests_that_no_sandbox_runs_are_read_by_the_judge_and_kept() -> None:
    wrong = CODE["reference_answer"].replace("9.81", "1.62")

    outcome = _synthesised({**CODE, "reference_answer": wrong}, python_tests=False)

    assert [(r.reason, r.detail) for r in outcome.rejections] == []
    assert len(outcome.tasks) == 1


def test_the_questions_about_one_document_go_to_one_of_several_replicas() -> None:
    async def work(one: str, other: str) -> None:
        worker = WorkerSpec(_config(one, addresses=(one, other))).build()
        try:
            for number in range(12):
                text = f"{TEXT}\n\nNote {number}."
                document = Document(source="fall.md", title=f"Note {number}", text=text)
                await worker.process(document, DocumentCalls())
        finally:
            await worker.aclose()

    with (
        FakeEndpoint(Model(QUANTITATIVE)) as one,
        FakeEndpoint(Model(QUANTITATIVE)) as other,
    ):
        anyio.run(work, one.url, other.url)
        asked = [_stage_calls(endpoint) for endpoint in (one, other)]

    assert all(asked)
    for counts in asked:
        assert set(counts.values()) == {3}
    assert not set(asked[0]) & set(asked[1])


def _stage_calls(endpoint: FakeEndpoint) -> Counter[str]:
    marks = (
        call.messages[-1]["content"].partition("\n")[2][:60]
        for call in endpoint.calls
        if not call.weights
    )
    return Counter(marks)
