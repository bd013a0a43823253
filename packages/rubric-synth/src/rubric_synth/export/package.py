"""The files that every environment has: a Python package with tasks, judge, fixtures and card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from rubric_core.files import read_file
from rubric_judge.quality.fixtures.rows import FIXTURES_FILE, fixture_lines
from rubric_synth.export.environment import (
    JUDGE_FOLDER,
    POLICY_FOLDER,
    RECORD_FILE,
    TASKS_FILE,
    Environment,
    File,
)
from rubric_synth.files import json_line, json_page

_TEMPLATES = Path(__file__).parent / "templates"


def template(name: str, values: Mapping[str, object]) -> bytes:
    """Fill in a template of this folder."""
    from rubric_judge.ui.page.rendering import text_template

    text = read_file(_TEMPLATES / name).decode()
    return text_template(text, percent=_percent).render(values).encode()


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def common_files(environment: Environment) -> Iterator[File]:
    """Yield the files that do not depend on the target."""
    values = {"e": environment, "versions": _versions()}
    yield File(PurePosixPath("pyproject.toml"), template("pyproject.toml.j2", values))
    yield File(PurePosixPath("README.md"), template("card.md.j2", values))
    yield File(environment.path("__init__.py"), template("init.py.j2", values))
    for split in environment.splits:
        rows = (
            json_line({"task_id": view.task_id, "prompt": view.message})
            for view in environment.views(split)
        )
        path = environment.path(POLICY_FOLDER, f"{split}.jsonl")
        yield File(path, b"".join(rows))
    yield from _judge_files(environment)
    yield File(environment.path(RECORD_FILE), json_page(_record(environment)))


def _judge_files(environment: Environment) -> Iterator[File]:
    def in_folder(name: str, content: bytes) -> File:
        return File(environment.path(JUDGE_FOLDER, name), content, side="judge")

    tasks = (
        json_line(task.to_json(reveal_grounding=True)) for task in environment.tasks
    )
    yield in_folder(TASKS_FILE, b"".join(tasks))
    for name, content in environment.judge_files.items():
        yield in_folder(name, content)
    if environment.fixtures:
        yield in_folder(FIXTURES_FILE, fixture_lines(environment.fixtures))


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("rubric-core", "rubric-judge")}


def _record(environment: Environment) -> dict[str, object]:
    """Return what a program may want to know of an environment; it holds no text of a task."""
    return {
        "format": 1,
        "name": environment.name,
        "tasks": {split: len(tasks) for split, tasks in environment.splits.items()},
        "fixtures": len(environment.fixtures),
        "written_for": {target.name: target.stack for target in environment.targets},
        "versions": _versions(),
    }
