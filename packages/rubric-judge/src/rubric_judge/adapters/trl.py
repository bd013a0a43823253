"""TRL: a reward function for `GRPOTrainer` and its kin."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from statistics import fmean
from types import FunctionType, MethodType
from typing import Protocol, Unpack, cast, overload

from rubric_core import ConfigError, RewardShapeError
from rubric_core.schema.trace import Trace
from rubric_core.traces.chat import chat_trace
from rubric_judge.adapters import advantages, rows, scoring, trl_tokens
from rubric_judge.adapters.beside import CombinedReward, Reward, weighted
from rubric_judge.adapters.options import shows_options

__all__ = ["CombinedReward", "RewardFunction", "rubric_reward"]

_FIRST_TO_MASK = [1, 6]
"""The first release of TRL that leaves a missing reward out; earlier ones count 0."""
_NOT_COLUMNS = {"completion_ids", "environments"}
"""Values that TRL gives for each completion, beside the columns."""


class RewardFunction(Protocol):
    """A function for `reward_funcs`: an `async def` with a name."""

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


@overload
def rubric_reward(**options: Unpack[scoring.MaskingOptions]) -> RewardFunction: ...
@overload
def rubric_reward(
    *, beside: Sequence[tuple[Reward, float]], **options: Unpack[scoring.MaskingOptions]
) -> CombinedReward: ...
@shows_options
def rubric_reward(
    *,
    beside: Sequence[tuple[Reward, float]] = (),
    **options: Unpack[scoring.MaskingOptions],
) -> RewardFunction | CombinedReward:
    """Return a reward for `GRPOTrainer(reward_funcs=…)`.

    Args:
        beside: other reward functions, each with its weight; the rubric's is 1. TRL is given the
            weighted sum of all as one reward: none where the judgement is missing. What another
            gives None for adds nothing, as in TRL. A list of several `reward_funcs` is refused
            under "mask", for TRL counts a missing reward as 0 there.
        options: `judge`, `workers`, `ledger`, `thoughts`, `log_judgements`, and three more.
            `tasks` holds the tasks that the column `task_id` names; leave it out where rows have
            the columns `rubric`, `passage` and `question`, or those of a task file.
            `on_unavailable` says what a missing judgement becomes: with "mask", the default, None,
            which TRL leaves out of the group from 1.6 on. An earlier TRL is refused.
            `name` tells two rewards apart: TRL shows it, and the metrics begin with it.

    Raises:
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    if {"prompts", "completions"} <= options.keys():
        raise ConfigError(
            "`rubric_reward(judge=..., tasks=...)` makes the reward and is not one itself: call "
            "it, and give what it returns, as in "
            'reward_funcs=rubric_reward(judge="judge.yaml", tasks="tasks.jsonl")',
            location="reward_funcs",
        )
    scorer = scoring.RubricScorer(**options, can_log=True)
    masks = options.get("on_unavailable", "mask") == "mask"
    if masks:
        _require_masking()
    name = options.get("name") or "rubric_reward"
    reward = cast("RewardFunction", getattr(_Reward(scorer, name, masks=masks), name))
    if not beside:
        return reward
    others = weighted(beside, name=name)
    masking = [
        isinstance(getattr(other.reward, "__self__", None), _Reward) for other in others
    ]
    return CombinedReward(reward, others, name=name, masking=masking)


def _require_masking() -> None:
    """Refuse a TRL that counts a missing reward as 0."""
    try:
        installed = version("trl")
    except PackageNotFoundError:  # the reward is called in some other way
        return
    numbers = [int(part) for part in installed.split(".")[:2] if part.isdecimal()]
    if numbers < _FIRST_TO_MASK:
        raise ConfigError(
            f"TRL {installed} counts a missing reward as 0 (on_unavailable='mask'): install "
            "trl>=1.6, or choose on_unavailable='raise' or 'zero'",
            location="on_unavailable",
        )


class _Reward:
    """Holder of the scorer, whose method `rubric_reward` is the reward.

    A method of an object can be pickled with its scorer, as a function made in another cannot.
    """

    def __init__(self, scorer: scoring.RubricScorer, name: str, *, masks: bool) -> None:
        self._scorer = scorer
        self._name = name
        self._masks = masks

    def __getattr__(self, name: str) -> MethodType:
        """Return the reward under the configured name, which TRL reads off `__name__`.

        Pickle keeps a method as its object and this name, and asks for it here.
        """
        if name != vars(self).get("_name"):
            raise AttributeError(name)
        method = _Reward.rubric_reward
        named = FunctionType(method.__code__, method.__globals__, name)
        named.__kwdefaults__ = method.__kwdefaults__
        return MethodType(named, self)

    async def rubric_reward(
        self,
        prompts: Sequence[object],
        completions: Sequence[object],
        *,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[str]], None] | None = None,
        **columns: object,
    ) -> list[float | None]:
        """Judge a batch.

        Raises:
            RewardShapeError: a column that does not have one entry for each completion.
            ConfigError, SchemaError: a row without a task.
            ConfigError: TRL would sum a missing reward as 0 with those of other functions.
        """
        if self._masks:
            _require_alone(log_metric)
        named_rows = _named_rows(prompts, columns, count=len(completions))
        ids = columns.get("completion_ids")
        tokens = trl_tokens.Policy.of(log_metric, ids, count=len(completions))
        answers = tokens.answers(prompts, completions, self._scorer.thoughts)
        submissions = [
            scoring.Submission(
                row, answer, prompt, trace=self._trace(prompt, completion)
            )
            for row, answer, prompt, completion in zip(
                named_rows, answers, prompts, completions, strict=True
            )
        ]
        judgements = await self._scorer.judge(submissions)
        if log_metric is not None and judgements:
            _log(judgements, log_metric)
        advantages.hand_over(judgements, getattr(log_metric, "__self__", None))
        if log_extra is not None:
            _log_columns(judgements, log_extra)
        return [judgement.reward for judgement in judgements]

    def _trace(self, prompt: object, completion: object) -> Callable[[], Trace] | None:
        """Return the reader of a completion in messages, which may hold calls of tools."""
        if isinstance(completion, str):
            return None
        before = () if isinstance(prompt, str) else prompt
        # A rollout that reached its limit may end with a call.
        return partial(
            chat_trace,
            completion,
            prompt=before,
            thoughts=self._scorer.thoughts,
            cut=True,
        )


def _require_alone(log_metric: object) -> None:
    """Refuse other rewards beside ours in the trainer that `log_metric` is a method of."""
    rewards = getattr(getattr(log_metric, "__self__", None), "reward_funcs", ())
    others = len(cast("Sequence[object]", rewards)) - 1
    if others > 0:
        raise ConfigError(
            f"TRL sums this reward with {others} more and counts a missing one as 0, "
            "which would push a response without a judgement down: give the others to "
            "`rubric_reward(..., beside=[(other, weight)])` and TRL that one reward, or "
            "choose on_unavailable='raise' or 'zero'",
            location="reward_funcs",
        )


def _named_rows(
    prompts: Sequence[object], columns: Mapping[str, object], *, count: int
) -> list[dict[str, object]]:
    """Return the row of each completion, with the columns that say what its task is."""
    rubric_columns = {
        name: columns[name] for name in rows.ROW_FIELDS if name in columns
    }
    if count and not rubric_columns.keys() & rows.NAMING:
        names = [
            name
            for name, values in columns.items()
            if isinstance(values, list) and name not in _NOT_COLUMNS
        ]
        more = (
            "; TRL drops the columns under remove_unused_columns=True: leave it False"
        )
        raise rows.no_task_column(names, more="" if names else more)
    return _rows({"prompts": prompts, **rubric_columns}, count=count)


def _rows(columns: Mapping[str, object], *, count: int) -> list[dict[str, object]]:
    """Return a row for each completion of columns of equal length."""
    lists = {name: cast("Sequence[object]", values) for name, values in columns.items()}
    for name, values in lists.items():
        if isinstance(values, str) or len(values) != count:
            raise RewardShapeError(
                f"{count} completions, but {name!r} has {len(values)} entries: one each is needed"
            )
    return [{name: values[i] for name, values in lists.items()} for i in range(count)]


def _log(
    judgements: Sequence[scoring.Judgement], log_metric: Callable[[str, float], None]
) -> None:
    """Give TRL the means over the batch; the score's mean is over the judged responses."""
    values: dict[str, list[float]] = {}
    for judgement in judgements:
        for name, value in (judgement.metrics | judgement.criteria).items():
            if name != f"{judgement.name}/score" or not judgement.unavailable:
                values.setdefault(name, []).append(value)
    for name, of_batch in values.items():
        log_metric(name, fmean(of_batch))


def _log_columns(
    judgements: Sequence[scoring.Judgement],
    log_extra: Callable[[str, list[str]], None],
) -> None:
    """Give TRL a column of `log_completions`, one text for each response, where asked for."""
    columns: dict[str, list[str]] = {}
    for judgement in judgements:
        for name, text in judgement.log_entry.items():
            columns.setdefault(name, []).append(text)
    for name, texts in columns.items():
        log_extra(name, texts)


def is_rubric_reward(reward: object) -> bool:
    """Tell whether a reward is what `rubric_reward` returns without `beside`."""
    return isinstance(getattr(reward, "__self__", None), _Reward)
