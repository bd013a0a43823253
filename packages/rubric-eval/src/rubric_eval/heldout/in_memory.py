"""Held-out rubric reward: responses to questions that no training used, all judged alike."""

from collections import Counter
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from rubric_core import Answer, Judge, JudgeResult, Outcome, Pooling, Rubric, Task
from rubric_eval.errors import EvalShapeError, Failures, HeldoutAbortError, unavailable
from rubric_eval.records.run import (
    criteria_z,
    kinds_of,
    mean_z,
    pooled_z,
    present_mean,
    reward_of,
)
from rubric_eval.statistics import Interval, score_interval
from rubric_judge import JudgePool


class Heldout(BaseModel):
    """Held-out reward of one policy; holds ids and numbers, no text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    task_ids: tuple[str, ...]
    documents: tuple[str, ...] = ()
    """Hash of each question's document; without hashes, each question is its own document."""
    rewards_N: tuple[float | None, ...]
    """Mean over a question's samples, in [0, 1]; None if none could be judged."""
    samples: int
    """K, the number of responses to each question."""
    criteria: dict[str, float]
    """Mean z by criterion, or by kind where ids do not repeat, over the judged responses whose
    rubric has it; in an invalid judgement z is 0."""
    zero_frac: float
    """Share of reward 0 among the responses with a scored or invalid judgement."""
    zero_by_reason: dict[str, float]
    """Parts of zero_frac by reason; "scored" are zeros that the judge gave. A response without an
    answer is not judged: its reason is "empty_answer" or "unclosed_thought"."""
    invalid_frac: float
    """Share of invalid judgements among the responses with a scored or invalid one."""
    unavailable_frac: float
    """Share of all N·K responses for which no judge could be reached; they are left out."""
    unavailable_by_reason: dict[str, int]

    @property
    def mean(self) -> float:
        """Mean reward over the questions that have one.

        Raises:
            EvalShapeError: no question has one.
        """
        mean = present_mean(self.rewards_N)
        if mean is None:
            raise EvalShapeError(
                f"none of {len(self.rewards_N)} questions has a reward"
            )
        return mean

    def interval(self, *, confidence: float = 0.95) -> Interval:
        """Mean reward over questions with its interval in [0, 1], documents as the unit.

        Raises:
            EvalShapeError: no question has a reward.
        """
        return score_interval(
            self.rewards_N,
            clusters_N=self.documents or self.task_ids,
            confidence=confidence,
        )


async def judge_heldout(
    judge: Judge | JudgePool,
    tasks: Sequence[Task],
    responses_NK: Sequence[Sequence[str | Answer]],
    *,
    max_unavailable_frac: float = 0.05,
) -> Heldout:
    """Judge K responses to each of N questions against their own passages and rubrics.

        r_i = (1/|V_i|) Σ_{k∈V_i} r_ik,   V_i = samples of question i that a judge answered for

    An invalid judgement counts as reward 0; an unavailable one is left out and counted.

    Args:
        judge: a judge, or a pool that already has its workers.
        tasks: N tasks with different ids.
        responses_NK: K ≥ 1 responses for each task, in its order. Of a text,
            only the answer that `rubric_core.answer_of` finds is judged; an `Answer`, as it is.
        max_unavailable_frac: abort when a larger share of all responses got no judgement.

    Returns:
        Rewards per question with what explains them.

    Raises:
        EvalShapeError: the responses do not fit the tasks, or a task occurs twice.
        HeldoutAbortError: more judgements than allowed are unavailable, or all are.
    """
    samples = _check_shapes(tasks, responses_NK)
    views = [
        task.judge_view(response)
        for task, responses_K in zip(tasks, responses_NK, strict=True)
        for response in responses_K
    ]
    results = await (
        judge if isinstance(judge, JudgePool) else JudgePool(judge)
    ).judge_all(views)
    failed = unavailable(results)
    _check_judged(failed, of=len(results), allowed=max_unavailable_frac)
    rubrics = [task.rubric for task in tasks for _ in range(samples)]
    rewards = list(map(reward_of, results, rubrics))
    counted = [reward for reward in rewards if reward is not None]
    zeros = Counter(
        str(
            result.reason
            if result.outcome is Outcome.INVALID
            else result.unanswered or "scored"
        )
        for result, reward in zip(results, rewards, strict=True)
        if reward == 0
    )
    return Heldout(
        judge=", ".join(sorted({result.judge for result in results if result.judge})),
        task_ids=tuple(task.task_id for task in tasks),
        documents=tuple(task.doc_hash for task in tasks),
        rewards_N=tuple(
            present_mean(rewards[k : k + samples])
            for k in range(0, len(rewards), samples)
        ),
        samples=samples,
        criteria=_criteria(tasks, results, rubrics),
        zero_frac=sum(zeros.values()) / len(counted),
        zero_by_reason={
            reason: count / len(counted) for reason, count in sorted(zeros.items())
        },
        invalid_frac=sum(result.outcome is Outcome.INVALID for result in results)
        / len(counted),
        unavailable_frac=failed.total / len(results),
        unavailable_by_reason=dict(sorted(failed.by_reason.items())),
    )


def _check_judged(failed: Failures, *, of: int, allowed: float) -> None:
    """Raise an error if too many responses have no judgement."""
    if failed.exceed(allowed, of=of):
        raise HeldoutAbortError(
            f"no judgement for {failed.total} of {of} responses: {failed}. At most "
            f"{100 * allowed:g} %, and never all, may lack one: check the judge and evaluate "
            "again; with a ledger in the pool, what is judged is not judged again",
            unavailable_frac=failed.share(of),
            reasons=failed.by_reason,
        )


def _criteria(
    tasks: Sequence[Task], results: Sequence[JudgeResult], rubrics: Sequence[Rubric]
) -> dict[str, float]:
    """Return mean z, by criterion or by kind; see `Heldout.criteria`."""
    pooling = Pooling.of(tasks)
    return mean_z(
        pooled_z(criteria_z(result, rubric), kinds_of(rubric, pooling))
        for result, rubric in zip(results, rubrics, strict=True)
    )


def _check_shapes(
    tasks: Sequence[Task], responses_NK: Sequence[Sequence[str | Answer]]
) -> int:
    """Return K, the number of samples of each question, after a check of all shapes."""
    if not tasks or len(tasks) != len(responses_NK):
        raise EvalShapeError(
            f"got {len(tasks)} tasks and responses for {len(responses_NK)}; give at least one "
            "task and a list of responses for each"
        )
    sizes = {len(responses_K) for responses_K in responses_NK}
    if len(sizes) != 1 or 0 in sizes:
        raise EvalShapeError(
            f"numbers of responses a question differ or are 0: {sorted(sizes)!r}; sample the "
            "same number for each"
        )
    twice = [
        name
        for name, count in Counter(task.task_id for task in tasks).items()
        if count > 1
    ]
    if twice:
        raise EvalShapeError(
            f"{len(twice)} tasks are there more than once, first {twice[0]!r}; drop the copies"
        )
    return sizes.pop()
