"""A dataset folder read back: its manifest, and clear words for a folder that is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import ValidationError

from rubric_core.files import open_file, read_file
from rubric_synth.collect import DOCUMENTS_FILE
from rubric_synth.dataset.manifest import MANIFEST_FILE, SPLITS, WORK_FOLDER, Manifest
from rubric_synth.errors import DatasetFolderError
from rubric_synth.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read_manifest(dataset: Path) -> Manifest:
    """Return the manifest of a dataset folder.

    Raises:
        DatasetFolderError: The folder is missing, is no dataset, or is not finished.
    """
    _check_is_dataset(dataset)
    path = dataset / MANIFEST_FILE
    try:
        return Manifest.model_validate_json(read_file(path))
    except OSError as error:
        message = f"{str(path)!r} cannot be read; write the dataset with `rubric-synth run`"
        raise DatasetFolderError(message, path=path) from error
    except ValidationError as error:
        message = (
            f"{str(path)!r} is no manifest of a dataset ({error.error_count()} faults); "
            "write the dataset with `rubric-synth run`"
        )
        raise DatasetFolderError(message, path=path) from None


def split_path(dataset: Path, split: str) -> Path:
    """Return the file of a split.

    Raises:
        DatasetFolderError: The split is unknown, or the folder does not hold it.
    """
    if split not in SPLITS:
        message = f"split {split!r} is unknown; choose one of {', '.join(SPLITS)}"
        raise DatasetFolderError(message, path=dataset)
    path = dataset / f"{split}.jsonl"
    if not path.is_file():
        _check_is_dataset(dataset)
        raise _not_there(path)
    return path


def read_rejections(path: Path) -> Iterator[tuple[int, Rejection | None]]:
    """Yield (1-based line, its rejection), and None for a line that holds none.

    Raises:
        DatasetFolderError: The file is missing, cannot be read, or is no regular one.
    """
    if not path.is_file():  # to open a pipe is to wait for whoever writes into it
        raise _not_there(path)
    try:
        with open_file(path) as lines:
            for number, line in enumerate(lines, start=1):
                yield number, _rejection(line)
    except OSError as error:
        message = f"{str(path)!r} cannot be read: {error.strerror}"
        raise DatasetFolderError(message, path=path) from error


def _not_there(path: Path) -> DatasetFolderError:
    wrong = "is no regular file" if path.exists() else "is missing"
    message = f"{str(path)!r} {wrong}; write the dataset with `rubric-synth run`"
    return DatasetFolderError(message, path=path)


def _rejection(line: bytes) -> Rejection | None:
    try:
        return Rejection.model_validate_json(line)
    except ValidationError:
        pass
    try:  # a draft may hold a lone surrogate, which pydantic's reader of JSON refuses
        return Rejection.model_validate(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _check_is_dataset(dataset: Path) -> None:
    if (dataset / MANIFEST_FILE).is_file() and not (dataset / DOCUMENTS_FILE).is_file():
        return
    shown = str(dataset)
    if not dataset.exists():
        message = f"{shown!r} does not exist; write a dataset with `rubric-synth run`"
    elif not dataset.is_dir():
        message = f"{shown!r} is a file; name the folder that `rubric-synth run` wrote"
    elif (dataset / DOCUMENTS_FILE).is_file():
        message = (
            f"{shown!r} is a folder of collected documents, not a dataset; "
            f"make one of it with `rubric-synth run {dataset} --out DATASET`"
        )
    elif (dataset / WORK_FOLDER).is_dir():
        message = (
            f"{shown!r} holds the work of a run that has not ended, and no dataset yet; "
            f"go on with `rubric-synth run COLLECTED --out {dataset}`"
        )
    else:
        message = f"{shown!r} holds no {MANIFEST_FILE}; write the dataset with `rubric-synth run`"
    raise DatasetFolderError(message, path=dataset)
