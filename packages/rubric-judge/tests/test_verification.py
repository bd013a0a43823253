import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_judge import VerificationError, parse_verification
from rubric_judge.checks.directive import (
    Directive,
    SentenceScope,
    StructureChecks,
)
from rubric_judge.checks.numeric import NumericCheck
from rubric_judge.checks.pattern import RegexCheck
from rubric_judge.checks.phrases import ContainsCheck, contains
from rubric_judge.checks.python_tests import PythonTests


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
        ("regex: (unclosed", "is no pattern"),
        ("regex: a**", "character"),
        pytest.param(
            "regex: " + "(" * 900 + ")" * 900, "nest too deep", id="deep pattern"
        ),
        pytest.param(
            "structure: count 1.." + "9" * 5000, "part 1 is unknown", id="long count"
        ),
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


HEADS = ("", "sentences: ", "structure: ", "contains_all: ", "regex: ", "numeric: ",
         "json_schema: ", "python_tests:\n")  # fmt: skip


@given(st.text())
def test_no_text_makes_the_parser_fail_otherwise_or_gets_into_its_message(
    text: str,
) -> None:
    for head in HEADS:
        message = ""
        try:
            parse_verification(f"{head}{text} Zyzzyva (")
        except VerificationError as error:
            message = str(error)
        assert "Zyzzyva" not in message


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "(",
        "[",
        "{",
        '{"a":',
        "1",
        " ",
        "|",
        ";",
        "->",
        "\n",
        "a|b -> ",
        "assert 1\n",
        "±",
    ],
)
def test_a_method_of_any_length_is_parsed_in_bounded_time(head: str, unit: str) -> None:
    started_s = time.process_time()

    with contextlib.suppress(VerificationError):
        parse_verification(head + unit * (100_000 // len(unit)))

    assert time.process_time() - started_s < 3.0


@pytest.mark.parametrize(
    ("tests", "remedy"),
    [
        ("", "holds no test"),
        ("x = 1", "holds no test"),
        ("def helper(): pass", "holds no test"),
        ("assert f(", "see line"),
        ("return 1", "see line"),
        ("import pytest\nassert 1", "line 1 imports what is not there"),
        ("from numpy import array\nassert 1", "imports what is not there"),
        ("async def test_a(): pass", "no `async def`"),
        ("def test_a(tmp_path): pass", "takes no arguments"),
        ("def test_a(): pass\ndef test_a(): pass", "the same name"),
        ("break\nassert 1", "see line 1"),
        ("yield 1\nassert 1", "see line 1"),
        ("def test_a(a, a): pass", "see line 1"),
        ("class A(1" + " + 1" * 900 + "): pass\nassert 1", "nests too deep"),
        ("assert 1\n" * 20_000, "longer than"),
    ],
)
def test_unit_tests_that_cannot_run_are_refused(tests: str, remedy: str) -> None:
    with pytest.raises(VerificationError) as caught:
        parse_verification(f"python_tests:\n{tests}")
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("tests", "n_tests"),
    [
        ("assert 1\nassert 2", 2),
        ("```python\nassert 1\n```", 1),
        ("def test_a(): pass\ndef helper(): assert 1", 1),
        (
            "import unittest\nclass A(unittest.TestCase):\n  def test_a(self): 1\n  def x(self): 1",
            1,
        ),
        ("if True:\n    assert 1\nassert 2", 1),
    ],
)
def test_unit_tests_are_counted_before_they_run(tests: str, n_tests: int) -> None:
    check = parse_verification(f"python_tests:\n{tests}")
    assert isinstance(check, PythonTests)
    assert check.n_tests == n_tests


def test_unit_tests_that_the_compiler_would_not_be_done_with_are_read_at_once() -> None:
    nested = "".join(f"{' ' * i}try: a()\n{' ' * i}finally:\n" for i in range(18))
    started_s = time.process_time()

    check = parse_verification(f"python_tests:\n{nested}{' ' * 18}a()\nassert 1")

    assert isinstance(check, PythonTests)
    assert time.process_time() - started_s < 0.5


@pytest.mark.parametrize(
    "source",
    [
        "for a in b:\n    if a: continue\nelse:\n    pass\nassert 1",
        "while a:\n    def f():\n        return 1\n    break\nassert 1",
        "async def f():\n    await a\n    yield 1\nassert 1",
        "f = lambda: (yield)\nassert 1",
        "if a: pass\n" + "elif b: pass\n" * 40 + "assert 1",
    ],
)
def test_what_the_compiler_accepts_is_read_as_tests(source: str) -> None:
    compile(source, "<tests>", "exec", dont_inherit=True)

    assert isinstance(parse_verification(f"python_tests:\n{source}"), PythonTests)


@given(st.text(max_size=200), st.sampled_from(["drag", "Drag force", "C++", "a_b"]))
def test_a_phrase_is_found_as_whole_words_only(text: str, phrase: str) -> None:
    check = ContainsCheck((phrase,), every=True)

    assert contains(check, f"{text} {phrase} {text}")
    assert not contains(check, f"x{phrase}x")
