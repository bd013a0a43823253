"""Inputs of any format as sources, with the tasks and responses that each needs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from rubric_core import ConfigError, Task, Thoughts, read_tasks
from rubric_judge.quality.criteria.groups import JudgedAnswer
from rubric_judge.quality.criteria.sources import Format, open_log, told_format
from rubric_judge.quality.responses import read_responses
from rubric_judge.quality.view.inputs import input_path, read_inputs
from rubric_judge.quality.view.ours import (
    evaluation_source,
    is_evaluation,
    judged_source,
    ledger_source,
    run_source,
)
from rubric_judge.quality.view.samples import Judged, Source, Texts, Verdict

Kind = Format | Literal["evaluation"]
"""A format of an input."""


def told_kind(path: Path) -> Kind:
    """Tell the format of an input from its content.

    Raises:
        RubricFileError: no such file, or one of no known format.
    """
    return "evaluation" if is_evaluation(path) else told_format(path)


def read_texts(
    path: Path,
    kind: Kind,
    *,
    tasks: Sequence[Path] = (),
    responses: Path | None = None,
    thoughts: Thoughts | None = None,
) -> Texts:
    """Read what an input lacks: from the files named, or those that `score` named beside it.

    Args:
        path: the input.
        kind: its format.
        tasks: files of tasks.
        responses: the file of responses that was judged.
        thoughts: how thoughts are told from answers; as `score` was told if None.

    Raises:
        ConfigError: a file that was judged is not there any more, or has changed.
        RubricFileError: a damaged file.
    """
    inputs = read_inputs(path) if kind == "judged" else None
    if inputs is not None:
        tasks = tasks or [input_path(path, inputs.tasks, flag="tasks")]
        responses = responses or input_path(path, inputs.responses, flag="responses")
        thoughts = thoughts or inputs.thoughts
    by_id = {task.task_id: task for file in tasks for task in read_tasks(file)}
    if responses is None:
        return Texts(by_id)
    if not by_id:
        raise ConfigError(
            "--responses hold no question and no criterion: name the file of their tasks too",
            location="tasks",
        )
    views = dict(read_responses(responses, by_id, thoughts=thoughts or "cut"))
    return Texts(by_id, views)


def read_source(
    path: Path, kind: Kind, texts: Texts, *, last: int | None = None
) -> Source:
    """Read an input.

    Args:
        path: a file or folder.
        kind: its format.
        texts: what it lacks.
        last: only the last steps, of formats with a file for each.

    Raises:
        ConfigError: tasks or responses are missing, or are others than were judged.
        RubricFileError: a broken row, or a log without texts.
    """
    if last is not None and kind in {"judged", "ledger", "evaluation"}:
        raise ConfigError(
            f"--last is for logs with a file for each step; {path} is one of format {kind!r}: "
            "leave it out",
            location="last",
        )
    match kind:
        case "judged":
            return judged_source(path, texts)
        case "ledger":
            return ledger_source(path, texts)
        case "run":
            return run_source(path, texts.tasks, last=last)
        case "evaluation":
            return evaluation_source(path, texts.tasks)
        case _:
            return _foreign(path, kind, texts.tasks, last)


def _foreign(
    path: Path, kind: Format, tasks: Mapping[str, Task], last: int | None
) -> Source:
    log = open_log([path], kind=kind, tasks=tasks, last=last)
    if log.fields is not None:
        log.fields.keeps_texts = True
    rows: list[Judged] = []
    kinds: dict[str, str] = {}
    for place, answer in enumerate(log.answers, start=1):
        kinds |= answer.pools
        rows.append(_row(answer, place, kind, tasks))
    notes = list(log.all_notes())
    if not tasks:
        notes.append("Criteria have no text: give --tasks the file of the tasks")
    return Source(path.resolve().name, rows, tasks, notes, kinds)


def _row(
    answer: JudgedAnswer, place: int, kind: Format, tasks: Mapping[str, Task]
) -> Judged:
    question, response = answer.texts or ("", "")
    task = tasks.get(answer.task_id)
    reward = sum(
        share * answer.z.get(name, 0.0) for name, share in answer.shares.items()
    )
    outcome = answer.outcome
    return Judged(
        task_id=answer.task_id,
        question=task.question if task else question,
        response=response,
        judge=f"reward of {kind}",
        verdict=Verdict(
            outcome=outcome,
            reward=None if outcome == "unavailable" else min(reward, 1.0),
            z=answer.z,
        ),
        shares=answer.shares,
        place=f"answer {place}",
        part=f"step {answer.step}" if answer.step else "",
    )
