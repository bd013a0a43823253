"""Passages and rubrics on a page, where whoever makes it asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubric_core import ConfigError, Task, read_tasks
from rubric_judge.lexical.scoring import missing_terms
from rubric_judge.page.grounding import told_grounding
from rubric_judge.page.tables import TextTable
from rubric_train_openrlhf.report.contrast import Contrast


def revealed_tasks(config: Mapping[str, Any], files: Sequence[Path] = ()) -> dict[str, Task]:
    """Read the tasks whose passages and rubrics a page is to show.

    Args:
        config: of the run, which names its tasks.
        files: of tasks, in place of those of the run and of a test.jsonl beside them.

    Raises:
        ConfigError: none of the run's files is there any more.
        RubricFileError: a damaged file.
    """
    data: Mapping[str, Any] = config.get("data") or {}
    own = [Path(data[name]) for name in ("train", "validation") if data.get(name)]
    own += [path.with_name("test.jsonl") for path in own[:1]]
    chosen = list(files) or [path for path in own if path.is_file()]
    if not chosen:
        named = f" ({own[0]})" if own else ""
        raise ConfigError(
            f"--reveal-grounding: the tasks of this run are not there{named}; "
            "name their file by --tasks",
            location="reveal-grounding",
        )
    return {task.task_id: task for path in chosen for task in read_tasks(path)}


@dataclass(frozen=True)
class KnownQuestion:
    """What the judge knew of a question that all stages answered."""

    passage: str
    lacks: TextTable
    """By criterion what it asks for, and the terms that each stage's answer lacks."""


def known_questions(contrast: Contrast, tasks: Mapping[str, Task]) -> list[KnownQuestion | None]:
    """Return what the judge knew of each question of a comparison; None of one without its task."""
    stages = contrast.heldout
    header = ("criterion", "asks for", *(f"{contrast.label(name)} lacks" for name in stages))
    return [
        _known(tasks[one.task_id], header, [one.answers.get(name, "") for name in stages])
        if one.task_id in tasks
        else None
        for one in contrast.answers
    ]


def _known(task: Task, header: tuple[str, ...], answers: Sequence[str]) -> KnownQuestion:
    shown = told_grounding(task)
    lacks = [
        [" · ".join(missing_terms(one, text)) or "–" for text in answers] for one in task.rubric
    ]
    rows = tuple(
        (told["id"], told["text"], *terms)
        for told, terms in zip(shown["rubric"], lacks, strict=True)
    )
    return KnownQuestion(shown["passage"], TextTable("What each answer lacks", header, rows))
