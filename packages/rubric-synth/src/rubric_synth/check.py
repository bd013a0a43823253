"""Whether a dataset folder is what it says: it parses, leaks nothing and keeps its splits apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import RubricFileError, leaked_ngrams, read_tasks, split_of
from rubric_synth.collect import DOCUMENTS_FILE
from rubric_synth.config import SynthConfig
from rubric_synth.errors import DatasetFolderError
from rubric_synth.files import file_sha256
from rubric_synth.pipeline import MANIFEST_FILE, REJECTED_FILE, SPLITS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_core import Task


class CheckReport(BaseModel):
    """The result of a check."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: dict[str, int]
    """Tasks read, by split."""
    problems: tuple[str, ...]
    """One line per problem; empty for a sound dataset."""


class _AnyManifest(BaseModel):
    """What the manifests of collected folders and datasets share."""

    sha256: dict[str, str] = {}


class _Manifest(_AnyManifest):
    """What a check reads of a dataset's manifest."""

    config: SynthConfig = SynthConfig()


def check_dataset(dataset: Path) -> CheckReport:
    """Check every file and every task of a dataset folder.

    Raises:
        DatasetFolderError: The folder has no readable manifest, or is one that `collect` wrote.
    """
    manifest = _read_manifest(dataset)
    config = manifest.config
    problems = list(_hash_problems(dataset, manifest))
    counts: dict[str, int] = {}
    split_by_document: dict[str, str] = {}
    seen: set[str] = set()
    for split in SPLITS:
        counts[split] = 0
        try:
            for task in read_tasks(dataset / f"{split}.jsonl"):
                counts[split] += 1
                problems += _task_problems(task, split, config)
                if split_by_document.setdefault(task.doc_hash, split) != split:
                    problems.append(f"document {task.doc_hash[:12]} stands in two splits")
                if task.task_id in seen:
                    problems.append(f"task {task.task_id} stands there twice")
                seen.add(task.task_id)
        except (RubricFileError, OSError) as error:
            problems.append(str(error))
    problems += _count_problems(counts)
    return CheckReport(tasks=counts, problems=tuple(problems))


def _read_manifest(dataset: Path) -> _Manifest:
    path = dataset / MANIFEST_FILE
    try:
        manifest = _AnyManifest.model_validate_json(path.read_bytes())
        if DOCUMENTS_FILE in manifest.sha256:
            message = (
                f"{str(dataset)!r} is a folder of collected documents, not a dataset; "
                f"make one of it with `rubric-synth run {dataset} --out DATASET`"
            )
            raise DatasetFolderError(message, path=dataset)
        return _Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        message = f"{str(path)!r} cannot be read; write the dataset with `rubric-synth run`"
        raise DatasetFolderError(message, path=path) from error
    except ValidationError as error:
        message = (
            f"{str(path)!r} is no manifest of a dataset ({error.error_count()} faults); "
            "write the dataset with `rubric-synth run`"
        )
        raise DatasetFolderError(message, path=path) from None


def _count_problems(counts: dict[str, int]) -> Iterator[str]:
    if not any(counts.values()):
        yield f"there is no task at all; {REJECTED_FILE} gives the reasons"
    elif not counts["train"]:
        yield "train has no task; collect more documents"


def _hash_problems(dataset: Path, manifest: _Manifest) -> Iterator[str]:
    for name, expected in manifest.sha256.items():
        path = dataset / name
        if not path.is_file():
            yield f"{name} is missing"
        elif file_sha256(path) != expected:
            yield f"{name} was changed after it was written"


def _task_problems(task: Task, split: str, config: SynthConfig) -> Iterator[str]:
    right = split_of(task.doc_hash, train=config.train_frac, validation=config.validation_frac)
    if right != split:
        yield f"task {task.task_id} belongs to {right}, not {split}"
    leaks = sum(leaked.count for leaked in leaked_ngrams(task, n=config.quality.leak_words))
    if leaks:
        yield f"task {task.task_id} leaks {leaks} runs of {config.quality.leak_words} words"
