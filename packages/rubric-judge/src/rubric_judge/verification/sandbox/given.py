"""Which of the names that the response's code defines its tests get to see."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator


def names_to_give(defined: dict[str, object], tests: str) -> dict[str, object]:
    """Choose what the tests take from the response's code.

    Decided here, in the tester: the subject can send any names. A forged `sorted`, `__builtins__`
    or `math` would make a test compare what the response likes.

    Args:
        defined: what the subject says its code defines.
        tests: the source of the tests.

    Returns:
        What the tests mention, but for builtins, names with a leading underscore, and names that
        the tests bind themselves, wherever they do.
    """
    tree = ast.parse(tests)
    own = set(_bound(symtable.symtable(tests, "<tests>", "exec"))) - set(_from_solution(tree))
    return {
        name: defined[name]
        for name in _mentioned(tree)
        if name in defined
        and not name.startswith("_")
        and not hasattr(builtins, name)
        and name not in own
    }


def _mentioned(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                names.add(name)
            case ast.Constant(value=str(name)):  # getattr(solution, "name")
                names.add(name)
            case _:
                continue
    return names


def _bound(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the global names that a module binds: imports, functions, classes, variables."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        binds = symbol.is_assigned() or symbol.is_imported()
        if binds and (top or symbol.is_declared_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _bound(inner)


def _from_solution(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "solution":
            yield from (alias.name for alias in node.names)
