"""What the judgements of a step say, in figures and in rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rubric_train_openrlhf.run.records import JudgementRow, row_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rubric_core import JudgeResult, Rubric
    from rubric_train_openrlhf.reward.credit import Credit, Rewards


@dataclass(frozen=True)
class JudgedStep:
    """The judgements of P groups of G, and what was made of them."""

    step: int
    task_ids_P: tuple[str, ...]
    rubrics_P: tuple[Rubric, ...]
    results: tuple[JudgeResult, ...]
    """Prompt-major: row p·G + g."""
    rewards: Rewards
    credit: Credit


def judgement_rows(judged: JudgedStep) -> Iterator[JudgementRow]:
    """What the judge said, and what every criterion gave to the advantage."""
    size = judged.rewards.rewards_PG.shape[1]
    for row, result in enumerate(judged.results):
        prompt, member = divmod(row, size)
        rubric = judged.rubrics_P[prompt]
        attribution = _by_id(rubric, judged.credit.attribution_PGM[prompt, member])
        shaping = float(judged.credit.shaping_PG[prompt, member])
        if shaping:
            attribution["shaping"] = shaping
        yield JudgementRow(
            id=row_id(step=judged.step, prompt=prompt, response=member),
            step=judged.step,
            task_id=judged.task_ids_P[prompt],
            result=result,
            z=_by_id(rubric, judged.rewards.z_PGM[prompt, member]),
            shares=_by_id(rubric, rubric.shares_M),
            attribution=attribution,
        )


def zero_reasons(results: Sequence[JudgeResult], rewards: Rewards) -> dict[str, float]:
    """Share of responses with reward 0, by the judge's reason; "scored" where it gave 0."""
    zero_B = (rewards.valid_PG & (rewards.rewards_PG == 0.0)).reshape(-1)
    counts = Counter(
        "scored" if result.reason is None else result.reason.value
        for result, is_zero in zip(results, zero_B, strict=True)
        if is_zero
    )
    return {reason: count / len(results) for reason, count in sorted(counts.items())}


def criterion_means(rewards: Rewards, rubrics_P: Sequence[Rubric]) -> dict[str, float]:
    """Mean z of each criterion id over the valid responses to the questions that have it."""
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for z_GM, valid_G, rubric in zip(rewards.z_PGM, rewards.valid_PG, rubrics_P, strict=True):
        for criterion_id, z_G in zip(rubric.ids, z_GM[valid_G].T, strict=False):
            scores[criterion_id].extend(float(z) for z in z_G if not np.isnan(z))
    return {name: float(np.mean(values)) for name, values in scores.items() if values}


def _by_id(rubric: Rubric, values_M: npt.NDArray[np.float64]) -> dict[str, float]:
    """Name the values, less the padding; what is nan does not exist and is left out."""
    return {
        criterion_id: float(value)
        for criterion_id, value in zip(rubric.ids, values_M, strict=False)
        if not np.isnan(value)
    }
