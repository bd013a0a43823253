"""Labels out of a table or another tool's export, checked against what was labelled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rubric_core import JudgeView
from rubric_core.errors import ConfigError, RubricFileError
from rubric_core.files import replacing
from rubric_judge.labels.rows import Label, LabelSource, label_problems, rater_name
from rubric_judge.ledger.entry import hash_rubric, hash_text

_FULL: Final = frozenset({"yes", "met", "true", "pass"})
_NONE: Final = frozenset({"no", "unmet", "not met", "false", "fail"})
_CANNOT_TELL: Final = frozenset({"", "cannot tell", "unsure", "n/a", "na", "none"})


@dataclass(frozen=True, slots=True)
class Given:
    """A score as another tool holds it, and where it stands there."""

    place: int
    """Line of a table, or number of the record in a list, from 1."""
    criterion: str
    value: object
    """A number, or its text, or a word for the whole weight, for 0 or for neither."""
    rater: str | None
    line: int | str | None
    """Of the response; None where the tool was not given it."""
    task_id: str | None = None
    response: str | None = None


Reader = Callable[[Path], Iterator[Given]]


def import_given(
    path: Path, found: Iterable[Given], source: LabelSource, *, rater: str | None
) -> Iterator[Label]:
    """Turn given scores into labels.

    Args:
        path: where they come from, for errors.
        found: what a reader found.
        source: the tasks and responses that were labelled.
        rater: of scores that name none.

    Raises:
        RubricFileError: a score that is of no response, criterion or rater that is known, is no
            number from 0 to the weight, or is given twice. Says file and line or record.
    """
    first: dict[tuple[str, int, str], Given] = {}
    finder = _Finder(source)
    for given in found:
        line, view = finder.find(given, path)
        name = _rater(given, path, rater)
        label = Label(
            line=line,
            task_id=view.task_id,
            criterion=given.criterion,
            score=_score(given, path, view),
            rater=name,
            response_sha256=hash_text(view.response),
            rubric_sha256=hash_rubric(view.rubric),
        )
        for field, problem in label_problems(label, source):
            raise _error(given, path, problem, field=field)
        if (before := first.setdefault(label.cell, given)) is not given:
            problem = f"scores what {name!r} has scored at {before.place}: keep one of the two"
            raise _error(given, path, problem, field="rater")
        yield label


def write_labels(path: Path, labels: Iterable[Label]) -> list[Label]:
    """Write a new file of labels, whole or not at all, and return them.

    Raises:
        ConfigError: there is a file, whose labels would be lost.
        OSError: it cannot be written.
    """
    if path.exists() and path.stat().st_size:
        told = "there are labels already: name a new file, which can be read beside it"
        raise ConfigError(f"--out {path}: {told}", location="out")
    written = list(labels)
    with replacing(path) as file:
        file.writelines(label.line_of_file() for label in written)
    return written


class _Finder:
    """Finds a response by its line, or by its task and text."""

    def __init__(self, source: LabelSource) -> None:
        self._views = source.views or {}
        self._by_task: dict[str, list[int]] = {}
        for line, view in self._views.items():
            self._by_task.setdefault(view.task_id, []).append(line)

    def find(self, given: Given, path: Path) -> tuple[int, JudgeView]:
        if given.line is not None:
            line = _whole(given.line)
            if line is None:
                raise _error(given, path, f"line {given.line!r} is no line number", field="line")
        else:
            lines = self._by_task.get(given.task_id or "", [])
            if given.response is not None:
                lines = [one for one in lines if self._views[one].response == given.response]
            if len(lines) != 1:
                known = "no line and no task_id" if given.task_id is None else repr(given.task_id)
                remedy = "give the response's line" if lines else "give line, or task_id"
                problem = f"{known} is said of the response, which fits {len(lines)}: {remedy}"
                raise _error(given, path, problem, field="line")
            (line,) = lines
        if line not in self._views:
            problem = f"there is no response in line {line}: give the responses that were labelled"
            raise _error(given, path, problem, field="line")
        view = self._views[line]
        if given.task_id not in (None, view.task_id):
            problem = f"response {line} is of task {view.task_id!r}, not of {given.task_id!r}"
            raise _error(given, path, problem, field="task_id")
        return line, view


def _rater(given: Given, path: Path, rater: str | None) -> str:
    named = given.rater or rater or ""
    if not named.strip():
        raise _error(given, path, "names no rater: name one with --rater", field="rater")
    try:
        return rater_name(named)
    except ValueError as error:
        raise _error(given, path, str(error), field="rater") from None


def _whole(value: object) -> int | None:
    """Return a whole number that a tool may hold as a float or a text."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def _score(given: Given, path: Path, view: JudgeView) -> float | None:
    if given.criterion not in view.rubric.ids:
        known = ", ".join(view.rubric.ids)
        problem = f"its task has no criterion {given.criterion!r}, but {known}"
        raise _error(given, path, problem, field="criterion")
    word = "" if given.value is None else str(given.value).strip().lower()
    if word in _CANNOT_TELL:
        return None
    weight = view.rubric[given.criterion].weight
    if word in _FULL or word in _NONE:
        return weight if word in _FULL else 0.0
    try:
        score = float(word)
    except ValueError:
        score = math.nan
    if not 0 <= score <= weight:
        told = f"the score of {given.criterion!r} is no number from 0 to its weight {weight:g}"
        raise _error(given, path, f"{told}, nor yes, no or cannot tell", field="score")
    return score


def _error(given: Given, path: Path, problem: str, *, field: str) -> RubricFileError:
    return RubricFileError(problem, path=path, line=given.place, field=field)
