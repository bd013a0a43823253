"""Executable criteria of a draft: kept where they tell right from wrong, refused where not."""

import sys
import warnings
from importlib.util import find_spec

import anyio
import pytest

from rubric_judge import HybridConfig, LexicalConfig, SandboxConfig
from rubric_synth import (
    CriterionDraft,
    Draft,
    QualityConfig,
    RejectionReason,
    StageRefusal,
)
from rubric_synth.config import TaskType
from rubric_synth.quality.answers import check_executable_criteria

READ_ONLY = QualityConfig()
EXECUTED = QualityConfig(
    judge=HybridConfig(
        judge=LexicalConfig(),
        python_tests=True,
        sandbox=SandboxConfig(timeout_s=5, cpu_s=2),
    )
)
sandboxed = pytest.mark.skipif(
    sys.platform != "linux" or find_spec("rubric_sandbox") is None,
    reason="needs Linux and rubric-judge[sandbox]",
)

SPEED_QUESTION = (
    "A sphere of 0.5 kg falls through air; the drag on it is 0.034 kg/m times the square of its "
    "speed. At which speed does it fall in the end, with g = 9.81 m/s^2?"
)
SPEED_ANSWER = (
    "The drag equals the weight: k v^2 = m g = 4.905 N.\n"
    "So v = sqrt(4.905 N / 0.034 kg/m) = 12.01 m/s.\n"
    "Answer: 12.0 m/s"
)
AREA_QUESTION = (
    "Write `area(a, b)`, the area of a rectangle; a negative side is a ValueError."
)
AREA_TESTS = """python_tests:
assert area(2, 3) == 6
assert area(0, 3) == 0
def test_a_negative_side_is_refused():
    try:
        area(-1, 1)
    except ValueError:
        return
    raise AssertionError
"""
AREA_ANSWER = """The area is the product of the sides.

```python
def area(a, b):
    if min(a, b) < 0:
        raise ValueError("a side is negative")
    return a * b
```
"""


def _draft(kind: TaskType, question: str, answer: str, *methods: str) -> Draft:
    criteria = tuple(
        CriterionDraft(id=f"c{number}", weight=1.0, verification_method=method)
        for number, method in enumerate(
            ("Read whether the method is explained.", *methods)
        )
    )
    return Draft(
        question=question,
        passage="",
        criteria=criteria,
        reference_answer=answer,
        task_type=kind,
    )


def _quantitative(*methods: str, answer: str = SPEED_ANSWER) -> Draft:
    return _draft("quantitative", SPEED_QUESTION, answer, *methods)


def _code(
    *methods: str, answer: str = AREA_ANSWER, question: str = AREA_QUESTION
) -> Draft:
    return _draft("code", question, answer, *methods)


def _check(draft: Draft, config: QualityConfig = READ_ONLY) -> None:
    anyio.run(check_executable_criteria, draft, config)


def _problem(draft: Draft, config: QualityConfig = READ_ONLY) -> str:
    with pytest.raises(StageRefusal) as refused:
        _check(draft, config)
    assert refused.value.reason is RejectionReason.BROKEN_CHECK
    return refused.value.detail


def test_a_number_that_the_reference_answer_states_is_kept() -> None:
    _check(
        _quantitative(
            "numeric: 12.0 ± 2%; unit=m/s; where=answer",
            "numeric: 4.9 ± 1%; unit=N; where=any",
            "contains_all: drag | weight | equals",
        )
    )


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        (
            "numeric: 13.0 ± 2%; unit=m/s; where=answer",
            "c1: the reference answer fails it",
        ),
        (
            "numeric: 12.0 ± 2%; unit=N; where=answer",
            "c1: the reference answer fails it",
        ),
        ("numeric: 12.0 ± 2%; unit=m/s;", "c1: `numeric:` option 2 is unknown"),
        ("numeric: 12.0 ± 12; unit=m/s", "c1: a wrong number passes it"),
    ],
)
def test_a_number_that_does_not_tell_right_from_wrong_is_refused(
    method: str, problem: str
) -> None:
    assert _problem(_quantitative(method)).startswith(problem)


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("numeric: 0.5 ± 1%; unit=kg; where=any", "c2: the reference answer fails it"),
        ("numeric: 0.034 ± 1%; unit=kg/m; where=any", "c2: the question passes it"),
        ("contains_all: drag | speed", "c2: the reference answer fails it"),
        ("contains_any: drag | lift", "c2: the question passes it"),
        ("regex: .*", "c2: an empty answer passes it"),
        ("regex: (", "c2: `regex:` is no pattern"),
    ],
)
def test_a_further_check_that_pays_for_anything_is_refused(
    method: str, problem: str
) -> None:
    draft = _quantitative("numeric: 12.0 ± 2%; unit=m/s; where=answer", method)

    assert _problem(draft).startswith(problem)


@pytest.mark.parametrize(
    "answer",
    [
        "Answer: 12 m/s",
        "So it falls at 43.2 km/h.",
        r"\boxed{12.0\ \mathrm{m/s}}",
        "Answer: 1.2 × 10^1 m/s",
        "Answer: 1200 cm/s",
    ],
)
def test_the_reference_answer_may_write_its_number_in_another_notation(
    answer: str,
) -> None:
    _check(_quantitative("numeric: 12.0 ± 2%; unit=m/s", answer=answer))


def test_a_value_of_zero_is_told_from_another() -> None:
    _check(_quantitative("numeric: 0.0 ± 0.01; unit=N", answer="Answer: 0 N"))


@pytest.mark.parametrize(
    ("draft", "kind"),
    [
        (_quantitative("contains_all: drag | weight | equals"), "quantitative"),
        (_code("contains_all: product"), "code"),
    ],
)
def test_a_question_of_a_kind_needs_a_check_of_that_kind(
    draft: Draft, kind: str
) -> None:
    assert _problem(draft) == f"a {kind} question without a check of that kind"


def test_an_open_question_needs_no_executable_criterion() -> None:
    _check(_draft("open", SPEED_QUESTION, SPEED_ANSWER))


def test_the_executable_criteria_of_an_open_question_are_run_too() -> None:
    draft = _draft("open", SPEED_QUESTION, SPEED_ANSWER, "numeric: 13.0 ± 2%; unit=m/s")
    assert _problem(draft) == "c1: the reference answer fails it"


@sandboxed
def test_tests_of_an_open_question_are_run_as_those_of_a_program() -> None:
    wrong = AREA_ANSWER.replace("a * b", "a + b")
    draft = _draft("open", AREA_QUESTION, wrong, AREA_TESTS)
    assert _problem(draft, EXECUTED).startswith("c1: the code of the reference answer")
    prose = _draft("open", AREA_QUESTION, "The product.", AREA_TESTS)
    assert _problem(prose) == "c1: the reference answer holds no block of Python"


def test_a_schema_is_kept_where_it_tells_right_from_wrong() -> None:
    schema = 'json_schema: {"type": "object", "required": ["speed"]}'
    question = "Give the speed as JSON."
    _check(_draft("open", question, '```json\n{"speed": 12}\n```', schema))
    draft = _draft("open", question, '```json\n{"mass": 12}\n```', schema)
    assert _problem(draft) == "c1: the reference answer fails it"


@sandboxed
def test_code_that_passes_its_tests_every_time_is_kept() -> None:
    _check(_code(AREA_TESTS, "contains_any: product"), EXECUTED)


@sandboxed
@pytest.mark.parametrize(
    ("answer", "tests", "problem"),
    [
        (
            AREA_ANSWER.replace("a * b", "a + b"),
            AREA_TESTS,
            "c1: the code of the reference answer does not pass every test",
        ),
        (
            "```python\nimport time\ndef area(a, b):\n    return time.time_ns() % 2 + a * b\n```",
            "python_tests:\n" + "\n".join(["assert area(2, 3) == 6"] * 8),
            "c1: the code of the reference answer does not pass every test",
        ),
        (
            AREA_ANSWER,
            "python_tests:\nassert callable(area)",
            "c1: functions that do nothing",
        ),
        (
            AREA_ANSWER,
            "python_tests:\narea(1, 1)\nassert True",
            "c1: functions that do nothing",
        ),
    ],
)
def test_tests_that_do_not_tell_right_from_wrong_are_refused(
    answer: str, tests: str, problem: str
) -> None:
    assert _problem(_code(tests, answer=answer), EXECUTED).startswith(problem)


@sandboxed
def test_a_question_that_holds_the_program_is_refused() -> None:
    question = f"What does this do?\n\n{AREA_ANSWER}"

    assert (
        _problem(_code(AREA_TESTS, question=question), EXECUTED)
        == "c1: the question passes it"
    )


def test_code_is_compiled_and_never_executed_without_a_sandbox(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = "```python\nprint('executed')\nraise SystemExit(3)\n```"

    _check(_code(AREA_TESTS, answer=wrong))

    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(READ_ONLY, id="compiled"),
        pytest.param(EXECUTED, id="executed", marks=sandboxed),
    ],
)
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("The area is a times b.", "c1: the reference answer holds no block of Python"),
        (
            "```python\ndef area(a, b) return\n```",
            "c1: the reference answer's code does not",
        ),
        (
            "```python\nreturn 3\n```",
            "c1: the reference answer's code does not compile",
        ),
        (
            f"```python\n{'(' * 5000}\n```",
            "c1: the reference answer's code does not compile",
        ),
        (
            f"```python\nx = {'-' * 90000}1\n```",
            "c1: the reference answer's code does not",
        ),
        (
            "```python\nx = 'a\0b'\n```",
            "c1: the reference answer's code does not compile",
        ),
        (
            f"```python\n{'x = 1;' * 20000}\n```",
            "c1: the reference answer's code is above",
        ),
    ],
)
def test_code_that_does_not_compile_is_refused(
    config: QualityConfig, answer: str, problem: str
) -> None:
    assert _problem(_code(AREA_TESTS, answer=answer), config).startswith(problem)


def test_an_odd_escape_sequence_in_the_code_is_no_warning() -> None:
    answer = AREA_ANSWER.replace("a side is negative", r"a \side is negative")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _check(_code(AREA_TESTS, answer=answer))


@sandboxed
def test_a_sandbox_that_does_not_start_settles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(StageRefusal) as refused:
        _check(_code(AREA_TESTS), EXECUTED)

    assert refused.value.reason is RejectionReason.JUDGE_UNAVAILABLE
    assert not refused.value.reason.is_settled
