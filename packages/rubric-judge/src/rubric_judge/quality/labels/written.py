"""Answers written to be right, in other words, or false, in the same words.

What a judge pays for both shows what its rewards are worth: the first is the most that a policy can
honestly reach, the second must be near 0. Each line of a file holds one answer, and says whether a
person or a model wrote it. A dataset's own answers lie beside its tasks, in `WRITTEN_FILE`; answers
to forty questions on numpy, scipy and networkx come with this package.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, StrictBool, StrictStr

from rubric_core import ConfigError, JudgeView, RubricFileError, Task
from rubric_core.files import read_each_line, text_sha256
from rubric_judge.pool.ledger.entry import hash_rubric
from rubric_judge.quality.labels.likeness import longest_shared_run
from rubric_judge.quality.labels.rows import FileLine, Label, Rater, is_unseen
from rubric_judge.quality.responses import read_rows
from rubric_judge.ui.page.tables import counted

WRITTEN_FILE = "written_answers.jsonl"
"""Name of the file, in the folder that holds the tasks."""

FORM = (
    '{"task_id": "…", "question": "…", "truth": "right", "response": "…", "author": "…"}, where '
    "truth is right or false"
)


COPIED = 12
"""Words in a row: a right answer that shares so many with passage or reference answer copies."""


class Truth(StrEnum):
    """Truth that an answer was written to have."""

    RIGHT = "right"
    """Meets every criterion, in other words than the reference answer."""
    FALSE = "false"
    """Meets no criterion, in the words of the document."""


CONTROLS = {
    Truth.RIGHT: "right_in_other_words",
    Truth.FALSE: "false_in_the_same_words",
}
"""Names of such answers in tables of controls."""


def is_blank(text: str) -> bool:
    """Tell whether no character of a text is visible."""
    return all(char.isspace() or is_unseen(char) for char in text)


def _not_blank(text: str) -> str:
    if is_blank(text):
        raise ValueError("must hold a text")
    return text


_Written = Annotated[StrictStr, AfterValidator(_not_blank)]


class WrittenAnswer(FileLine):
    """One written answer, a line of the file."""

    question: _Written
    """The task's question; with another one the answer no longer belongs to the task."""
    truth: Truth
    response: _Written
    author: Rater
    """Name of the author, a person or a model."""
    by_model: StrictBool = False
    """Whether the author is a model."""
    task_id: StrictStr | None = None
    """None in shipped answers: the ids of their tasks depend on the reader's documents."""
    rubric_sha256: StrictStr | None = None
    """Hash of the rubric that the author saw."""


@dataclass(frozen=True)
class KnownAnswers:
    """Written answers, each with its task."""

    texts: Mapping[Truth, Mapping[str, str]]
    """Texts by truth and task id; a truth without answers is left out."""
    strange: int = 0
    """Answers of the tasks' own file that belong to none of them."""
    copied: int = 0
    """Right answers that repeat a dozen words in a row of passage or reference answer."""

    @property
    def controls(self) -> dict[str, Mapping[str, str]]:
        """The texts by the names in `CONTROLS` and by task id."""
        return {CONTROLS[truth]: texts for truth, texts in self.texts.items()}

    def text(self, truth: Truth, task: Task) -> str | None:
        """Return a task's written answer, or None."""
        return self.texts.get(truth, {}).get(task.task_id)


def warnings_of(*, strange: int, copied: int) -> list[str]:
    """Return warnings on written answers that are left out or copied.

    Args:
        strange: number of answers that belong to no task.
        copied: number of right answers that copy.
    """
    warnings: list[str] = []
    if strange:
        warnings.append(
            f"{counted(strange, 'answer')} of {WRITTEN_FILE} left out: no task that was read asks "
            "such a question, or its rubric is another than the author saw"
        )
    if copied:
        warnings.append(
            f"{counted(copied, 'right answer')} with {COPIED} or more words in a row of passage or "
            "reference answer: what these earn is not what a judge pays for other words"
        )
    return warnings


def read_written(path: Path) -> Iterator[tuple[int, WrittenAnswer]]:
    """Yield (1-based line, its answer); blank lines are skipped.

    Raises:
        RubricFileError: a line is not a valid written answer.
        OSError: the file cannot be read.
    """
    yield from read_rows(path, WrittenAnswer, form=FORM)


def _with_one_truth(path: Path) -> Iterator[tuple[int, WrittenAnswer]]:
    """Yield the lines of `read_written`, refusing a text with two truths.

    A page on which answers are being written may call a text right and false for a while; whoever
    uses the file afterwards is told so.

    Raises:
        RubricFileError: as `read_written`; or a line has a text that another one gives another
            truth.
    """
    truths: dict[tuple[str, str, str], tuple[Truth, int]] = {}
    for line, answer in read_written(path):
        text = answer.task_id or "", answer.question, answer.response.strip()
        truth, before = truths.setdefault(text, (answer.truth, line))
        if truth is not answer.truth:
            problem = (
                f"the same text is {truth} in line {before} and {answer.truth} here"
            )
            raise RubricFileError(
                f"{problem}: take one of them out", path=path, line=line, field="truth"
            )
        yield line, answer


@cache
def shipped_answers() -> tuple[WrittenAnswer, ...]:
    """Return the answers that come with this package.

    Their author, a language model, saw passage and criteria and no judge.
    """
    with resources.as_file(
        resources.files("rubric_judge.quality.labels") / "shipped_answers.jsonl"
    ) as path:
        return tuple(answer for _, answer in read_written(path))


class WrittenAnswers:
    """The answers that a folder of tasks holds, and those that come with this package.

    A task's own answer goes before a shipped one, and a person's before a model's; of several by
    persons the first is taken.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Read the answers.

        Args:
            folder: folder of the tasks, whose `WRITTEN_FILE` is read if it is there.

        Raises:
            RubricFileError: a line of it is not a valid written answer.
            OSError: it cannot be read.
        """
        path = None if folder is None else folder / WRITTEN_FILE
        is_there = path is not None and (path.exists() or path.is_symlink())
        own = (
            [written_answer for _, written_answer in _with_one_truth(path)]
            if path is not None and is_there
            else []
        )
        self._own = sorted(own, key=lambda answer: answer.by_model)
        self.questions: frozenset[str] = frozenset(
            answer.question for answer in (*own, *shipped_answers())
        )
        """Questions that have an answer."""

    def to(self, tasks: Sequence[Task]) -> KnownAnswers:
        """Find the answers to some tasks' questions.

        Args:
            tasks: all that may have an answer, or a warning would call their answers strange.
        """
        joined = list(_joined([*self._own, *shipped_answers()], tasks))
        texts: dict[Truth, dict[str, str]] = {}
        for task, answer in joined:
            texts.setdefault(answer.truth, {}).setdefault(task.task_id, answer.response)
        belonging = {id(answer) for _, answer in joined}
        right = texts.get(Truth.RIGHT, {})
        return KnownAnswers(
            texts={truth: texts[truth] for truth in Truth if truth in texts},
            strange=sum(id(answer) not in belonging for answer in self._own),
            copied=sum(_is_copied(task, right) for task in tasks),
        )


def _is_copied(task: Task, right: Mapping[str, str]) -> bool:
    """Tell whether a task's right answer repeats passage or reference word for word."""
    text = right.get(task.task_id)
    sources = (task.grounding.reveal(), task.reference_answer or "")
    return text is not None and longest_shared_run(text, sources) >= COPIED


def _joined(
    answers: Iterable[WrittenAnswer], tasks: Sequence[Task], *, same_rubric: bool = True
) -> Iterator[tuple[Task, WrittenAnswer]]:
    """Yield each answer with its task, if it has one.

    It is the task of the answer's id; without an id, the only task that asks its question. Unless
    `same_rubric` is off, an answer that was written for another rubric belongs to no task.
    """
    by_id = {task.task_id: task for task in tasks}
    by_question: dict[str, list[Task]] = {}
    for task in tasks:
        by_question.setdefault(task.question, []).append(task)
    for answer in answers:
        if answer.task_id is None:
            asking = by_question.get(answer.question, ())
            task = asking[0] if len(asking) == 1 else None
        else:
            task = by_id.get(answer.task_id)
        if task is not None and task.question == answer.question:
            fits = answer.rubric_sha256 in (None, hash_rubric(task.rubric))
            if fits or not same_rubric:
                yield task, answer


def require_written(path: Path) -> None:
    """Refuse a file whose first row states no truth: its responses are no written answers.

    They need labels by people.

    Raises:
        ConfigError: they are responses without a stated truth.
        OSError: the file cannot be read.
    """
    first = next(iter(read_each_line(path)), None)
    if first is None:
        return
    _, row = first
    if isinstance(row, dict) and "truth" not in row:
        problem = f"{path} does not say of its responses whether they are right"
        remedy = "give people's scores of them, which `rubric-judge label` collects"
        raise ConfigError(
            f"--labels is missing, and {problem}: {remedy}", location="labels"
        )


def read_known(
    path: Path, tasks: Mapping[str, Task]
) -> tuple[dict[int, JudgeView], list[Label]]:
    """Read written answers as responses that are labelled: every criterion met, or none.

    Args:
        path: file of written answers.
        tasks: by id.

    Returns:
        The judge's views, by the answer's line, and labels by its author: the full weight of
        each criterion for a right answer, and 0 for a false one.

    Raises:
        RubricFileError: as `read_written`; or an answer belongs to none of the tasks, or was
            written for another version of its rubric.
        ConfigError: there is no answer.
        OSError: the file cannot be read.
    """
    views: dict[int, JudgeView] = {}
    labels: list[Label] = []
    for line, answer in _with_one_truth(path):
        matches = _joined([answer], [*tasks.values()], same_rubric=False)
        task = next((task for task, _ in matches), None)
        if task is None:
            raise RubricFileError(
                "no task asks this question: give the tasks that it was written for",
                path=path,
                line=line,
                field="question",
            )
        rubric = hash_rubric(task.rubric)
        if answer.rubric_sha256 not in (None, rubric):
            met = "every criterion" if answer.truth is Truth.RIGHT else "none"
            raise RubricFileError(
                f"the rubric of task {task.task_id!r} is another than the author saw: look "
                f"whether the answer meets {met} of it, and leave rubric_sha256 out if so",
                path=path,
                line=line,
                field="rubric_sha256",
            )
        views[line] = task.judge_view(answer.response)
        labels += [
            Label(
                line=line,
                task_id=task.task_id,
                criterion=criterion.id,
                score=criterion.weight if answer.truth is Truth.RIGHT else 0.0,
                rater=answer.author,
                response_sha256=text_sha256(answer.response),
                rubric_sha256=rubric,
            )
            for criterion in task.rubric
        ]
    if not views:
        problem = "holds no answer: write some first, with `rubric-judge label --write`"
        raise ConfigError(f"{path}: {problem}", location="responses")
    return views, labels
