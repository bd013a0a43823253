"""A person's score of one criterion of one response, as a line of a file of labels."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StrictStr

from rubric_core import JudgeView, RubricFileError, SchemaError, Task
from rubric_core.files import read_each_line, text_sha256
from rubric_core.rows import ClosedRow
from rubric_core.schema.trace import Trace
from rubric_judge.pool.ledger.entry import hash_rubric
from rubric_judge.quality.responses import read_rows
from rubric_judge.quality.trajectories import Submitted

LONGEST_NAME = 80
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories of characters that are invisible or reverse a line, as NUL or U+202E."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that show nothing."""


def is_unseen(char: str) -> bool:
    """Tell whether a character shows nothing, or turns a line around; blanks are seen."""
    return char in _BLANK or unicodedata.category(char) in _UNSEEN


def rater_name(text: str) -> str:
    """Return a rater's name without blanks around it: two that look alike are one.

    Raises:
        ValueError: it is empty, too long, or holds a character that nobody sees.
    """
    name = text.strip()
    if not name:
        raise ValueError("a rater's name must not be empty")
    if len(name) > LONGEST_NAME:
        raise ValueError(
            f"a rater's name has at most {LONGEST_NAME} characters, not {len(name)}"
        )
    for char in name:
        if is_unseen(char):
            raise ValueError(
                f"a rater's name must not hold U+{ord(char):04X}, which nobody sees: leave it out"
            )
    return name


Rater = Annotated[StrictStr, AfterValidator(rater_name)]
Score = Annotated[
    float,
    Field(
        strict=True,
        ge=0,
        allow_inf_nan=False,
    ),
]
"""A number: no text that looks like one, and not `true`."""


class FileLine(ClosedRow):
    """A row of a file that people's work is kept in, line by line."""

    def line_of_file(self) -> bytes:
        """Return it as a line of JSON, without what is left at its default."""
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"


class Label(FileLine):
    """One line: who gave which score to which criterion of which response."""

    line: Annotated[int, Field(strict=True, ge=1)]
    """The response's line in its own file, from 1."""
    task_id: StrictStr
    criterion: StrictStr
    """Id of the criterion in the task's rubric."""
    score: Score | None
    """s_j, 0 to the criterion's weight; null where the rater could not tell: no number."""
    rater: Rater
    response_sha256: StrictStr | None = None
    """Hash of the response's text; where given, another text in that line is refused."""
    rubric_sha256: StrictStr | None = None
    """Hash of the rubric that the rater saw; where given, another version is refused."""
    at: Score | None = None
    """Time of the label, in seconds since 1970."""
    inclusion: (
        Annotated[
            float,
            Field(
                strict=True,
                gt=0,
                le=1,
            ),
        ]
        | None
    ) = None
    """Probability with which its response was drawn to be labelled: 1 / inclusion is its weight in
    a mean over all responses; None where that is not known."""

    @property
    def cell(self) -> tuple[str, int, str]:
        """Key of the label (rater, line, criterion), once in a file."""
        return self.rater, self.line, self.criterion


@dataclass(frozen=True)
class LabelSource:
    """The labelled tasks and responses, by which a file of labels is checked."""

    tasks: Mapping[str, Task]
    views: Mapping[int, JudgeView] | None = None
    """The judge's views, by the response's line; `dict(read_responses(…))`. Without it, labels
    are checked against the tasks alone."""
    traces: Mapping[int, Trace] | None = None
    """The responses of several turns or with tools, by line, for pages that show them so."""

    @classmethod
    def of(cls, tasks: Mapping[str, Task], read: Sequence[Submitted]) -> Self:
        """Return the source of a file of responses, as `read_submitted` reads it."""
        traces = {
            item.line: item.recorded.trace for item in read if item.recorded is not None
        }
        return cls(tasks, {item.line: item.view for item in read}, traces)


FORM = '{"line": 1, "task_id": "…", "criterion": "…", "score": 1.0, "rater": "…"}'


Seen = dict[tuple[str, int, str], tuple[Path, int]]
"""Path and line of each label, by rater, response and criterion."""


def read_labels(
    path: Path, source: LabelSource, seen: Seen | None = None
) -> Iterator[Label]:
    """Read a file of labels and check each against its task and response.

    Args:
        path: JSON Lines; blank lines are skipped.
        source: the tasks and responses that were labelled.
        seen: cells of other files, so that no rater labels the same in two; updated.

    Raises:
        RubricFileError: a line that is not a label; names an unknown task, response or criterion;
            scores beyond the criterion's weight; is of another text or rubric version; or labels a
            second time what the same rater has labelled. Says file and line.
        OSError: the file cannot be read.
    """
    seen = {} if seen is None else seen
    for number, label in read_rows(path, Label, form=FORM):
        for field, problem in label_problems(label, source):
            raise RubricFileError(problem, path=path, line=number, field=field)
        before = seen.setdefault(label.cell, (path, number))
        if before != (path, number):
            file = "" if before[0] == path else f" of {before[0]}"
            raise RubricFileError(
                f"{label.rater!r} labels criterion {label.criterion!r} of response "
                f"{label.line} again, as line {before[1]}{file} does: keep one of the two",
                path=path,
                line=number,
                field="rater",
            )
        yield label


def holds_labels(path: Path) -> bool:
    """Whether the first row of a file is a label and no judgement.

    Raises:
        OSError: the file cannot be read.
    """
    for _, row in read_each_line(path):
        return (
            not isinstance(row, SchemaError)
            and "criterion" in row
            and "result" not in row
        )
    return False


def label_problems(label: Label, source: LabelSource) -> Iterator[tuple[str, str]]:
    """Yield each field of a label that does not fit its task or response, and the reason."""
    task = source.tasks.get(label.task_id)
    if task is None:
        problem = f"no task has the id {label.task_id!r}: give the tasks it was labelled under"
        yield "task_id", problem
        return
    if source.views is not None:
        view = source.views.get(label.line)
        remedy = "give the file of responses that was labelled"
        if view is None or view.task_id != label.task_id:
            yield (
                "line",
                f"response {label.line} is not a response to task {label.task_id!r}: {remedy}",
            )
            return
        if label.response_sha256 not in (None, text_sha256(view.response)):
            problem = (
                f"response {label.line} is another text than was labelled: {remedy}"
            )
            yield "response_sha256", problem
    if label.criterion not in task.rubric.ids:
        known = ", ".join(task.rubric.ids)
        yield "criterion", f"its task has no criterion {label.criterion!r}, but {known}"
        return
    weight = task.rubric[label.criterion].weight
    if label.score is not None and label.score > weight:
        yield "score", f"{label.score!r} is more than the criterion's weight {weight!r}"
    if label.rubric_sha256 not in (None, hash_rubric(task.rubric)):
        yield (
            "rubric_sha256",
            f"the rubric of task {label.task_id!r} has changed: label anew",
        )
