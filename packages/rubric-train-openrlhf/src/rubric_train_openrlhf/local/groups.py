"""The groups that a step is trained on: P prompts in order, or until P are informative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rubric_train_openrlhf.local.informative import draw_informative
from rubric_train_openrlhf.local.rollout import Sampling, Timing
from rubric_train_openrlhf.randomness import derived_seed
from rubric_train_openrlhf.reward.credit import judge_rewards, shaped_rewards
from rubric_train_openrlhf.reward.judge_checks import check_judge
from rubric_train_openrlhf.reward.spread import informative_groups

if TYPE_CHECKING:
    import numpy.typing as npt

    from rubric_core import JudgeResult
    from rubric_train_openrlhf.local.assembly import LocalRun
    from rubric_train_openrlhf.local.batch import JudgedBatch


@dataclass(frozen=True)
class StepGroups:
    """What was sampled and judged for one step."""

    kept: JudgedBatch
    """To train on."""
    drawn: JudgedBatch
    """Those, and what dynamic sampling dropped."""
    degenerate_group_frac: float
    """Share of the drawn groups whose rewards are all equal."""
    timing: Timing


def sample_step(run: LocalRun, *, step: int, position: int) -> StepGroups:
    """Sample and judge the groups of one step.

    Args:
        run: the parts of the run.
        step: names the random draws.
        position: of the first prompt in the endless order.

    Raises:
        JudgeAbortError: too many judgements failed.
        NoInformativePromptError: dynamic sampling found too few groups with a spread.
    """
    config = run.config
    drawing = _Drawing(run, step=step, position=position)
    if config.dynamic_sampling is None:
        kept = drawn = drawing.draw(0, config.rollout.prompts)
    else:
        kept, drawn = draw_informative(
            drawing.draw,
            spread=drawing.informative,
            wanted=config.rollout.prompts,
            max_resample_rounds=config.dynamic_sampling.max_resample_rounds,
            step=step,
        )
    return StepGroups(
        kept=kept,
        drawn=drawn,
        degenerate_group_frac=1.0 - float(np.mean(drawing.informative(drawn))),
        timing=drawing.timing,
    )


class _Drawing:
    """Draws the next prompts of a step, round by round."""

    def __init__(self, run: LocalRun, *, step: int, position: int) -> None:
        self._run = run
        self._step = step
        self._position = position
        self._results: list[JudgeResult] = []
        self.timing = Timing()

    def draw(self, number: int, n: int) -> JudgedBatch:
        run = self._run
        views = [run.book.views[index] for index in run.order.take(n, start=self._position)]
        self._position += n
        batch, timing = run.examiner.examine(
            views,
            book=run.book,
            sampling=Sampling.for_training(run.config.rollout),
            seed=derived_seed(run.config.seed, step=self._step, purpose="rollout", part=number),
        )
        self.timing += timing
        self._results += batch.results
        check_judge(self._results, config=run.config.judge, step=self._step)
        return batch

    def informative(self, batch: JudgedBatch) -> npt.NDArray[np.bool_]:
        rubrics = [self._run.book.rubric(view.task_id) for view in batch.views]
        config = self._run.config
        rewards = judge_rewards(
            batch.results_PG, rubrics, on_unavailable=config.judge.on_unavailable
        )
        shaped_PG = shaped_rewards(
            rewards,
            batch.sizes,
            shaping=config.shaping,
            max_new_tokens=config.rollout.max_new_tokens,
        )
        return informative_groups(shaped_PG, rewards.valid_PG)
