"""Held-out rubric reward as a task of lm-eval.

lm-eval hands over all responses of a task at once in `apply_filters`: there they are judged,
concurrently, before any of them is scored, so its means, standard errors and sample logs work as
for every other task. What it logs holds neither a passage nor a judge's words.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from lm_eval.api import metrics as harness_metrics
from lm_eval.api.task import ConfigurableTask

from rubric_core import ConfigError, JudgeResult, Outcome, Task, read_tasks
from rubric_eval.lm_tasks.event_loop import run_async
from rubric_eval.lm_tasks.ranks import (
    common_criteria,
    gathered,
    rank_result,
    refuse_unreached,
)
from rubric_eval.lm_tasks.verdicts import Verdict, only, shared_criteria, verdict
from rubric_judge import JudgePool, Ledger, load_replicas, read_judge_spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LOG: Final = logging.getLogger(__name__)
_MAX_UNAVAILABLE_FRAC: Final = 0.05
_WORKERS: Final = 32
_METRICS: Final = {
    "rubric_reward": True,
    "judge_unavailable": False,
    "judge_invalid": False,
    "judge_fallback": False,
}
"""Whether more of it is better."""


@dataclass(frozen=True)
class _Settings:
    """What `--metadata` says to this task; the rest of it is others'."""

    questions: str
    judge: str
    ledger: str | None = None
    workers: int = _WORKERS
    max_unavailable_frac: float = _MAX_UNAVAILABLE_FRAC


class HeldoutTask(ConfigurableTask):
    """Questions of a file, and responses judged against the passages and rubrics that it holds."""

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,  # noqa: ANN401  # lm-eval's
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Read the questions and the judge's file; whether it answers is asked before generation.

        Raises:
            ConfigError: metadata that this task cannot do without, or cannot use.
            RubricFileError, BenchmarkDataError: the file of tasks.
        """
        given = {key: value for key, value in (config or {}).items() if key != "class"}
        self._settings = _settings(given.get("metadata") or {})
        self._spec = read_judge_spec(Path(self._settings.judge))
        self._world_size = 1
        harness: Any = super()  # its annotations are partial
        harness.__init__(data_dir, cache_dir, download_mode, given)
        self._tasks = {task.task_id: task for task in read_tasks(Path(self._settings.questions))}
        self._criteria = shared_criteria(self._tasks.values())

    def build_all_requests(self, **options: Any) -> None:  # noqa: ANN401  # lm-eval's
        """Build the requests; a judge that is not there is found out before an hour of answers."""
        run_async(self._check)
        self._world_size = int(options.get("world_size") or 1)
        harness: Any = super()
        harness.build_all_requests(**options)

    def apply_filters(self) -> None:
        """Judge every response.

        Raises:
            HeldoutAbortError: more of them than allowed got no judgement.
            LedgerError: the ledger cannot be read or written.
        """
        super().apply_filters()
        instances = cast("list[Any]", self._instances)
        for name in list(instances[0].filtered_resps):
            pairs = [
                (self._tasks[one.doc["task_id"]], _text(one.filtered_resps[name]))
                for one in instances
            ]
            found = [
                verdict(task, result, response=response, criteria=self._criteria)
                for (task, response), result in zip(
                    pairs, run_async(self._judge, pairs), strict=True
                )
            ]
            ranks = gathered(rank_result(found), world_size=self._world_size)
            refuse_unreached(ranks, allowed=self._settings.max_unavailable_frac)
            common = common_criteria(ranks)
            partly = {name for one in ranks for name in one.criteria} - common
            if partly:
                _LOG.warning(
                    "rubric_heldout: no mean of %s, which not every process has a question of",
                    sorted(partly),
                )
            for one, given in zip(instances, found, strict=True):
                one.filtered_resps[name] = asdict(only(given, common))

    def aggregation(self) -> dict[str, Any]:
        """Mean of every metric, those of criteria too."""
        mean = cast("Any", harness_metrics).mean  # lm-eval knows the standard error of this one
        return dict.fromkeys((*_METRICS, *map(_metric, self._criteria)), mean)

    def higher_is_better(self) -> dict[str, bool]:
        """Say it of the criteria too."""
        return {**_METRICS, **dict.fromkeys(map(_metric, self._criteria), True)}

    async def _check(self) -> None:
        pool = self._pool(None)
        try:
            await pool.check()
        finally:
            await pool.aclose()

    async def _judge(self, pairs: Sequence[tuple[Task, str]]) -> list[JudgeResult]:
        with ExitStack() as stack:
            path = self._settings.ledger
            ledger = stack.enter_context(Ledger(path)) if path else None
            pool = self._pool(ledger)
            try:
                return await pool.judge_all([task.judge_view(response) for task, response in pairs])
            finally:
                await pool.aclose()

    def _pool(self, ledger: Ledger | None) -> JudgePool:
        return JudgePool(load_replicas(self._spec), workers=self._settings.workers, ledger=ledger)


def process_results(doc: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Turn a verdict into lm-eval's metrics; one that never came has no reward, not 0."""
    del doc
    found = Verdict(**results[0])
    metrics = {
        "judge_unavailable": float(found.outcome == Outcome.UNAVAILABLE),
        "judge_invalid": float(found.outcome == Outcome.INVALID),
        "judge_fallback": float(found.is_fallback),
    }
    if found.reward is not None:
        metrics["rubric_reward"] = found.reward
        metrics.update({_metric(criterion): z for criterion, z in found.criteria_z.items()})
    return metrics


def _metric(criterion: str) -> str:
    return f"z_{criterion}"


def _text(response: object) -> str:
    return str(cast("list[object]", response)[0] if isinstance(response, list) else response)


def _settings(metadata: Mapping[str, Any]) -> _Settings:
    missing = [key for key in ("questions", "judge") if not metadata.get(key)]
    if missing:
        raise ConfigError(
            f"rubric_heldout lacks {' and '.join(missing)}: give "
            "`--metadata questions=test.jsonl judge=judge.yaml ledger=ledger.sqlite`",
            location=f"metadata.{missing[0]}",
        )
    workers, share = metadata.get("workers", _WORKERS), metadata.get("max_unavailable_frac")
    share = _MAX_UNAVAILABLE_FRAC if share is None else share
    try:
        settings = _Settings(
            questions=str(metadata["questions"]),
            judge=str(metadata["judge"]),
            ledger=str(metadata["ledger"]) if metadata.get("ledger") else None,
            workers=int(workers),
            max_unavailable_frac=float(share),
        )
    except (TypeError, ValueError):
        raise ConfigError(
            f"rubric_heldout: workers={workers!r} and max_unavailable_frac={share!r} must be "
            "numbers",
            location="metadata",
        ) from None
    if settings.workers < 1 or not 0 <= settings.max_unavailable_frac <= 1:
        raise ConfigError(
            f"rubric_heldout: workers={settings.workers} must be at least 1, and "
            f"max_unavailable_frac={settings.max_unavailable_frac} from 0 to 1",
            location="metadata",
        )
    return settings
