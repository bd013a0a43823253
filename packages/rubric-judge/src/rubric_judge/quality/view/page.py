"""The page: all samples as inert data, a table by criterion, and the script that shows them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rubric_core import Pooling, Task
from rubric_core.files import write_text
from rubric_judge.quality.reliability.rates import MET
from rubric_judge.quality.view.joining import Samples
from rubric_judge.quality.view.samples import (
    Judged,
    Source,
    kinds_of,
    people_say,
)
from rubric_judge.ui.page.grounding import told_grounding
from rubric_judge.ui.page.links import link_to
from rubric_judge.ui.page.rendering import inert_json, render_page, shortened
from rubric_judge.ui.page.tables import Cell, Column, Row, Table, counted

MAX_TEXT_CHARS = 20_000
"""Most characters of one response, question or reason on the page."""
MAX_CHARS = 80_000_000
"""Most characters of all of them, beyond which each gets fewer."""
_LEAST_CHARS = 500
_MOST_ROWS = 40
"""Criteria in the table above the samples; the filter has all."""


def write_page(
    samples: Samples,
    sources: Sequence[Source],
    path: Path,
    *,
    title: str,
    parts: str = "Step or model",
) -> None:
    """Write the page; equal samples give equal bytes.

    Args:
        samples: what it shows.
        sources: what they were made from, for the texts of criteria.
        path: the page; it holds passages and rubrics, and is for the judge's side.
        title: its heading.
        parts: name of the filter by the parts of the sources.

    Raises:
        OSError: it cannot be written.
    """
    write_text(path, page_text(samples, sources, title=title, parts=parts))


def page_text(
    samples: Samples,
    sources: Sequence[Source],
    *,
    title: str,
    parts: str = "Step or model",
) -> str:
    """Return the page as `write_page` writes it."""
    tasks: dict[str, Task] = {}
    kinds: dict[str, str] = {}
    for source in sources:
        tasks |= source.tasks
        kinds |= source.kinds
    laid_out = _Layout(samples, tasks, kinds, _most_chars(samples, tasks))
    content = {
        "title": title,
        "columns": samples.columns,
        "count": counted(len(samples.rows), "sample"),
        "notes": samples.notes,
        "table": by_criterion(samples, tasks, kinds=kinds),
        "raters": sorted(
            {r for s in samples.rows for c in s.people.values() for r in c}
        ),
        "parts": parts if any(row.first.part for row in samples.rows) else "",
        "data": inert_json(laid_out.data()),
    }
    return render_page(__package__, "view", content, scripts=("address.js", "view.js"))


def _most_chars(samples: Samples, tasks: Mapping[str, Task]) -> int:
    """Return how many characters of a text fit, so that a page of any size opens."""
    texts = [len(task.grounding.reveal()) for task in tasks.values()]
    for sample in samples.rows:
        for row in filter(None, sample.judged):
            texts += [len(row.response), len(row.verdict.reasoning)]
    limit = MAX_TEXT_CHARS
    while limit > _LEAST_CHARS and sum(min(n, limit) for n in texts) > MAX_CHARS:
        limit //= 2
    return limit


@dataclass
class _Layout:
    """Samples as the script reads them: tasks, criteria and parts by number."""

    samples: Samples
    tasks: Mapping[str, Task]
    kinds: Mapping[str, str]
    most_chars: int
    _numbers: dict[str, int] = field(default_factory=dict[str, int])
    _tasks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _criteria: list[dict[str, int]] = field(default_factory=list[dict[str, int]])

    def data(self) -> dict[str, object]:
        """Return everything."""
        rows = [self._sample(place) for place in range(len(self.samples.rows))]
        columns = [[column.source, column.judge] for column in self.samples.columns]
        return {"columns": columns, "tasks": self._tasks, "samples": rows, "met": MET}

    def _sample(self, place: int) -> dict[str, object]:
        sample = self.samples.rows[place]
        task = self._task(sample.first)
        texts: dict[str, int] = {}
        verdicts: list[object] = []
        for row in sample.judged:
            if row is None:
                verdicts.append(0)
                continue
            at = texts.setdefault(row.response, len(texts))
            verdicts.append(self._verdict(row, task, at))
        people = {
            self._criterion(task, name, None): dict(by_rater)
            for name, by_rater in sample.people.items()
        }
        return {
            "n": sample.name,
            "t": task,
            "p": sample.first.part,
            "l": sample.first.place,
            "r": [self._shown(text) for text in texts],
            "v": verdicts,
            **({"h": people} if people else {}),
        }

    def _verdict(self, row: Judged, task: int, text: int) -> dict[str, object]:
        verdict = row.verdict
        scores: dict[int, float] = {}
        for name, share in row.shares.items():
            number = self._criterion(task, name, share)
            if (z := verdict.z.get(name)) is not None:
                scores[number] = round(z, 4)
        for name, z in verdict.z.items():
            scores.setdefault(self._criterion(task, name, None), round(z, 4))
        shown: dict[str, object] = {
            "o": verdict.outcome.value,
            "r": None if verdict.reward is None else round(verdict.reward, 4),
            "z": scores,
        }
        if text:
            shown["x"] = text
        if verdict.why:
            shown["w"] = verdict.why
        if verdict.reasoning:
            shown["t"] = self._shown(verdict.reasoning)
        if verdict.evidence:
            shown["e"] = {
                self._criterion(task, name, None): [
                    self._shown(evidence.quote),
                    evidence.found_in or "",
                ]
                for name, evidence in verdict.evidence.items()
            }
        return shown

    def _task(self, row: Judged) -> int:
        number = self._numbers.setdefault(row.task_id, len(self._numbers))
        if number < len(self._tasks):
            return number
        criteria: list[list[Any]] = []
        entry: dict[str, Any] = {
            "id": row.task_id,
            "q": self._shown(row.question),
            "c": criteria,
        }
        self._tasks.append(entry)
        self._criteria.append({})
        task = self.tasks.get(row.task_id)
        if task is not None:
            grounding = told_grounding(task, passage_chars=self.most_chars)
            entry["g"] = grounding["passage"]
            kinds = kinds_of(task)
            shares = task.rubric.shares_M.tolist()
            for known, share in zip(grounding["rubric"], shares, strict=True):
                self._criteria[number][known["id"]] = len(criteria)
                kind = kinds.get(known["id"], "")
                criteria.append([known["id"], kind, round(share, 4), known["text"]])
        return number

    def _criterion(self, task: int, name: str, share: float | None) -> int:
        """Return the number of a task's criterion, which is new in a log without tasks."""
        known = self._criteria[task]
        entries = self._tasks[task]["c"]
        if name not in known:
            known[name] = len(entries)
            entries.append([name, self.kinds.get(name, ""), None, ""])
        entry = entries[known[name]]
        if entry[2] is None and share is not None:
            entry[2] = round(share, 4)
        return known[name]

    def _shown(self, text: str) -> str:
        return shortened(text, self.most_chars, where="the file that was read")


def by_criterion(
    samples: Samples,
    tasks: Mapping[str, Task],
    *,
    kinds: Mapping[str, str],
) -> Table:
    """Return the mean of each criterion by judge and people; a row leads to its samples.

    Args:
        samples: the samples.
        tasks: tasks by id, which say which criteria are measured together.
        kinds: names of kinds by criterion id, for tasks that are not there.
    """
    shown = {sample.first.task_id for sample in samples.rows} & tasks.keys()
    pooling = Pooling.of(tasks[name] for name in shown)
    names = {
        name: {c.id: pooling.pool(c).name for c in tasks[name].rubric} for name in shown
    }
    cells: defaultdict[str, _Tally] = defaultdict(lambda: _Tally(len(samples.columns)))
    for sample in samples.rows:
        of_task = names.get(sample.first.task_id, {})
        scored = dict.fromkeys(
            name for row in filter(None, sample.judged) for name in row.verdict.z
        )
        for name in dict.fromkeys((*scored, *sample.people)):
            z = [
                None if row is None else row.verdict.z.get(name)
                for row in sample.judged
            ]
            pool = of_task.get(name) or kinds.get(name, name)
            cells[pool].add(z, sample.people.get(name, {}))
    return _table(samples, cells)


class _Tally:
    """Scores of one criterion, summed."""

    def __init__(self, columns: int) -> None:
        self.scores: list[list[float]] = [[] for _ in range(columns)]
        self.people: list[float] = []
        self.compared = 0
        self.differ = 0

    def add(self, z: Sequence[float | None], by_rater: Mapping[str, float]) -> None:
        """Add one sample's scores."""
        calls = {value >= MET for value in z if value is not None}
        compared = sum(value is not None for value in z)
        for column, value in zip(self.scores, z, strict=True):
            if value is not None:
                column.append(value)
        if by_rater:
            self.people.append(sum(by_rater.values()) / len(by_rater))
        people = people_say(by_rater)
        if people is not None:
            calls.add(people)
            compared += 1
        if compared > 1:
            self.compared += 1
            self.differ += len(calls) > 1


def _table(samples: Samples, cells: Mapping[str, _Tally]) -> Table:
    has_people = any(tally.people for tally in cells.values())
    compares = any(tally.compared for tally in cells.values())
    columns = [Column(key="count", title="samples", form="count")]
    several = len({column.source for column in samples.columns}) > 1
    columns += [
        Column(
            key=f"judge{at}",
            title=f"{judge.judge} in {judge.source}"
            if several
            else judge.judge or "judge",
            form="percent",
            is_ranked=True,
        )
        for at, judge in enumerate(samples.columns)
    ]
    if has_people:
        columns.append(
            Column(key="people", title="people", form="percent", is_ranked=True)
        )
    if compares:
        columns.append(Column(key="differ", title="verdicts differ %", form="percent"))
    ordered = sorted(
        cells.items(),
        key=lambda item: (-(item[1].differ / (item[1].compared or 1)), item[0]),
    )
    rows: list[Row] = []
    for name, tally in ordered[:_MOST_ROWS]:
        values: list[float | None] = [float(max(map(len, tally.scores)))]
        values += [_mean(column) for column in tally.scores]
        if has_people:
            values.append(_mean(tally.people))
        if compares:
            values.append(tally.differ / tally.compared if tally.compared else None)
        rows.append(
            Row(
                name=name,
                cells=tuple(Cell(value=value) for value in values),
                link=link_to("", criterion=name),
            )
        )
    left = len(ordered) - len(rows)
    caption = (
        "Mean share of the weight that each gives, in %; a name leads to the samples."
    )
    if left:
        caption += f" {counted(left, 'more criterion', 'more criteria')} in the filter."
    return Table(
        key="criteria", title="By criterion", caption=caption, first="criterion",
        columns=tuple(columns), rows=tuple(rows), look="heat",
    )  # fmt: skip


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
