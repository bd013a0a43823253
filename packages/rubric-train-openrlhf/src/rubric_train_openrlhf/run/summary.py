"""How a run stands, from the rows that it has written: summary.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from rubric_core import RubricError
from rubric_train_openrlhf.run.records import HeldoutRow, MetricsRow, RunSummary, Status

if TYPE_CHECKING:
    from rubric_train_openrlhf.run.folder import RunFolder

_FEWEST_IN_A_QUARTER: Final = 3
"""Means of fewer steps say little."""

_log = structlog.get_logger()


def write_summary(
    folder: RunFolder,
    *,
    status: Status,
    wall_s: float,
    error: Exception | None = None,
    place: Mapping[str, object] | None = None,
) -> RunSummary:
    """Sum the rows of a run up and replace summary.json.

    Args:
        folder: of the run.
        status: how it stands.
        wall_s: seconds that it has taken.
        error: what it failed of.
        place: other fields of `RunSummary`: where it was, and who says so.

    Raises:
        ResumeError: a row is damaged.
        DiskWriteError: the file could not be written.
    """
    summary = summed_up(folder).model_copy(
        update={
            **(place or {}),
            "status": status,
            "wall_s": wall_s,
            "error": None if error is None else _shown(error),
            "warning": _warning(folder.read_metrics()) if status == "finished" else None,
        }
    )
    if summary.warning is not None:
        _log.warning("train.run.suspect", why=summary.warning)
    folder.write_summary(summary)
    return summary


def summed_up(folder: RunFolder) -> RunSummary:
    """Sum the rows of a run up.

    Raises:
        ResumeError: a row is damaged.
    """
    steps = folder.read_metrics()
    heldout = folder.read_heldout()
    best = best_row(folder) if heldout else None
    return RunSummary(
        status="running",
        steps=steps[-1].step if steps else 0,
        best_step=best.step if best else None,
        best_heldout_reward=best.reward_mean if best else None,
        first_heldout_reward=heldout[0].reward_mean if heldout else None,
        last_heldout_reward=heldout[-1].reward_mean if heldout else None,
        by_fallback=dict(sum((Counter(row.by_fallback) for row in steps), Counter[str]())),
    )


def best_row(folder: RunFolder) -> HeldoutRow:
    """The held-out pass with the highest reward; the first of them at a tie."""
    return [row for row in folder.read_heldout() if row.best][-1]


def _warning(steps: Sequence[MetricsRow]) -> str | None:
    if not steps:
        return None
    if any(row.degenerate_group_frac < 1 for row in steps):
        return _collapse(steps)
    # Without a spread of rewards every advantage is 0.
    mean = sum(row.reward_mean for row in steps) / len(steps)
    return (
        f"in all {len(steps)} steps the responses of each group earned the same ({mean:.3f} on "
        "average), so that no advantage differed from 0 and nothing was learnt; warm-start the "
        "policy (sft) until some responses earn more than others, or look at the rubrics"
    )


def _collapse(steps: Sequence[MetricsRow]) -> str | None:
    """Compare the first quarter of a run with its last one."""
    quarter = len(steps) // 4
    if quarter < _FEWEST_IN_A_QUARTER:
        return None
    ends = (steps[:quarter], steps[-quarter:])
    first, last = (sum(row.reward_mean for row in part) / quarter for part in ends)
    if first == 0 or last > first / 2:
        return None
    return (
        f"the training reward fell from {first:.3f} to {last:.3f}, first and last quarter of the "
        f"steps, at a KL divergence of {steps[-1].kl:.2f} at the end: lower optim.learning_rate, "
        "raise objective.kl_coef, or let a warm start on few answers take fewer sft.steps"
    )


def _shown(error: Exception) -> str:
    """Name an error; only our own are known to hold no text of a task or an answer."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, RubricError) else name
