"""Rubric-grounded GRPO: the paper's Algorithm 1 as one loop."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog
import torch

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
from rubric_train_openrlhf.run.summary import best_row

if TYPE_CHECKING:
    from rubric_judge.console import Phase
    from rubric_train_openrlhf.local.assembly import LocalRun

_log = structlog.get_logger()


def train(run: LocalRun) -> None:
    """Train to the last step, and write every row on the way.

    Raises:
        RubricError: what the run failed of, as `run_grpo` lists it.
    """
    config, progress = run.config, run.watch.progress
    _validate_if_due(run, step=run.start.step)
    prompts_drawn = run.start.prompts_drawn
    with progress.phase("training", total=config.steps, unit="steps") as phase:
        phase.start_at(run.start.step)
        for step in range(run.start.step + 1, config.steps + 1):
            record = _one_step(run, step=step, position=prompts_drawn)
            prompts_drawn += len(record.groups.drawn.views)
            _write_step(run, record, phase=phase)
            improved = _validate_if_due(run, step=step)
            if improved or step % config.checkpoint.every == 0 or step == config.steps:
                with progress.phase("writing a checkpoint"):
                    _save(run, step=step, prompts_drawn=prompts_drawn)


def _one_step(run: LocalRun, *, step: int, position: int) -> StepRecord:
    """Sample, judge and update."""
    config = run.config
    started = time.perf_counter()
    groups = sample_step(run, step=step, position=position)
    batch = groups.kept
    rubrics_P = tuple(run.book.rubric(view.task_id) for view in batch.views)
    rewards = judge_rewards(batch.results_PG, rubrics_P, on_unavailable=config.judge.on_unavailable)
    shaped_PG = shaped_rewards(
        rewards,
        batch.sizes,
        shaping=config.shaping,
        max_new_tokens=config.rollout.max_new_tokens,
    )
    credit = assign_credit(rewards, shaped_PG, estimator=config.advantage)

    judged_at = time.perf_counter()
    device = run.policy.device
    given = UpdateBatch(
        rollouts=batch.rollouts,
        advantages_B=torch.from_numpy(credit.advantages_PG.reshape(-1)).to(device),
        valid_B=torch.from_numpy(rewards.valid_PG.reshape(-1)),
    )
    responses = int(given.valid_B.sum())
    with run.watch.progress.phase("updating", total=responses, unit="responses") as phase:
        update = run.learner.update(given, step=step, on_responses=phase.advance)
    now = time.perf_counter()
    return StepRecord(
        step=step,
        groups=groups,
        rubrics_P=rubrics_P,
        rewards=rewards,
        credit=credit,
        update=update,
        update_s=now - judged_at,
        step_s=now - started,
    )


def _write_step(run: LocalRun, record: StepRecord, *, phase: Phase) -> None:
    row = metrics_row(record)
    run.folder.write_step(
        row, rollouts=list(rollout_rows(record)), judgements=list(judgement_rows(record.judged))
    )
    run.events.write("train", row, step=row.step)
    _log.info("train.step.finished", **row.model_dump(exclude={"criteria"}))
    run.watch.step(row, phase=phase)


def _validate_if_due(run: LocalRun, *, step: int) -> bool:
    """Ask the held-out questions before training, every so many steps, and at the end.

    Returns:
        Whether this is the best policy so far.
    """
    config = run.config
    rows = run.folder.read_heldout()
    due = step % config.validation.every == 0 or step == config.steps
    if run.heldout is None or not due or any(row.step == step for row in rows):
        return False
    name = "held-out questions" if step else "held-out questions before training"
    with run.watch.progress.phase(name):
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
    run.watch.heldout(row)
    return row.best


def _save(run: LocalRun, *, step: int, prompts_drawn: int) -> None:
    """Save the policy and the trainer, point `best` at the best, and drop old checkpoints."""
    state = TrainerState(
        step=step,
        prompts_drawn=prompts_drawn,
        wall_s=run.watch.summary_file.wall_s,
        optimizer=run.learner.optimizer.state_dict(),
        schedule=run.learner.schedule.state_dict(),
    )
    checkpoints = run.folder.checkpoints
    save_checkpoint(checkpoints, run.policy, state)
    best_step = best_row(run.folder).step if run.heldout is not None else step
    mark_best(checkpoints, step=best_step)
    prune(checkpoints, keep=run.config.checkpoint.keep, best={best_step})
