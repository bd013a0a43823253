"""Rows of a dataset: the judge's view of a row and of a policy's response."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from rubric_core import (
    ConfigError,
    Grounding,
    JudgeView,
    Pooling,
    Rubric,
    SchemaError,
    Task,
    read_tasks,
)
from rubric_core.configuration import meant_by
from rubric_core.errors import NotJsonError
from rubric_core.nearest import no_such_file
from rubric_core.schema.task import criteria_of, task_id_of
from rubric_core.strict_json import decode
from rubric_core.traces.messages import answer_from, text_of
from rubric_judge import events

ROW_FIELDS = ("task_id", "rubric", "criteria", "passage", "question", "doc_hash")
"""The columns of a row that are read; a line of a task file has more, which no judge sees."""

_CRITERIA = ("rubric", "criteria")
NAMING = {"task_id", *_CRITERIA}
"""Columns of which a row needs one."""
_LONGEST_ID = 64

_MOST_UNLIKE = 32
"""Most prompts without their task's question that are searched for another task's."""
_SHORTEST_QUESTION = 20
"""Least characters of a question; a shorter one may occur in a prompt by chance."""

Tasks = Mapping[str, Task] | Iterable[Task | Path | str] | Path | str | None
"""Tasks by id; or tasks, or files of them, or one file; None when every row brings its rubric."""


def task_source(tasks: Tasks) -> TaskSource:
    """Read the tasks that stay on the judge's side.

    Raises:
        ConfigError: the file cannot be read, or holds no task.
        RubricFileError: a line of the file is not a valid task.
    """
    match tasks:
        case None:
            return TaskSource({})
        case str() | Path():
            sources: Iterable[object] = (tasks,)
        case Mapping():
            sources = cast("Mapping[str, Task]", tasks).values()
        case Iterable() if not isinstance(tasks, Task):
            sources = tasks
        case _:
            raise ConfigError(
                "`tasks` needs a file of tasks, a list of such files, or tasks "
                f"(`read_tasks(FILE)`), not {type(tasks).__name__}",
                location="tasks",
            )
    tasks_by_id: dict[str, Task] = {}
    for source in sources:
        for task in _tasks_in(source):
            tasks_by_id[task.task_id] = task
    if not tasks_by_id:
        raise ConfigError(
            "`tasks` holds no task; leave it out for rows with rubrics of their own"
        )
    return TaskSource(tasks_by_id)


def _tasks_in(source: object) -> Iterator[Task]:
    match source:
        case Task():
            yield source
        case str() | Path():
            try:
                yield from read_tasks(source)
            except OSError as error:
                problem = f"{source}: cannot be read: {error.strerror}"
                if isinstance(error, FileNotFoundError):
                    problem = no_such_file(Path(source))
                raise ConfigError(problem, location="tasks") from None
        case _:
            among = f"a list with {type(source).__name__}"
            raise ConfigError(
                "`tasks` needs a file of tasks, a list of such files, or tasks "
                f"(`read_tasks(FILE)`), not {among}",
                location="tasks",
            )


class TaskSource:
    """Source of a row's rubric and passage: by `task_id`, or in columns of the row itself."""

    def __init__(
        self,
        tasks: Mapping[str, Task],
        *,
        check: Callable[[object], None] | None = None,
    ) -> None:
        """Keep the tasks by id.

        Args:
            tasks: by id.
            check: refuses with a `SchemaError` the criteria that a row brings, which are not yet
                checked otherwise.
        """
        self._tasks = tasks
        self._check = check
        self._unlike = 0
        self.pooling = Pooling.of(tasks.values())
        """Pools of criteria that share a metric; by kind alone where the tasks are not known."""

    @property
    def known(self) -> Iterable[Task]:
        """The tasks that are known by id."""
        return self._tasks.values()

    def view(
        self, row: Mapping[str, object], *, prompt: object, response: object
    ) -> JudgeView:
        """Return the judge's view of a response, with all criteria.

        Those that judge more than a response are for `trace_views`; `of_answer` refuses them.

        Args:
            row: `task_id` of a known task; or `rubric` (criteria in the paper's JSON, as a list or
                as a string), and where there are any `passage` and `question`; or a line of a task
                file, which has `criteria` in place of `rubric`.
            prompt: the policy's prompt, a text or messages; the question of a row that has
                no column `question`.
            response: the policy's response, a text or messages; or its answer.

        Raises:
            ConfigError: no such task, and no rubric in the row.
            SchemaError: a rubric, passage or question that is not well formed.
        """
        answer = answer_from(response)
        task = self._tasks.get(str(row.get("task_id")))
        if task is not None:
            self._notice_other_task(task, prompt)
            return task.whole_view(answer)
        column = _rubric_column(row)
        if column is None:
            if "task_id" not in row:
                raise no_task_column(row)
            quoted_id = _shown(row["task_id"])
            raise ConfigError(
                f"no task has the id {quoted_id} ({len(self._tasks)} are known) and the row has "
                "no column 'rubric' or 'criteria': give `tasks` the file that the ids are "
                "from, or the rows a rubric",
                location="task_id",
            )
        question = row.get("question")
        question_text = prompt if question is None else question
        criteria = criteria_of(row[column], column=column)
        if self._check is not None:
            self._check(criteria)
        rubric = Rubric.model_validate({"criteria": criteria})
        passage = row.get("passage")
        question_text = text_of(question_text, role="user")
        grounding = Grounding("" if passage is None else cast("str", passage))
        doc_hash = str(row.get("doc_hash") or grounding.sha256)
        return JudgeView(
            task_id=str(
                row.get("task_id") or task_id_of(doc_hash, question_text, rubric)
            ),
            question=question_text,
            grounding=grounding,
            response=answer.text,
            thought=answer.thought,
            rubric=rubric,
        )

    def _notice_other_task(self, task: Task, prompt: object) -> None:
        """Warn once of a prompt that holds another task's question and not its own."""
        prompt_text = ""
        if self._unlike < _MOST_UNLIKE:
            with suppress(SchemaError):  # nothing to warn of without a text
                prompt_text = _even(text_of(prompt, role="user"))
        if not prompt_text or _even(task.question) in prompt_text:
            return
        self._unlike += 1
        for other in self._tasks.values():
            if (
                len(other.question) >= _SHORTEST_QUESTION
                and _even(other.question) in prompt_text
            ):
                events.prompt_of_other_task(
                    task_id=task.task_id, question_of=other.task_id
                )
                self._unlike = _MOST_UNLIKE
                return


def _even(text: str) -> str:
    return " ".join(text.split())


def no_task_column(columns: Iterable[str], *, more: str = "") -> ConfigError:
    """Return the error of rows that name no task and hold no rubric.

    Args:
        columns: the names of the row's columns.
        more: further text of the message, from a semicolon on.
    """
    names = sorted(columns)
    meant = ""
    for name in ("task_id", *_CRITERIA):
        meant = meant or meant_by(name, names)
    others = "nor any other"
    if names:
        others = f"only {', '.join(map(repr, names))}"
    return ConfigError(
        f"the row has no column 'task_id', 'rubric' or 'criteria', {others}: {meant}give the "
        f"dataset a column 'task_id' with the id of each row's task (`Task.task_id`){more}",
        location="task_id",
    )


def _rubric_column(row: Mapping[str, object]) -> str | None:
    """Return the column that holds the criteria, or None where the row brings no rubric."""
    for name in _CRITERIA:
        if row.get(name) is not None:
            return name
    return None


def _shown(task_id: object) -> str:
    """Return an id for a message; one that is too long may be a private text."""
    text = repr(task_id)
    return text if len(text) <= _LONGEST_ID else f"of {len(text)} characters"


def joined_row(label: object, columns: Mapping[str, object]) -> Mapping[str, object]:
    """Return the columns of a row, with those of its label where they name no task themselves.

    Raises:
        SchemaError: the columns are no mapping, or the label is not one that can be read.
    """
    if not isinstance(cast("object", columns), Mapping):
        kind = type(columns).__name__
        raise SchemaError(
            f"the row's columns must be a mapping, not {kind}", field="columns"
        )
    if columns.get("task_id") or _rubric_column(columns) is not None:
        return columns
    return {**columns, **label_row(label)}


def label_row(label: object) -> Mapping[str, object]:
    """Return the row in the single column that a stack has for the truth.

    Args:
        label: a task id; or a row as a mapping or as JSON; or criteria as a list or as JSON.
    """
    if isinstance(label, str) and label.lstrip().startswith(("{", "[")):
        try:
            label = decode(label)
        except NotJsonError as error:
            raise SchemaError(
                f"the label begins as JSON and is {error}", field="label"
            ) from None
    match label:
        case Mapping():
            return cast("Mapping[str, object]", label)
        case str() | None:
            return {"task_id": label} if label else {}
        case _:
            return {"rubric": label}
