"""Figures and tables of a step, from the rows of the run folder."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from rubric_core import Pooling, Task
from rubric_core.judgement.call import Usage
from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow
from rubric_train_openrlhf.run.writing import numbers
from rubric_train_openrlhf.tracking.tracker import Table

_NOT_FIGURES = {"step", "best"}
_ALARMS = ("audit", "monitor")
"""Tables that watch the run; a tracker shows those of all rows together, under `alarm/`."""
_OF_POLICY = ("id", "question", "answer", "reward", "outcome")
_OF_JUDGE = ("scores", "reasoning", "rubric", "grounding")


def row_figures(group: str, row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a row by their tags.

    The tags are TensorBoard's; those of tables that watch the run begin with `alarm/` besides, as
    `alarm/train/audit/…` does.

    Args:
        group: begins the tags: `train` or `heldout`.
        row: a line of the run folder, as JSON.
    """
    table = {name: value for name, value in row.items() if name not in _NOT_FIGURES}
    alarms = {name: table.pop(name) for name in _ALARMS if name in table}
    tags = chain(numbers(group, table), numbers(f"alarm/{group}", alarms))
    values = cast("Iterator[tuple[str, object]]", tags)
    return {tag: value for tag, value in values if isinstance(value, int | float)}


class Measuring:
    """Computes, by the run's tasks, what its rows do not hold. It is on the judge's side."""

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        """Keep the tasks, and choose the pools of their criteria as the run does."""
        self._tasks = tasks
        self._pooling = Pooling.of(tasks.values())

    def criteria(
        self, means: Mapping[str, float], rows: Iterable[JudgementRow]
    ) -> Iterator[tuple[str, float]]:
        """Yield mean and spread of the criteria of each pool.

        The spread is the mean over groups of the standard deviation of z between the responses of
        a group: 0 where a criterion tells none of them apart.

        Args:
            means: the run's own means, by pool.
            rows: judgements of the step.
        """
        for pool, mean in means.items():
            yield f"criterion/{pool}/mean", mean
        by_pool: defaultdict[str, list[float]] = defaultdict(list)
        for (_, task_id, name), values in _groups(rows).items():
            if len(values) > 1:
                by_pool[self._pool(task_id, name)].append(float(np.std(values)))
        for pool, deviations in by_pool.items():
            yield f"criterion/{pool}/spread", float(np.mean(deviations))

    def table(
        self,
        rollouts: Sequence[RolloutRow],
        judgements: Sequence[JudgementRow],
        *,
        judge_side: bool,
    ) -> Table:
        """Lay out the answers of a step, with what the judge alone may see if asked for.

        Args:
            rollouts: rows of the policy's side.
            judgements: rows of the judge's side, for the same responses.
            judge_side: whether to show scores, the judge's words, rubric and passage.
        """
        shown = [
            (row.id, row.prompt, row.judged, row.reward, row.outcome)
            for row in rollouts
        ]
        if not judge_side:
            return Table(_OF_POLICY, shown)
        by_id = {row.id: row for row in judgements}
        rows = [
            (*cells, *self._revealed(by_id[row.id]))
            for cells, row in zip(shown, rollouts, strict=True)
        ]
        return Table((*_OF_POLICY, *_OF_JUDGE), rows)

    def _pool(self, task_id: str, name: str) -> str:
        rubric = self._tasks[task_id].rubric
        criterion = next(part for part in rubric if part.id == name)
        return self._pooling.pool(criterion).name

    def _revealed(self, row: JudgementRow) -> tuple[str, str, str, str]:
        task = self._tasks[row.task_id]
        rubric = json.dumps(task.rubric.reveal(), ensure_ascii=False)
        return (
            json.dumps(row.z),
            row.result.reasoning,
            rubric,
            task.grounding.reveal(),
        )


def judge_figures(rows: Iterable[JudgementRow]) -> Iterator[tuple[str, float]]:
    """Yield tokens and cost of the judgements of a step, where the judge reports them.

    Equal answers share one judgement, which counts once.
    """
    counted = {
        (row.task_id, row.result.model_dump_json()): row.result.usage
        for row in rows
        if row.result.usage is not None
    }
    if not counted:
        return
    total = Usage()
    for usage in counted.values():
        total = total.plus(usage)
    for name, amount in total.model_dump().items():
        if amount is not None:
            yield f"judge/{name}", cast("float", amount)


def _groups(
    rows: Iterable[JudgementRow],
) -> Mapping[tuple[str, str, str], Sequence[float]]:
    """Return the z of a group's responses, by group, task and criterion."""
    groups: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        # s000001-p003-g07: a task that was drawn twice is two groups.
        group = row.id.rpartition("-")[0]
        for name, value in row.z.items():
            groups[group, row.task_id, name].append(value)
    return groups
