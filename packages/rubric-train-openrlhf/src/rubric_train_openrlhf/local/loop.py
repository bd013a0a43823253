"""Rubric-grounded GRPO: the paper's Algorithm 1 as one loop."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import structlog
import torch

from rubric_train_openrlhf.errors import DiskWriteError, ResumeError
from rubric_train_openrlhf.local.assembly import assembled
from rubric_train_openrlhf.local.groups import sample_step
from rubric_train_openrlhf.local.rows import StepRecord, metrics_row, rollout_rows
from rubric_train_openrlhf.local.update import UpdateBatch
from rubric_train_openrlhf.local.validate import validate
from rubric_train_openrlhf.reward.credit import assign_credit, judge_rewards, shaped_rewards
from rubric_train_openrlhf.reward.summary import judgement_rows
from rubric_train_openrlhf.run.checkpoints import (
    TrainerState,
    mark_best,
    prune,
    save_checkpoint,
)
from rubric_train_openrlhf.run.summary import best_row, write_summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_core import Judge
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.local.assembly import LocalRun
    from rubric_train_openrlhf.policy import SupervisedStep
    from rubric_train_openrlhf.run.records import HeldoutRow, MetricsRow, RunSummary

_log = structlog.get_logger()


def run_grpo(
    config: TrainConfig,
    *,
    resume: bool = False,
    judge: Judge | None = None,
    on_step: Callable[[MetricsRow], None] | None = None,
    on_heldout: Callable[[HeldoutRow], None] | None = None,
    on_supervised: Callable[[str, SupervisedStep], None] | None = None,
) -> RunSummary:
    """Train a policy on rubric rewards and write its run folder.

    Args:
        config: the whole run; all randomness follows from its seed.
        resume: go on from the last checkpoint in `config.out`; starts anew where there is none.
        judge: used in place of the one that `config.judge.spec` describes.
        on_step: called after every step is on disk.
        on_heldout: called after every held-out pass is on disk.
        on_supervised: called with "pretrain" or "sft" after every step that comes before step 1.

    Returns:
        How the run ended; the same as summary.json.

    Raises:
        TrainConfigError: a task file is missing or empty, or a GPU is asked for and absent.
        LeakError: a question gives its passage or rubric away.
        RubricFileError: a line of a task file is no task.
        PolicyLoadError: there is no model at the path.
        ResumeError: `config.out` holds a run, and `resume` is off or the run is another one.
        JudgeAbortError: too many judgements of a step failed.
        UnavailableRewardError: one did, and `config.judge.on_unavailable` is "raise".
        NoInformativePromptError: dynamic sampling found too few groups with a spread.
        NonFiniteUpdateError: the loss or its gradient is not a number.
        DiskWriteError: the run folder could not be written.

    Source: paper, §A, Algorithm 1.
    """
    with assembled(config, resume=resume, judge=judge, on_supervised=on_supervised) as run:
        clock = _Clock(run.start.wall_s)
        write_summary(run.folder, status="running", wall_s=clock.total_s)
        try:
            _train(run, clock=clock, on_step=on_step, on_heldout=on_heldout)
        except Exception as error:
            # The error that stopped the run must reach the caller, also from a full disk.
            with contextlib.suppress(DiskWriteError, ResumeError):
                write_summary(run.folder, status="failed", wall_s=clock.total_s, error=error)
            raise
        return write_summary(run.folder, status="finished", wall_s=clock.total_s)


def _train(
    run: LocalRun,
    *,
    clock: _Clock,
    on_step: Callable[[MetricsRow], None] | None,
    on_heldout: Callable[[HeldoutRow], None] | None,
) -> None:
    config = run.config
    prompts_drawn = run.start.prompts_drawn
    _validate_if_due(run, step=run.start.step, on_heldout=on_heldout)
    for step in range(run.start.step + 1, config.steps + 1):
        started = time.perf_counter()
        groups = sample_step(run, step=step, position=prompts_drawn)
        prompts_drawn += len(groups.drawn.views)

        batch = groups.kept
        rubrics_P = tuple(run.book.rubric(view.task_id) for view in batch.views)
        rewards = judge_rewards(
            batch.results_PG, rubrics_P, on_unavailable=config.judge.on_unavailable
        )
        shaped_PG = shaped_rewards(
            rewards,
            batch.sizes,
            shaping=config.shaping,
            max_new_tokens=config.rollout.max_new_tokens,
        )
        credit = assign_credit(rewards, shaped_PG, config=config.advantage)

        judged_at = time.perf_counter()
        device = run.policy.device
        update = run.learner.update(
            UpdateBatch(
                rollouts=batch.rollouts,
                advantages_B=torch.from_numpy(credit.advantages_PG.reshape(-1)).to(device),
                valid_B=torch.from_numpy(rewards.valid_PG.reshape(-1)),
            ),
            step=step,
        )
        now = time.perf_counter()
        record = StepRecord(
            step=step,
            groups=groups,
            rubrics_P=rubrics_P,
            rewards=rewards,
            credit=credit,
            update=update,
            update_s=now - judged_at,
            step_s=now - started,
        )
        _write_step(run, record, on_step=on_step)
        improved = _validate_if_due(run, step=step, on_heldout=on_heldout)
        if improved or step % config.checkpoint.every == 0 or step == config.steps:
            _save(run, step=step, prompts_drawn=prompts_drawn, wall_s=clock.total_s)


class _Clock:
    """Seconds that a run has taken, over its restarts."""

    def __init__(self, before_s: float) -> None:
        self._before_s = before_s
        self._started = time.perf_counter()

    @property
    def total_s(self) -> float:
        return self._before_s + time.perf_counter() - self._started


def _write_step(
    run: LocalRun, record: StepRecord, *, on_step: Callable[[MetricsRow], None] | None
) -> None:
    row = metrics_row(record)
    run.folder.write_step(
        row, rollouts=list(rollout_rows(record)), judgements=list(judgement_rows(record.judged))
    )
    run.events.write("train", row, step=row.step)
    _log.info("train.step.finished", **row.model_dump(exclude={"criteria"}))
    if on_step is not None:
        on_step(row)


def _validate_if_due(
    run: LocalRun, *, step: int, on_heldout: Callable[[HeldoutRow], None] | None
) -> bool:
    """Ask the held-out questions before training, every so many steps, and at the end.

    Returns:
        Whether this is the best policy so far.
    """
    config = run.config
    rows = run.folder.read_heldout()
    due = step % config.validation.every == 0 or step == config.steps
    if run.heldout is None or not due or any(row.step == step for row in rows):
        return False
    row = validate(
        run.examiner,
        book=run.heldout,
        config=config,
        step=step,
        best_so_far=max((row.reward_mean for row in rows), default=None),
    )
    run.folder.write_heldout(row)
    run.events.write("heldout", row, step=step)
    _log.info("train.heldout.finished", **row.model_dump(exclude={"criteria"}))
    if on_heldout is not None:
        on_heldout(row)
    return row.best


def _save(run: LocalRun, *, step: int, prompts_drawn: int, wall_s: float) -> None:
    """Save the policy and the trainer, point `best` at the best, and drop old checkpoints."""
    state = TrainerState(
        step=step,
        prompts_drawn=prompts_drawn,
        wall_s=wall_s,
        optimizer=run.learner.optimizer.state_dict(),
        schedule=run.learner.schedule.state_dict(),
    )
    checkpoints = run.folder.checkpoints
    save_checkpoint(checkpoints, run.policy, state)
    best_step = best_row(run.folder).step if run.heldout is not None else step
    mark_best(checkpoints, step=best_step)
    prune(checkpoints, keep=run.config.checkpoint.keep, best={best_step})
