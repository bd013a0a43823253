from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_judge import VerificationError, parse_verification
from rubric_judge.verification import Directive
from rubric_judge.verification.numeric import NumericCheck
from rubric_judge.verification.pattern import RegexCheck
from rubric_judge.verification.phrases import ContainsCheck
from rubric_judge.verification.scope import SentenceScope, StructureChecks


@pytest.mark.parametrize(
    ("method", "directive"),
    [
        ("sentences: first", SentenceScope("first")),
        ("sentences: lead", SentenceScope("lead")),
        ("sentences: last", SentenceScope("last")),
        ("sentences:any", SentenceScope("any")),
        ("sentences: with(in1|in2)", SentenceScope("with", ("in1", "in2"))),
        (
            "sentences: with( note | only ) ; skip_first ; one ; presence",
            SentenceScope("with", ("note", "only"), skip_first=True, one=True, presence=True),
        ),
        ("  sentences: first  \nThe rest is for a reader.", SentenceScope("first")),
        (
            "structure: order(in1|in2 -> return); count 3..7; clean_end",
            StructureChecks((("in1", "in2"), ("return",)), (3, 7), clean_end=True),
        ),
        ("structure: clean_end", StructureChecks(clean_end=True)),
        ("contains_all: mean | root square", ContainsCheck(("mean", "root square"), every=True)),
        ("contains_any: mean | `median`", ContainsCheck(("mean", "median"), every=False)),
        (r"regex: \bO\(n\)", RegexCheck(r"\bO\(n\)")),
        ("numeric: 42", NumericCheck(42.0, 0.0)),
        ("numeric: 3.14 ± 0.01", NumericCheck(3.14, 0.01)),
        ("numeric: -1.5e-3 +/- 1e-4 [m/s]", NumericCheck(-1.5e-3, 1e-4, "m/s")),
        ("numeric: 200 ± 5% Hz", NumericCheck(200.0, 10.0, "Hz")),
    ],
)  # fmt: skip
def test_a_directive_is_read(method: str, directive: Directive) -> None:
    assert parse_verification(method) == directive


@pytest.mark.parametrize(
    "method",
    [
        "",
        "Check that the answer names the loss.",
        "Sentences: first",
        "Look in the sentences: first or last.",
        "\nThe judge decides.\nsentences: first",
    ],
)
def test_anything_else_is_free_text(method: str) -> None:
    assert parse_verification(method) is None


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        ("sentences: middle", "first, lead, last, any or with"),
        ("sentences: with()", "none of them empty"),
        ("sentences: first; twice", "option 1 is unknown"),
        ("sentences: first; one; onse", "option 2 is unknown"),
        ("structure: count 3", "part 1 is unknown"),
        ("structure: order(a)", "at least two groups"),
        ("structure: order(a -> )", "none of them empty"),
        ("structure: count 7..3", "smaller number first"),
        ("contains_all: a | | b", "none of them empty"),
        ("regex:", "needs a pattern"),
        ("regex: (unclosed", "character"),
        pytest.param("regex: " + "(" * 9000 + ")" * 9000, "nest too deep", id="deep pattern"),
        pytest.param("structure: count 1.." + "9" * 5000, "part 1 is unknown", id="long count"),
        ("numeric: many", "VALUE ± TOLERANCE"),
        ("numeric: 1.2.3", "VALUE ± TOLERANCE"),
    ],
)
def test_a_directive_that_does_not_parse_is_an_error_not_free_text(
    method: str, remedy: str
) -> None:
    with pytest.raises(VerificationError, match=r"^verification_method: ") as caught:
        parse_verification(method)
    assert remedy in str(caught.value)


@given(st.text())
def test_no_text_makes_the_parser_fail_otherwise_or_gets_into_its_message(text: str) -> None:
    for head in ("", "sentences: ", "structure: ", "contains_all: ", "regex: ", "numeric: "):
        message = ""
        try:
            parse_verification(f"{head}{text} Zyzzyva (")
        except VerificationError as error:
            message = str(error)
        assert "Zyzzyva" not in message
