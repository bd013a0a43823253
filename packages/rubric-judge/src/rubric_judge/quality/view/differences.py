"""Where a judge and people differ: counts by criterion, each with a way to the samples."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from rubric_core import JudgeView, Pooling, Task
from rubric_judge.quality.labels.rows import Label
from rubric_judge.quality.reliability.rates import MET
from rubric_judge.quality.reliability.ratings import Rating
from rubric_judge.quality.view.joining import Samples, joined, labelled
from rubric_judge.quality.view.samples import (
    Judged,
    Source,
    people_say,
)
from rubric_judge.ui.page.links import link_to
from rubric_judge.ui.page.tables import Cell, Column, Row, Table

_COLUMNS = (
    Column(key="labelled", title="judged and labelled", form="count"),
    Column(key="lenient", title="met by the judge alone", form="count"),
    Column(key="strict", title="met by people alone", form="count"),
    Column(key="differ", title="differ %", form="percent"),
)


def rated_samples(
    ratings: Iterable[Rating],
    views: Mapping[int, JudgeView],
    labels: Iterable[Label],
    tasks: Mapping[str, Task],
) -> tuple[Source, Samples]:
    """Return what a judge and people said of the same responses.

    Args:
        ratings: judgements; repeats of a response are samples of their own.
        views: the responses by line.
        labels: of those responses.
        tasks: tasks by id.
    """
    rows: list[Judged] = []
    for rating in ratings:
        task = tasks[rating.task_id]
        response = views[rating.line].response
        place = f"line {rating.line}"
        rows.append(
            Judged.of(task, response, rating.result, place=place, judge=rating.judge)
        )
    source = Source("labelled responses", rows, tasks)
    return source, labelled(joined([source]), labels, views)


def differences(samples: Samples, tasks: Mapping[str, Task], *, page: str) -> Table:
    """Return the criteria in which judge and people differ, the most differences first.

    Args:
        samples: with labels.
        tasks: tasks by id, which say which criteria are measured together.
        page: path of the page of judgements from the one that holds the table.
    """
    pooling = Pooling.of(tasks[sample.first.task_id] for sample in samples.rows)
    names = {
        task.task_id: {c.id: pooling.pool(c).name for c in task.rubric}
        for task in tasks.values()
    }
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples.rows:
        of_task = names[sample.first.task_id]
        for criterion, by_rater in sample.people.items():
            z = sample.first.verdict.z.get(criterion)
            people = people_say(by_rater)
            if z is None or people is None:
                continue
            count = counts[of_task[criterion]]
            count["labelled"] += 1
            count["lenient"] += z >= MET and not people
            count["strict"] += people and z < MET
    rows: list[Row] = []
    for name, count in counts.items():
        differ = count["lenient"] + count["strict"]
        if not differ:
            continue
        values = (
            count["labelled"],
            count["lenient"],
            count["strict"],
            differ / count["labelled"],
        )
        rows.append(
            Row(
                name=name,
                cells=tuple(Cell(value=value) for value in values),
                link=link_to(page, criterion=name, differ="people", sort="gap"),
            )
        )
    rows.sort(key=lambda row: (-(row.cells[3].value or 0.0), row.name))
    return Table(
        key="differ",
        title="Where judge and people differ",
        caption=(
            f"One calls a criterion met (z of {MET:g} or more), the other does not; ties of raters "
            f"are left out. A name leads to the answers, on {page}, which holds passages and "
            "rubrics: keep it private."
        ),
        first="criterion",
        columns=_COLUMNS,
        rows=tuple(rows),
    )
