"""Opening a run folder: new, or where a killed run left it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import yaml

from rubric_train_openrlhf.config import dump_config
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.checkpoints import (
    TrainerState,
    latest_checkpoint,
    load_state,
    step_of,
)
from rubric_train_openrlhf.run.environment import describe_environment, environment_json
from rubric_train_openrlhf.run.writing import disk_errors, remove_unfinished, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.run import RunFolder

_MAY_CHANGE = frozenset({"steps", "out"})
"""What a resumed run may set anew: it can go on for longer, and its folder can be moved."""


def checkpoint_to_resume(folder: RunFolder, *, config: TrainConfig, resume: bool) -> Path | None:
    """Find where to go on.

    Returns:
        The last whole checkpoint; None for a run that starts from nothing.

    Raises:
        ResumeError: the folder holds a run and `resume` is off, it is another configuration's, or
            it holds files under a run's names that no run can be continued from.
    """
    if not folder.holds_run:
        if taken := folder.names_taken:
            raise ResumeError(
                f"{str(folder.path)!r} holds no run, but already has {', '.join(taken)}, which a "
                "run would write over; choose another `out`, or move them away",
                path=folder.path,
            )
        return None
    if not resume:
        raise ResumeError(
            f"{str(folder.path)!r} holds a run; continue it with --resume or choose another `out`",
            path=folder.path,
        )
    _check_config(folder, config=config)
    checkpoint = latest_checkpoint(folder.checkpoints)
    if checkpoint is None and folder.holds_rows:
        raise ResumeError(
            f"{str(folder.checkpoints)!r} holds no checkpoint, but the run has rows; bring the "
            "checkpoints back from a copy, or start again in another `out`",
            path=folder.path,
        )
    return checkpoint


def begin(folder: RunFolder, *, config: TrainConfig, tasks_sha256: Mapping[str, str]) -> None:
    """Write what the run was made with, and clear what a kill before step 0 left."""
    text = dump_config(config)
    write_text(folder.config, text)
    environment = describe_environment(
        seed=config.seed, config_text=text, tasks_sha256=tasks_sha256
    )
    write_text(folder.environment, environment_json(environment))
    with disk_errors(folder.path):
        remove_unfinished(folder.path)


def go_back(
    folder: RunFolder, *, config: TrainConfig, tasks_sha256: Mapping[str, str], checkpoint: Path
) -> TrainerState:
    """Cut the folder back to a checkpoint and read the state that goes with it.

    Raises:
        ResumeError: the task files hold other tasks, or a file of the run is damaged.
    """
    _check_tasks(folder, config=config, tasks_sha256=tasks_sha256)
    state = load_state(checkpoint)
    if state.step != step_of(checkpoint):
        raise ResumeError(
            f"{str(checkpoint)!r} holds the trainer state of step {state.step}; give the folder "
            "its own name back, or start again in another `out`",
            path=checkpoint,
        )
    # The pass of step 0 comes after its checkpoint; all others come before theirs.
    expected = config.data.validation is not None and state.step > 0
    passes = range(0, state.step + 1, config.validation.every) if expected else ()
    folder.cut_back(state.step, heldout=passes)
    write_text(folder.config, dump_config(config))
    return state


def _check_config(folder: RunFolder, *, config: TrainConfig) -> None:
    before = dict(_leaves(_read_mapping(folder.config, yaml.safe_load)))
    now = dict(_leaves(yaml.safe_load(dump_config(config))))
    changed = sorted(
        key
        for key in before.keys() | now.keys()
        if key not in _MAY_CHANGE and before.get(key) != now.get(key)
    )
    if changed:
        raise ResumeError(
            f"{str(folder.path)!r} was started with other values of {', '.join(changed)}; a "
            "resumed run must be the same run: set them back, or choose another `out`",
            path=folder.path,
        )


def _check_tasks(
    folder: RunFolder, *, config: TrainConfig, tasks_sha256: Mapping[str, str]
) -> None:
    before = _read_mapping(folder.environment, json.loads).get("tasks_sha256")
    if not isinstance(before, dict):
        raise _damaged(folder.environment)
    files = {"train": config.data.train, "validation": config.data.validation}
    changed = [
        f"data.{name} ({str(files[name])!r})"
        for name, sha256 in tasks_sha256.items()
        if cast("dict[str, object]", before).get(name) != sha256
    ]
    if changed:
        raise ResumeError(
            f"{' and '.join(changed)}: the tasks or their order changed since the run in "
            f"{str(folder.path)!r} was started; bring the old file back, or choose another `out`",
            path=folder.path,
        )


def _read_mapping(path: Path, parse: Callable[[str], object]) -> dict[str, Any]:
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as exc:
        raise _damaged(path) from exc
    if not isinstance(content, dict):
        raise _damaged(path)
    return {str(key): value for key, value in cast("dict[object, Any]", content).items()}


def _damaged(path: Path) -> ResumeError:
    return ResumeError(
        f"{str(path)!r} is missing or damaged; bring it back from a copy, or start again in "
        "another `out`",
        path=path,
    )


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), f"{name}.")
        else:
            yield name, value
