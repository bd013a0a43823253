"""Every text of rubrics that others published is in the imported tasks, or left out by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from rubric_core import RubricFileError
from rubric_core.formats import Imported, ImportOptions, import_tasks

FILES = {
    "biggen": ("biggen_bench/*.json", 1),
    "checkeval": ("checkeval/*/*.yaml", 24),
    "deep_research_bench": ("deep_research_bench/*.jsonl", 1),
    "healthbench": ("healthbench_ruscarl/*.jsonl", 1),
    "hellobench": ("hellobench/*_checklist.json", 5),
    "paperbench": ("paperbench/*.json", 7),
    "prometheus": ("prometheus_eval/*.json", 2),
    "scholarqabench": ("scholarqabench_cs/*.json", 1),
    "writingbench": ("writingbench/*.jsonl", 1),
}
HOLD_NO_QUESTIONS = {"checkeval", "hellobench"}
SECTION = re.compile(r"^###(.+?):[ \t]*$\n?", re.MULTILINE)
"""A part of a prompt of Prometheus."""


@pytest.fixture(scope="module")
def data() -> Path:
    folders = (
        above / "shared/data/rubrics" for above in Path(__file__).resolve().parents
    )
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        pytest.skip("the public rubrics are not here")
    return folder


@pytest.mark.parametrize("name", FILES)
def test_no_text_of_a_public_rubric_is_lost_without_a_word(
    name: str, data: Path, tmp_path: Path
) -> None:
    pattern, count = FILES[name]
    questions = tmp_path / "questions.jsonl"
    questions.write_text(
        json.dumps({"question": "How well is it written?"}) + "\n", "utf-8"
    )
    options = ImportOptions(questions=questions if name in HOLD_NO_QUESTIONS else None)
    files = sorted(data.glob(pattern))
    assert len(files) == count
    for file in files:
        rejected: list[RubricFileError] = []
        found = list(
            import_tasks(name, file, options=options, on_reject=rejected.append)
        )
        assert found
        assert rejected == []
        assert _lost(file, found) == []


def _lost(file: Path, found: list[Imported]) -> list[tuple[str, str]]:
    """Texts of a file that no task has, and whose field is not said to be left out."""
    text = _plain(" ".join(_texts(found)))
    left_out = {
        entry.field.removeprefix("**.")
        for one in found
        if one.fields is not None
        for entry in one.fields.left_out
    }
    return [
        (field, part)
        for field, value in _leaves(_records(file))
        if not any(_is_below(field, entry) for entry in left_out)
        for part in _parts(value)
        if _plain(part) not in text
    ]


def _texts(found: list[Imported]) -> Iterator[str]:
    for one in found:
        task = one.task
        yield from (one.source_id, task.question, task.grounding.reveal())
        yield task.reference_answer or ""
        for criterion in task.rubric:
            yield from (criterion.id, criterion.name, criterion.description)
            yield from (criterion.scoring_guide, *criterion.required_elements)


def _records(file: Path) -> list[Any]:
    """The rows of a file, without the keys of an object of rows."""
    text = file.read_text("utf-8")
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    if file.suffix == ".yaml":
        return [yaml.safe_load(text)]
    content = json.loads(text)
    if isinstance(content, list):
        return content
    is_of_rows = all(isinstance(one, dict) for one in content.values())
    return list(content.values()) if is_of_rows else [content]


def _leaves(value: object, field: str = "") -> Iterator[tuple[str, str]]:
    """Texts with their dotted fields, `*` for an index."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{field}.{key}".strip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, f"{field}.*".removeprefix(".*").strip("."))
    elif isinstance(value, str) and SECTION.match(value):
        _, *parts = SECTION.split(value)
        for title, part in zip(parts[::2], parts[1::2], strict=True):
            yield f"{field}.{title}", part
    elif isinstance(value, str) and value.strip():
        yield field, value


def _is_below(field: str, entry: str) -> bool:
    parts, wanted = field.split("."), entry.split(".")
    return len(wanted) <= len(parts) and all(map(fnmatchcase, parts, wanted))


def _parts(value: str) -> list[str]:
    """Lines, and questions that stand in one line, without the marks of a scale."""
    return [
        part
        for line in value.splitlines()
        for part in re.split(
            r"(?<=[?]) +", re.sub(r"^Score \d:|^\[|\]$", "", line.strip())
        )
    ]


def _plain(text: str) -> str:
    return " ".join(text.split())
