"""Labels out of a table or another tool's export, checked against what was labelled."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from rubric_core import ConfigError, JudgeView, RubricFileError, Thoughts, answer_of
from rubric_core.configuration import needed
from rubric_core.files import replacing
from rubric_judge.labels.rows import Label, LabelSource, label_problems
from rubric_judge.ledger.entry import hash_rubric, hash_text

_FULL: Final = frozenset({"yes", "met", "true", "pass"})
_NONE: Final = frozenset({"no", "unmet", "not met", "false", "fail"})
_CANNOT_TELL: Final = frozenset({"", "cannot tell", "unsure", "n/a", "na", "none"})
_NUMBER: Final = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE
)

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
        """Return the error that says what is wrong here."""
        if self.is_record:
            return RubricFileError(f"{self}: {problem}", path=self.path, field=field)
        return RubricFileError(problem, path=self.path, line=self.number, field=field)

    def read(self, model: type[_Model], held: object, *, remedy: str) -> _Model:
        """Return what is held here as its model.

        Raises:
            RubricFileError: it does not fit. Says the field, no value, and the remedy.
        """
        try:
            return model.model_validate(held)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            problem = f"field {field!r}: {needed(first)}; {remedy}"
            raise self.error(problem, field=field) from None


@dataclass(frozen=True, slots=True)
class Given:
    """A score as another tool holds it, and where it stands there."""

    place: Place
    criterion: str
    value: str | None
    """A number, or a word for the whole weight, for 0 or for neither."""
    rater: str | None
    line: str | None
    """Of the response; None where the tool was not given it."""
    task_id: str | None = None
    response: str | None = None


Reader = Callable[[Path], Iterator[Given]]


def import_given(
    found: Iterable[Given],
    source: LabelSource,
    *,
    rater: str | None,
    thoughts: Thoughts = "cut",
) -> Iterator[Label]:
    """Turn given scores into labels.

    Args:
        found: what a reader found.
        source: the tasks and responses that were labelled.
        rater: of scores that name none.
        thoughts: how the source tells thoughts from answers; another tool may have been given whole
            completions.

    Raises:
        RubricFileError: a score that is of no response, criterion or rater that is known, is no
            number from 0 to the weight, or is given twice. Says file and line or record.
    """
    first: dict[tuple[str, int, str], Given] = {}
    finder = _Finder(source, thoughts)
    for given in found:
        line, view = finder.find(given)
        name = (given.rater or rater or "").strip()
        if not name:
            raise given.place.error(
                "names no rater: name one with --rater", field="rater"
            )
        held = {
            "line": line,
            "task_id": view.task_id,
            "criterion": given.criterion,
            "score": _score(given, view),
            "rater": name,
            "response_sha256": hash_text(view.response),
            "rubric_sha256": hash_rubric(view.rubric),
        }
        label = given.place.read(Label, held, remedy="give the rater a name in UTF-8")
        for field, problem in label_problems(label, source):
            raise given.place.error(problem, field=field)
        if (before := first.setdefault(label.cell, given)) is not given:
            problem = f"scores what {name!r} has scored in {before.place}: keep one of the two"
            raise given.place.error(problem, field="rater")
        yield label


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Write a new file of labels, whole or not at all.

    Raises:
        ConfigError: there is a file, whose labels would be lost.
        OSError: it cannot be written.
    """
    if path.exists() and path.stat().st_size:
        told = "there are labels already: name a new file with --out, or move this one away"
        raise ConfigError(f"--out {path}: {told}", location="out")
    with replacing(path) as file:
        file.writelines(label.line_of_file() for label in labels)


class _Finder:
    """Finds a response by its line, or by its task and text."""

    def __init__(self, source: LabelSource, thoughts: Thoughts) -> None:
        self._thoughts: Thoughts = thoughts
        self._views = source.views or {}
        self._lines: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
        for line, view in self._views.items():
            self._lines[view.task_id, None].append(line)
            self._lines[view.task_id, view.response].append(line)

    def find(self, given: Given) -> tuple[int, JudgeView]:
        error = given.place.error
        if given.line is not None:
            number = _number(given.line)
            if number is None or not number.is_integer():
                raise error(
                    f"line {given.line!r} is no line number: count from 1", field="line"
                )
            line = int(number)
        else:
            if given.task_id is None:
                raise error(
                    "has neither line nor task_id: name the response by one",
                    field="line",
                )
            said = given.response and answer_of(given.response, self._thoughts).text
            lines = self._lines.get((given.task_id, said), [])
            if len(lines) != 1:
                raise error(_no_single(given, len(lines)), field="line")
            (line,) = lines
        if line not in self._views:
            problem = f"there is no response in line {line}: give the responses that were labelled"
            raise error(problem, field="line")
        view = self._views[line]
        if given.task_id not in (None, view.task_id):
            problem = (
                f"response {line} is of task {view.task_id!r}, not of {given.task_id!r}"
            )
            raise error(problem, field="task_id")
        return line, view


def _no_single(given: Given, found: int) -> str:
    """Say why a task, or a task and a text, name no response or several."""
    add = f"add a {'field' if given.place.is_record else 'column'} line"
    said = " of this text" if given.response else ""
    if found:
        more = "" if said else " or response"
        return f"task {given.task_id!r} has {found} responses{said}: {add}{more}"
    remedy = add if said else "give the tasks and responses that were labelled"
    return f"task {given.task_id!r} has no response{said}: {remedy}"


def _number(text: str) -> float | None:
    """Return a plain decimal number; Python's own reader takes `1_0` and `nan` too."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


def _score(given: Given, view: JudgeView) -> float | None:
    if given.criterion not in view.rubric.ids:
        known = ", ".join(view.rubric.ids)
        problem = f"its task has no criterion {given.criterion!r}, but {known}"
        raise given.place.error(problem, field="criterion")
    word = (given.value or "").strip().lower()
    if word in _CANNOT_TELL:
        return None
    weight = view.rubric[given.criterion].weight
    if word in _FULL or word in _NONE:
        return weight if word in _FULL else 0.0
    score = _number(word)
    if score is None and (meant := _number(word.replace(",", ".", 1))) is not None:
        problem = (
            f"the score of {given.criterion!r} has a decimal comma: write {meant:g}"
        )
        raise given.place.error(problem, field="score")
    if score is None or not 0 <= score <= weight:
        told = "the score" if score is None else f"the score {score!r}"
        told = f"{told} of {given.criterion!r} is no number from 0 to its weight {weight!r}"
        raise given.place.error(f"{told}, nor yes, no or cannot tell", field="score")
    return score
