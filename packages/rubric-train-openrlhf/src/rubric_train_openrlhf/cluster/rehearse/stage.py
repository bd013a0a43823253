"""Puts together what a rehearsal runs on: tasks, model, judge, configuration."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rubric_core import write_tasks
from rubric_train_openrlhf.cluster.rehearse.judge import judging_with, language_model
from rubric_train_openrlhf.cluster.rehearse.made_tasks import made_tasks
from rubric_train_openrlhf.cluster.rehearse.shrink import StandIns, rehearsal_config, what_shrinks
from rubric_train_openrlhf.cluster.rehearse.small_model import shrink_model, stand_in_model
from rubric_train_openrlhf.config import PathModel
from rubric_train_openrlhf.policy import load_codec

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from rubric_core import Task
    from rubric_train_openrlhf.cluster.rehearse.subject import Subject
    from rubric_train_openrlhf.config import TrainConfig

_TRAIN: Final = 8
_HELDOUT: Final = 4


@contextmanager
def staged(subject: Subject) -> Generator[TrainConfig]:
    """Write tasks and a small model, keep the judge up, and give the configuration of the run.

    Raises:
        RubricError: tasks, model or judge cannot be had.
    """
    config, folder = subject.known, subject.request.folder
    train, heldout = rehearsal_tasks(subject)
    write_tasks(folder / "train.jsonl", train)
    validation = None
    if config.data.validation is not None:
        validation = folder / "validation.jsonl"
        write_tasks(validation, heldout)
    model = folder / "model"
    _write_model(subject, model, texts=[task.question for task in (*train, *heldout)])
    codec = load_codec(model)
    prompts = (codec.encode_prompt(task.policy_view()) for task in (*train, *heldout))
    with judging_with(subject) as spec:
        small = rehearsal_config(
            config,
            StandIns(
                model=model,
                train=folder / "train.jsonl",
                validation=validation,
                spec=spec,
                longest_prompt=max(len(prompt.token_ids) for prompt in prompts),
                out=folder / "run",
            ),
        )
        if small.dynamic_sampling is not None and language_model(spec) is None:
            # A model with random weights earns nothing from a program: no group has a spread.
            subject.stand_in("dynamic sampling: off, since a random model earns nothing here")
            small = small.model_copy(update={"dynamic_sampling": None})
        subject.stand_in(what_shrinks(config, small))
        yield small


def rehearsal_tasks(subject: Subject) -> tuple[Sequence[Task], Sequence[Task]]:
    """A few tasks to train on and a few held-out ones: the run's own with the shortest questions.

    Where the run's are not on this machine, tasks of ours.
    """
    ours = made_tasks()
    train = _shortest(subject.tasks.get("data.train", ()), _TRAIN, answered=subject.known.sft)
    if not train:
        subject.stand_in(f"tasks: {_TRAIN} made for rehearsals; data.train is not on this machine")
        train = ours[:_TRAIN]
    heldout = _shortest(subject.tasks.get("data.validation", ()), _HELDOUT)
    if not heldout and subject.known.data.validation is not None:
        subject.stand_in(
            f"held-out tasks: {_HELDOUT} made for rehearsals; data.validation is not on this "
            "machine"
        )
        heldout = ours[_TRAIN : _TRAIN + _HELDOUT]
    return train, heldout


def _shortest(tasks: Sequence[Task], n: int, *, answered: object = None) -> Sequence[Task]:
    """Those that cost least to read, with a reference answer where a warm start needs one."""
    usable = [task for task in tasks if answered is None or task.reference_answer]
    return sorted(usable, key=lambda task: len(task.question))[:n]


def _write_model(subject: Subject, out: Path, *, texts: Sequence[str]) -> None:
    config = subject.known
    model = config.model
    has_config = isinstance(model, PathModel) and (model.path / "config.json").is_file()
    if isinstance(model, PathModel) and has_config and subject.codec is not None:
        what = shrink_model(model.path, out, seed=config.seed)
        subject.stand_in(f"model: a {what} and the tokenizer of {str(model.path)!r}")
        return
    name = str(model.path) if isinstance(model, PathModel) else model.type
    what = stand_in_model(name, out, texts=texts, seed=config.seed)
    subject.stand_in(
        f"model: a {what} and a tokenizer built in code; {name!r} is not on this machine, so its "
        "tokenizer could not be checked"
    )
