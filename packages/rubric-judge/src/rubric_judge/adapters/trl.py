"""TRL: a reward function for `GRPOTrainer` and its kin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Protocol, cast

from rubric_core import Judge, RewardShapeError
from rubric_core.reward.projection import OnUnavailable
from rubric_judge.adapters.rows import ROW_FIELDS, Tasks
from rubric_judge.adapters.scoring import Judgement, RubricScorer, Submission
from rubric_judge.config import JudgeSpec

__all__ = ["RewardFunction", "rubric_reward"]


class RewardFunction(Protocol):
    """What `reward_funcs` takes: an `async def` with a name."""

    __name__: str

    async def __call__(
        self,
        prompts: Sequence[object],
        completions: Sequence[object],
        *,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: object,
    ) -> list[float | None]:
        """Return one reward for each completion, None where there is none."""
        ...


def rubric_reward(
    *,
    judge: Judge | JudgeSpec | Path | str,
    tasks: Tasks = None,
    workers: int = 32,
    on_unavailable: OnUnavailable = "mask",
    ledger: Path | str | None = None,
) -> RewardFunction:
    """Return a reward for `GRPOTrainer(reward_funcs=…)`.

    Args:
        judge: a judge, its configuration, or the YAML file with it.
        tasks: the tasks that the column `task_id` names, or their file; rows may instead have the
            columns `rubric`, `passage` and `question`, or those of a task file.
        workers: judge workers of this process; each holds up to four responses.
        on_unavailable: "mask" returns None, which TRL leaves out of the group.
        ledger: file that keeps every judgement, for `rubric-judge rejudge` and the books.

    Raises:
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    scorer = RubricScorer(
        judge=judge, tasks=tasks, workers=workers, on_unavailable=on_unavailable, ledger=ledger
    )
    return cast("RewardFunction", _Reward(scorer).rubric_reward)


class _Reward:
    """Holds the scorer; its bound method is an `async def` to every release of TRL, and pickles."""

    def __init__(self, scorer: RubricScorer) -> None:
        self._scorer = scorer

    async def rubric_reward(
        self,
        prompts: Sequence[object],
        completions: Sequence[object],
        *,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: object,
    ) -> list[float | None]:
        """Judge a batch.

        Raises:
            RewardShapeError: a column that does not have one entry for each completion.
            ConfigError, SchemaError: a row without a task.
        """
        read = {name: columns[name] for name in ROW_FIELDS if name in columns}
        rows = _rows({"prompts": prompts, **read}, count=len(completions))
        submissions = [
            Submission(row, completion, prompt)
            for row, completion, prompt in zip(rows, completions, prompts, strict=True)
        ]
        judgements = await self._scorer.judge(submissions)
        if log_metric is not None and judgements:
            _log(judgements, log_metric)
        return [one.reward for one in judgements]


def _rows(columns: Mapping[str, object], *, count: int) -> list[dict[str, object]]:
    lists = {name: cast("Sequence[object]", values) for name, values in columns.items()}
    for name, values in lists.items():
        if isinstance(values, str) or len(values) != count:
            raise RewardShapeError(
                f"{count} completions, but {name!r} has {len(values)} entries: one each is needed"
            )
    return [{name: values[i] for name, values in lists.items()} for i in range(count)]


def _log(judgements: Sequence[Judgement], log_metric: Callable[[str, float], None]) -> None:
    """Give TRL the means over the batch: of the score, over what was judged."""
    for name in ("rubric/invalid", "rubric/unavailable"):
        log_metric(name, fmean(one.metrics[name] for one in judgements))
    judged = [one for one in judgements if not one.unavailable]
    if judged:
        log_metric("rubric/score", fmean(one.metrics["rubric/score"] for one in judged))
    by_criterion: dict[str, list[float]] = {}
    for one in judgements:
        for name, z in one.criteria.items():
            by_criterion.setdefault(name, []).append(z)
    for name, values in by_criterion.items():
        log_metric(name, fmean(values))
