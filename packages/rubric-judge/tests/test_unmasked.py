"""No text of a response makes a check fail: it would mask the response instead of scoring it 0."""

import json
from collections.abc import Callable
from dataclasses import replace

import pint
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rubric_core import Criterion, JudgeView, Outcome, Rubric
from rubric_judge import (
    HybridConfig,
    HybridJudge,
    JudgePool,
    LexicalJudge,
    VerificationError,
)
from rubric_judge.checks import deciding
from rubric_judge.checks.deciding import note_of_failure
from rubric_judge.checks.directive import parse_verification
from rubric_judge.checks.numeric import NumericCheck, states_number
from rubric_judge.checks.pattern import ProcessorTime, RegexCheck, matches_pattern
from rubric_judge.checks.phrases import ContainsCheck, contains, head, tail
from rubric_judge.checks.schema import (
    MOST_STEPS,
    PATTERNS_S,
    SchemaCheck,
    matches_schema,
)

ViewFactory = Callable[..., JudgeView]
CONFIG = HybridConfig.model_validate({"judge": {"type": "lexical"}})


def _judges() -> tuple[HybridJudge, LexicalJudge]:
    return HybridJudge(LexicalJudge(), CONFIG), LexicalJudge()


def _matched(check: SchemaCheck, text: str) -> tuple[bool, str]:
    return matches_schema(
        check, text, steps=MOST_STEPS, time_left=ProcessorTime(PATTERNS_S)
    )


def _decide(method: str, response: str) -> bool:
    """Execute a check without the boundary that would hide its failure."""
    match parse_verification(method):
        case NumericCheck() as check:
            anywhere = replace(check, where="any")
            return states_number(check, response) or states_number(anywhere, response)
        case SchemaCheck() as check:
            return _matched(check, response)[0]
        case ContainsCheck() as check:
            return contains(check, response)
        case RegexCheck(pattern):
            return matches_pattern(pattern, response, time_left=ProcessorTime(5))
        case _:
            raise AssertionError(method)


MASKS = [
    ("numeric: 5 ± 0.1 m", "I do not know; the roll-off is 20 dB/decade."),
    ("numeric: 5 ± 0.1 m", "5 dB/m"),
    ("numeric: 5 ± 0.1 W", "5 dBm/Hz"),
    ("numeric: 5 ± 0.1 m", "The loss is 5 dB cubed."),
    ("numeric: 5 ± 0.1 m; where=any", "5 octave/s"),
    ('json_schema: {"type": "number", "multipleOf": 0.5}', "1e999"),
    ('json_schema: {"type": "number", "multipleOf": 0.5}', "9" * 400),
    ('json_schema: {"multipleOf": 1e-300}', "1.5e300"),
    ('json_schema: {"enum": [1]}', "[" + "-1e400" + "]"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "response"), MASKS)
async def test_a_response_cannot_mask_its_own_score(
    method: str, response: str, make_view: ViewFactory
) -> None:
    assert not _decide(method, response)
    rubric = Rubric(
        criteria=(Criterion(id="c", weight=1.0, verification_method=method),)
    )
    for judge in _judges():
        (result,) = await JudgePool(judge).judge_all(
            [make_view(response, rubric=rubric)]
        )
        assert (result.outcome, result.scores) == (Outcome.SCORED, {"c": 0.0})


_WORDS = sorted(set(vars(pint.UnitRegistry())["_units"]))
words = st.sampled_from(
    [*_WORDS, "dB", "dBm", "octave", "squared", "cubed", "per", "Δ", "delta_"]
)
operators = st.sampled_from(
    [" ", "/", "*", "**", "^", "^-1", "·", " per ", "²", "(", ")", " / "]
)
units = st.lists(st.tuples(words, operators), min_size=1, max_size=4).map(
    lambda parts: "".join(word + operator for word, operator in parts)
)
quantities = st.tuples(
    st.sampled_from(
        ["5", "1e400", "-0", "5 ± 1", "3/0", "10^999", "٣", "5 million", "1,000"]
    ),
    st.sampled_from(["", " ", "\u2009"]),
    units,
).map("".join)
CHECKS = (
    "numeric: 5 ± 0.1",
    "numeric: 5 ± 0.1 m",
    "numeric: 5 ± 0.1 dB",
    "numeric: 5 ± 0.1 dBm",
    "numeric: 20 ± 0.1 °C",
    "numeric: 5 ± 0.1 [%]",
    "numeric: 5 ± 0.1 J/(mol K)",
    "numeric: 5 ± 0.1 apples",
    "contains_all: dB | 5 m",
    r"regex: (\d+\s*)+m$",
    'json_schema: {"type": ["number", "string"], "multipleOf": 0.1}',
)  # fmt: skip


@given(
    st.lists(quantities | st.text(max_size=8), max_size=3).map(", ".join),
    st.sampled_from(
        ["{}", "answer: {}", r"\boxed{{{}}}", "${}$", '"{}"', "```json\n{}\n```"]
    ),
    st.sampled_from(CHECKS),
)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_quantity_makes_a_check_fail(text: str, form: str, method: str) -> None:
    _decide(method, form.format(text))


@given(units)
@settings(max_examples=300, deadline=None)
def test_a_directive_with_any_unit_parses_or_is_refused_and_then_decides(
    unit: str,
) -> None:
    method = f"numeric: 5 ± 0.1 [{unit}]"
    try:
        check = parse_verification(method)
    except VerificationError:
        return
    assert isinstance(check, NumericCheck)
    for response in (f"5 {unit}", "5 m", "5 dB/m", "5"):
        states_number(check, response)


numbers = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from(["1e999", "-1e999", "1e-999", "9" * 400, "1E+308", "-0.0"]),
).map(str)
documents = numbers | st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner)
    ),
    max_leaves=5,
).map(json.dumps)
keywords = st.sampled_from([
    {"multipleOf": 0.5}, {"multipleOf": 1e-308}, {"multipleOf": 1e308}, {"minimum": 1e308},
    {"enum": [1, "a"]}, {"const": [1.0]}, {"uniqueItems": True}, {"type": "integer"},
    {"items": {"multipleOf": 0.1}}, {"maxLength": 1}, {"pattern": "^a"}, {"minProperties": 1},
])  # fmt: skip


@given(keywords, documents)
@settings(max_examples=300, deadline=None)
def test_no_json_makes_a_schema_fail(schema: dict[str, object], document: str) -> None:
    _matched(SchemaCheck(json.dumps(schema)), document)
    _matched(SchemaCheck(json.dumps({"items": schema})), f"[{document}]")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "kind", [AssertionError, OverflowError, RecursionError, MemoryError]
)
async def test_an_error_of_a_check_is_no_credit_and_said_so(
    kind: type[Exception], make_view: ViewFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise kind("of the response's text")

    monkeypatch.setattr(deciding, "states_number", fail)
    rubric = Rubric(
        criteria=(Criterion(id="c", weight=1.0, verification_method="numeric: 5"),)
    )

    for judge in _judges():
        (result,) = await JudgePool(judge).judge_all([make_view("5", rubric=rubric)])

        assert (result.outcome, result.scores) == (Outcome.SCORED, {"c": 0.0})
        assert f"its check ended in {kind.__name__}" in result.reasoning
        assert "of the response's text" not in result.reasoning


@pytest.mark.parametrize(
    "error", [VerificationError("broken"), ImportError("no pint"), OSError("no space")]
)
def test_what_is_not_the_responses_doing_stays_an_error(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        note_of_failure(error)
    assert caught.value is error


# --- cuts -----------------------------------------------------------------------------------------


def test_a_cut_makes_no_other_word_or_number() -> None:
    assert not _decide("numeric: 5", "1" + "5" + " " * 19_999)
    assert not _decide("numeric: 5; where=any", " " * 19_999 + "57")
    assert not _decide("contains_all: stable", " " * (100_000 - 6) + "stablehouse")
    assert not _decide(r"regex: \bstable\b", " " * (20_000 - 6) + "stablehouse")
    assert _decide("contains_all: stable", " " * (100_000 - 6) + "stable house")
    assert _decide("numeric: 5", "1 5" + " " * 19_999)


@given(st.text(alphabet="ab \n", max_size=30), st.integers(0, 12))
def test_an_excerpt_holds_whole_words(text: str, longest: int) -> None:
    first, last = head(text, longest), tail(text, longest)

    assert text.startswith(first)
    assert text.endswith(last)
    assert max(len(first), len(last)) <= longest
    n_first, n_last = len(first.split()), len(last.split())
    assert first.split() == text.split()[:n_first]
    assert last.split() == text.split()[len(text.split()) - n_last :]
