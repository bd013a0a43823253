"""A change of what the packages export is a change of the snapshot, and of the changelog."""

import importlib
import importlib.util
import inspect
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def names(root: Path) -> list[str]:
    spec = importlib.util.spec_from_file_location(
        "public_api", root / "tools/public_api.py"
    )
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool.public_names()


def test_the_packages_export_what_the_snapshot_says(
    root: Path, names: list[str]
) -> None:
    snapshot = (root / "tests/public_api.txt").read_text("utf-8").splitlines()

    assert names == snapshot, (
        "run `uv run python tools/public_api.py`, and say why in the changelog"
    )


def test_every_exported_name_exists(names: list[str]) -> None:
    parts = [name.rpartition(".") for name in names]

    exported = {
        f"{module}.{name}": getattr(importlib.import_module(module), name, None)
        for module, _, name in parts
    }

    # A folder of the same name must not have taken a function's place.
    assert [name for name, value in exported.items() if value is None] == []
    assert [name for name, value in exported.items() if inspect.ismodule(value)] == []


def test_every_package_exports_something(
    package_folders: list[Path], names: list[str]
) -> None:
    modules = {name.rpartition(".")[0] for name in names}

    assert {folder.name for folder in package_folders} <= modules
