"""Rubric-grounded GRPO: the paper's Algorithm 1 as one loop."""

import time
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import cast

import structlog
import torch

from rubric_core import Answer, JudgeResult, Task
from rubric_train_openrlhf.local.assembly import LocalRun
from rubric_train_openrlhf.local.rollout import JudgedGroup, sizes_of
from rubric_train_openrlhf.local.update import UpdateBatch
from rubric_train_openrlhf.policy import concatenate
from rubric_train_openrlhf.randomness import PromptOrder, derived_seed
from rubric_train_openrlhf.run.checkpoints import (
    TrainerState,
    mark_best,
    prune,
    save_checkpoint,
)
from rubric_train_openrlhf.run.live_summary import best_step
from rubric_train_openrlhf.run.records import HeldoutReward, JudgementRow, Timing
from rubric_train_openrlhf.step import passes, rows
from rubric_train_openrlhf.step.credit import check_judge

_log = structlog.get_logger()


def train(run: LocalRun) -> None:
    """Train to the last step, and write every row on the way.

    Raises:
        RubricError: why the run failed, as `run_grpo` lists it.
    """
    config = run.config
    progress = run.watch.progress
    thoughts = passes.UnclosedThoughts()
    ask = partial(ask_heldout, run)
    heldout = passes.HeldoutPasses(run.folder, config, progress, ask, thoughts)
    _validate_if_due(run, heldout, step=run.start.step)
    prompts_drawn = run.start.prompts_drawn
    with progress.phase("training", total=config.steps, unit="steps") as phase:
        phase.start_at(run.start.step)
        for step in range(run.start.step + 1, config.steps + 1):
            record, judgements = _one_step(run, step=step, position=prompts_drawn)
            prompts_drawn += record.prompts_drawn
            row = rows.metrics_row(record)
            run.folder.write_step(
                row, rollouts=rows.rollout_rows(record), judgements=judgements
            )
            run.events.write("train", row, step=step)
            _log.info("train.step.finished", **row.model_dump(exclude={"criteria"}))
            run.watch.step(row, phase=phase)
            thoughts.look(row)
            improved = _validate_if_due(run, heldout, step=step)
            if improved or step % config.checkpoint.every == 0 or step == config.steps:
                with progress.phase("writing a checkpoint"):
                    _save(run, step=step, prompts_drawn=prompts_drawn)


def _one_step(
    run: LocalRun, *, step: int, position: int
) -> tuple[rows.StepRecord, list[JudgementRow]]:
    """Sample, judge and update."""
    started = time.perf_counter()
    rounds, timing = sample_step(run, step=step, position=position)
    groups = [drawn[place] for drawn, places in rounds for place in places]
    dropped_PG = [
        group.results
        for drawn, places in rounds
        for place, group in enumerate(drawn)
        if place not in places
    ]
    credit, judgements = run.crediting.of_step(
        step, *_judged(run, groups), sizes_of(groups), dropped_PG
    )
    judged_at = time.perf_counter()
    advantages_B = credit.advantages_PG.reshape(-1)
    to_train = UpdateBatch(
        rollouts=concatenate([group.rollouts for group in groups]),
        advantages_B=torch.from_numpy(advantages_B).to(run.sampler.policy.device),
        valid_B=torch.tensor(credit.valid_PG.reshape(-1)),  # read-only, so a copy
    )
    responses = int(to_train.valid_B.sum())
    with run.watch.progress.phase(
        "updating", total=responses, unit="responses"
    ) as phase:
        update = run.learner.update(
            to_train,
            step=step,
            on_responses=phase.advance,
            is_first=step == run.start.step + 1,
        )
    now = time.perf_counter()
    record = rows.StepRecord(
        step=step,
        credit=credit,
        answers=answers(groups, advantages_B.tolist()),
        prompts_drawn=sum(len(drawn) for drawn, _ in rounds),
        generated_tokens=sum(sum(lengths(drawn)) for drawn, _ in rounds),
        timing=timing,
        update=update,
        update_s=now - judged_at,
        step_s=now - started,
    )
    return record, judgements


def _validate_if_due(
    run: LocalRun, heldout: passes.HeldoutPasses, *, step: int
) -> bool:
    """Ask the held-out questions where this step is due; whether it is the best so far."""
    row = heldout.pass_if_due(step) if run.inputs.heldout is not None else None
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
    save_checkpoint(checkpoints, run.sampler.policy, state)
    best = best_step(run.folder, up_to=step)
    mark_best(checkpoints, step=best)
    prune(checkpoints, keep=run.config.checkpoint.keep, best={best})


def sample_step(
    run: LocalRun, *, step: int, position: int
) -> tuple[list[tuple[list[JudgedGroup], list[int]]], Timing]:
    """Sample and judge the groups of one step: P prompts in order, or until P are informative.

    Args:
        run: the parts of the run.
        step: its number, part of the random seed.
        position: of the first prompt in the endless order.

    Returns:
        What was sampled and judged, with the places of the groups to train on, and where the time
        went.

    Raises:
        JudgeAbortError: too many judgements failed.
        NoInformativePromptError: dynamic sampling found too few groups with a spread.
    """
    config = run.config
    tasks = run.inputs.tasks
    order = PromptOrder(len(tasks), seed=config.seed)
    results: list[tuple[JudgeResult, ...]] = []
    timings: list[Timing] = []

    def draw(number: int, before: int, n: int) -> list[JudgedGroup]:
        groups, timing = run.sampler.sample(
            [tasks.views[index] for index in order.take(n, start=position + before)],
            tasks=tasks,
            sampling=config.rollout,
            seed=derived_seed(config.seed, step=step, purpose="rollout", part=number),
        )
        timings.append(timing)
        results.extend(group.results for group in groups)
        check_judge(results, config=config.judge, step=step)
        return groups

    def differs(groups: Sequence[JudgedGroup]) -> list[bool]:
        return run.crediting.informative(*_judged(run, groups), sizes_of(groups))

    rounds = passes.draw_rounds(draw, spread=differs, config=config, step=step)
    return rounds, passes.total_timing(timings)


def _judged(
    run: LocalRun, groups: Sequence[JudgedGroup]
) -> tuple[list[tuple[JudgeResult, ...]], list[Task]]:
    """The results of each group, and its task."""
    tasks = [run.inputs.tasks[group.view.task_id] for group in groups]
    return [group.results for group in groups], tasks


def answers(
    groups: Sequence[JudgedGroup], advantages_B: Sequence[float]
) -> list[rows.Answer]:
    """The responses of a step, as its rows show them."""
    told = (
        (group.view, completion) for group in groups for completion in group.completions
    )
    parts = (cast("list[bool]", group.rollouts.ended_B.tolist()) for group in groups)
    return [
        rows.Answer(view.task_id, view.question, one, tokens, ended, advantage)
        for (view, one), tokens, ended, advantage in zip(
            told, lengths(groups), chain(*parts), advantages_B, strict=True
        )
    ]


def lengths(groups: Sequence[JudgedGroup]) -> list[int]:
    """Tokens of each response, prompt-major."""
    return sizes_of(groups).lengths_PG.reshape(-1).tolist()


def ask_heldout(
    run: LocalRun, step: int
) -> tuple[HeldoutReward, list[int], list[Answer]]:
    """Ask the held-out questions, and average the judge's rewards without penalties.

    The draws come from the run's seed alone, so that two passes differ by the policy only.

    Raises:
        JudgeAbortError: the judge fails too often for the mean to say anything.
    """
    config = run.config
    tasks = run.inputs.heldout
    assert tasks is not None  # noqa: S101  # no pass is due without held-out questions
    samples = config.validation.samples
    rollout = config.rollout
    asked = {
        "group_size": samples,
        "temperature": config.validation.temperature,
        # As many responses at once as in training.
        "micro_batch": max(1, rollout.micro_batch * rollout.group_size // samples),
    }
    groups, _ = run.sampler.sample(
        tasks.views,
        tasks=tasks,
        sampling=rollout.model_copy(update=asked),
        seed=derived_seed(config.seed, step=0, purpose="validation"),
    )
    results_NS = [group.results for group in groups]
    written = [
        completion.answer for group in groups for completion in group.completions
    ]
    reward = run.crediting.of_heldout(step, results_NS, list(tasks.values()))
    return reward, lengths(groups), written
