"""verifiers: a judge that a configuration names, and a reward for a v1 `Task`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Unpack, cast

from rubric_core import (
    ConfigError,
    Outcome,
    Std,
    Thoughts,
    criterion_attribution,
    group_advantages,
    project,
)
from rubric_core.reward.turns import turn_advantages
from rubric_core.traces.verifiers import final_branch, verifiers_trace
from rubric_judge.adapters.rubric_files import one_rubric, task_files
from rubric_judge.adapters.scoring import (
    Judgement,
    RubricScorer,
    ScorerOptions,
    Submission,
    shared_scorer,
    stack_module,
)
from rubric_judge.quality.criteria.record import RECORD, JudgementRecord

__all__ = ["RewardFunction", "credit_turns", "judge_plugin", "rubric_reward"]

RewardFunction = Callable[[Any, Any], Awaitable[float]]

_INSTALL = "'verifiers>=0.4,<0.5'"
_NEEDED = ("Judge", "JudgeConfig", "Task", "TaskData", "Trace", "Usage")
"""Names of `verifiers.v1` that a judge is made of."""
_ID = "rubric-rewards"
_OF_THEIR_OWN = {
    "base_url": "api_base",
    "api_key_var": "api_key_env",
    "model": "model",
    "prompt": "prompt",
    "sampling": "temperature",
}
"""Settings of verifiers' own judges, with the key of a judge's file that has their place."""


def rubric_reward(**options: Unpack[ScorerOptions]) -> RewardFunction:
    """Return `async rubric(task, trace) -> float` for `task.rewards.rubric.fn` or `@vf.reward`.

    The row is the task's data: a field `task_id` (or else `id`) that `tasks` knows, or the fields
    `rubric`, `passage` and `question`. Criteria that name what they judge are judged on the final
    branch of the trace; one whose turn the policy did not take scores 0. Metrics are recorded on
    the trace. Without a judgement it raises, so that the rollout counts as failed and not as wrong.

    Args:
        options: `judge`, `tasks`, `workers`, `ledger`, `thoughts`, `log_judgements`.

    Raises:
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    scorer = RubricScorer(**options, on_unavailable="raise", can_log=True)

    async def rubric(task: Any, trace: Any) -> float:  # TaskData and Trace
        return _recorded(await _judged(scorer, task, trace, _row(task)), trace)

    return rubric


@cache
def judge_plugin() -> type[Any]:
    """Return the class of the judge `rubric-rewards`, on this installation's base class.

    Raises:
        MissingExtraError: verifiers is not installed, or has no `verifiers.v1`.
        ConfigError: it is a release whose judges cannot be plugged.
    """
    v1 = _v1()
    config_type = _config_type(v1)

    class RubricRewardsJudge(v1.Judge[float, config_type]):
        """Scores a rollout's last reply by rubrics; a lost judgement fails the rollout."""

        async def score(self, task: Any, trace: Any) -> float:
            """Return the reward; its parts are metrics of the trace."""
            scorer, rubric = _scorer_of(self.config)
            row = _row(task) | _named_fields(self.config, task)
            if rubric is not None:
                row["rubric"] = rubric
            judgement = await _judged(scorer, task, trace, row)
            usage = judgement.result.usage
            if usage is not None:
                cached = usage.cached_tokens
                trace.extra_usage.append(
                    v1.Usage(
                        prompt_tokens=usage.prompt_tokens - (cached or 0),
                        completion_tokens=usage.completion_tokens,
                        cached_input_tokens=cached,
                        cost=usage.cost_usd,
                    )
                )
            return _recorded(judgement, trace, is_shared=rubric is not None)

    RubricRewardsJudge.__module__ = "rubric_rewards"
    RubricRewardsJudge.__qualname__ = "RubricRewardsJudge"
    return RubricRewardsJudge


def _v1() -> Any:
    v1 = stack_module("verifiers.v1", install=_INSTALL)
    if missing := [name for name in _NEEDED if not hasattr(v1, name)]:
        try:
            matches = version("verifiers")
        except PackageNotFoundError:
            matches = "of an unknown version"
        raise ConfigError(
            f"verifiers {matches} has no verifiers.v1.{missing[0]}: the judge `{_ID}` was written "
            f"for 0.4; pip install {_INSTALL}",
            location="verifiers",
        )
    return v1


def _config_type(v1: Any) -> Any:
    class RubricRewardsConfig(v1.JudgeConfig):
        """Settings of the judge; relative paths are of the working folder."""

        id: str = _ID
        judge: Path
        """The judge's YAML file."""
        rubrics: Path | None = None
        """A dataset folder or a file of tasks, which the id of a task (`task_id`, or else `id`)
        names; or a `.json` or `.toml` file with one rubric for all tasks."""
        rubric_field: str = ""
        """Field of a task with its rubric, in place of `rubrics`."""
        passage_field: str = ""
        """Field of a task with the passage that answers are checked against."""
        question_field: str = ""
        """Field of a task with the question; the task's prompt if empty."""
        workers: int = 32
        """Judge workers of this process; each has up to four calls in flight."""
        ledger: Path | None = None
        """File that keeps every judgement."""
        max_invalid_frac: float = 0.5
        """Share of invalid judgements among the last 512 above which the run ends."""
        thoughts: Thoughts = "cut"
        """How thoughts are told from answers, which alone are judged."""
        log_judgements: bool = False
        """Whether a trace's `info` gets scores by criterion, without any text."""

        def model_post_init(self, context: object, /) -> None:
            v1.JudgeConfig.model_post_init(self, context)
            _check(self, v1.JudgeConfig())

    # Both of pydantic and of whoever reads a dump by its path.
    RubricRewardsConfig.__module__ = "rubric_rewards"
    RubricRewardsConfig.__qualname__ = "RubricRewardsConfig"
    return RubricRewardsConfig


def _check(config: Any, default: Any) -> None:
    """Refuse settings that would do nothing, or from which no rubric would follow.

    Raises:
        ValueError: As pydantic wants it, to name the place in the configuration.
    """
    for name, ours in _OF_THEIR_OWN.items():
        if getattr(config, name) != getattr(default, name):
            raise ValueError(
                f"`{name}` is a setting of verifiers' own judges: leave it out, and set `{ours}` "
                f"in the file that `judge` names, {config.judge}"
            )
    if config.rubrics is not None and config.rubric_field:
        raise ValueError("`rubrics` and `rubric_field` are both given: leave one out")


_scorers: dict[str, tuple[RubricScorer, list[dict[str, object]] | None]] = {}


def _scorer_of(config: Any) -> tuple[RubricScorer, list[dict[str, object]] | None]:
    """Return this process's scorer of a configuration, and the rubric of all tasks if there is one.

    verifiers makes a judge for each rollout; these share one pool.
    """
    key = config.model_dump_json()
    if key not in _scorers:
        files = task_files(config.rubrics) if config.rubrics else ()
        rubric = one_rubric(config.rubrics) if config.rubrics and not files else None
        scorer = shared_scorer(
            f"judges: {_ID}",
            True,  # noqa: FBT003  # positional there
            judge=config.judge,
            tasks=files or None,
            on_unavailable="raise",
            name=config.name or None,
            **{
                name: getattr(config, name)
                for name in (
                    "workers",
                    "ledger",
                    "max_invalid_frac",
                    "thoughts",
                    "log_judgements",
                )
            },
        )
        _scorers[key] = scorer, rubric
    return _scorers[key]


def _named_fields(config: Any, task: Any) -> dict[str, object]:
    """Return the columns of a row that the configuration takes from fields of a task.

    Raises:
        ConfigError: the task has no such field, or nothing in it.
    """
    columns: dict[str, object] = {}
    for column in ("rubric", "passage", "question"):
        name = getattr(config, f"{column}_field")
        if not name:
            continue
        value = getattr(task, name, None)
        if value is None:
            known = ", ".join(sorted(task.model_dump(exclude_none=True)))
            raise ConfigError(
                f"`{column}_field` {name!r}: the task {task.id or task.idx!r} has nothing there; "
                f"it has {known}",
                location=f"{column}_field",
            )
        columns[column] = value
    return columns


def _row(task: Any) -> dict[str, object]:
    row = cast("dict[str, object]", task.model_dump())
    row.setdefault("task_id", row.get("id"))
    return row


async def _judged(
    scorer: RubricScorer, task: Any, trace: Any, row: Mapping[str, object]
) -> Judgement:
    submission = Submission(
        row,
        _reply(trace),
        task.prompt_text,
        # A call may end an episode, as one of a tool that submits: it has no result then.
        trace=partial(verifiers_trace, trace, thoughts=scorer.thoughts, cut=True),
    )
    (judgement,) = await scorer.judge([submission])
    return judgement


def _recorded(judgement: Judgement, trace: Any, *, is_shared: bool = False) -> float:
    """Return the reward of a judgement, and record its parts on the trace.

    Args:
        judgement: the judgement.
        trace: of verifiers.
        is_shared: whether all tasks have one rubric, so that an id means the same in each.
    """
    criteria = judgement.by_id if is_shared else judgement.criteria
    for name, value in (judgement.metrics | criteria).items():
        trace.record_metric(name, value)
    if judgement.log_entry:
        trace.info.update(judgement.log_entry)
    return judgement.reward or 0.0


def credit_turns(
    traces: Sequence[Any],
    *,
    std: Std = "sample",
    delta: float = 1e-8,
    name: str = "rubric",
) -> None:
    """Set `node.advantages` of the traces of one group, with credit by turn, as prime-rl reads it.

    Each sampled token of a turn gets the advantage of its turn, those of other branches that of
    criteria which name no turn: see `rubric_core.reward.turns.turn_advantages`. To be called where
    prime-rl's algorithms assign advantages, in `score_group`.

    Args:
        traces: rollouts of one task without errors, judged by `rubric_reward(log_judgements=True)`.
        std: divisor of the centred rewards, as in `group_advantages`.
        delta: its stabiliser.
        name: the prefix of the metrics.

    Raises:
        ConfigError: a trace without a judgement or a record of it, or records of several rubrics.
        RewardShapeError: fewer than two traces.
    """
    records = [_record(trace, name) for trace in traces]
    if not records:
        return
    first = records[0]
    ids = list(first.shares)
    for record in records:
        same = ("task_id", "shares", "turns")
        if any(getattr(record, name) != getattr(first, name) for name in same):
            raise ConfigError(
                f"the traces of a group have different rubrics, of the tasks {first.task_id!r} and "
                f"{record.task_id!r}: credit the group of each task by itself",
                location="traces",
            )
        if record.outcome is Outcome.UNAVAILABLE:
            raise ConfigError(
                f"a trace of task {record.task_id!r} has no judgement: credit the others alone",
                location="traces",
            )
    z_PGM = [[[record.z.get(key, 0.0) for key in ids] for record in records]]
    weights_M = [first.shares[key] for key in ids]
    parts_PGM = criterion_attribution(z_PGM, [weights_M], std=std, delta=delta)
    rewards_PG = [[project(z_M, weights_M) for z_M in z_PGM[0]]]
    turns_PM = [[first.turns.get(key, 0) for key in ids]]
    places = [_turn_of_nodes(trace) for trace in traces]
    credit_PGK = turn_advantages(
        group_advantages(rewards_PG, std=std, delta=delta),
        parts_PGM,
        turns_PM,
        [[max(turns.values(), default=0) for turns in places]],
    )
    for trace, turns, credit_K in zip(
        traces, places, credit_PGK[0].tolist(), strict=True
    ):
        for place, node in enumerate(trace.nodes):
            if any(node.mask):
                advantage = credit_K[turns.get(place, 0)]
                node.advantages = [advantage] * sum(node.mask)


def _record(trace: Any, name: str) -> JudgementRecord:
    text = trace.info.get(f"{name}/{RECORD}")
    if text is None:
        raise ConfigError(
            f"trace {trace.id!r} has no {name}/{RECORD}: judge it by "
            "rubric_reward(log_judgements=True)",
            location="log_judgements",
        )
    return JudgementRecord.model_validate_json(text)


def _turn_of_nodes(trace: Any) -> dict[int, int]:
    """Return the turn of each sampled node of the final branch, from 1."""
    sampled = [
        place for place in final_branch(trace.nodes) if trace.nodes[place].sampled
    ]
    return {place: turn for turn, place in enumerate(sampled, start=1)}


def _reply(trace: Any) -> object:
    """Return the message whose text is `last_reply`; its reasoning is a separate field."""
    messages = getattr(trace, "assistant_messages", None)
    if messages and trace.root_reply is None:
        return messages[-1].model_dump()
    return trace.last_reply
