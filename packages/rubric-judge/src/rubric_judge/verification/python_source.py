"""Python that somebody else wrote, read without compiling it.

The compiler writes a `finally` once for each way out of its `try`: a few hundred characters keep it
for minutes where they nest. Code is compiled where it runs, in the sandbox and under its limits.
"""

from __future__ import annotations

import ast
import re
import symtable
from dataclasses import dataclass
from typing import NamedTuple, cast

_DEEPEST = 200
"""Levels of a syntax tree; expressions take several for each that is seen."""
_DEEPEST_BLOCK = 20

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Block = (
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.For
    | ast.AsyncFor
    | ast.While
    | ast.If
    | ast.With
    | ast.AsyncWith
    | ast.Try
    | ast.TryStar
    | ast.Match
)


class _Place(NamedTuple):
    node: ast.AST
    level: int
    blocks: int
    in_function: bool
    in_loop: bool


def parse_python(source: str) -> ast.Module:
    """Return the syntax tree of a module that the compiler would accept.

    Args:
        source: untrusted; it is not compiled, and not executed.

    Returns:
        Its tree, of at most 200 levels.

    Raises:
        SyntaxError: it is none; or a `return`, `yield`, `await`, `break` or `continue` stands where
            it cannot.
        RecursionError: statements nest more than 20 deep, or expressions too deep.
        ValueError: it holds what no source may, such as a null character.
        MemoryError: the parser gave up.
    """
    try:
        tree = ast.parse(source)
    except SystemError:  # an error of CPython 3.11's parser, seen once, not of the source
        tree = ast.parse(source)
    waiting = [_Place(tree, 0, 0, in_function=False, in_loop=False)]
    while waiting:
        place = waiting.pop()
        _refuse(place)
        waiting.extend(_below(place))
    symtable.symtable(source, "<source>", "exec")  # names: arguments, `global`, `nonlocal`
    return tree


def _refuse(place: _Place) -> None:
    if place.level > _DEEPEST or place.blocks > _DEEPEST_BLOCK:
        raise RecursionError("nested too deep")
    match place.node:
        case ast.Return() | ast.Yield() | ast.YieldFrom() | ast.Await():
            allowed = place.in_function
        case ast.Break() | ast.Continue():
            allowed = place.in_loop
        case _:
            return
    if not allowed:
        raise SyntaxError("out of place", ("<source>", place.node.lineno, 0, None))


def _below(place: _Place) -> list[_Place]:
    node = place.node
    is_scope = isinstance(node, _Function | ast.ClassDef)
    in_function = isinstance(node, _Function) or (place.in_function and not is_scope)
    is_loop = isinstance(node, ast.For | ast.AsyncFor | ast.While)
    below: list[_Place] = []
    for name, value in ast.iter_fields(node):
        # Behind a loop's `else:` stands what belongs to a loop around it.
        looped = is_loop and name == "body"
        children = cast("list[object]", value if isinstance(value, list) else [value])
        # `elif` is an `if` in an `else`, and no deeper.
        is_elif = name == "orelse" and len(children) == 1 and isinstance(children[0], ast.If)
        blocks = place.blocks + (isinstance(node, _Block) and not is_elif)
        below.extend(
            _Place(
                node=child,
                level=place.level + (not is_elif),
                blocks=blocks,
                in_function=in_function,
                in_loop=looped or (place.in_loop and not is_scope),
            )
            for child in children
            if isinstance(child, ast.AST)
        )
    return below


# Possessive: the parts may hold the same characters, and a line of tildes that ends in a backtick
# would be parted in every way there is.
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[^\s`]*+)[^`]*+")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block that is opened and closed."""

    language: str
    """The word after the opening fence, in lower case; empty where there is none."""
    text: str


def fenced_blocks(text: str) -> list[Block]:
    """Read the fenced blocks in order; one that is never closed was cut off, and is none."""
    blocks: list[Block] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if opening is None:
            opening, lines = found, []
        elif found and not found["language"] and found["fence"].startswith(opening["fence"]):
            blocks.append(Block(opening["language"].lower(), "\n".join(lines)))
            opening = None
        else:
            lines.append(line)
    return blocks
