"""The repository as the cross-package tests see it."""

import ast
import importlib.util
import io
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def package_folders() -> list[Path]:
    """The folder of each member's importable package, `packages/<member>/src/<package>`.

    A module beside it that another library imports by a name of its own is none.
    """
    members = ROOT.glob("packages/*")
    return sorted(
        member / "src" / member.name.replace("-", "_")
        for member in members
        if (member / "pyproject.toml").is_file()
    )


@pytest.fixture(scope="session")
def modules(package_folders: list[Path]) -> dict[str, ast.Module]:
    """Every module of the six packages, by its dotted name, parsed."""
    found: dict[str, ast.Module] = {}
    for folder in package_folders:
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text("utf-8"), filename=str(path))
    return found


@pytest.fixture(scope="session")
def tracked_texts() -> dict[str, str]:
    """Every tracked text file, by its path from the root."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    names = [name for name in listed.decode("utf-8").split("\0") if name]
    texts: dict[str, str] = {}
    for name in names:
        path = ROOT / name
        if path.is_file() and (text := _text_of(path)) is not None:
            texts[name] = text
    return texts


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return None


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return what runs the Python of a page in the test's folder and returns what it prints.

    It runs in this process, so that each page need not load the packages anew; warnings are errors,
    and so is a word on standard error.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(code: str) -> str:
        shown, complaints = io.StringIO(), io.StringIO()
        with (
            warnings.catch_warnings(),
            redirect_stdout(shown),
            redirect_stderr(complaints),
        ):
            warnings.simplefilter("error")
            exec(compile(code, "<page>", "exec"), {"__name__": "__main__"})  # noqa: S102  # our own
        assert complaints.getvalue() == ""
        return shown.getvalue()

    return run


@pytest.fixture(scope="session")
def thinking() -> ModuleType:
    """Return the module `thinking.py` beside this file, which loads torch and transformers."""
    spec = importlib.util.spec_from_file_location(
        "thinking", Path(__file__).with_name("thinking.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks for its own
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def thinking_policy(
    thinking: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Any]:
    """Return what writes a tiny policy that thinks, once a session for the same options.

    It takes those of `thinking.write_thinking_policy` and returns a `thinking.ThinkingPolicy`.
    """

    @cache
    def write(**options: Any) -> Any:
        return thinking.write_thinking_policy(
            tmp_path_factory.mktemp("thinking"), **options
        )

    return write
