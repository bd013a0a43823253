"""Held-out rubric reward as a task of lm-eval.

lm-eval hands over all responses of a task at once in `apply_filters`: there they are judged,
concurrently, before any of them is scored, so that its means, standard errors and sample logs work
as for every other task. Its logs hold neither a passage nor a judge's words.
"""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from anyio.from_thread import start_blocking_portal
from lm_eval.api import metrics as harness_metrics
from lm_eval.api.task import ConfigurableTask
from pydantic import BaseModel, ConfigDict, Field

from rubric_core import JudgeResult, Outcome, Pooling, Task, read_tasks
from rubric_core.configuration import validated
from rubric_eval.errors import EvalConfigError, HeldoutAbortError
from rubric_eval.records.run import criteria_z, kinds_of, pooled_z, reward_of
from rubric_judge import JudgePool, Ledger, load_replicas, read_judge_spec
from rubric_judge.judges.capabilities import refuse_groups

_SHARED_FRAC = 0.05


@dataclass(frozen=True)
class ScoredResponse:
    """A response with its judgement."""

    response: str
    outcome: str
    reason: str | None
    reward: float | None
    """None for an unavailable judgement; 0 for an invalid one."""

    criteria_z: dict[str, float]
    """z of the criteria that many questions share."""

    is_fallback: bool = False
    """Whether a fallback of a `litellm_config` judged it, which may be another model."""


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
        task: task that the response answers.
        result: judgement of the response.
        response: text of the response.
        criteria: criteria whose scores are kept, as `shared_criteria` names them.
        pooling: pooling of the criteria of all questions.
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


def only(verdict: ScoredResponse, criteria: Collection[str]) -> ScoredResponse:
    """Return a verdict with the scores of these criteria alone."""
    scores = {name: z for name, z in verdict.criteria_z.items() if name in criteria}
    return replace(verdict, criteria_z=scores)


def shared_criteria(tasks: Collection[Task], pooling: Pooling) -> tuple[str, ...]:
    """Return the criteria, or kinds of them, that at least one in twenty questions has.

    The mean of a criterion that only one question has is that question's score; lm-eval's table
    would have thousands of rows of them.
    """
    counts: Counter[str] = Counter()
    for task in tasks:
        counts.update({pooling.pool(criterion).name for criterion in task.rubric})
    least = max(_SHARED_FRAC * len(tasks), min(2, len(tasks)))
    return tuple(sorted(name for name, count in counts.items() if count >= least))


@dataclass(frozen=True)
class RankResult:
    """Summary of one process's verdicts for the other processes."""

    responses: int
    reasons: tuple[str, ...]
    """Reason of each response without a judgement."""

    criteria: frozenset[str]
    """Criteria that at least one of the verdicts has a score of."""


def rank_result(verdicts: Sequence[ScoredResponse]) -> RankResult:
    """Summarise the verdicts of this process."""
    reasons: list[str] = []
    criteria: set[str] = set()
    for response in verdicts:
        criteria.update(response.criteria_z)
        if response.outcome == Outcome.UNAVAILABLE:
            reasons.append(str(response.reason))
    return RankResult(
        responses=len(verdicts), reasons=tuple(reasons), criteria=frozenset(criteria)
    )


def gathered(result: RankResult, *, world_size: int) -> list[RankResult]:
    """Return the results of all processes, in their order; each process must call this.

    Raises:
        ConfigError: torch.distributed does not join the processes.
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
    """Raise if too many responses of all processes lack a judgement, or all of one process.

    Raises:
        HeldoutAbortError: raised alike in every process.
    """
    reasons: Counter[str] = Counter()
    for result in results:
        reasons.update(result.reasons)
    responses = sum(result.responses for result in results)
    share = reasons.total() / responses
    is_lost = any(len(result.reasons) == result.responses for result in results)
    if share > allowed or is_lost:
        counts = [f"{reason} {count}" for reason, count in sorted(reasons.items())]
        listed = ", ".join(counts)
        if share > allowed:
            bound = f"more than the allowed share {allowed!r}"
        else:
            bound = "all those of one process, whose mean would be of none"
        raise HeldoutAbortError(
            f"rubric_heldout: no judgement for {reasons.total()} of {responses} responses "
            f"({listed}), {bound}; check the judge and run again, with `--use_cache` and a "
            "`ledger` what is done is not done again",
            unavailable_frac=share,
            reasons=reasons,
        )


def common_criteria(results: Sequence[RankResult]) -> frozenset[str]:
    """Return the criteria that every process has a score of; the others have no mean."""
    first, *others = results
    return first.criteria.intersection(*(result.criteria for result in others))


_LOG = logging.getLogger(__name__)
_METRICS = {
    "rubric_reward": True,
    "judge_unavailable": False,
    "judge_invalid": False,
    "judge_fallback": False,
}
"""Whether a higher value is better, by metric."""


class _Settings(BaseModel):
    """Keys of `--metadata` that this task reads; other tasks may have keys of their own."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    questions: Path
    judge: Path
    ledger: Path | None = None
    workers: int = Field(default=32, ge=1)
    max_unavailable_frac: float = Field(default=0.05, ge=0, le=1)


def with_system(
    messages: Sequence[dict[str, str]], instruction: str | None
) -> list[dict[str, str]]:
    """Return messages below an instruction of lm-eval's `--system_instruction`.

    Args:
        messages: a conversation; its own message of the system, if it begins with one, follows the
            instruction in the same message, as templates take one.
        instruction: None or empty leaves the messages alone.
    """
    if not instruction:
        return list(messages)
    first, *rest = messages
    if first["role"] != "system":
        return [{"role": "system", "content": instruction}, *messages]
    content = f"{instruction}\n\n{first['content']}"
    return [{"role": "system", "content": content}, *rest]


class HeldoutTask(ConfigurableTask):
    """Task that asks the questions of a file and judges responses by its passages and rubrics."""

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Read the questions and the judge's file; the judge is tried before generation.

        Raises:
            ConfigError: metadata is missing or cannot be used.
            RubricFileError, BenchmarkDataError: the file of tasks cannot be used.
        """
        options = dict(config or {})
        options.pop("class", None)
        self._settings = _settings(options.get("metadata") or {})
        self._spec = read_judge_spec(self._settings.judge)
        self._world_size = 1
        self._has_warned = False
        harness: Any = super()  # its annotations are partial
        harness.__init__(data_dir, cache_dir, download_mode, options)
        self._tasks = {
            task.task_id: task for task in read_tasks(self._settings.questions)
        }
        self._pooling = Pooling.of(self._tasks.values())
        self._criteria = shared_criteria(tuple(self._tasks.values()), self._pooling)

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests, after a check that the judge is there before hours of generation."""
        with start_blocking_portal() as portal:  # in a notebook a loop is running here
            portal.call(self._check)
        self._world_size = int(options.get("world_size") or 1)
        harness: Any = super()
        harness.build_all_requests(**options)

    def fewshot_context(
        self, doc: dict[str, Any], num_fewshot: int, *more: Any, **options: Any
    ) -> str | list[str]:
        """Return the prompt: a conversation by its messages, where a chat template is applied.

        lm-eval makes one user's message of what a task asks (`doc_to_text`), and calls this with
        the model's chat template, which takes messages.

        Args:
            doc: a row of `sources.heldout`.
            num_fewshot: 0, as the task says it.
            more: nothing, as lm-eval gives all others by name.
            options: `chat_template` and `apply_chat_template` and the others of lm-eval.

        Source: lm-eval 0.4.13, `ConfigurableTask.fewshot_context`.
        """
        view = self._tasks[doc["task_id"]].policy_view()
        template = options.get("chat_template")
        if view.conversation and options.get("apply_chat_template") and template:
            messages = with_system(view.messages, options.get("system_instruction"))
            return template(messages, add_generation_prompt=True)
        if view.conversation and not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "rubric_heldout: a conversation of several messages is asked as one text, since no "
                "chat template is applied: give --apply_chat_template to ask by the messages"
            )
        harness: Any = super()
        return harness.fewshot_context(doc, num_fewshot, *more, **options)

    def apply_filters(self) -> None:
        """Judge every response.

        Raises:
            HeldoutAbortError: more responses than allowed got no judgement.
            LedgerError: the ledger cannot be read or written.
        """
        super().apply_filters()
        instances = cast("list[Any]", self._instances)
        for name in list(instances[0].filtered_resps):
            pairs: list[tuple[Task, str]] = []
            for instance in instances:
                task = self._tasks[instance.doc["task_id"]]
                pairs.append((task, _text(instance.filtered_resps[name])))
            with start_blocking_portal() as portal:
                judgements = portal.call(self._judge, pairs)
            responses = [
                verdict(
                    task,
                    judgement,
                    response=response,
                    criteria=self._criteria,
                    pooling=self._pooling,
                )
                for (task, response), judgement in zip(pairs, judgements, strict=True)
            ]
            ranks = gathered(rank_result(responses), world_size=self._world_size)
            refuse_unreached(ranks, allowed=self._settings.max_unavailable_frac)
            common = common_criteria(ranks)
            all_criteria = frozenset[str]().union(*(rank.criteria for rank in ranks))
            partial = all_criteria - common
            if partial:
                _LOG.warning(
                    "rubric_heldout: no mean of %s, which not every process has a question of",
                    sorted(partial),
                )
            for instance, response in zip(instances, responses, strict=True):
                instance.filtered_resps[name] = asdict(only(response, common))

    def aggregation(self) -> dict[str, Any]:
        """Return the mean as the aggregation of every metric, those of criteria included."""
        # lm-eval knows the standard error of its own mean only.
        mean = cast("Any", harness_metrics).mean
        metrics = [*_METRICS, *self._criterion_metrics()]
        return dict.fromkeys(metrics, mean)

    def higher_is_better(self) -> dict[str, bool]:
        """Return for every metric, those of criteria included, whether higher is better."""
        return _METRICS | dict.fromkeys(self._criterion_metrics(), True)

    def _criterion_metrics(self) -> list[str]:
        return [_metric(criterion) for criterion in self._criteria]

    async def _check(self) -> None:
        async with aclosing(self._pool(None)) as pool:
            await pool.check()

    async def _judge(self, pairs: Sequence[tuple[Task, str]]) -> list[JudgeResult]:
        with ExitStack() as stack:
            path = self._settings.ledger
            ledger = stack.enter_context(Ledger(path)) if path else None
            views = [task.judge_view(response) for task, response in pairs]
            async with aclosing(self._pool(ledger)) as pool:
                return await pool.judge_all(views)

    def _pool(self, ledger: Ledger | None) -> JudgePool:
        judges = load_replicas(self._spec)
        refuse_groups(judges[0], by="held-out answers are judged each alone")
        return JudgePool(judges, workers=self._settings.workers, ledger=ledger)


def process_results(
    doc: Mapping[str, Any], results: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Turn a verdict into lm-eval's metrics; a missing judgement has no reward rather than 0."""
    del doc
    response = ScoredResponse(**results[0])
    metrics = {
        "judge_unavailable": float(response.outcome == Outcome.UNAVAILABLE),
        "judge_invalid": float(response.outcome == Outcome.INVALID),
        "judge_fallback": float(response.is_fallback),
    }
    if response.reward is not None:
        metrics["rubric_reward"] = response.reward
        for criterion, z in response.criteria_z.items():
            metrics[_metric(criterion)] = z
    return metrics


def _metric(criterion: str) -> str:
    return f"z_{criterion}"


def _text(response: object) -> str:
    """Return the text of a response; servers leave out that of a model that thought to the end."""
    if isinstance(response, list):
        response = cast("list[object]", response)[0]
    return "" if response is None else str(response)


def _settings(metadata: Mapping[str, Any]) -> _Settings:
    values = {key: value for key, value in metadata.items() if value not in (None, "")}
    missing = [key for key in ("questions", "judge") if key not in values]
    if missing:
        location = f"metadata.{missing[0]}"
        lacks = " and ".join(missing)
        raise EvalConfigError(
            f"rubric_heldout lacks {lacks}: give `--metadata questions=test.jsonl "
            "judge=judge.yaml ledger=ledger.sqlite`",
            location=location,
        )
    return validated(_Settings, values, source="rubric_heldout: --metadata")
