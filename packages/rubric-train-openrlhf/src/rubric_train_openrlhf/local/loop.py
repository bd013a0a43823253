"""Rubric-grounded GRPO: the paper's Algorithm 1 as one loop."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import structlog
import torch

from rubric_train_openrlhf.local.groups import answers, ask_heldout, sample_step
from rubric_train_openrlhf.local.update import UpdateBatch
from rubric_train_openrlhf.run.checkpoints import (
    TrainerState,
    mark_best,
    prune,
    save_checkpoint,
)
from rubric_train_openrlhf.run.summary import best_row
from rubric_train_openrlhf.step.credit import step_credit
from rubric_train_openrlhf.step.heldout import HeldoutPasses
from rubric_train_openrlhf.step.rows import (
    StepRecord,
    judgement_rows,
    metrics_row,
    rollout_rows,
)

if TYPE_CHECKING:
    from rubric_judge.console import Phase
    from rubric_train_openrlhf.local.assembly import LocalRun
    from rubric_train_openrlhf.step.credit import JudgedStep

_log = structlog.get_logger()


def train(run: LocalRun) -> None:
    """Train to the last step, and write every row on the way.

    Raises:
        RubricError: what the run failed of, as `run_grpo` lists it.
    """
    config, progress = run.config, run.watch.progress
    passes = HeldoutPasses(
        run.folder,
        config=config.validation,
        steps=config.steps,
        progress=progress,
        ask=partial(ask_heldout, run),
    )
    _validate_if_due(run, passes, step=run.start.step)
    prompts_drawn = run.start.prompts_drawn
    with progress.phase("training", total=config.steps, unit="steps") as phase:
        phase.start_at(run.start.step)
        for step in range(run.start.step + 1, config.steps + 1):
            record, judged = _one_step(run, step=step, position=prompts_drawn)
            prompts_drawn += record.prompts_drawn
            _write_step(run, record, judged, phase=phase)
            improved = _validate_if_due(run, passes, step=step)
            if improved or step % config.checkpoint.every == 0 or step == config.steps:
                with progress.phase("writing a checkpoint"):
                    _save(run, step=step, prompts_drawn=prompts_drawn)


def _one_step(run: LocalRun, *, step: int, position: int) -> tuple[StepRecord, JudgedStep]:
    """Sample, judge and update."""
    started = time.perf_counter()
    drawn = sample_step(run, step=step, position=position)
    batch = drawn.kept
    credit, judged = step_credit(
        step,
        batch.results_PG,
        [(view.task_id, run.book.rubric(view.task_id)) for view in batch.views],
        batch.sizes,
        dropped_PG=drawn.dropped_PG,
        config=run.config,
    )

    judged_at = time.perf_counter()
    to_train = UpdateBatch(
        rollouts=batch.rollouts,
        advantages_B=torch.from_numpy(credit.advantages_PG.reshape(-1)).to(run.policy.device),
        valid_B=torch.from_numpy(credit.valid_PG.reshape(-1)),
    )
    responses = int(to_train.valid_B.sum())
    with run.watch.progress.phase("updating", total=responses, unit="responses") as phase:
        update = run.learner.update(to_train, step=step, on_responses=phase.advance)
    now = time.perf_counter()
    record = StepRecord(
        step=step,
        credit=credit,
        answers=answers(batch, credit),
        prompts_drawn=drawn.prompts,
        generated_tokens=drawn.generated_tokens,
        timing=drawn.timing,
        update=update,
        update_s=now - judged_at,
        step_s=now - started,
    )
    return record, judged


def _write_step(run: LocalRun, record: StepRecord, judged: JudgedStep, *, phase: Phase) -> None:
    row = metrics_row(record)
    run.folder.write_step(
        row, rollouts=list(rollout_rows(record)), judgements=list(judgement_rows(judged))
    )
    run.events.write("train", row, step=row.step)
    _log.info("train.step.finished", **row.model_dump(exclude={"criteria"}))
    run.watch.step(row, phase=phase)


def _validate_if_due(run: LocalRun, passes: HeldoutPasses, *, step: int) -> bool:
    """Ask the held-out questions where this step is due; whether it is the best so far."""
    row = passes.pass_if_due(step) if run.heldout is not None else None
    if row is None:
        return False
    run.events.write("heldout", row, step=step)
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
