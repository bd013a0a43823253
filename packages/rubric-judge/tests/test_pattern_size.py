import json
import resource
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_judge import VerificationError, parse_verification
from rubric_judge.checks.pattern import RegexCheck, compiled_size

_BOUND = 10_000
_PROGRAM = """
import json, resource, sys
import regex

taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = taken + 192 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for pattern in json.load(sys.stdin):
    try:
        regex.compile(pattern)
    except regex.error:
        pass
    regex.purge()
"""
_PIECES = (
    *(
        "(",
        "(?:",
        "(?i:",
        "(?>",
        "(?=",
        "(?|",
        "(?<n>",
        "(?i)",
        "(?-i)",
        "(?1)",
        "(*SKIP)",
        "()",
    ),
    *(
        ")",
        ")+",
        "){9}",
        "){2,}",
        "){9}+",
        "|",
        "?",
        "*",
        "+",
        "{2}",
        "{,}",
        "{e<=1}",
        "{e<=0}",
    ),
    *(
        "a",
        "b+",
        "a{9}",
        "[(]",
        "[^])]",
        "[]a]",
        "[[:alpha:]]",
        "[a[",
        "[:",
        "[^",
        "]",
        "{",
        "}",
    ),
    *(
        "\\",
        "\\(",
        "\\)",
        "\\[",
        r"\p{L}",
        r"\p{(}",
        r"\N{(}",
        r"\X",
        ".",
        "^",
        "ß",
        "[\x01-\U0010ffff]",
    ),
)
_NESTED = st.integers(1, 12).flatmap(
    lambda levels: st.builds(
        lambda opened, core, closed: "".join((*opened, core, *closed)),
        st.lists(st.sampled_from(["(", "(?:", "[]"]), min_size=levels, max_size=levels),
        st.sampled_from(_PIECES),
        st.lists(
            st.sampled_from(
                [")+", "){9}", "){4,}", ")(?i){9}", "){e<=0}{9}", ")+|a", ")"]
            ),
            min_size=levels,
            max_size=levels,
        ),
    )
)
_PATTERNS = _NESTED | st.lists(st.sampled_from(_PIECES), max_size=30).map("".join)


def _compile(patterns: list[str]) -> None:
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM],
        input=json.dumps(patterns).encode(),
        check=True,
        capture_output=True,
    )


@settings(max_examples=8, deadline=None)
@given(st.lists(_PATTERNS, min_size=200, max_size=400))
def test_every_pattern_that_is_counted_small_compiles_in_bounded_memory(
    found: list[str],
) -> None:
    sizes = [(compiled_size(pattern), pattern) for pattern in found]

    _compile(
        [pattern for size, pattern in sizes if size is not None and size <= _BOUND]
    )


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:ab){3330}",
        "(" * 11 + "a" + "+)" * 11,
        "((((a{9}){9}){9})a)",
        "a{9999}",
        r"(?:\X){4990}",
    ],
)
def test_the_largest_patterns_compile_in_bounded_memory(pattern: str) -> None:
    assert isinstance(parse_verification(f"regex: {pattern}"), RegexCheck)
    _compile([pattern])


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(" * 49 + "a" + "{9})" * 49, "nest too deep"),
        ("(" * 20 + "a" + "{2})" * 20, "repeats what repeats"),
        ("(" * 20 + "a" + "+)" * 20, "repeats what repeats"),
        ("(?:" * 20 + "a" + "|b)+" * 20, "repeats what repeats"),
        ("(?:" * 15 + "a" + ")(?i){9}" * 15, "repeats what repeats"),
        ("(?:" * 15 + "a" + "){e<=0}{9}" * 15, "fuzzy groups"),
        ("((((a{9}){9}){9}){9}[[:script=latin:](]){9})", "no pattern"),
        ("a{99999999999999}", "repeats what repeats"),
        ("(?x)((a{9}){9}) {9}", "the flags"),
        ("(a{9})(?#[){9}", "comments"),
        ("a" * 2_001, "longer than"),
    ],
)
def test_a_pattern_that_would_take_all_memory_is_refused_before_it_is_compiled(
    pattern: str, problem: str
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(VerificationError) as caught:
        parse_verification(f"regex: {pattern}")

    assert problem in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_the_pattern_of_a_schema_is_bounded_before_the_schema_is_checked() -> None:
    bomb = json.dumps({"items": {"pattern": "(" * 20 + "a" + "+)" * 20}})

    with pytest.raises(VerificationError, match="pattern` repeats what repeats"):
        parse_verification(f"json_schema: {bomb}")


@pytest.mark.parametrize(
    "pattern",
    [
        r"\bO\(n(?:\s*log\s*n)?\)",
        r"(?i)(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?\s*(?:m/s|km/h)",
        r"(?s)^(?!.*\b(?:maybe|perhaps)\b).*$",
        r"[\w.+-]+@[\w-]+\.[a-z]{2,}",
        r'\{"a":\s*[{\[]',
        r"(?:[A-Za-z]+\s+){3,}[A-Za-z]+",
        r"(?P<open>\()[^)]+(?(open)\))",
        "[]()[{}^]+",
    ],
)
def test_a_pattern_as_people_write_them_is_accepted(pattern: str) -> None:
    assert isinstance(parse_verification(f"regex: {pattern}"), RegexCheck)
