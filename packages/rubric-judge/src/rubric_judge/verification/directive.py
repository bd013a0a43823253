"""The grammar of `verification_method`: which part of it a program can execute.

The first line is a directive when it starts with one of these heads; anything else is free text
for a language model.

    regex: PATTERN
    numeric: 3.14 ± 0.01 [unit] [; unit=m/s^2] [; where=answer|any]
    contains_all: a | b            contains_any: a | b
    json_schema: SCHEMA            (here or on the lines that follow)
    python_tests:                  (tests on the lines that follow)

Two more say where the lexical judge looks for a criterion's terms, and what form it asks for:

    sentences: first | lead | last | any | with(a|b|...) [; skip_first] [; one] [; presence]
    structure: order(a|b -> c|d) ; count 3..7 ; clean_end

Each method has a module with its rules: `pattern`, `numeric`, `phrases`, `schema`, `python_tests`,
`scope`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from rubric_judge.verification.numeric import NumericCheck, read_numeric
from rubric_judge.verification.pattern import RegexCheck, read_pattern
from rubric_judge.verification.phrases import ContainsCheck, read_contains
from rubric_judge.verification.python_tests import PythonTests, read_python_tests
from rubric_judge.verification.schema import SchemaCheck, read_schema
from rubric_judge.verification.scope import (
    SentenceScope,
    StructureChecks,
    read_scope,
    read_structure,
)

ProgramCheck = ContainsCheck | RegexCheck | NumericCheck | SchemaCheck | PythonTests
"""A check that decides a criterion by itself."""

Directive = ProgramCheck | SentenceScope | StructureChecks


def parse_verification(method: str) -> Directive | None:
    """Read the executable part of a verification method.

    Args:
        method: a criterion's `verification_method`; only its first line is looked at, except by
            `json_schema:` and `python_tests:`.

    Returns:
        The directive, or None for free text.

    Raises:
        VerificationError: the line starts as a directive and does not parse; a typing error
            must not turn a check into free text unseen.
    """
    line, _, rest = method.lstrip().partition("\n")
    found = _HEAD.fullmatch(line.rstrip())
    if found is None:
        return None
    head, body = found.groups()
    return _READERS[head](f"{body}\n{rest}" if head in _OF_SEVERAL_LINES else body)


_OF_SEVERAL_LINES = ("json_schema", "python_tests")
_READERS: dict[str, Callable[[str], Directive]] = {
    "sentences": read_scope,
    "structure": read_structure,
    "contains_all": partial(read_contains, every=True),
    "contains_any": partial(read_contains, every=False),
    "regex": read_pattern,
    "numeric": read_numeric,
    "json_schema": read_schema,
    "python_tests": read_python_tests,
}
HEADS: Final = tuple(_READERS)
"""The words that a directive starts with, before its colon."""
_HEAD = re.compile(rf"\s*({'|'.join(_READERS)})\s*:\s*(.*)")
