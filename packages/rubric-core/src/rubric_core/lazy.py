"""Packages whose public names load their modules at first use."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def attach(package: str, file: str) -> tuple[Callable[[str], object], list[str]]:
    """Return `__getattr__` and `__all__` of a package from the imports of its `__init__.pyi`.

    The stub is the only list of the names that a package offers; type checkers read it too.
    Importing the package then loads none of the modules behind it.

    Args:
        package: its `__name__`.
        file: its `__file__`.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8"))
    place_of: dict[str, tuple[str, str]] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                place_of[alias.asname or alias.name] = (node.module, alias.name)

    def load(name: str) -> object:
        if name not in place_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, name_there = place_of[name]
        value: object = getattr(import_module(module), name_there)
        setattr(sys.modules[package], name, value)
        return value

    return load, sorted(place_of)
