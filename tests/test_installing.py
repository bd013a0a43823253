"""The packages are on no index: where one is to be installed, its folder is named."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from rubric_core.errors import install_command

INSTALLS = re.compile(r"\b(?:install|uv add|uvx|pipx run|--with)\b[^\n`]*")
NAME = r"rubric-(?:core|eval|judge|sandbox|synth|train-openrlhf)\b"
OURS = re.compile(
    rf"(?P<folder>[\w.]+/packages/)?(?P<name>{NAME})(?:\[(?P<extras>[\w,-]+)\])?"
)


@pytest.fixture(scope="module")
def commands(tracked_texts: dict[str, str]) -> list[tuple[str, re.Match[str]]]:
    """Each of our packages after a word that installs, with the file that it stands in."""
    written = {
        name: text
        for name, text in tracked_texts.items()
        if name.endswith((".md", ".py", ".yaml", ".toml", ".j2", "justfile", "run"))
        and name not in {"tests/test_installing.py", "CHANGELOG.md"}
    }
    return [
        (name, package)
        for name, text in written.items()
        for command in INSTALLS.findall(text)
        for package in OURS.finditer(command)
    ]


def test_nobody_is_told_to_install_a_package_from_an_index(
    commands: list[tuple[str, re.Match[str]]],
) -> None:
    assert [(name, found[0]) for name, found in commands if not found["folder"]] == []


def test_the_folders_and_the_extras_that_are_named_exist(
    commands: list[tuple[str, re.Match[str]]], root: Path
) -> None:
    def extras(package: str) -> set[str]:
        project: dict[str, Any] = tomllib.loads(
            (root / "packages" / package / "pyproject.toml").read_text("utf-8")
        )["project"]
        return set(project.get("optional-dependencies", {}))

    wrong = [
        (name, found[0])
        for name, found in commands
        if not set((found["extras"] or "").split(",")) - {""} <= extras(found["name"])
    ]

    assert len(commands) > 5
    assert wrong == []


def test_a_printed_line_installs_copies_that_need_no_checkout(
    root: Path, tmp_path: Path
) -> None:
    """Nothing but our packages is installed, so that it needs no index."""
    projects = [
        tomllib.loads(path.read_text("utf-8"))
        for path in root.glob("packages/*/*.toml")
    ]
    needed = {need for one in projects for need in one["project"]["dependencies"]}
    foreign = {
        re.split(r"[^\w.-]", need)[0]
        for need in needed
        if not need.startswith("rubric-")
    }
    (tmp_path / "none").write_text(
        "".join(f"{one}; python_version < '3'\n" for one in foreign)
    )
    text = (root / "README.md").read_text("utf-8")
    (line,) = re.findall(r"^(uv pip install .*?)(?:  +#.*)?$", text, re.MULTILINE)

    for command in (
        f"uv venv --quiet --python {sys.executable} {tmp_path}/environment",
        f"{line} --quiet --offline --override {tmp_path}/none --python {tmp_path}/environment",
    ):
        subprocess.run(shlex.split(command), cwd=root, check=True)

    (packages,) = tmp_path.glob("environment/lib/*/site-packages")
    assert {path.name for path in packages.glob("rubric_*")} >= {
        "rubric_core",
        "rubric_judge",
    }
    assert not list(packages.glob("rubric_*.pth"))


def test_every_printed_line_installs_as_that_of_the_readme_does(
    tracked_texts: dict[str, str],
) -> None:
    lines = [
        (name, line)
        for name, text in tracked_texts.items()
        if name.endswith((".md", "errors.py"))
        for line in re.findall(r"uv pip install .*packages/.*", text)
        if name != "CHANGELOG.md"
    ]

    assert len(lines) > 10
    assert [one for one in lines if "install --no-sources " not in one[1]] == []


def test_an_extra_that_is_missing_is_told_in_the_same_way() -> None:
    said = install_command("rubric-judge", "ray")

    assert [found["folder"] for found in OURS.finditer(said)] == ["./packages/"]


def test_what_is_said_to_resolve_together_is_within_our_ranges(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(root / "tools")
    import together

    projects = [
        tomllib.loads(path.read_text("utf-8"))
        for path in root.glob("packages/*/*.toml")
    ]
    declared = [
        (project["name"], Requirement(text))
        for project in (one["project"] for one in projects)
        for texts in (
            project["dependencies"],
            *project.get("optional-dependencies", {}).values(),
        )
        for text in texts
    ]
    rows = together.rows((root / "docs/install.md").read_text("utf-8"))

    assert len(rows) > 8
    assert {row.is_overridden for row in rows} == {True, False}
    assert [
        (row.added, name, version, str(requirement))
        for row in rows
        for name, version in row.taken.items()
        for package, requirement in declared
        if package
        in {
            "rubric-core",
            "rubric-judge",
            *(Requirement(one).name for one in row.added),
        }
        and requirement.name == name
        and not requirement.specifier.contains(version)
    ] == []


def test_what_is_taken_instead_outside_of_the_workspace_is_what_the_workspace_takes(
    root: Path,
) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]
    of_all = settings["override-dependencies"]
    ours = {
        one
        for each in of_all
        for one in (each["dependencies"] if "package" in each else [each])
    }
    lines = (
        (root / "packages/rubric-train-openrlhf/overrides.txt")
        .read_text("utf-8")
        .splitlines()
    )
    said = {line for line in lines if line and not line.startswith("#")}

    assert said == ours | {"flash-attn; sys_platform == 'never'"}
