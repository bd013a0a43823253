"""Opening a run folder: new, or where a killed run left it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import yaml

from rubric_train_openrlhf.config import dump_config
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run.checkpoints import (
    TrainerState,
    latest_checkpoint,
    load_state,
)
from rubric_train_openrlhf.run.environment import describe_environment, environment_json
from rubric_train_openrlhf.run.writing import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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
        ResumeError: the folder holds a run and `resume` is off, or it is another configuration's.
    """
    if not folder.holds_run:
        return None
    if not resume:
        raise ResumeError(
            f"{str(folder.path)!r} holds a run; continue it with --resume or choose another `out`",
            path=folder.path,
        )
    before = dict(_leaves(yaml.safe_load(folder.config.read_text(encoding="utf-8"))))
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
    return latest_checkpoint(folder.checkpoints)


def begin(folder: RunFolder, *, config: TrainConfig) -> None:
    """Write what the run was made with, and clear what a kill before step 0 left."""
    text = dump_config(config)
    write_text(folder.config, text)
    environment = describe_environment(seed=config.seed, config_text=text)
    write_text(folder.environment, environment_json(environment))
    folder.cut_back(-1)


def go_back(folder: RunFolder, *, config: TrainConfig, checkpoint: Path) -> TrainerState:
    """Cut the folder back to a checkpoint and read the state that goes with it."""
    state = load_state(checkpoint)
    folder.cut_back(state.step)
    write_text(folder.config, dump_config(config))
    return state


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), f"{name}.")
        else:
            yield name, value
