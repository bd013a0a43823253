"""Credit of a step: rewards and advantages of every response, by the judgements of its groups.

Both backends use `Crediting`. Only numbers, ids of criteria and names of reasons cross to the
policy's side; the rows of the judgements stay with the judge.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from rubric_core import JudgeResult, Outcome, Pooling, Rubric, Task
from rubric_core.arrays import BoolArray, FloatArray
from rubric_core.effective import shares
from rubric_train_openrlhf.config.sections import JudgingConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import JudgeAbortError
from rubric_train_openrlhf.run.records import (
    HeldoutReward,
    JudgementRow,
    JudgingFigures,
    row_id,
)
from rubric_train_openrlhf.step import rewards as earned
from rubric_train_openrlhf.step.admission import Admission
from rubric_train_openrlhf.step.rewards import ALL, Credit, Rewards, Sizes

Results = Sequence[Sequence[JudgeResult]]
Tasks = Sequence[Task]


@dataclass(frozen=True, slots=True)
class StepCredit:
    """Credit of P groups of G responses, in float64."""

    rewards_PG: FloatArray
    """Rewards by the judge, in [0, 1]; nan where masked."""
    shaped_PG: FloatArray
    """Rewards with the penalties that are on."""
    advantages_PG: FloatArray
    """0 for masked responses and for groups whose rewards are equal within rounding."""
    valid_PG: BoolArray
    """False where an unavailable judgement is left out of baseline, deviation and loss."""
    outcomes_PG: tuple[tuple[str, ...], ...]
    """Outcome of each judgement."""
    figures: JudgingFigures
    attribution_abs: dict[str, float]
    """Mean |share of the advantage| of the criteria of each pool; empty under the decoupled
    estimator."""
    judge_restarts: int = 0
    """Processes of the judge that died since the step before and were replaced."""


@dataclass(frozen=True)
class Crediting:
    """Credit of judgements in a run, whose calibration may admit only some criteria."""

    config: TrainConfig
    admission: Admission = ALL
    pooling: Pooling = field(default_factory=Pooling)
    """Pools of criteria with common figures: by an id that repeats in the tasks, else by kind."""

    def informative(
        self, results_PG: Results, tasks_P: Tasks, sizes: Sizes
    ) -> list[bool]:
        """Tell which groups have a spread of what the estimator reads.

        These are rewards with penalties, or, for an estimator that reads criteria, the scores of
        any of them: a group of equal rewards may differ in these.

        Raises:
            UnavailableRewardError: a judge was not reached and on_unavailable is "raise".
        """
        rewards, shaped_PG = self._shaped(results_PG, tasks_P, sizes)
        return earned.informative(
            rewards, shaped_PG, estimator=self.config.advantage
        ).tolist()

    def of_step(
        self,
        step: int,
        results_PG: Results,
        tasks_P: Tasks,
        sizes: Sizes,
        dropped_PG: Results = (),
    ) -> tuple[StepCredit, list[JudgementRow]]:
        """Compute the credit of a step.

        Args:
            step: number of the step.
            results_PG: P groups of G results.
            tasks_P: the task of each group.
            sizes: the responses' lengths, and whether they ended.
            dropped_PG: groups without a spread, which were judged for the step too.

        Returns:
            The credit, which crosses to the policy's side, and the rows of the judgements, which
            do not.

        Raises:
            UnavailableRewardError: a judge was not reached and on_unavailable is "raise".
        """
        rubrics_P = [self.admission.rubric(task.rubric) for task in tasks_P]
        rewards, shaped_PG = self._shaped(results_PG, tasks_P, sizes)
        informative_P = earned.informative(
            rewards, shaped_PG, estimator=self.config.advantage
        )
        taught, moved = earned.reweighted_rewards(
            rewards, [task.task_id for task in tasks_P], step=step, config=self.config
        )
        taught_PG = shaped_PG
        if taught is not rewards:
            taught_PG = earned.shaped_rewards(
                taught.rewards_PG, sizes, config=self.config
            )
        credit = earned.assign_credit(
            taught, taught_PG, estimator=self.config.advantage
        )
        figures = self._figures(results_PG, tasks_P, rewards, informative_P, dropped_PG)
        for_policy = StepCredit(
            rewards_PG=rewards.rewards_PG,
            shaped_PG=shaped_PG,
            advantages_PG=credit.advantages_PG,
            valid_PG=rewards.valid_PG,
            outcomes_PG=tuple(
                tuple(result.outcome.value for result in group) for group in results_PG
            ),
            figures=figures.model_copy(update={"moved_weight_frac": moved}),
            attribution_abs=criterion_means(
                np.abs(credit.attribution_PGM),
                rewards.valid_PG,
                rubrics_P,
                pooling=self.pooling,
            ),
        )
        named_P = [
            (task.task_id, rubric)
            for task, rubric in zip(tasks_P, rubrics_P, strict=True)
        ]
        return for_policy, list(
            _judgement_rows(step, results_PG, named_P, (rewards, taught), credit)
        )

    def of_heldout(
        self, step: int, results_NS: Results, tasks_N: Tasks
    ) -> HeldoutReward:
        """Average the judge's rewards over questions, without penalties.

        Args:
            step: number of the step that the pass comes after.
            results_NS: S results for each of N questions.
            tasks_N: the task of each question.

        Raises:
            JudgeAbortError: the judge fails too often for the mean to say anything.
            UnavailableRewardError: a judge was not reached and on_unavailable is "raise".
        """
        check_judge(results_NS, config=self.config.judge, step=step)
        rubrics_N = [self.admission.rubric(task.rubric) for task in tasks_N]
        rewards = self._rewards(results_NS, tasks_N)
        judged_N = rewards.valid_PG.any(axis=1)
        means_N = np.nanmean(rewards.rewards_PG[judged_N], axis=1)
        zeros = zero_reasons(tuple(chain.from_iterable(results_NS)), rewards)
        return HeldoutReward(
            reward_mean=float(means_N.mean()),
            reward_std=float(means_N.std()),
            zero_reward_frac=sum(zeros.values()),
            n=int(judged_N.sum()),
            criteria=criterion_means(
                rewards.z_PGM, rewards.valid_PG, rubrics_N, pooling=self.pooling
            ),
        )

    def _rewards(self, results_PG: Results, tasks_P: Tasks) -> Rewards:
        return earned.judge_rewards(
            results_PG,
            [task.rubric for task in tasks_P],
            on_unavailable=self.config.judge.on_unavailable,
            admission=self.admission,
        )

    def _shaped(
        self, results_PG: Results, tasks_P: Tasks, sizes: Sizes
    ) -> tuple[Rewards, FloatArray]:
        """Return the judge's rewards, and those with the penalties that are on."""
        rewards = self._rewards(results_PG, tasks_P)
        return rewards, earned.shaped_rewards(
            rewards.rewards_PG, sizes, config=self.config
        )

    def _figures(
        self,
        results_PG: Results,
        tasks_P: Tasks,
        rewards: Rewards,
        informative_P: BoolArray,
        dropped_PG: Results,
    ) -> JudgingFigures:
        rubrics_P = [task.rubric for task in tasks_P]
        admission = self.admission
        admitted_P = [admission.rubric(rubric) for rubric in rubrics_P]
        judged = [*chain.from_iterable(results_PG), *chain.from_iterable(dropped_PG)]
        withheld = None
        if admission.factors:
            withheld = admission.withheld_frac(rubrics_P)
        return JudgingFigures(
            zero_reward_by_reason=zero_reasons(
                judged[: rewards.valid_PG.size], rewards
            ),
            criteria=criterion_means(
                rewards.z_PGM, rewards.valid_PG, admitted_P, pooling=self.pooling
            ),
            m_eff_mean=float(
                np.mean([rubric.effective_criteria for rubric in admitted_P])
            ),
            invalid_frac=outcome_frac(judged, Outcome.INVALID),
            unavailable_frac=outcome_frac(judged, Outcome.UNAVAILABLE),
            degenerate_group_frac=1.0
            - int(informative_P.sum()) / (len(tasks_P) + len(dropped_PG)),
            by_fallback=by_fallback(judged),
            withheld_weight_frac=withheld,
        )


def _judgement_rows(
    step: int,
    results_PG: Results,
    named_P: Sequence[tuple[str, Rubric]],
    of_rubric_and_taught: tuple[Rewards, Rewards],
    credit: Credit,
) -> Iterator[JudgementRow]:
    """Yield each judgement with the contribution of every criterion to the advantage."""
    rewards, taught = of_rubric_and_taught
    for p, ((task_id, rubric), group) in enumerate(
        zip(named_P, results_PG, strict=True)
    ):
        weights = dict[str, float]()
        if taught is not rewards:
            weights = _by_id(rubric, shares(taught.weights_PM[p]))
        for g, result in enumerate(group):
            attribution = _by_id(rubric, credit.attribution_PGM[p, g])
            shaping = float(credit.shaping_PG[p, g])
            if shaping:
                attribution["shaping"] = shaping
            yield JudgementRow(
                id=row_id(step=step, prompt=p, response=g),
                step=step,
                task_id=task_id,
                result=result,
                z=_by_id(rubric, rewards.z_PGM[p, g]),
                shares=_by_id(rubric, rubric.shares_M),
                attribution=attribution,
                weights=weights,
            )


def check_judge(
    groups: Iterable[Sequence[JudgeResult]], *, config: JudgingConfig, step: int
) -> None:
    """Stop a run whose judge fails too often to train on.

    Args:
        groups: all results so far of a step or of a held-out pass.
        config: the limits.
        step: number of the step.

    Raises:
        JudgeAbortError: a rate is above its limit; the error says which, and counts the reasons.
    """
    results = list(chain.from_iterable(groups))
    limits = {
        "invalid": config.max_invalid_frac,
        "unavailable": config.max_unavailable_frac,
    }
    fracs = {name: outcome_frac(results, Outcome(name)) for name in limits}
    broken = [
        f"{name} judgements {fracs[name]:.1%} > judge.max_{name}_frac={limit}"
        for name, limit in limits.items()
        if fracs[name] > limit
    ]
    if not broken:
        return
    reasons = Counter(
        result.reason.value for result in results if result.reason is not None
    )
    counts = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    raise JudgeAbortError(
        f"step {step}: {' and '.join(broken)} of {len(results)} responses; reasons: {counts}; "
        "repair the judge and continue with --resume, which asks it first and says what is "
        "wrong, or raise the limit",
        step=step,
        invalid_frac=fracs["invalid"],
        unavailable_frac=fracs["unavailable"],
        reasons=reasons,
    )


def by_fallback(results: Iterable[JudgeResult]) -> dict[str, int]:
    """Count the results that each fallback of a `litellm_config` gave, by its name."""
    names = (result.answered_by.fallback for result in results if result.answered_by)
    return dict(Counter(name for name in names if name))


def outcome_frac(results: Sequence[JudgeResult], outcome: Outcome) -> float:
    """Return the share of results with an outcome."""
    return sum(result.outcome == outcome for result in results) / len(results)


def zero_reasons(results: Sequence[JudgeResult], rewards: Rewards) -> dict[str, float]:
    """Return the share of responses with reward 0, by the reason of the judge or of no answer.

    The reason is "scored" if the judge gave 0.
    """
    zero_B = (rewards.valid_PG & (rewards.rewards_PG == 0.0)).reshape(-1)
    counts = Counter(
        str(result.reason or result.unanswered or "scored")
        for result, is_zero in zip(results, zero_B, strict=True)
        if is_zero
    )
    return {reason: count / len(results) for reason, count in sorted(counts.items())}


def criterion_means(
    values_PGM: FloatArray,
    valid_PG: BoolArray,
    rubrics_P: Sequence[Rubric],
    *,
    pooling: Pooling,
) -> dict[str, float]:
    """Return the mean over each pool's criteria and the valid responses to their questions.

    A criterion without any value, such as a masked one, is in no mean.
    """
    by_pool: defaultdict[str, list[float]] = defaultdict(list)
    for values_GM, valid_G, rubric in zip(values_PGM, valid_PG, rubrics_P, strict=True):
        for criterion, values_G in zip(rubric, values_GM[valid_G].T, strict=False):
            name = pooling.pool(criterion).name
            by_pool[name].extend(values_G[~np.isnan(values_G)].tolist())
    return {name: float(np.mean(values)) for name, values in by_pool.items() if values}


def _by_id(rubric: Rubric, values_M: FloatArray) -> dict[str, float]:
    """Return the values by criterion id, without padding and nan, which marks a missing value."""
    return {
        criterion_id: float(value)
        for criterion_id, value in zip(rubric.ids, values_M, strict=False)
        if not np.isnan(value)
    }
