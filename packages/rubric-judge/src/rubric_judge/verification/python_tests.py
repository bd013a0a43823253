"""`python_tests:` and, on the lines that follow, unit tests for the response's code.

    python_tests:
    assert area(2, 3) == 6
    def test_negative_sides_are_refused():
        try:
            area(-1, 1)
        except ValueError:
            return
        raise AssertionError

A test is a top-level `assert`, a function `test_…` without arguments, or such a method of a
`unittest.TestCase`; the other lines run in order as preparation. What the response's code defines
can be used by its name or imported from `solution`. Tests import only the standard library.
The score is the share of tests that pass; code that runs past a limit scores 0.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rubric_judge.errors import VerificationError
from rubric_judge.verification.python_source import fenced_blocks, parse_python

_LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class PythonTests:
    """Unit tests that the response's code must pass; graded by their share."""

    source: str
    n_tests: int


def read_python_tests(body: str) -> PythonTests:
    """Read the tests.

    Args:
        body: everything behind the colon; it may stand in one fenced block.

    Returns:
        The check.

    Raises:
        VerificationError: it is no Python, holds no test, or imports what the sandbox lacks.
    """
    if len(body) > _LONGEST:
        raise VerificationError(f"`python_tests:` is longer than {_LONGEST} characters")
    blocks = fenced_blocks(body)
    source = (blocks[0].text if len(blocks) == 1 else body).strip("\n")
    try:
        tree = parse_python(source)
    except SyntaxError as error:
        raise VerificationError(
            f"`python_tests:` is no Python: see line {error.lineno or 0} of the tests"
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise VerificationError("`python_tests:` is no usable Python, or nests too deep") from None
    _refuse_what_cannot_run(tree)
    n_tests = count_tests(tree)
    if not n_tests:
        raise VerificationError(
            "`python_tests:` holds no test; write `assert …` or `def test_…():` below it"
        )
    return PythonTests(source=source, n_tests=n_tests)


def count_tests(tree: ast.Module) -> int:
    """Return how many tests a module holds."""
    count = 0
    for statement in tree.body:
        if isinstance(statement, ast.Assert):
            count += 1
        elif isinstance(statement, ast.FunctionDef):
            count += statement.name.startswith("test")
        elif isinstance(statement, ast.ClassDef) and _is_test_case(statement):
            count += len(list(_test_methods(statement)))
    return count


def response_code(text: str) -> str | None:
    """Return the code of a response, or None where it has none.

    Args:
        text: the response.

    Returns:
        Its blocks marked `python`, one after the other; without any, its only unmarked block.
    """
    blocks = fenced_blocks(text)
    marked = [block.text for block in blocks if block.language in {"python", "py", "python3"}]
    if marked:
        return "\n".join(marked)
    plain = [block.text for block in blocks if not block.language]
    return plain[0] if len(plain) == 1 else None


def _is_test_case(node: ast.ClassDef) -> bool:
    return any(
        (isinstance(base, ast.Name) and base.id == "TestCase")
        or (isinstance(base, ast.Attribute) and base.attr == "TestCase")
        for base in node.bases
    )


def _test_methods(node: ast.ClassDef) -> Iterator[str]:
    seen = {
        statement.name
        for statement in node.body
        if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test")
    }
    yield from sorted(seen)


def _refuse_what_cannot_run(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                modules = [alias.name for alias in node.names]
            case ast.ImportFrom():
                modules = [node.module or ""]
            case _:
                continue
        if not all(map(_is_there, modules)):
            raise VerificationError(
                f"`python_tests:` line {node.lineno} imports what is not there; "
                "tests have the standard library and `solution`"
            )
    names: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not statement.name.startswith("test"):
                continue
            _refuse_function(statement)
        elif not (isinstance(statement, ast.ClassDef) and _is_test_case(statement)):
            continue
        if statement.name in names:
            raise VerificationError("`python_tests:` gives two tests the same name; rename one")
        names.add(statement.name)


def _refuse_function(test: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if isinstance(test, ast.AsyncFunctionDef):
        raise VerificationError(f"`python_tests:` line {test.lineno}: a test is no `async def`")
    if test.args.posonlyargs or test.args.args or test.args.kwonlyargs:
        raise VerificationError(f"`python_tests:` line {test.lineno}: a test takes no arguments")


def _is_there(module: str) -> bool:
    top = module.partition(".")[0]
    return top == "solution" or top in sys.stdlib_module_names
