"""`python_tests:` and unit tests for the response's code, which is read without compiling it.

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

import ast
import re
import symtable
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

from rubric_judge.errors import VerificationError

_DEEPEST = 200
"""Most levels of a syntax tree; an expression uses several levels per visible nesting."""
_DEEPEST_BLOCK = 20
"""Most levels of compound statements, such as `if` and `for`, within one another."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_OF_FUNCTIONS = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_OF_LOOPS = (ast.Break, ast.Continue)
_BLOCKS = (
    *_SCOPES,
    *_LOOPS,
    ast.If,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)


class _Place(NamedTuple):
    node: ast.AST
    level: int = 0
    blocks: int = 0
    in_function: bool = False
    in_loop: bool = False


def parse_python(source: str) -> ast.Module:
    """Return the syntax tree of a module that the compiler would accept.

    Args:
        source: untrusted; it is not compiled, and not executed.

    Returns:
        Its tree, of at most 200 levels.

    Raises:
        SyntaxError: the source is not valid Python; or a `return`, `yield`, `await`, `break` or
            `continue` is out of place.
        RecursionError: statements nest more than 20 deep, or expressions too deep.
        ValueError: it holds what source may not, such as a null character.
        MemoryError: the parser gave up.
    """
    try:
        tree = ast.parse(source)
    # CPython 3.11's parser raised this once, for a valid source.
    except SystemError:
        tree = ast.parse(source)
    waiting = [_Place(tree)]
    while waiting:
        place = waiting.pop()
        if place.level > _DEEPEST or place.blocks > _DEEPEST_BLOCK:
            raise RecursionError("nested too deep")
        needs_function = isinstance(place.node, _OF_FUNCTIONS) and not place.in_function
        if needs_function or (isinstance(place.node, _OF_LOOPS) and not place.in_loop):
            where = ("<source>", getattr(place.node, "lineno", 0), 0, None)
            raise SyntaxError("out of place", where)
        waiting.extend(_below(place))
    # Checks scoping rules: duplicate arguments, `global`, `nonlocal`.
    symtable.symtable(source, "<source>", "exec")
    return tree


def _below(place: _Place) -> Iterator[_Place]:
    node = place.node
    inherits = not isinstance(node, (*_SCOPES, ast.Lambda))
    in_function = isinstance(node, _FUNCTIONS) or (place.in_function and inherits)
    for name, value in ast.iter_fields(node):
        # `break` in a loop's `else` belongs to the enclosing loop.
        in_loop = (isinstance(node, _LOOPS) and name == "body") or (
            place.in_loop and inherits
        )
        children = cast("list[object]", value if isinstance(value, list) else [value])
        # `elif` is an `if` in an `else`, but not deeper.
        is_elif = (
            name == "orelse" and len(children) == 1 and isinstance(children[0], ast.If)
        )
        level = place.level
        blocks = place.blocks
        if not is_elif:
            level += 1
            if isinstance(node, _BLOCKS):
                blocks += 1
        for child in children:
            if isinstance(child, ast.AST):
                yield _Place(child, level, blocks, in_function, in_loop)


# Possessive: the parts may hold the same characters, and a line of tildes that ends in a backtick
# would be split in every way there is.
_FENCE = re.compile(
    r" {0,3}(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[^\s`]*+)[^`]*+"
)


@dataclass(frozen=True)
class Block:
    """A code block that is opened and closed."""

    language: str
    """The word after the opening fence, in lower case; empty where there is none."""
    text: str


def fenced_blocks(text: str) -> list[Block]:
    """Read the fenced blocks in order; an unclosed block was cut off and is ignored."""
    blocks: list[Block] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        match = _FENCE.fullmatch(line)
        if opening is None:
            opening = match
            lines = []
        elif (
            match
            and not match["language"]
            and match["fence"].startswith(opening["fence"])
        ):
            blocks.append(Block(opening["language"].lower(), "\n".join(lines)))
            opening = None
        else:
            lines.append(line)
    return blocks


_LONGEST = 100_000
_IMPORTABLE = sys.stdlib_module_names | {"solution"}


@dataclass(frozen=True)
class PythonTests:
    """Unit tests that the response's code must pass; graded by their share."""

    source: str
    n_tests: int


_unusable = partial(VerificationError.of, "python_tests:")


def read_python_tests(body: str) -> PythonTests:
    """Read the tests.

    Args:
        body: everything after the colon; it may stand in one fenced block.

    Returns:
        The check.

    Raises:
        VerificationError: it is not valid Python, holds no test, or imports what the sandbox lacks.
    """
    if len(body) > _LONGEST:
        raise _unusable(f"is longer than {_LONGEST} characters")
    blocks = fenced_blocks(body)
    source = (blocks[0].text if len(blocks) == 1 else body).strip("\n")
    try:
        tree = parse_python(source)
    except SyntaxError as error:
        raise _unusable(
            f"is no Python: see line {error.lineno or 0} of the tests"
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise _unusable("is no usable Python, or nests too deep") from None
    _refuse_imports(tree)
    n_tests = _count_tests(tree)
    if not n_tests:
        raise _unusable("holds no test; write `assert …` or `def test_…():` below it")
    return PythonTests(source=source, n_tests=n_tests)


def response_code(text: str) -> str | None:
    """Return the code of a response, or None where it has none.

    Args:
        text: the response.

    Returns:
        Its blocks marked `python`, one after the other; without any, its only unmarked block.
    """
    blocks = fenced_blocks(text)
    marked = [
        block.text for block in blocks if block.language in {"python", "py", "python3"}
    ]
    if marked:
        return "\n".join(marked)
    plain = [block.text for block in blocks if not block.language]
    return plain[0] if len(plain) == 1 else None


def _is_test_case(node: ast.ClassDef) -> bool:
    return any(
        "TestCase" in {getattr(base, "id", ""), getattr(base, "attr", "")}
        for base in node.bases
    )


def _refuse_imports(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            continue
        if not _IMPORTABLE.issuperset(module.partition(".")[0] for module in modules):
            raise _unusable(
                f"line {node.lineno} imports what is not there; tests have the standard "
                "library and `solution`"
            )


def _count_tests(tree: ast.Module) -> int:
    """Count the tests, and refuse those that could not run or would hide one another."""
    count = 0
    names: set[str] = set()
    for statement in tree.body:
        match statement:
            case ast.Assert():
                count += 1
                continue
            case ast.AsyncFunctionDef(name=name, lineno=line) if name.startswith(
                "test"
            ):
                raise _unusable(f"line {line}: a test is no `async def`")
            case ast.FunctionDef(name=name, args=args, lineno=line) if name.startswith(
                "test"
            ):
                if args.posonlyargs or args.args or args.kwonlyargs:
                    raise _unusable(f"line {line}: a test takes no arguments")
                count += 1
            case ast.ClassDef(name=name, body=body) if _is_test_case(statement):
                methods = {
                    function_def.name
                    for function_def in body
                    if isinstance(function_def, ast.FunctionDef)
                }
                count += sum(method.startswith("test") for method in methods)
            case _:
                continue
        if name in names:
            raise _unusable("gives two tests the same name; rename one")
        names.add(name)
    return count
