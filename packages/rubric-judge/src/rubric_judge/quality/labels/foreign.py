"""Labels from a table or another tool's export, checked against the labelled responses."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from rubric_core import ConfigError, JudgeView, RubricFileError, Thoughts, answer_of
from rubric_core.configuration import needed
from rubric_core.files import replacing, text_sha256
from rubric_judge.pool.ledger.entry import hash_rubric
from rubric_judge.quality.labels.rows import Label, LabelSource, label_problems

_FULL = frozenset({"yes", "met", "true", "pass"})
_NONE = frozenset({"no", "unmet", "not met", "false", "fail"})
_CANNOT_TELL = frozenset({"", "cannot tell", "unsure", "n/a", "na", "none"})
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Place:
    """Line of a table, or record of a list, from 1."""

    path: Path
    number: int
    is_record: bool = False

    def __str__(self) -> str:
        return f"{'record' if self.is_record else 'line'} {self.number}"

    def error(self, problem: str, *, field: str | None = None) -> RubricFileError:
        """Return an error with the problem and this place."""
        if self.is_record:
            return RubricFileError(f"{self}: {problem}", path=self.path, field=field)
        return RubricFileError(
            problem,
            path=self.path,
            line=self.number,
            field=field,
        )

    def read(self, model: type[_Model], held: object, *, remedy: str) -> _Model:
        """Return the record here as an instance of its model.

        Raises:
            RubricFileError: it does not fit. Says the field, no value, and the remedy.
        """
        try:
            return model.model_validate(held)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise self.error(
                f"field {field!r}: {needed(first)}; {remedy}", field=field
            ) from None


@dataclass(frozen=True, slots=True)
class ForeignScore:
    """A score from another tool, and its place there."""

    place: Place
    criterion: str
    value: str | None
    """A number, or a word for the full weight, for 0 or for "cannot tell"."""
    rater: str | None
    line: str | None
    """Line of the response; None where the tool does not have it."""
    task_id: str | None = None
    response: str | None = None


Reader = Callable[[Path], Iterator[ForeignScore]]


def import_scores(
    scores: Iterable[ForeignScore],
    source: LabelSource,
    *,
    rater: str | None,
    thoughts: Thoughts = "cut",
) -> Iterator[Label]:
    """Turn given scores into labels.

    Args:
        scores: scores from a reader.
        source: the tasks and responses that were labelled.
        rater: rater of scores that name none.
        thoughts: how the source tells thoughts from answers; another tool may have been given whole
            completions.

    Raises:
        RubricFileError: a score that is of no response, criterion or rater that is known, is no
            number from 0 to the weight, or is given twice. Says file and line or record.
    """
    first_by_cell: dict[tuple[str, int, str], ForeignScore] = {}
    finder = _Finder(source, thoughts)
    for imported in scores:
        line, view = finder.find(imported)
        name = (imported.rater or rater or "").strip()
        if not name:
            raise imported.place.error(
                "names no rater: name one with --rater", field="rater"
            )
        fields = {
            "line": line,
            "task_id": view.task_id,
            "criterion": imported.criterion,
            "score": _score(imported, view),
            "rater": name,
            "response_sha256": text_sha256(view.response),
            "rubric_sha256": hash_rubric(view.rubric),
        }
        label = imported.place.read(
            Label, fields, remedy="give the rater a name in UTF-8"
        )
        for field, problem in label_problems(label, source):
            raise imported.place.error(problem, field=field)
        before = first_by_cell.setdefault(label.cell, imported)
        if before is not imported:
            raise imported.place.error(
                f"scores what {name!r} has scored in {before.place}: keep one of the two",
                field="rater",
            )
        yield label


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Write a new file of labels, whole or not at all.

    Raises:
        ConfigError: there is a file, whose labels would be lost.
        OSError: it cannot be written.
    """
    if path.exists() and path.stat().st_size:
        problem = "there are labels already: name a new file with --out, or move this one away"
        raise ConfigError(f"--out {path}: {problem}", location="out")
    with replacing(path) as file:
        file.writelines(label.line_of_file() for label in labels)


class _Finder:
    """Index of the responses by line, and by task and text."""

    def __init__(self, source: LabelSource, thoughts: Thoughts) -> None:
        self._thoughts: Thoughts = thoughts
        self._views = source.views or {}
        self._lines: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
        for line, view in self._views.items():
            self._lines[view.task_id, None].append(line)
            self._lines[view.task_id, view.response].append(line)

    def find(self, imported: ForeignScore) -> tuple[int, JudgeView]:
        error = imported.place.error
        if imported.line is not None:
            number = _number(imported.line)
            if number is None or not number.is_integer():
                raise error(
                    f"line {imported.line!r} is no line number: count from 1",
                    field="line",
                )
            line = int(number)
        else:
            if imported.task_id is None:
                raise error(
                    "has neither line nor task_id: name the response by one",
                    field="line",
                )
            text = imported.response
            if text:
                text = answer_of(text, self._thoughts).text
            lines = self._lines.get((imported.task_id, text), [])
            if len(lines) != 1:
                raise error(_no_single(imported, len(lines)), field="line")
            (line,) = lines
        if line not in self._views:
            raise error(
                f"there is no response in line {line}: give the responses that were labelled",
                field="line",
            )
        view = self._views[line]
        if imported.task_id not in (None, view.task_id):
            raise error(
                f"response {line} is of task {view.task_id!r}, not of {imported.task_id!r}",
                field="task_id",
            )
        return line, view


def _no_single(imported: ForeignScore, count: int) -> str:
    """Return the problem of a task, or a task and a text, with no response or several."""
    add = f"add a {'field' if imported.place.is_record else 'column'} line"
    of_text = " of this text" if imported.response else ""
    if count:
        more = "" if of_text else " or response"
        return f"task {imported.task_id!r} has {count} responses{of_text}: {add}{more}"
    remedy = add if of_text else "give the tasks and responses that were labelled"
    return f"task {imported.task_id!r} has no response{of_text}: {remedy}"


def _number(text: str) -> float | None:
    """Return a plain decimal number; Python's own reader takes `1_0` and `nan` too."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


def _score(imported: ForeignScore, view: JudgeView) -> float | None:
    if imported.criterion not in view.rubric.ids:
        known = ", ".join(view.rubric.ids)
        raise imported.place.error(
            f"its task has no criterion {imported.criterion!r}, but {known}",
            field="criterion",
        )
    word = (imported.value or "").strip().lower()
    if word in _CANNOT_TELL:
        return None
    weight = view.rubric[imported.criterion].weight
    if word in _FULL:
        return weight
    if word in _NONE:
        return 0.0
    score = _number(word)
    if score is None:
        with_point = _number(word.replace(",", ".", 1))
        if with_point is not None:
            raise imported.place.error(
                f"the score of {imported.criterion!r} has a decimal comma: "
                f"write {with_point:g}",
                field="score",
            )
    if score is None or not 0 <= score <= weight:
        score_text = "the score" if score is None else f"the score {score!r}"
        raise imported.place.error(
            f"{score_text} of {imported.criterion!r} is no number from 0 to its weight "
            f"{weight!r}, nor yes, no or cannot tell",
            field="score",
        )
    return score
