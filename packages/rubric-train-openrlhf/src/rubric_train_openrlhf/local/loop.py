"""Rubric-grounded GRPO: the paper's Algorithm 1 as one loop."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import structlog
import torch

from rubric_train_openrlhf.local.rollout import JudgedBatch, Sampling, join_batches
from rubric_train_openrlhf.local.update import UpdateBatch
from rubric_train_openrlhf.randomness import derived_seed
from rubric_train_openrlhf.run.checkpoints import TrainerState, mark_best, prune, save_checkpoint
from rubric_train_openrlhf.run.summary import best_row
from rubric_train_openrlhf.step.credit import check_judge, informative, step_credit
from rubric_train_openrlhf.step.passes import (
    HeldoutPasses,
    HeldoutReward,
    Timing,
    draw_informative,
    heldout_reward,
)
from rubric_train_openrlhf.step.rows import (
    Answer,
    StepRecord,
    judgement_rows,
    metrics_row,
    rollout_rows,
)

if TYPE_CHECKING:
    from rubric_core import JudgeResult
    from rubric_judge.console.progress import Phase
    from rubric_train_openrlhf.local.assembly import LocalRun
    from rubric_train_openrlhf.step.credit import JudgedStep, StepCredit


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
        [(view.task_id, run.tasks.rubric(view.task_id)) for view in batch.views],
        batch.sizes,
        dropped_PG=drawn.dropped_PG,
        config=run.config,
    )

    judged_at = time.perf_counter()
    to_train = UpdateBatch(
        rollouts=batch.rollouts,
        advantages_B=torch.from_numpy(credit.advantages_PG.reshape(-1)).to(run.policy.device),
        valid_B=torch.tensor(credit.valid_PG.reshape(-1)),  # read-only, so a copy
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


@dataclass(frozen=True)
class StepGroups:
    """What was sampled and judged for one step."""

    kept: JudgedBatch
    """To train on."""
    dropped_PG: tuple[tuple[JudgeResult, ...], ...]
    """What the judge said of the groups that dynamic sampling dropped."""
    prompts: int
    """Drawn in all."""
    generated_tokens: int
    timing: Timing


def sample_step(run: LocalRun, *, step: int, position: int) -> StepGroups:
    """Sample and judge the groups of one step: P prompts in order, or until P are informative.

    Args:
        run: the parts of the run.
        step: names the random draws.
        position: of the first prompt in the endless order.

    Raises:
        JudgeAbortError: too many judgements failed.
        NoInformativePromptError: dynamic sampling found too few groups with a spread.
    """
    config = run.config
    results: list[JudgeResult] = []
    timings: list[Timing] = []

    def draw(number: int, before: int, n: int) -> JudgedBatch:
        batch, timing = run.sampler.sample(
            [run.tasks.views[index] for index in run.order.take(n, start=position + before)],
            tasks=run.tasks,
            sampling=Sampling.for_training(config.rollout),
            seed=derived_seed(config.seed, step=step, purpose="rollout", part=number),
        )
        timings.append(timing)
        results.extend(batch.results)
        check_judge(results, config=config.judge, step=step)
        return batch

    def differs(batch: JudgedBatch) -> list[bool]:
        rubrics = [run.tasks.rubric(view.task_id) for view in batch.views]
        return informative(batch.results_PG, rubrics, batch.sizes, config=config)

    wanted = config.rollout.prompts
    if config.dynamic_sampling is None:
        rounds = [(draw(0, 0, wanted), list(range(wanted)))]
    else:
        rounds = draw_informative(
            draw,
            spread=differs,
            wanted=wanted,
            max_resample_rounds=config.dynamic_sampling.max_resample_rounds,
            step=step,
        )
    return StepGroups(
        kept=join_batches([batch.take_prompts(places) for batch, places in rounds if places]),
        dropped_PG=tuple(
            group
            for batch, places in rounds
            for place, group in enumerate(batch.results_PG)
            if place not in places
        ),
        prompts=sum(len(batch.views) for batch, _ in rounds),
        generated_tokens=sum(int(batch.rollouts.lengths_B.sum()) for batch, _ in rounds),
        timing=sum(timings, Timing()),
    )


def answers(batch: JudgedBatch, credit: StepCredit) -> tuple[Answer, ...]:
    """The responses of a batch, as the rows of its step show them."""
    rollouts = batch.rollouts
    rows = zip(
        batch.responses,
        cast("list[int]", rollouts.lengths_B.tolist()),
        cast("list[bool]", rollouts.ended_B.tolist()),
        credit.advantages_PG.reshape(-1).tolist(),
        strict=True,
    )
    views = [view for view in batch.views for _ in range(batch.group_size)]
    return tuple(
        Answer(view.task_id, view.question, text, tokens, ended, advantage)
        for view, (text, tokens, ended, advantage) in zip(views, rows, strict=True)
    )


def ask_heldout(run: LocalRun, step: int) -> tuple[HeldoutReward, list[int]]:
    """Ask the held-out questions, and average the judge's rewards without penalties.

    The draws come from the run's seed alone, so that two passes differ by the policy only.

    Raises:
        JudgeAbortError: the judge fails too often for the mean to say anything.
    """
    config, tasks = run.config, run.heldout
    assert tasks is not None  # noqa: S101  # no pass is due without held-out questions
    sampling = Sampling(
        group_size=config.validation.samples,
        max_new_tokens=config.rollout.max_new_tokens,
        temperature=config.validation.temperature,
        micro_batch=config.rollout.micro_batch,
    )
    seed = derived_seed(config.seed, step=0, purpose="validation")
    batch, _ = run.sampler.sample(tasks.views, tasks=tasks, sampling=sampling, seed=seed)
    check_judge(batch.results, config=config.judge, step=step)
    reward = heldout_reward(
        batch.results_PG,
        [tasks.rubric(view.task_id) for view in tasks.views],
        on_unavailable=config.judge.on_unavailable,
    )
    return reward, cast("list[int]", batch.rollouts.lengths_B.tolist())
