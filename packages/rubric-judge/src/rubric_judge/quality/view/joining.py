"""Sources joined by task and response: a sample has a verdict of each judge, and labels."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rubric_core import ConfigError, JudgeView
from rubric_judge.quality.labels.rows import Label
from rubric_judge.quality.view.samples import Judged, Source
from rubric_judge.ui.page.tables import counted

By = Literal["response", "task"]
"""Key that two judgements of one sample share: task and response, or the task alone."""

MOST_JUDGES = 6
"""Verdicts that fit side by side."""
_NAME_CHARS = 10


@dataclass(frozen=True)
class Column:
    """The verdicts of one judge in one source."""

    source: str
    judge: str
    count: int


@dataclass(frozen=True)
class Sample:
    """A response with all that is said of it."""

    name: str
    """Its address on the page: the same wherever this response to this task is shown."""
    judged: tuple[Judged | None, ...]
    """By column; None where that judge did not judge it."""
    people: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict[str, Mapping[str, float]]
    )
    """z by criterion id and rater."""

    @property
    def first(self) -> Judged:
        """The first judgement that there is."""
        return next(row for row in self.judged if row is not None)


@dataclass(frozen=True)
class Samples:
    """All samples, in the order of the first source."""

    columns: tuple[Column, ...]
    rows: list[Sample]
    notes: list[str]


def joined(
    sources: Sequence[Source], *, by: By = "response", judges: Sequence[str] = ()
) -> Samples:
    """Join sources.

    Args:
        sources: one, or more that judge the same.
        by: what two judgements of one sample share; the nth of equal ones goes with the nth.
        judges: names of the judges to show; all if empty.

    Raises:
        ConfigError: there is no judgement, no such judge, more judges than fit, or two sources
            share no sample.
    """
    columns: dict[tuple[int, str], int] = {}
    counts: Counter[tuple[int, str]] = Counter()
    for at, source in enumerate(sources):
        if not source.rows:
            raise ConfigError(f"{source.name} holds no judgement", location="inputs")
        for row in source.rows:
            if not judges or row.judge in judges:
                columns.setdefault((at, row.judge), len(columns))
                counts[at, row.judge] += 1
    _check_columns(sources, columns, judges)
    places: Counter[tuple[int, object]] = Counter()
    by_key: dict[tuple[object, int], list[Judged | None]] = {}
    for at, source in enumerate(sources):
        for row in source.rows:
            column = columns.get((at, row.judge))
            if column is None:
                continue
            text = (row.task_id, row.response) if by == "response" else row.task_id
            nth = places[column, text]
            places[column, text] += 1
            key = text, nth
            if key not in by_key:
                by_key[key] = [None] * len(columns)
            by_key[key][column] = row
    notes = [note for source in sources for note in source.notes]
    if len(sources) > 1:
        notes += _shared(sources, columns, by_key.values(), by)
    rows = [
        Sample(_name(tuple(row), nth), tuple(row)) for (_, nth), row in by_key.items()
    ]
    shown = tuple(
        Column(sources[at].name, judge, counts[at, judge]) for at, judge in columns
    )
    return Samples(shown, rows, notes)


def _check_columns(
    sources: Sequence[Source],
    columns: Mapping[tuple[int, str], int],
    judges: Sequence[str],
) -> None:
    names = dict.fromkeys(row.judge for source in sources for row in source.rows)
    if unknown := [name for name in judges if name not in names]:
        raise ConfigError(
            f"--judge {unknown[0]!r}: no such judge; there are {', '.join(map(repr, names))}",
            location="judge",
        )
    if len(columns) > MOST_JUDGES:
        listed = ", ".join(map(repr, names))
        raise ConfigError(
            f"{len(columns)} judges do not fit side by side, {MOST_JUDGES} do: choose some of "
            f"{listed} by --judge",
            location="judge",
        )


def _shared(
    sources: Sequence[Source],
    columns: Mapping[tuple[int, str], int],
    rows: Iterable[Sequence[Judged | None]],
    by: By,
) -> list[str]:
    """Return notes on what one source alone holds.

    Raises:
        ConfigError: no sample is in two of them.
    """
    source_of = [at for at, _ in columns]
    alone: Counter[int] = Counter()
    shared = 0
    for row in rows:
        present = {
            at for at, judged in zip(source_of, row, strict=True) if judged is not None
        }
        shared += len(present) > 1
        if len(present) == 1:
            alone.update(present)
    if not shared:
        tasks = [{row.task_id for row in source.rows} for source in sources]
        common = tasks[0]
        for ids in tasks[1:]:
            common = common & ids
        both = len(common)
        held = " and ".join(
            f"{source.name} ({counted(len(source.rows), 'judgement')} of "
            f"{counted(len(ids), 'task')})"
            for source, ids in zip(sources, tasks, strict=True)
        )
        remedy = "give two that judge the same responses"
        if by == "response" and both:
            remedy = (
                f"{counted(both, 'task')} {'is' if both == 1 else 'are'} in all of them: "
                "`--by task` puts other answers to one task side by side"
            )
        raise ConfigError(f"{held} share no sample: {remedy}", location="inputs")
    return [
        f"{counted(count, 'sample')} of {sources[at].name} alone"
        for at, count in sorted(alone.items())
    ]


def labelled(
    samples: Samples, labels: Iterable[Label], views: Mapping[int, JudgeView]
) -> Samples:
    """Put people's labels beside the verdicts, by task and text of the response.

    Args:
        samples: the samples.
        labels: of any raters.
        views: the labelled responses by line.

    Raises:
        ConfigError: none is of a response that was judged.
    """
    people: defaultdict[tuple[str, str], defaultdict[str, dict[str, float]]]
    people = defaultdict(lambda: defaultdict(dict))
    count = 0
    for label in labels:
        view = views[label.line]
        weight = view.rubric[label.criterion].weight
        if label.score is None or not weight:
            continue
        count += 1
        by_criterion = people[view.task_id, view.response]
        by_criterion[label.criterion][label.rater] = label.score / weight
    rows = [
        Sample(
            row.name,
            row.judged,
            people.get((row.first.task_id, row.first.response), {}),
        )
        for row in samples.rows
    ]
    if count and not any(row.people for row in rows):
        raise ConfigError(
            f"--labels: none of the {counted(count, 'label')} is of a response that was judged: "
            "give the judgements of the responses that were labelled",
            location="labels",
        )
    return Samples(samples.columns, rows, samples.notes)


def _name(row: Sequence[Judged | None], nth: int) -> str:
    first = next(judged for judged in row if judged is not None)
    text = json.dumps([first.task_id, first.response, nth])
    return hashlib.sha256(text.encode()).hexdigest()[:_NAME_CHARS]
