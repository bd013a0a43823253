"""Rubric-grounded GRPO: the paper's Algorithm 1 as one loop."""

import time
from collections.abc import Sequence
from functools import partial
from typing import cast

import structlog
import torch

from rubric_core import Answer, JudgeResult, Task
from rubric_judge.ui.console.progress import Phase
from rubric_train_openrlhf.local.assembly import LocalRun
from rubric_train_openrlhf.local.distilling import (
    Distiller,
    TaughtBatch,
    teacher_prompts,
)
from rubric_train_openrlhf.local.rollout import JudgedGroup, lengths_of, sizes_of
from rubric_train_openrlhf.local.update import UpdateBatch
from rubric_train_openrlhf.policy import concatenate
from rubric_train_openrlhf.randomness import PromptOrder, derived_seed
from rubric_train_openrlhf.run.checkpoints import (
    TrainerState,
    last_before,
    mark_best,
    prune,
    save_checkpoint,
)
from rubric_train_openrlhf.run.live_summary import best_step
from rubric_train_openrlhf.run.records import (
    DistillationRow,
    HeldoutReward,
    JudgementRow,
    MetricsRow,
    RolloutRow,
    Timing,
)
from rubric_train_openrlhf.step import passes, rows
from rubric_train_openrlhf.step.credit import check_judge
from rubric_train_openrlhf.step.monitors import monitored

_log = structlog.get_logger()


def train(run: LocalRun) -> None:
    """Train to the last step, and write every row on the way.

    Raises:
        RubricError: the run failed; `run_grpo` lists the types.
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
            if _has_diverged(run):
                break
            if isinstance(run.learner, Distiller):
                row, drawn = _write_distilled_step(
                    run, phase, step=step, position=prompts_drawn
                )
            else:
                row, drawn = _write_grpo_step(
                    run, phase, step=step, position=prompts_drawn
                )
            prompts_drawn += drawn
            thoughts.look(row)
            improved = _validate_if_due(run, heldout, step=step)
            due = step % config.checkpoint.every == 0 or step == config.steps
            if improved or due or _has_diverged(run):
                with progress.phase("writing a checkpoint"):
                    _save(run, step=step, prompts_drawn=prompts_drawn)
    if _has_diverged(run):
        _end_diverged(run)


def _write_grpo_step(
    run: LocalRun, phase: Phase, *, step: int, position: int
) -> tuple[MetricsRow, int]:
    """Make a step of GRPO, write its rows, and return its figures and how many prompts it drew."""
    record, judgements = _grpo_step(run, step=step, position=position)
    row = rows.metrics_row(record)
    run.folder.write_step(
        row, rollouts=rows.rollout_rows(record), judgements=judgements
    )
    run.events.write("train", row, step=step)
    _log.info("train.step.finished", **row.model_dump(exclude={"criteria"}))
    run.watch.step(row, phase=phase)
    return row, record.prompts_drawn


def _write_distilled_step(
    run: LocalRun, phase: Phase, *, step: int, position: int
) -> tuple[DistillationRow, int]:
    """Make a step of self-distillation, write its rows, and return as `_write_grpo_step` does."""
    row, rollouts = distilled_step(run, step=step, position=position)
    run.folder.write_distilled(row, rollouts)
    run.events.write("train", row, step=step)
    _log.info("train.step.finished", **row.model_dump())
    run.watch.distilled(row, phase=phase)
    return row, run.config.rollout.prompts


def distilled_step(
    run: LocalRun, *, step: int, position: int
) -> tuple[DistillationRow, list[RolloutRow]]:
    """Sample, let the teacher read what was written, update, and return the rows of the step."""
    started_s = time.perf_counter()
    config = run.config
    learner = run.learner
    assert isinstance(learner, Distiller)  # noqa: S101  # of a run by this method
    tasks = run.inputs.tasks
    order = PromptOrder(len(tasks), seed=config.seed)
    indices = order.take(config.rollout.prompts, start=position)
    groups = run.sampler.draw(
        [tasks.views[index] for index in indices],
        sampling=config.rollout,
        seed=derived_seed(config.seed, step=step, purpose="rollout", part=0),
    )
    sampled_s = time.perf_counter()
    tasks_P = [tasks[group.view.task_id] for group in groups]
    codec = run.sampler.policy.codec
    batch = TaughtBatch.of(
        concatenate([group.rollouts for group in groups]),
        teacher_prompts(codec, tasks_P, learner.method),
    )
    responses = config.batch_size
    with run.watch.progress.phase(
        "updating", total=responses, unit="responses"
    ) as phase:
        figures = learner.distil(
            batch,
            step=step,
            on_responses=phase.advance,
            is_first=step == run.start.step + 1,
        )
    ended_s = time.perf_counter()
    no_advantages_PG = [[0.0] * config.rollout.group_size] * len(groups)
    record = rows.DistilledStep(
        step=step,
        answers=trained_answers(groups, no_advantages_PG),
        update=figures,
        generate_s=sampled_s - started_s,
        update_s=ended_s - sampled_s,
        monitor=_monitored(run, groups, tasks_P),
    )
    group_size = config.rollout.group_size
    return rows.distillation_row(record), rows.unjudged_rows(record, group_size)


def _grpo_step(
    run: LocalRun, *, step: int, position: int
) -> tuple[rows.StepRecord, list[JudgementRow]]:
    """Sample and judge, give credit, update, and return what the rows are made of.

    Args:
        run: the parts of the run.
        step: number of the step.
        position: position of its first prompt in the endless order.
    """
    started_s = time.perf_counter()

    # Sample and judge.
    rounds, timing = sample_step(run, step=step, position=position)
    groups: list[JudgedGroup] = []
    dropped_PG: list[tuple[JudgeResult, ...]] = []
    for drawn, places in rounds:
        groups += [drawn[place] for place in places]
        dropped_PG += [
            group.results for place, group in enumerate(drawn) if place not in places
        ]

    # Credit.
    results_PG, tasks_P = _judged(run, groups)
    credit, judgements = run.crediting.of_step(
        step, results_PG, tasks_P, sizes_of(groups), dropped_PG
    )
    judged_s = time.perf_counter()
    audit = None
    if run.audits is not None:
        audit = run.audits.start("training", step, groups, tasks_P)

    # Update.
    advantages_B = credit.advantages_PG.reshape(-1)
    batch = UpdateBatch(
        rollouts=concatenate([group.rollouts for group in groups]),
        advantages_B=torch.from_numpy(advantages_B).to(run.sampler.policy.device),
        # A copy, because the array is read-only.
        valid_B=torch.tensor(credit.valid_PG.reshape(-1)),
    )
    responses = int(batch.valid_B.sum())
    with run.watch.progress.phase(
        "updating", total=responses, unit="responses"
    ) as phase:
        update = run.learner.update(
            batch,
            step=step,
            on_responses=phase.advance,
            is_first=step == run.start.step + 1,
        )
    audited = None
    if audit is not None and run.audits is not None:
        with run.watch.progress.phase("auditing"):
            audited = run.audits.finish(audit).figures
    ended_s = time.perf_counter()

    # Record.
    record = rows.StepRecord(
        step=step,
        credit=credit,
        answers=trained_answers(groups, credit.advantages_PG.tolist()),
        prompts_drawn=sum(len(drawn) for drawn, _ in rounds),
        generated_tokens=sum(sum(lengths_of(drawn)) for drawn, _ in rounds),
        timing=timing,
        update=update,
        update_s=ended_s - judged_s,
        step_s=ended_s - started_s,
        audit=audited,
        monitor=_monitored(run, groups, tasks_P),
    )
    return record, judgements


def sample_step(
    run: LocalRun, *, step: int, position: int
) -> tuple[list[passes.DrawnRound[list[JudgedGroup]]], Timing]:
    """Sample and judge the groups of one step: P prompts in order, or until P are informative.

    Args:
        run: the parts of the run.
        step: number of the step, which is part of the random seed.
        position: position of the first prompt in the endless order.

    Returns:
        The judged groups of each round with the places of those to train on, and the times.

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
        indices = order.take(n, start=position + before)
        groups, timing = run.sampler.sample(
            [tasks.views[index] for index in indices],
            tasks=tasks,
            sampling=config.rollout,
            seed=derived_seed(config.seed, step=step, purpose="rollout", part=number),
        )
        timings.append(timing)
        results.extend(group.results for group in groups)
        check_judge(results, config=config.judge, step=step)
        return groups

    def differs(groups: Sequence[JudgedGroup]) -> list[bool]:
        results_PG, tasks_P = _judged(run, groups)
        return run.crediting.informative(results_PG, tasks_P, sizes_of(groups))

    rounds = passes.draw_rounds(draw, spread=differs, config=config, step=step)
    return rounds, passes.total_timing(timings)


def _judged(
    run: LocalRun, groups: Sequence[JudgedGroup]
) -> tuple[list[tuple[JudgeResult, ...]], list[Task]]:
    """Return the results and the task of each group."""
    tasks = [run.inputs.tasks[group.view.task_id] for group in groups]
    return [group.results for group in groups], tasks


def trained_answers(
    groups: Sequence[JudgedGroup], advantages_PG: Sequence[Sequence[float]]
) -> list[rows.TrainedAnswer]:
    """Return the responses that a step was trained on, prompt-major."""
    trained: list[rows.TrainedAnswer] = []
    for group, advantages_G in zip(groups, advantages_PG, strict=True):
        view = group.view
        responses_G = zip(
            group.completions,
            cast("list[int]", group.rollouts.lengths_B.tolist()),
            cast("list[bool]", group.rollouts.ended_B.tolist()),
            advantages_G,
            strict=True,
        )
        trained += [
            rows.TrainedAnswer(
                view.task_id, view.question, completion, tokens, ended, advantage
            )
            for completion, tokens, ended, advantage in responses_G
        ]
    return trained


def _monitored(
    run: LocalRun, groups: Sequence[JudgedGroup], tasks_P: Sequence[Task]
) -> dict[str, float]:
    """Return the monitors' figures of the responses of a step; none where they are off."""
    if not run.config.is_monitored:
        return {}
    answers_PG = [
        [completion.answer for completion in group.completions] for group in groups
    ]
    return monitored(answers_PG, tasks_P)


def _validate_if_due(
    run: LocalRun, heldout: passes.HeldoutPasses, *, step: int
) -> bool:
    """Ask the held-out questions if a pass is due; return whether it is the best so far."""
    if run.inputs.heldout is None:
        return False
    row = heldout.pass_if_due(step)
    if row is None:
        return False
    run.events.write("heldout", row, step=step)
    run.watch.heldout(row)
    return row.best


def ask_heldout(
    run: LocalRun, step: int
) -> tuple[HeldoutReward, list[int], list[Answer]]:
    """Ask the held-out questions, and average the judge's rewards without penalties.

    The draws come from the run's seed alone, so two passes differ only by the policy.

    Raises:
        JudgeAbortError: the judge fails too often for a meaningful mean.
    """
    config = run.config
    tasks = run.inputs.heldout
    assert tasks is not None  # noqa: S101  # no pass is due without held-out questions
    samples = config.validation.samples
    rollout = config.rollout
    # As many at once as in training.
    responses_at_once = rollout.micro_batch * rollout.group_size
    sampling = rollout.model_copy(
        update={
            "group_size": samples,
            "temperature": config.validation.temperature,
            "micro_batch": max(1, responses_at_once // samples),
        }
    )
    groups, _ = run.sampler.sample(
        tasks.views,
        tasks=tasks,
        sampling=sampling,
        seed=derived_seed(config.seed, step=0, purpose="validation"),
    )
    results_NS = [group.results for group in groups]
    responses = [
        completion.answer for group in groups for completion in group.completions
    ]
    reward = run.crediting.of_heldout(step, results_NS, list(tasks.values()))
    if run.audits is not None:
        audit = run.audits.start("heldout", step, groups, list(tasks.values()))
        if audit is not None:
            figures = run.audits.finish(audit).figures
            reward = reward.model_copy(update={"audit": figures})
    return reward, lengths_of(groups), responses


def _save(run: LocalRun, *, step: int, prompts_drawn: int) -> None:
    """Save policy and trainer, point `best` at the best checkpoint, and delete older ones."""
    state = TrainerState(
        step=step,
        prompts_drawn=prompts_drawn,
        wall_s=run.watch.summary_file.wall_s,
        optimizer=run.learner.optimizer.state_dict(),
        schedule=run.learner.schedule.state_dict(),
    )
    checkpoints = run.folder.checkpoints
    kept = _kept_for_rollback(run, step=step)
    save_checkpoint(checkpoints, run.sampler.policy, state)
    best = best_step(run.folder, up_to=step)
    mark_best(checkpoints, step=best)
    prune(checkpoints, keep=run.config.checkpoint.keep, best={best, *kept})


def _kept_for_rollback(run: LocalRun, *, step: int) -> list[int]:
    """Return the step of the checkpoint that a rollback would go to, if there can be one."""
    audits = run.audits
    if audits is None or audits.auditor.config.on_divergence != "rollback":
        return []
    # The next look is the first that may see a drift of this very policy.
    onset = step if audits.auditor.onset is None else audits.auditor.onset
    return [last_before(run.folder.checkpoints, onset=onset)]


def _has_diverged(run: LocalRun) -> bool:
    """Return whether there was an alarm that ends the run."""
    return run.audits is not None and run.audits.auditor.ends_run


def _end_diverged(run: LocalRun) -> None:
    """Note the alarm in the summary; if asked, make the last checkpoint before the drift the best.

    The last step has a checkpoint by now, so that the run can go on with `on_divergence: log`.
    """
    assert run.audits is not None  # noqa: S101  # of a run that has diverged
    auditor = run.audits.auditor
    kept = None
    if auditor.config.on_divergence == "rollback":
        kept = last_before(run.folder.checkpoints, onset=auditor.onset or 0)
        mark_best(run.folder.checkpoints, step=kept)
    run.watch.summary_file.note_divergence(kept=kept)
