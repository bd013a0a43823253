"""Passages and rubrics on a page, where whoever makes it asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rubric_core import ConfigError, Task, read_tasks
from rubric_judge.lexical.scoring import missing_terms
from rubric_judge.page.grounding import told_grounding
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


def told_answers(contrast: Contrast, tasks: Mapping[str, Task]) -> list[dict[str, Any] | None]:
    """Return for each question that all stages answered what its judge knew; None where unknown.

    Returns:
        Passage, and for each criterion its text and by stage the terms that the answer lacks.
    """
    return [
        _told(tasks[one.task_id], one.answers) if one.task_id in tasks else None
        for one in contrast.answers
    ]


def _told(task: Task, answers: Mapping[str, str]) -> dict[str, Any]:
    shown = told_grounding(task)
    criteria = zip(shown["rubric"], task.rubric, strict=True)
    rows = [
        told | {"missing": {name: missing_terms(one, text) for name, text in answers.items()}}
        for told, one in criteria
    ]
    return {"passage": shown["passage"], "criteria": rows}
