"""Whether a run begins or goes on in its folder, and what may have changed where it goes on."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from rubric_core import ConfigError
from rubric_core.artifact import differences
from rubric_core.files import read_file, toml_beside
from rubric_judge.ui.yaml_files import yaml_value
from rubric_train_openrlhf.config.sections import leaves
from rubric_train_openrlhf.config.train import TrainConfig, dump_config, parse_config
from rubric_train_openrlhf.errors import ResumeError, TrainConfigError
from rubric_train_openrlhf.run.folder import (
    RunFolder,
    describe_environment,
    first_changed,
)
from rubric_train_openrlhf.run.writing import disk_errors, remove_unfinished, write_text
from rubric_train_openrlhf.step.tasks import CONTEXTS, TEXTS

_TABLE = toml_beside(__file__, "resuming.toml")
_MAY_CHANGE: tuple[str, ...] = (
    *_TABLE["may_change"],
    *(f"{judge}.{key}" for judge in _TABLE["judges"] for key in _TABLE["of_a_judge"]),
)


def holds_run_to_resume(
    folder: RunFolder, *, config: TrainConfig, resume: bool
) -> bool:
    """Find out whether this run begins or goes on.

    Raises:
        ResumeError: the folder holds a run and `resume` is off, it is another configuration's or
            has done more steps than are asked for, or it holds files under a run's names that no
            run can be continued from.
    """
    if not folder.holds_run:
        if names := folder.names_taken:
            raise ResumeError(
                f"{str(folder.path)!r} holds no run, but already has {', '.join(names)}, which a "
                "run would write over; choose another `out`, or move them away",
                path=folder.path,
            )
        return False
    if not resume:
        raise ResumeError(
            f"{str(folder.path)!r} holds a run; continue it with --resume or choose another `out`",
            path=folder.path,
        )
    _check_config(folder, config=config)
    done = folder.steps_done
    if config.steps < done:
        raise ResumeError(
            f"{str(folder.path)!r} has done {done} steps, and steps={config.steps} asks for "
            f"fewer; give at least {done}, or choose another `out`",
            path=folder.path,
        )
    return True


def has_finished(folder: RunFolder, *, config: TrainConfig) -> bool:
    """Whether a run that is resumed has nothing left to do."""
    summary = folder.told
    wanted = config.steps
    stands = (summary.status, summary.steps, folder.steps_done) if summary else None
    return stands == ("finished", wanted, wanted)


def begin(
    folder: RunFolder,
    *,
    config: TrainConfig,
    tasks_sha256: Mapping[str, Mapping[str, str]],
    prompting: Mapping[str, object] = MappingProxyType({}),
    model_files: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Write what the run was made with, and clear what a kill before step 0 left.

    Args:
        folder: of the run.
        config: of the run.
        tasks_sha256: of each task file, by part.
        prompting: `record` of the policy's codec.
        model_files: digests of the model, where a resumed run reads `model.path` again.
    """
    text = dump_config(config)
    write_text(folder.config, text)
    environment = describe_environment(
        seed=config.seed,
        config_text=text,
        tasks_sha256=tasks_sha256,
        model_files=model_files,
        prompting=prompting,
    )
    write_text(folder.environment, environment)
    with disk_errors(folder.path):
        remove_unfinished(folder.path)


def check_tasks(
    folder: RunFolder,
    *,
    config: TrainConfig,
    tasks_sha256: Mapping[str, Mapping[str, str]],
) -> None:
    """Make sure that a run goes on with the tasks that it was started with.

    Raises:
        ResumeError: a task file holds others, holds them in another order, or says something else
            in them.
    """
    before = _environment(folder, "tasks_sha256")
    files = {"train": config.data.train, "validation": config.data.validation}
    changed = [
        f"data.{name} ({str(files[name])!r}): {what} changed"
        for name, sha256 in tasks_sha256.items()
        if (what := _changed(before.get(name), sha256))
    ]
    if changed:
        raise ResumeError(
            f"{'; '.join(changed)} since the run in {str(folder.path)!r} was started; bring the "
            "old file back, or choose another `out`",
            path=folder.path,
        )


def check_prompting(folder: RunFolder, *, prompting: Mapping[str, object]) -> None:
    """Make sure that a run goes on with the prompts that it was started with.

    Raises:
        ResumeError: its tokenizer, chat template, or what that is given is another.
    """
    # A run of an earlier release says nothing of it.
    before = _environment(folder, "prompting", {})
    changed = [
        change.name
        for change in differences(before, prompting)
        if change.name in before
    ]
    if changed:
        named = ", ".join(name.removesuffix("_sha256") for name in changed)
        raise ResumeError(
            f"{str(folder.path)!r} was started with another {named}: the policy would be "
            "asked in other words; bring the tokenizer's old files back, or choose another "
            "`out`",
            path=folder.path,
        )


def check_model(folder: RunFolder, *, path: Path) -> None:
    """Make sure that a run whose reference is `model.path` goes on with the same model.

    Raises:
        ResumeError: a file of it is missing, unreadable or another.
    """
    before = _environment(folder, "model_files", {})
    try:
        changed = first_changed(path, before)
    except ConfigError as exc:
        raise ResumeError(f"model.path: {exc}", path=path) from exc
    if changed is not None:
        raise ResumeError(
            f"model.path ({str(path)!r}): {changed} is missing, or is another than when the "
            f"run in {str(folder.path)!r} was started, whose reference it is; bring the old "
            "one back, or choose another `out`",
            path=path,
        )


def _changed(before: object, now: Mapping[str, str]) -> str:
    """Name what is not as it was in a file of tasks; empty if all of it is."""
    known = cast("dict[str, object]", before) if isinstance(before, dict) else {}
    changed = [part.name for part in differences(known, now)]
    texts = [part for part in changed if part in {*TEXTS, CONTEXTS}]
    if "ids" in changed and "tasks" not in changed:
        return "the order of the tasks"
    if {*TEXTS} <= {*texts}:
        return "the tasks"
    if changed and not texts:
        return "the hashes of the documents"
    return " and ".join(f"the {part}" for part in texts)


def _check_config(folder: RunFolder, *, config: TrainConfig) -> None:
    values = _read_mapping(folder.config, _yaml)
    with contextlib.suppress(TrainConfigError):
        # Has the defaults of keys that came after the release that wrote the file.
        values = _yaml(dump_config(parse_config(values)))
    before = dict(leaves(values))
    now = dict(leaves(_yaml(dump_config(config))))
    changed = sorted(
        key
        for key, _, _ in differences(before, now)
        if not any(key == name or key.startswith(f"{name}.") for name in _MAY_CHANGE)
    )
    if changed:
        named = ", ".join(changed)
        raise ResumeError(
            f"{str(folder.path)!r} was started with other values of {named}; a resumed run "
            "must be the same run: set them back, or choose another `out`",
            path=folder.path,
        )


def _environment(folder: RunFolder, key: str, default: object = None) -> dict[str, Any]:
    """Read what the run was started with."""
    value = _read_mapping(folder.environment, json.loads).get(key, default)
    if not isinstance(value, dict):
        raise _damaged(folder.environment)
    return cast("dict[str, Any]", value)


def _yaml(text: str) -> dict[str, Any]:
    return cast("dict[str, Any]", yaml_value(text, source="config"))


def _read_mapping(path: Path, parse: Callable[[str], object]) -> dict[str, Any]:
    try:
        content = parse(read_file(path).decode())
    except (OSError, ValueError, RecursionError, ConfigError) as exc:
        raise _damaged(path) from exc
    if not isinstance(content, dict):
        raise _damaged(path)
    return {
        str(key): value for key, value in cast("dict[object, Any]", content).items()
    }


def _damaged(path: Path) -> ResumeError:
    return ResumeError.lost(f"{str(path)!r} is missing or damaged", path=path)
