"""A change of what the packages export is a change of the snapshot, and of the changelog."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest


def exported(tree: ast.Module) -> list[str]:
    """The names in a module's `__all__`, or none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


@pytest.fixture(scope="module")
def names(modules: dict[str, ast.Module]) -> list[str]:
    return [f"{module}.{name}" for module, tree in modules.items() for name in exported(tree)]


def test_the_packages_export_what_the_snapshot_says(root: Path, names: list[str]) -> None:
    snapshot = (root / "tests/public_api.txt").read_text("utf-8").splitlines()

    assert sorted(names) == snapshot


def test_every_exported_name_exists(modules: dict[str, ast.Module]) -> None:
    missing = [
        f"{module}.{name}"
        for module, tree in modules.items()
        for name in exported(tree)
        if not hasattr(importlib.import_module(module), name)
    ]

    assert missing == []


def test_every_package_exports_something(
    modules: dict[str, ast.Module], package_folders: list[Path]
) -> None:
    assert [f.name for f in package_folders if not exported(modules[f.name])] == []
