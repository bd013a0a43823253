"""Start a run of the local backend, before torch is loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from rubric_judge.config import is_program
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.local.inputs import RunInputs, read_inputs
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import Watch, live_summary
from rubric_train_openrlhf.run.records import (
    DistillationRow,
    HeldoutRow,
    MetricsRow,
    RunSummary,
)
from rubric_train_openrlhf.step.probe import probe_audit_judge, probe_judge
from rubric_train_openrlhf.tracking.running import tracked

if TYPE_CHECKING:
    from rubric_core import Judge
    from rubric_train_openrlhf.policy import SupervisedStep


def run_grpo(  # noqa: PLR0913  # two judges and three callbacks
    config: TrainConfig,
    *,
    resume: bool = False,
    judge: Judge | None = None,
    audit_judge: Judge | None = None,
    on_step: Callable[[MetricsRow], None] | None = None,
    on_distilled: Callable[[DistillationRow], None] | None = None,
    on_heldout: Callable[[HeldoutRow], None] | None = None,
    on_supervised: Callable[[str, SupervisedStep], None] | None = None,
    progress: Progress | None = None,
) -> RunSummary:
    """Train a policy by the method of its configuration and write its run folder.

    Args:
        config: the whole run; all randomness follows from its seed.
        resume: go on from the last checkpoint in `config.out`, or start anew if there is none.
        judge: judge in place of the one that `config.judge.spec` describes.
        audit_judge: audit judge in place of the one that `config.audit.spec` describes.
        on_step: called after every step of GRPO is on disk.
        on_distilled: called after every step of self-distillation is on disk.
        on_heldout: called after every held-out pass is on disk.
        on_supervised: called with "pretrain" or "sft" after every step that comes before step 1.
        progress: display of every phase; by default nothing is shown.

    Returns:
        Summary of the run, the same as in summary.json.

    Raises:
        MissingExtraError: the library of a tracker is not installed.
        TrainConfigError: a task file is missing or empty, or a GPU is asked for and absent.
        LeakError, RubricFileError: a question gives its rubric away; a line is not a valid task.
        PolicyLoadError, DiskWriteError: no model at the path; the run folder cannot be written.
        JudgeSetupError: the judge cannot be made or does not answer.
        ResumeError: `config.out` holds a run, and `resume` is off or the run is another one.
        JudgeAbortError: too many judgements of a step failed.
        UnavailableRewardError: a judgement failed, and `config.judge.on_unavailable` is "raise".
        NoInformativePromptError: dynamic sampling found too few groups with a spread.
        NonFiniteUpdateError: the loss or its gradient is not a number.
        PolicyMismatchError: the first update is not of the policy that sampled.

    Source: paper, §A, Algorithm 1.
    """
    folder = RunFolder(config.out)
    with contextlib.ExitStack() as held:
        if progress is None:
            progress = held.enter_context(Progress.silent())
        # Left last: trackers are told how the run ended.
        trackers = held.enter_context(tracked(config, progress=progress))
        held.enter_context(folder.locked())
        summary_file = held.enter_context(
            live_summary(
                folder, total_steps=config.steps, resume=resume, progress=progress
            )
        )
        with progress.phase("reading tasks"):
            inputs = read_inputs(
                config, resume=resume, judge=judge, audit_judge=audit_judge
            )
        if judge is None and inputs.is_judge_asked(config):
            with progress.phase("asking the judge"):
                probe_judge(config)
        if audit_judge is None and _is_audit_judge_asked(config, inputs):
            with progress.phase("asking the audit judge"):
                probe_audit_judge(config)
        with progress.phase("loading torch"):
            # This takes seconds, or minutes from a cold disk, so that summary.json and the first
            # line of output come before it.
            from rubric_train_openrlhf.local.assembly import assembled
            from rubric_train_openrlhf.local.loop import train

        watch = Watch(
            summary_file, progress, on_step, on_distilled, on_heldout, on_supervised
        )
        with assembled(
            config, inputs, judge=judge, audit_judge=audit_judge, watch=watch
        ) as run:
            trackers.start()
            train(run)
    return folder.read_summary()


def _is_audit_judge_asked(config: TrainConfig, inputs: RunInputs) -> bool:
    """Whether a model audits, and a step is left for it to audit."""
    is_model = config.audit is not None and not is_program(config.audit.spec)
    return is_model and inputs.has_steps_left(config)
