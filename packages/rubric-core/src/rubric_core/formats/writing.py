"""Writing of tasks in the formats that other stacks read."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rubric_core.files import replacing, write_lines
from rubric_core.formats.draft import fault_of, is_penalty, unknown_format
from rubric_core.schema.conversation import as_messages
from rubric_core.schema.task import Task


def export_formats() -> tuple[str, ...]:
    """Return the names of all formats that can be written, sorted."""
    return tuple(sorted(_WRITERS))


def export_tasks(
    name: str,
    path: Path | str,
    tasks: Iterable[Task],
) -> int:
    """Write tasks in a foreign format; return their number.

    All formats but `policy` hold the rubric, and belong on the judge's side. `policy` holds task id
    and prompt alone, in the columns that verl and TRL read, for a reward that looks tasks up by id.
    A prompt is the question, after its context if it has one.

    Args:
        name: one of `export_formats()`.
        path: the file, JSON Lines; it appears when it is complete.
        tasks: the tasks. Imported penalties get their negative points back.

    Raises:
        ConfigError: no such format.
        OSError: the file cannot be written; an older one is still there.
    """
    write = _WRITERS.get(name)
    if write is None:
        raise unknown_format(name, export_formats())
    with replacing(Path(path)) as file:
        return write_lines(file, map(write, tasks))


def _messages(task: Task) -> list[dict[str, str]]:
    """Return the prompt as messages: of a task of an older file, those that its text shows."""
    view = task.policy_view()
    return view.messages if task.conversation else as_messages(view.message)


def _signed(task: Task) -> Iterator[tuple[str, str, str, float]]:
    """Yield (id, title, text, signed weight) of each criterion."""
    for criterion in task.rubric:
        elements = "; ".join(criterion.required_elements)
        texts = (fault_of(criterion), criterion.name, elements)
        text = next(filter(None, texts), criterion.id)
        weight = criterion.weight
        if is_penalty(criterion):
            weight = -weight
        yield criterion.id, criterion.name, text, weight


def _healthbench(task: Task) -> dict[str, object]:
    ideal = None
    if task.reference_answer:
        ideal = {"ideal_completion": task.reference_answer}
    return {
        "prompt_id": task.task_id,
        "prompt": _messages(task),
        "rubrics": _points(task),
        "ideal_completions_data": ideal,
    }


def _points(task: Task) -> list[dict[str, object]]:
    return [
        {"criterion": text, "points": weight, "tags": []}
        for _, _, text, weight in _signed(task)
    ]


def _rar(task: Task) -> dict[str, object]:
    rubric = [
        {
            "title": name or " ".join(text.split()[:4]),
            "description": text,
            "weight": weight,
        }
        for _, name, text, weight in _signed(task)
    ]
    return {
        "question": task.policy_view().message,
        "reference_answer": task.reference_answer or "",
        "rubric": rubric,
        "rubric_count": len(rubric),
    }


def _verl(task: Task, **reward: object) -> dict[str, object]:
    """Return a row in verl's columns, with the parts of its reward."""
    return {
        "data_source": "rubric",
        "prompt": _messages(task),
        "reward_model": {"style": "rubric", **reward},
        "extra_info": {"task_id": task.task_id},
    }


def _rubrichub(task: Task) -> dict[str, object]:
    return _verl(task, ground_truth="", rubrics=_points(task))


def _nemo_gym(task: Task) -> dict[str, object]:
    messages = _messages(task)
    rubric = [
        {"id": name, "criteria": text, "weight": weight}
        for name, _, text, weight in _signed(task)
    ]
    return {
        "task_id": task.task_id,
        "responses_create_params": {"input": messages},
        "rubric": rubric,
        "reference_response": task.reference_answer or "",
    }


def _policy(task: Task) -> dict[str, object]:
    row = _verl(task, ground_truth=task.task_id)
    row["task_id"] = task.task_id
    return row


_WRITERS: dict[str, Callable[[Task], dict[str, object]]] = {
    "healthbench": _healthbench,
    "nemo_gym": _nemo_gym,
    "policy": _policy,
    "rar": _rar,
    "rubrichub": _rubrichub,
}
