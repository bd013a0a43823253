"""Everything that one run of the loop holds, put together from the configuration."""

# pyright: reportUnknownMemberType=false
# torch annotates these methods in part only.
from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from rubric_judge import Ledger, LexicalConfig, load_replicas
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.local.judging import background_judge
from rubric_train_openrlhf.local.policy_start import pick_device, start_policy, use_threads
from rubric_train_openrlhf.local.resume import checkpoint_to_resume, go_back, state_to_resume
from rubric_train_openrlhf.local.rollout import Examiner
from rubric_train_openrlhf.local.update import Learner
from rubric_train_openrlhf.objective import adamw, warmup
from rubric_train_openrlhf.opening import begin
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.randomness import PromptOrder
from rubric_train_openrlhf.run import RunFolder
from rubric_train_openrlhf.run.checkpoints import TrainerState, checkpoint_path, save_checkpoint
from rubric_train_openrlhf.run.events import EventWriter
from rubric_train_openrlhf.step.tasks import read_book

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from transformers import PreTrainedModel

    from rubric_core import Judge
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.local.watch import Watch
    from rubric_train_openrlhf.policy import Policy
    from rubric_train_openrlhf.step.tasks import TaskBook


@dataclass(frozen=True)
class LocalRun:
    """The parts of a run."""

    config: TrainConfig
    folder: RunFolder
    events: EventWriter
    policy: Policy
    learner: Learner
    book: TaskBook
    heldout: TaskBook | None
    examiner: Examiner
    order: PromptOrder
    start: TrainerState
    """Where the loop begins."""
    watch: Watch


@contextlib.contextmanager
def assembled(
    config: TrainConfig,
    *,
    resume: bool,
    watch: Watch,
    judge: Judge | None = None,
) -> Generator[LocalRun]:
    """Check the input, open the run folder, load the models and keep a judge running.

    What can be wrong with the input is found before anything but summary.json is written. The
    folder is this process's own.

    Raises:
        RubricError: unusable tasks, model, judge or run folder; each with its own type.
    """
    use_threads(config.threads)
    pick_device(config.device)
    folder = RunFolder(config.out)
    progress = watch.progress
    with contextlib.ExitStack() as held:
        with progress.phase("reading tasks"):
            checkpoint = checkpoint_to_resume(folder, config=config, resume=resume)
            book = read_book(config.data.train, leak_ngram=config.data.leak_ngram, key="data.train")
            heldout_book = _heldout_book(config)
            replicas = load_replicas(config.judge.spec) if judge is None else (judge,)
        policy, start = _policy(
            config, (book, heldout_book), folder=folder, checkpoint=checkpoint, watch=watch
        )
        with progress.phase("loading the reference model"):
            learner = _learner(policy, start=start, config=config, folder=folder)
        ledger = None
        if judge is None and not isinstance(config.judge.spec, LexicalConfig):
            # A step that was cut off samples the same responses again; they are judged already.
            ledger = held.enter_context(Ledger(folder.ledger))
        background = held.enter_context(
            background_judge(*replicas, config=config.judge, ledger=ledger)
        )
        events = held.enter_context(EventWriter(folder.tensorboard, first_step=start.step + 1))
        examiner = Examiner(policy, judge=background, autocast=learner.autocast, progress=progress)
        watch.summary_file.start_clock()
        yield LocalRun(
            config=config,
            folder=folder,
            events=events,
            policy=policy,
            learner=learner,
            book=book,
            heldout=heldout_book,
            examiner=examiner,
            order=PromptOrder(len(book), seed=config.seed),
            start=start,
            watch=watch,
        )


def _policy(
    config: TrainConfig,
    books: tuple[TaskBook, TaskBook | None],
    *,
    folder: RunFolder,
    checkpoint: Path | None,
    watch: Watch,
) -> tuple[Policy, TrainerState]:
    """Make the policy of a run that begins, or load that of a run that goes on; open the folder."""
    device = pick_device(config.device)
    named = zip(("train", "validation"), books, strict=True)
    tasks_sha256 = {name: tasks.sha256 for name, tasks in named if tasks is not None}
    if checkpoint is not None:
        with watch.progress.phase("loading the checkpoint"):
            start = state_to_resume(
                folder, config=config, tasks_sha256=tasks_sha256, checkpoint=checkpoint
            )
            policy = load_policy(checkpoint, device=device)
            go_back(folder, config=config, state=start)
            watch.summary_file.begin(wall_s=start.wall_s)
        return policy, start
    policy = start_policy(config, book=books[0], device=device, watch=watch)
    start = TrainerState.before_training()
    with watch.progress.phase("writing the first checkpoint"):
        begin(folder, config=config, tasks_sha256=tasks_sha256)
        watch.summary_file.begin(wall_s=start.wall_s)
        save_checkpoint(folder.checkpoints, policy, start)
    return policy, start


def _heldout_book(config: TrainConfig) -> TaskBook | None:
    if config.data.validation is None:
        return None
    book = read_book(
        config.data.validation, leak_ngram=config.data.leak_ngram, key="data.validation"
    )
    return book.first(config.validation.questions)


def _learner(
    policy: Policy, *, start: TrainerState, config: TrainConfig, folder: RunFolder
) -> Learner:
    model = policy.model
    if config.optim.gradient_checkpointing:
        # Only a model in training mode recomputes; dropout was switched off when it was loaded.
        model.gradient_checkpointing_enable()
        model.train()
    optimizer = adamw(model.parameters(), config=config.optim)
    schedule = warmup(optimizer, config=config.optim)
    if start.step:
        try:
            optimizer.load_state_dict(start.optimizer)
            schedule.load_state_dict(start.schedule)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as exc:
            raise ResumeError(
                f"the trainer state of step {start.step} in {str(folder.checkpoints)!r} does not "
                "fit its model; start again in another `out`",
                path=folder.path,
            ) from exc
    return Learner(
        model=model,
        reference=_reference(folder, config=config, device=policy.device),
        optimizer=optimizer,
        schedule=schedule,
        objective=config.objective,
        optim=config.optim,
        temperature=config.rollout.temperature,
        autocast=config.precision == "bfloat16",
    )


def _reference(
    folder: RunFolder, *, config: TrainConfig, device: torch.device
) -> PreTrainedModel | None:
    """The policy of step 0, frozen; none where the divergence from it has no weight."""
    if config.objective.kl_coef == 0:
        return None
    dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    path = checkpoint_path(folder.checkpoints, step=0)
    model = load_policy(path, device=device, dtype=dtype).model
    return model.requires_grad_(requires_grad=False)
