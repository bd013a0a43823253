"""Inputs that a run reads before torch is loaded, so that a wrong path is reported at once."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from rubric_core import Judge, Pooling, RubricFileError, SchemaError
from rubric_core.files import read_each_line
from rubric_judge import load_replicas
from rubric_judge.config import is_program
from rubric_judge.judges.capabilities import Checking, fingerprint
from rubric_train_openrlhf.config.method import is_grpo
from rubric_train_openrlhf.config.sections import TinyModel
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import ResumeError, TrainConfigError
from rubric_train_openrlhf.policy_config import check_arguments, check_model_folder
from rubric_train_openrlhf.resuming import holds_run_to_resume
from rubric_train_openrlhf.run.checkpoints import latest_checkpoint, step_of
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.admission import Admission, read_admission
from rubric_train_openrlhf.step.audit import check_apart
from rubric_train_openrlhf.step.rewards import ALL
from rubric_train_openrlhf.step.tasks import TaskSet, read_task_sets


class RunInputs(NamedTuple):
    """Tasks, documents and judges."""

    tasks: TaskSet
    """Training tasks."""
    heldout: TaskSet | None
    judges: tuple[Judge, ...]
    checkpoint: Path | None
    """Checkpoint from which the run goes on; None for a new run."""
    admission: Admission = ALL
    """Criteria that count, with their factors."""
    pooling: Pooling = Pooling()
    """Pools of criteria with common figures."""
    documents: tuple[str, ...] = ()
    """Texts that a policy built from scratch is pre-trained on."""
    audit_judges: tuple[Judge, ...] = ()
    """The audit judge; none without one."""

    def is_judge_asked(self, config: TrainConfig) -> bool:
        """Return whether a step or pass needs a checkable judge that is not a program."""
        is_model = not is_program(config.judge.spec)
        has_answers = is_grpo(config.method) or self.heldout is not None
        return (
            self.has_steps_left(config)
            and has_answers
            and is_model
            and isinstance(self.judges[0], Checking)
        )

    def has_steps_left(self, config: TrainConfig) -> bool:
        """Return whether there is a step to make."""
        done = 0 if self.checkpoint is None else step_of(self.checkpoint)
        return done < config.steps


def read_inputs(
    config: TrainConfig,
    *,
    resume: bool,
    judge: Judge | None,
    audit_judge: Judge | None = None,
) -> RunInputs:
    """Read and check the files of a run.

    Args:
        config: configuration of the run.
        resume: go on from the last checkpoint, if there is one.
        judge: judge in place of the configured one.
        audit_judge: audit judge in place of the configured one.

    Raises:
        RubricError: tasks, documents, model folder, judge or run folder cannot be used; each has
            its own type.
    """
    cores = os.cpu_count() or 1
    if config.threads is not None and config.threads > cores:
        raise TrainConfigError(
            f"threads={config.threads}, but this machine has {cores} cores; use at most {cores}",
            location="threads",
        )
    checkpoint = checkpoint_to_resume(
        RunFolder(config.out), config=config, resume=resume
    )
    sets = read_task_sets(config, warn=True)
    tasks = sets["train"]
    heldout = sets.get("validation")
    judges = load_replicas(config.judge.spec) if judge is None else (judge,)
    all_tasks = [task for task_set in sets.values() for task in task_set.values()]
    admission = read_admission(
        config.judge, all_tasks, judge_fingerprint=fingerprint(judges[0])
    )
    pooling = Pooling.of(all_tasks)
    inputs = RunInputs(
        tasks,
        heldout,
        judges,
        checkpoint,
        admission,
        pooling,
        audit_judges=_audit_judges(config, judges[0], audit_judge),
    )
    if checkpoint is not None:  # it holds the policy
        return inputs
    check_answers(config, tasks)
    if not isinstance(config.model, TinyModel):
        check_model_folder(config.model.folder())
        check_arguments(config.model.folder(), prompt=config.model.chat_prompt)
        return inputs
    documents = read_corpus(config.model.documents, doc_hashes=tasks.doc_hashes)
    return inputs._replace(documents=tuple(documents))


def _audit_judges(
    config: TrainConfig, judge: Judge, audit_judge: Judge | None
) -> tuple[Judge, ...]:
    if config.audit is None:
        return ()
    judges = load_replicas(config.audit.spec) if audit_judge is None else (audit_judge,)
    check_apart(config, training=fingerprint(judge), audit=fingerprint(judges[0]))
    return judges


def check_answers(config: TrainConfig, tasks: TaskSet) -> None:
    """Refuse a warm start on training tasks without an answer.

    Raises:
        TrainConfigError: there is no reference answer at all.
    """
    if config.sft is not None and not tasks.reference_answers():
        raise TrainConfigError(
            f"sft is on, but no task of {str(config.data.train)!r} has a reference_answer; "
            "add them or remove the section",
            location="sft",
        )


def read_corpus(path: Path, *, doc_hashes: Collection[str]) -> list[str]:
    """Read the texts of a JSONL file, without the documents of held-out tasks.

    Args:
        path: file with an object on each line, with a `text` and, as `rubric-synth collect`
            writes it, a `doc_hash`.
        doc_hashes: hashes of the training tasks' documents. A row with any other hash is left out,
            since a held-out question may be about it; a row without a hash is read.

    Returns:
        The texts, in the order of the file.

    Raises:
        TrainConfigError: there is no such file, or no row in it may be read.
        RubricFileError: a line is not an object with a text.
    """
    try:
        rows = [_text_row(path, line, row) for line, row in read_each_line(path)]
    except OSError as exc:
        raise TrainConfigError(
            f"cannot read the documents {str(path)!r} ({type(exc).__name__}); write them with "
            "`rubric-synth collect`",
            location="model.documents",
        ) from exc
    texts = [
        text for text, doc_hash in rows if doc_hash is None or doc_hash in doc_hashes
    ]
    if not texts:
        raise TrainConfigError(
            f"none of the {len(rows)} documents in {str(path)!r} belongs to a training task; "
            "give those that the tasks were made from",
            location="model.documents",
        )
    return texts


def _text_row(
    path: Path, line: int, row: dict[str, object] | SchemaError
) -> tuple[str, str | None]:
    fields = {} if isinstance(row, SchemaError) else row
    text = fields.get("text")
    doc_hash = fields.get("doc_hash")
    if not isinstance(text, str) or not isinstance(doc_hash, str | None):
        problem = "this line is no JSON object with a string `text`"
        remedy = "write the documents with `rubric-synth collect`"
        raise RubricFileError(
            f"{problem}; {remedy}", path=path, line=line, field="text"
        )
    return text, doc_hash


def checkpoint_to_resume(
    folder: RunFolder, *, config: TrainConfig, resume: bool
) -> Path | None:
    """Find the checkpoint from which a run goes on.

    Returns:
        The last complete checkpoint; None for a new run.

    Raises:
        ResumeError: the folder holds a run and `resume` is off; its run has another configuration;
            or it holds files with a run's names from which no run can be continued.
    """
    if not holds_run_to_resume(folder, config=config, resume=resume):
        return None
    checkpoint = latest_checkpoint(folder.checkpoints)
    if checkpoint is None and folder.holds_rows:
        problem = (
            f"{str(folder.checkpoints)!r} holds no checkpoint, but the run has rows"
        )
        raise ResumeError.lost(problem, path=folder.path)
    return checkpoint
