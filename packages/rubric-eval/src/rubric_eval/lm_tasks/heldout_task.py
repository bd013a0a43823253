"""Held-out rubric reward as a task of lm-eval.

lm-eval hands over all responses of a task at once in `apply_filters`: there they are judged,
concurrently, before any of them is scored, so its means, standard errors and sample logs work as
for every other task. What it logs holds neither a passage nor a judge's words.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import anyio
from lm_eval.api import metrics as harness_metrics
from lm_eval.api.task import ConfigurableTask
from pydantic import BaseModel, ConfigDict, Field

from rubric_core import JudgeResult, Outcome, Pooling, Task, read_tasks
from rubric_core.configuration import validated
from rubric_eval.errors import EvalConfigError, HeldoutAbortError
from rubric_eval.records.run import criteria_z, kinds_of, pooled_z, reward_of
from rubric_judge import JudgePool, Ledger, load_replicas, read_judge_spec
from rubric_judge.capabilities import refuse_groups

_Result = TypeVar("_Result")


def run_async(
    function: Callable[..., Awaitable[_Result]], *arguments: object
) -> _Result:
    """Run a coroutine function to its end; in a thread where this one has a loop, as a notebook's.

    Args:
        function: the coroutine function.
        arguments: its arguments.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(function, *arguments)
    with ThreadPoolExecutor(max_workers=1) as threads:
        return threads.submit(anyio.run, function, *arguments).result()


_SHARED_FRAC: Final = 0.05


@dataclass(frozen=True)
class ScoredResponse:
    """What a response was given."""

    response: str
    outcome: str
    reason: str | None
    reward: float | None
    """None for an unavailable judgement; 0 for an invalid one."""

    criteria_z: dict[str, float]
    """z of the criteria that many questions share."""

    is_fallback: bool = False
    """Whether a fallback of a `litellm_config` judged it: another model, perhaps."""


def verdict(
    task: Task,
    result: JudgeResult,
    *,
    response: str,
    criteria: Collection[str],
    pooling: Pooling,
) -> ScoredResponse:
    """Return the verdict on a response.

    Args:
        task: what it answers.
        result: its judgement.
        response: its text.
        criteria: those to keep the score of, as `shared_criteria` names them.
        pooling: of the questions.
    """
    kinds = kinds_of(task.rubric, pooling)
    scores = pooled_z(criteria_z(result, task.rubric), kinds).items()
    return ScoredResponse(
        response=response,
        outcome=str(result.outcome),
        reason=None if result.reason is None else str(result.reason),
        reward=reward_of(result, task.rubric),
        is_fallback=bool(result.answered_by and result.answered_by.fallback),
        criteria_z={name: z for name, z in scores if name in criteria},
    )


def only(given: ScoredResponse, criteria: Collection[str]) -> ScoredResponse:
    """Return a verdict with the scores of these criteria alone."""
    kept = {name: z for name, z in given.criteria_z.items() if name in criteria}
    return replace(given, criteria_z=kept)


def shared_criteria(tasks: Collection[Task], pooling: Pooling) -> tuple[str, ...]:
    """Return the criteria, or kinds of them, that at least one in twenty questions has.

    The mean over a criterion that one question has is that question's score; lm-eval's table would
    have thousands of rows of them.
    """
    named = (
        {pooling.pool(criterion).name for criterion in task.rubric} for task in tasks
    )
    counts = Counter(name for of_task in named for name in of_task)
    least = max(_SHARED_FRAC * len(tasks), min(2, len(tasks)))
    return tuple(sorted(name for name, count in counts.items() if count >= least))


@dataclass(frozen=True)
class RankResult:
    """What one process says of its verdicts to the others."""

    responses: int
    reasons: tuple[str, ...]
    """Of each response without a judgement."""

    criteria: frozenset[str]
    """That at least one of its verdicts has a score of."""


def rank_result(verdicts: Sequence[ScoredResponse]) -> RankResult:
    """Sum the verdicts of this process up."""
    lost = [
        response for response in verdicts if response.outcome == Outcome.UNAVAILABLE
    ]
    return RankResult(
        responses=len(verdicts),
        reasons=tuple(str(scored_response.reason) for scored_response in lost),
        criteria=frozenset(name for one in verdicts for name in one.criteria_z),
    )


def gathered(result: RankResult, *, world_size: int) -> list[RankResult]:
    """Return the results of all processes, in their order; they must all come here.

    Raises:
        ConfigError: processes that torch.distributed does not join.
    """
    if world_size == 1:
        return [result]
    try:
        distributed: Any = import_module("torch.distributed")
    except ImportError:
        distributed = None
    if (
        distributed is None
        or not distributed.is_available()
        or not distributed.is_initialized()
    ):
        raise EvalConfigError(
            f"rubric_heldout is shared by {world_size} processes that torch.distributed does "
            "not join, so they cannot agree on what was judged: run it in one process, or by "
            "`accelerate launch`",
            location="world_size",
        )
    results: list[RankResult] = [result] * world_size
    distributed.all_gather_object(results, result)
    return results


def refuse_unreached(results: Sequence[RankResult], *, allowed: float) -> None:
    """End where too many responses of all processes have no judgement, or all of one process.

    Raises:
        HeldoutAbortError: the same in every process.
    """
    reasons = Counter(reason for result in results for reason in result.reasons)
    responses = sum(result.responses for result in results)
    share = reasons.total() / responses
    is_lost = any(len(result.reasons) == result.responses for result in results)
    if share > allowed or is_lost:
        listed = ", ".join(
            f"{reason} {count}" for reason, count in sorted(reasons.items())
        )
        bound = f"more than the allowed share {allowed!r}"
        if share <= allowed:
            bound = "all those of one process, whose mean would be of none"
        raise HeldoutAbortError(
            f"rubric_heldout: no judgement for {reasons.total()} of {responses} responses "
            f"({listed}), {bound}; check the judge and run again, with `--use_cache` and a "
            "`ledger` what is done is not done again",
            unavailable_frac=share,
            reasons=reasons,
        )


def common_criteria(results: Sequence[RankResult]) -> frozenset[str]:
    """Return the criteria that every process has a score of; of the others there is no mean."""
    first, *others = results
    return frozenset(
        name
        for name in first.criteria
        if all(name in result.criteria for result in others)
    )


_LOG: Final = logging.getLogger(__name__)
_METRICS: Final = {
    "rubric_reward": True,
    "judge_unavailable": False,
    "judge_invalid": False,
    "judge_fallback": False,
}
"""Whether more of it is better."""


class _Settings(BaseModel):
    """What `--metadata` says to this task; the rest of it is others'."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    questions: Path
    judge: Path
    ledger: Path | None = None
    workers: int = Field(default=32, ge=1)
    max_unavailable_frac: float = Field(default=0.05, ge=0, le=1)


class HeldoutTask(ConfigurableTask):
    """Questions of a file, and responses judged against the passages and rubrics that it holds."""

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Read the questions and the judge's file; whether it answers is asked before generation.

        Raises:
            ConfigError: metadata that this task cannot do without, or cannot use.
            RubricFileError, BenchmarkDataError: the file of tasks.
        """
        given = {key: value for key, value in (config or {}).items() if key != "class"}
        self._settings = _settings(given.get("metadata") or {})
        self._spec = read_judge_spec(self._settings.judge)
        self._world_size = 1
        harness: Any = super()  # its annotations are partial
        harness.__init__(data_dir, cache_dir, download_mode, given)
        self._tasks = {
            task.task_id: task for task in read_tasks(self._settings.questions)
        }
        self._pooling = Pooling.of(self._tasks.values())
        self._criteria = shared_criteria(tuple(self._tasks.values()), self._pooling)

    def build_all_requests(self, **options: Any) -> None:
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
                (
                    self._tasks[instance.doc["task_id"]],
                    _text(instance.filtered_resps[name]),
                )
                for instance in instances
            ]
            responses = [
                verdict(
                    task,
                    result,
                    response=response,
                    criteria=self._criteria,
                    pooling=self._pooling,
                )
                for (task, response), result in zip(
                    pairs, run_async(self._judge, pairs), strict=True
                )
            ]
            ranks = gathered(rank_result(responses), world_size=self._world_size)
            refuse_unreached(ranks, allowed=self._settings.max_unavailable_frac)
            common = common_criteria(ranks)
            partly = {name for rank in ranks for name in rank.criteria} - common
            if partly:
                _LOG.warning(
                    "rubric_heldout: no mean of %s, which not every process has a question of",
                    sorted(partly),
                )
            for one, scored_response in zip(instances, responses, strict=True):
                one.filtered_resps[name] = asdict(only(scored_response, common))

    def aggregation(self) -> dict[str, Any]:
        """Mean of every metric, those of criteria too."""
        mean = cast(
            "Any", harness_metrics
        ).mean  # lm-eval knows the standard error of this one
        return dict.fromkeys((*_METRICS, *map(_metric, self._criteria)), mean)

    def higher_is_better(self) -> dict[str, bool]:
        """Say it of the criteria too."""
        return {**_METRICS, **dict.fromkeys(map(_metric, self._criteria), True)}

    async def _check(self) -> None:
        async with aclosing(self._pool(None)) as pool:
            await pool.check()

    async def _judge(self, pairs: Sequence[tuple[Task, str]]) -> list[JudgeResult]:
        with ExitStack() as stack:
            path = self._settings.ledger
            ledger = stack.enter_context(Ledger(path)) if path else None
            async with aclosing(self._pool(ledger)) as pool:
                return await pool.judge_all(
                    [task.judge_view(response) for task, response in pairs]
                )

    def _pool(self, ledger: Ledger | None) -> JudgePool:
        judges = load_replicas(self._spec)
        refuse_groups(judges[0], by="held-out answers are judged each alone")
        return JudgePool(judges, workers=self._settings.workers, ledger=ledger)


def process_results(
    doc: Mapping[str, Any], results: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Turn a verdict into lm-eval's metrics; one that never came has no reward, not 0."""
    del doc
    response = ScoredResponse(**results[0])
    metrics = {
        "judge_unavailable": float(response.outcome == Outcome.UNAVAILABLE),
        "judge_invalid": float(response.outcome == Outcome.INVALID),
        "judge_fallback": float(response.is_fallback),
    }
    if response.reward is not None:
        metrics["rubric_reward"] = response.reward
        metrics.update(
            {_metric(criterion): z for criterion, z in response.criteria_z.items()}
        )
    return metrics


def _metric(criterion: str) -> str:
    return f"z_{criterion}"


def _text(response: object) -> str:
    return str(
        cast("list[object]", response)[0] if isinstance(response, list) else response
    )


def _settings(metadata: Mapping[str, Any]) -> _Settings:
    given = {key: value for key, value in metadata.items() if value not in (None, "")}
    if missing := [key for key in ("questions", "judge") if key not in given]:
        location = f"metadata.{missing[0]}"
        lacks = " and ".join(missing)
        raise EvalConfigError(
            f"rubric_heldout lacks {lacks}: give `--metadata questions=test.jsonl "
            "judge=judge.yaml ledger=ledger.sqlite`",
            location=location,
        )
    return validated(_Settings, given, source="rubric_heldout: --metadata")
