"""The folder of a dataset: its manifest, one split in two files, and all of it read back."""

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from pydantic import Field, ValidationError

from rubric_core import read_tasks
from rubric_core.configuration import may_be_key
from rubric_core.data.parquet import task_schema
from rubric_core.files import open_file, read_file
from rubric_core.nearest import near
from rubric_synth import files
from rubric_synth.calls import CallTotals
from rubric_synth.collect.folder import DOCUMENTS_FILE
from rubric_synth.config import Frozen, Stage
from rubric_synth.document import Rejection
from rubric_synth.errors import DatasetFolderError
from rubric_synth.lookup.recall import ContextCounts


def versions() -> dict[str, str]:
    """Return the versions of the packages that make a dataset."""
    return {
        name: version(name) for name in ("rubric-core", "rubric-judge", "rubric-synth")
    }


class Origin(Frozen):
    """Documents, prompts, model and judge behind a dataset; no address, no key, no time."""

    collected_sha256: str
    """SHA-256 of the collected documents' file."""
    prompts: dict[str, str]
    """SHA-256 of each prompt file by its name; empty where no model was asked."""
    model: dict[str, Any] | None
    """Identity of the model, as `ChatModel.identity` gives it; None where none was asked."""
    judge: str
    """Name of the judge that checked the tasks."""


class Provenance(Origin):
    """Origin of the outcomes of a run."""

    documents: int = Field(ge=0)
    """Number of collected documents."""
    pending: int = Field(default=0, ge=0)
    """Number of collected documents without an outcome yet."""
    collect: dict[str, Any] | None = None
    """Configuration of the collection, as its own manifest has it; None where that is not known."""
    spent: dict[Stage, CallTotals] | None = None
    """Totals of all calls made for this dataset, for finished documents or not; None to add up
    the calls that the outcomes name."""


_PLACES = frozenset({"address", "api_base", "api_key_env", "litellm_config"})
"""Settings that say where a model runs or which variable holds its key: not for publication."""
_OPTIONS = frozenset({"options", "parameters"})
"""Settings that are passed on as they are: anything may stand there, a key by mistake too."""
_SECRET = re.compile(r"key|secret|password|credential|auth|token$", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])")
_REDACTED = "…"


class Usage(Frozen):
    """Calls, tokens and costs."""

    total: CallTotals = CallTotals()
    """Totals of all calls made for this dataset."""
    by_stage: dict[Stage, CallTotals] = Field(default_factory=dict[Stage, CallTotals])
    """Totals by the stage that asked."""
    unfinished: CallTotals = CallTotals()
    """The part of the total that no finished document used: calls for pending documents, for
    earlier settings or collections, and tokens of calls without an answer."""


class DatasetCounts(Frozen):
    """Counts of the documents and tasks of a dataset, and of what was left out."""

    documents: int = Field(ge=0)
    """Documents collected: accepted, rejected and pending ones."""
    accepted_documents: int = Field(ge=0)
    """Finished documents with at least one task."""
    pending_documents: int = Field(ge=0)
    """Documents that another run goes on with."""
    unanswered_documents: int = Field(default=0, ge=0)
    """Pending documents that were worked on and got no answer from a model or judge: each has a
    line in rejected.jsonl that says so, and tasks where some of its questions were done."""
    tasks: dict[str, int]
    """Tasks by split."""
    rejected: dict[str, int]
    """Documents and drafts left out by reason, one a line of rejected.jsonl."""


class Manifest(DatasetCounts, Origin):
    """Content of `manifest.json`; the same answers give the same bytes."""

    versions: dict[str, str]
    """Versions of the packages that made the dataset."""
    rejected_documents: int = Field(ge=0)
    """Finished documents without a task, each with its reasons in rejected.jsonl."""
    rejected_by_stage: dict[Stage, dict[str, int]]
    """The same as `rejected`, by stage and reason."""
    usage: Usage
    """Calls, tokens and costs over all runs."""
    context: ContextCounts | None = Field(
        default=None, exclude_if=lambda counts: counts is None
    )
    """Counts over the contexts of the tasks; None for a closed-book dataset."""
    config: dict[str, Any]
    """Configuration, without the places of models and keys."""
    sha256: dict[str, str]
    """SHA-256 of each file of the folder but the manifest, by its name."""


def published(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without addresses, paths and what may be a key in a wrong place."""
    return cast("dict[str, Any]", _redacted(settings, name="", is_option=False))


def without_key(name: str) -> str:
    """Return the name of a model or judge; `…` for what may be a key. Dates are numbers."""
    return _REDACTED if may_be_key(_NUMBER.sub("", name)) else name


def _redacted(value: object, *, name: str, is_option: bool) -> object:
    match value:
        case dict():
            fields = cast("dict[str, object]", value)
            redacted: dict[str, object] = {}
            for key, field in fields.items():
                if key in _PLACES:
                    continue
                shown_key = _REDACTED if is_option and may_be_key(key) else key
                redacted[shown_key] = _redacted(
                    field, name=key, is_option=is_option or key in _OPTIONS
                )
            return redacted
        case list():
            items = cast("list[object]", value)
            return [_redacted(item, name=name, is_option=is_option) for item in items]
        case str() if is_option and (may_be_key(value) or _SECRET.search(name)):
            return _REDACTED
        case str() if name == "model":
            return without_key(value)
        case _:
            return value


SPLITS = ("train", "validation", "test")
LINES_FILES = tuple(f"{split}.jsonl" for split in SPLITS)
PARQUET_FILES = tuple(f"{split}.parquet" for split in SPLITS)
REJECTED_FILE = "rejected.jsonl"
MANIFEST_FILE = "manifest.json"
CARD_FILE = "README.md"
DATASET_FILES = (
    *LINES_FILES,
    REJECTED_FILE,
    *PARQUET_FILES,
    CARD_FILE,
    MANIFEST_FILE,
)
STATISTICS_FILES = ("stats.json", "stats.html")
"""Files that `rubric-synth stats` writes; beside a newer dataset they would mislead."""
WORK_FOLDER = "work"
"""Folder that holds what the next run needs to go on."""

_GROUP_ROWS = 1_000
_GROUP_BYTES = 4_000_000


def can_write_parquet() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


class ParquetRows:
    """Rows of JSONL gathered into row groups of a Parquet file with the schema of tasks."""

    def __init__(
        self,
        file: files.HashedFile,
        path: Path,
        *,
        has_context: bool,
    ) -> None:
        """Begin a file.

        Args:
            file: File to write.
            path: Its path, for errors.
            has_context: Whether there is a column for contexts.
        """
        parquet: Any = import_module("pyarrow.parquet")
        self._arrow_errors: type[Exception] = import_module("pyarrow").ArrowException
        self._path = path
        self._has_context = has_context
        schema = task_schema(has_context=has_context)
        self._writer: Any = parquet.ParquetWriter(file, schema)
        self._lines: list[bytes] = []
        self._bytes = 0

    def add(self, line: bytes) -> None:
        """Add one row.

        Raises:
            DatasetFolderError: The row, or one shortly before it, is not a valid task.
        """
        self._lines.append(line)
        self._bytes += len(line)
        if len(self._lines) >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        """Write the last rows and the footer of the file.

        Raises:
            DatasetFolderError: A row is not a valid task.
        """
        if self._lines:
            self._write_group()
        self._writer.close()

    def close(self) -> None:
        """Give an unfinished file up; else its footer would be written when memory is freed."""
        # No room, for example: nobody wants the file any more.
        with contextlib.suppress(OSError):
            self._writer.close()

    def _write_group(self) -> None:
        lines = self._lines
        self._lines = []
        self._bytes = 0
        try:
            table = table_of(lines, has_context=self._has_context)
        except self._arrow_errors:
            raise DatasetFolderError(
                f"a row for {str(self._path)!r} does not have the fields of a task; what made "
                "it has a fault: nothing was written",
                path=self._path,
            ) from None
        self._writer.write_table(table)


def table_of(lines: Sequence[bytes], *, has_context: bool) -> Any:
    """Return lines of JSONL as a table with the schema of tasks.

    pyarrow reads the very bytes of the lines, which takes a seventh of the time that it takes to
    convert Python objects and leaves no way for the two files to differ.

    Raises:
        ArrowException: A line is no JSON, or does not have the fields of a task.
    """
    reader: Any = import_module("pyarrow.json")
    content = b"".join(lines)
    return reader.read_json(
        io.BytesIO(content),
        read_options=reader.ReadOptions(use_threads=False, block_size=len(content) + 1),
        parse_options=reader.ParseOptions(
            explicit_schema=task_schema(has_context=has_context),
            unexpected_field_behavior="error",
        ),
    )


def read_manifest(dataset: Path) -> Manifest:
    """Return the manifest of a dataset folder.

    Raises:
        DatasetFolderError: The folder is missing, is not a valid dataset, or is not finished.
    """
    _check_is_dataset(dataset)
    path = dataset / MANIFEST_FILE
    try:
        return Manifest.model_validate_json(read_file(path))
    except OSError as error:
        raise DatasetFolderError(
            f"{str(path)!r} cannot be read; write the dataset with `rubric-synth run`",
            path=path,
        ) from error
    except ValidationError as error:
        faults = error.error_count()
        raise DatasetFolderError(
            f"{str(path)!r} is no manifest of a dataset ({faults} faults); write the dataset "
            "with `rubric-synth run`",
            path=path,
        ) from None


def split_path(dataset: Path, split: str) -> Path:
    """Return the file of a split.

    Raises:
        DatasetFolderError: The split is unknown, or the folder does not hold it.
    """
    if split not in SPLITS:
        known = ", ".join(SPLITS)
        raise DatasetFolderError(
            f"split {split!r} is unknown; choose one of {known}", path=dataset
        )
    path = dataset / f"{split}.jsonl"
    if not path.is_file():
        _check_is_dataset(dataset)
        raise _missing_file_error(path)
    return path


def read_rejections(path: Path) -> Iterator[tuple[int, Rejection | None]]:
    """Yield (1-based line, its rejection), and None for a line that holds none.

    Raises:
        DatasetFolderError: The file is missing, cannot be read, or is not a regular one.
    """
    if not path.is_file():  # opening a pipe would wait for whoever writes into it
        raise _missing_file_error(path)
    try:
        with open_file(path) as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    yield number, files.parsed_line(Rejection, line)
                except (ValueError, RecursionError):
                    yield number, None
    except OSError as error:
        raise DatasetFolderError(
            f"{str(path)!r} cannot be read: {error.strerror}", path=path
        ) from error


def _missing_file_error(path: Path) -> DatasetFolderError:
    problem = "is no regular file" if path.exists() else "is missing"
    return DatasetFolderError(
        f"{str(path)!r} {problem}; write the dataset with `rubric-synth run`", path=path
    )


def _check_is_dataset(dataset: Path) -> None:
    if (dataset / MANIFEST_FILE).is_file() and not (dataset / DOCUMENTS_FILE).is_file():
        return
    raise DatasetFolderError(_why_no_dataset(dataset), path=dataset)


def _why_no_dataset(folder: Path) -> str:
    """Say what is there instead of a dataset, and what to do."""
    name = repr(str(folder))
    if not folder.exists():
        return (
            f"{name} does not exist; write a dataset with `rubric-synth run`"
            f"{near(folder)}"
        )
    if not folder.is_dir():
        return f"{name} is a file; name the folder that `rubric-synth run` wrote"
    if (folder / DOCUMENTS_FILE).is_file():
        return (
            f"{name} is a folder of collected documents, not a dataset; make one of it "
            f"with `rubric-synth run {folder} --out DATASET`"
        )
    if (folder / WORK_FOLDER).is_dir():
        return (
            f"{name} holds the work of a run that has not ended, and no dataset yet; go "
            f"on with `rubric-synth run COLLECTED --out {folder}`"
        )
    return f"{name} holds no manifest.json; write the dataset with `rubric-synth run`"


def question_lines(dataset: Path, *, split: str = "test") -> Iterator[str]:
    """Yield one line of JSON for each task of a split, with what a policy sees of it.

    A line has `task_id` and `question`, and for an open-book task also `prompt`: the context and
    then the question.

    Args:
        dataset: Folder written by `synthesise`.
        split: "train", "validation" or "test".

    Raises:
        DatasetFolderError: The split is unknown, missing or empty.
        RubricFileError: A row is not a task.
    """
    path = split_path(dataset, split)
    count = 0
    for count, task in enumerate(read_tasks(path), start=1):  # noqa: B007 - whether there was one
        view = task.policy_view()
        row = {"task_id": view.task_id, "question": view.question}
        if view.context is not None:
            row["prompt"] = view.message
        yield files.json_line(row).decode()
    if not count:
        raise DatasetFolderError(
            f"{str(path)!r} holds no task; choose another split or collect more documents",
            path=path,
        )
