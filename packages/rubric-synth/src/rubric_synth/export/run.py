"""An environment's folder, written from a dataset: read, made, checked for both sides, written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import cast

from rubric_core import ConfigError, Task, read_tasks
from rubric_core.files import read_file, replacing_folder
from rubric_judge import ClaimConfig
from rubric_judge.config import JudgeSpec, is_program, read_judge_spec
from rubric_judge.models.router_checks import SECRET, named_variable
from rubric_judge.quality.fixtures.making import FIXTURE_TASKS, made_fixtures
from rubric_judge.quality.fixtures.rows import Fixture
from rubric_judge.quality.labels.written import WrittenAnswers
from rubric_judge.ui.yaml_files import read_yaml
from rubric_synth.config import reader_of
from rubric_synth.errors import DatasetFolderError
from rubric_synth.export import harbor, nemo_gym, trainers, verifiers
from rubric_synth.export.environment import (
    JUDGE_FILE,
    Environment,
    File,
    Target,
    checked_name,
)
from rubric_synth.export.package import common_files
from rubric_synth.files import (
    UNCHANGED,
    remove_leftovers,
    require_writable,
    unwritable,
)
from rubric_synth.run.dataset.folder import SPLITS, read_manifest, split_path

TARGETS = {
    target.name: target
    for target in (verifiers.TARGET, nemo_gym.TARGET, harbor.TARGET, *trainers.TARGETS)
}
"""Stacks that an environment can be written for, by the name that `--to` gives them."""

_USUAL_JUDGE = b"type: claims\nretractions: true\n"
"""Judge of an environment for which none is named; the same as `ClaimConfig(retractions=True)`."""

_LONGEST_PATH = 1_000


def chosen_targets(names: Sequence[str]) -> list[Target]:
    """Return the targets of these names, each once, in the order of `TARGETS`.

    Raises:
        ConfigError: One is unknown, or none is named.
    """
    known = ", ".join(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        raise ConfigError(
            f"--to {unknown[0]!r}: no such target; known are {known}", location="to"
        )
    if not names:
        raise ConfigError(f"--to is missing; known are {known}", location="to")
    return [target for name, target in TARGETS.items() if name in names]


def read_environment(
    dataset: Path,
    *,
    name: str,
    judge: Path | None,
    targets: Sequence[Target],
    fixture_tasks: int | None = None,
) -> Environment:
    """Read a dataset as an environment.

    Args:
        dataset: Folder written by `synthesise`.
        name: Name of the distribution.
        judge: YAML file of the judge; that of claims, which needs no model, if None.
        targets: What it is written for.
        fixture_tasks: Most tasks that fixtures are made of; all where the judge is a program and
            20 where it asks a model if None; 0 for none.

    Raises:
        DatasetFolderError: The folder is no finished dataset, or holds no task, one twice, or a
            conversation.
        ConfigError: The name or the judge cannot be used; a trainer has no task; or no task has a
            reference answer, so that no fixtures can be made.
        RubricFileError: A row is not a task.
    """
    read_manifest(dataset)
    judge_files = {JUDGE_FILE: _USUAL_JUDGE}
    spec: JudgeSpec = ClaimConfig(retractions=True)
    if judge is not None:
        spec = read_judge_spec(judge)
        judge_files = judge_files_of(judge)
    splits = {split: list(read_tasks(split_path(dataset, split))) for split in SPLITS}
    tasks = [task for split in splits.values() for task in split]
    if not tasks:
        raise DatasetFolderError(
            f"{str(dataset)!r} holds no task: there is nothing to export", path=dataset
        )
    _check_tasks(dataset, tasks)
    _check_train(targets, splits)
    fixtures: list[Fixture] = []
    if fixture_tasks is None:
        is_quick = is_program(reader_of(spec))
        fixture_tasks = len(tasks) if is_quick else FIXTURE_TASKS
    if fixture_tasks:
        known = WrittenAnswers(dataset).to(tasks)
        fixtures = made_fixtures(tasks, known, limit=fixture_tasks)
    return Environment(
        name=checked_name(name),
        dataset=dataset,
        splits=splits,
        judge_spec=spec,
        judge_files=judge_files,
        fixtures=fixtures,
        targets=targets,
    )


def _check_tasks(dataset: Path, tasks: Sequence[Task]) -> None:
    """Refuse tasks that an environment would ask otherwise, or twice under one id.

    Raises:
        DatasetFolderError: There is one.
    """
    seen: set[str] = set()
    for task in tasks:
        problem = ""
        if task.task_id in seen:
            problem = "is there twice: leave one out"
        elif task.conversation:
            problem = (
                "is a conversation, and the questions of an environment are of one message: leave "
                "it out"
            )
        if problem:
            raise DatasetFolderError(
                f"{str(dataset)!r}: task {task.task_id} {problem} (`rubric-synth check` reads the "
                "whole dataset)",
                path=dataset,
            )
        seen.add(task.task_id)


def _check_train(
    targets: Iterable[Target], splits: Mapping[str, Sequence[Task]]
) -> None:
    """Refuse trainers where there is nothing to train on.

    Raises:
        ConfigError: There is one.
    """
    trainers = [target.name for target in targets if target.is_trainer]
    if trainers and not splits["train"]:
        counts = ", ".join(
            f"{len(tasks)} in {split}" for split, tasks in splits.items()
        )
        raise ConfigError(
            f"--to {' '.join(trainers)}: no task to train on ({counts}); collect more documents, "
            "of which most go to train, or export for other stacks",
            location="to",
        )


def judge_files_of(judge: Path) -> dict[str, bytes]:
    """Return a judge's file, and those that it names beside itself, by their names there.

    Raises:
        ConfigError: It names a folder, or a file elsewhere, by a path that leads nowhere once the
            environment is moved; or a file with a key in it, which would be given away with it.
    """
    files = {JUDGE_FILE: read_file(judge)}
    for named in _texts(read_yaml(judge)):
        if not named or len(named) > _LONGEST_PATH or "\n" in named:
            continue
        path = PurePath(named)
        place = judge.parent / named
        if path.is_absolute() or not place.exists():
            continue
        if place.is_dir() or ".." in path.parts or named == JUDGE_FILE:
            what = "a folder" if place.is_dir() else "a file elsewhere"
            raise ConfigError(
                f"{judge}: names {what} by {named!r}, which leads nowhere from the environment: "
                f"give its whole path, {place.resolve()}",
                location="judge",
            )
        if path.suffix in (".yaml", ".yml") and (
            name := _written_key(read_yaml(place))
        ):
            raise ConfigError(
                f"{place}: {name!r} holds a key, which the environment would give away: write "
                "os.environ/NAME in its place, and set that variable where the judge runs",
                location="judge",
            )
        files[path.as_posix()] = read_file(place)
    return files


def _written_key(value: object) -> str:
    """Return the name of an entry that holds a key itself, not the variable with it; else ""."""
    match value:
        case dict():
            for name, inner in cast("dict[object, object]", value).items():
                is_text = isinstance(inner, str) and named_variable(inner) is None
                if is_text and SECRET.search(str(name)):
                    return str(name)
                if inner_name := _written_key(inner):
                    return inner_name
        case list():
            for inner in cast("list[object]", value):
                if inner_name := _written_key(inner):
                    return inner_name
        case _:
            pass
    return ""


def _texts(value: object) -> Iterator[str]:
    """Yield every text of a YAML document that is not a key."""
    match value:
        case str():
            yield value
        case dict():
            for inner in cast("dict[object, object]", value).values():
                yield from _texts(inner)
        case list():
            for inner in cast("list[object]", value):
                yield from _texts(inner)
        case _:
            pass


def files_of(environment: Environment) -> list[File]:
    """Return all files of an environment: the common ones, then those of each target.

    Raises:
        ConfigError: The judge brings a file whose place is taken, or a trainer has no task.
    """
    _check_train(environment.targets, environment.splits)
    files = list(common_files(environment))
    for target in environment.targets:
        files.extend(target.files(environment))
    seen: set[PurePath] = set()
    for file in files:
        if file.path in seen:
            raise ConfigError(
                f"{file.path}: the judge's file names a file of this name, and the environment "
                "has its own: call the judge's otherwise",
                location="judge",
            )
        seen.add(file.path)
    return files


def write_environment(environment: Environment, out: Path) -> list[File]:
    """Write an environment into a folder that is not there yet.

    Returns:
        The files that were written.

    Raises:
        ConfigError: The folder is there, or as `files_of`.
        OutputError: It cannot be written.
    """
    require_new(out)
    files = files_of(environment)
    path = out
    try:
        with replacing_folder(out) as folder:
            for file in files:
                path = folder / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.content)
    except OSError as error:
        raise unwritable(path, error, UNCHANGED) from error
    return files


def require_new(out: Path) -> None:
    """Refuse a folder that is there, or that could not be made; remove what a killed export left.

    Raises:
        ConfigError: It is there.
        OutputError: It cannot be made.
    """
    if out.exists() or out.is_symlink():
        raise ConfigError(
            f"--out {out}: is there already, and nothing was changed; name a folder that is "
            "not there yet",
            location="out",
        )
    require_writable([out])
    remove_leftovers(out.parent, [out.name])
