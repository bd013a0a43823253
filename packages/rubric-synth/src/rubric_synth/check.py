"""Every file and task of a dataset folder, against each other, the manifest and its rules."""

from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, cast

from rubric_core import (
    ConfigError,
    RubricFileError,
    Task,
    leaked_ngrams,
    read_tasks,
)
from rubric_core.configuration import validated
from rubric_core.data.parquet import task_schema
from rubric_core.files import file_sha256, open_file
from rubric_synth.collect.duplicates.passages import PassageSet
from rubric_synth.collect.duplicates.question_index import QuestionIndex
from rubric_synth.collect.folder import DOCUMENTS_FILE, collected_hashes
from rubric_synth.config import Frozen, SynthConfig
from rubric_synth.errors import CollectedFolderError, DatasetFolderError
from rubric_synth.run.dataset import folder
from rubric_synth.run.dataset.folder import (
    DATASET_FILES,
    LINES_FILES,
    MANIFEST_FILE,
    REJECTED_FILE,
    SPLITS,
    Manifest,
)

_LONGEST_NAME = 80


_QUALITY = (
    "min_criteria",
    "max_criteria",
    "leak_words",
    "near_duplicate_question_jaccard",
)

_LATER_QUALITY = ("near_duplicate_passage_containment",)
"""Rules that datasets of older releases do not name."""


def rules_of(config: Mapping[str, Any]) -> tuple[SynthConfig | None, list[str]]:
    """Return the rules in the configuration of a manifest, or the faults of these rules.

    The other settings are without the places of models, and are not read.
    """
    section: object = config.get("quality")
    quality: dict[str, object] = {}
    if isinstance(section, dict):
        quality = cast("dict[str, object]", section)
    quality_rules = {name: quality.get(name) for name in _QUALITY}
    for name in _LATER_QUALITY:
        if name in quality:
            quality_rules[name] = quality[name]
    rules = {
        "train_frac": config.get("train_frac"),
        "validation_frac": config.get("validation_frac"),
        "quality": quality_rules,
    }
    source = f"{MANIFEST_FILE}: config"
    try:
        return validated(SynthConfig, rules, source=source), []
    except ConfigError as error:
        return None, str(error).splitlines()


def record_problems(dataset: Path, manifest: Manifest) -> Iterator[str]:
    """Compare the parts of a manifest with each other, and its files with those of the folder."""
    for name in manifest.tasks.keys() - set(SPLITS):
        yield f"{MANIFEST_FILE} counts tasks of {shown_file(name)}, which is no split"
    by_stage = map(Counter[str], manifest.rejected_by_stage.values())
    if dict(sum(by_stage, Counter[str]())) != manifest.rejected:
        yield f"{MANIFEST_FILE}: rejected is not the sum of rejected_by_stage"
    stages = manifest.usage.by_stage.values()
    if sum(totals.calls for totals in stages) > manifest.usage.total.calls:
        yield f"{MANIFEST_FILE}: the stages have more calls than all of them together"
    for name in DATASET_FILES:
        is_expected = name not in folder.PARQUET_FILES or (dataset / name).exists()
        if name != MANIFEST_FILE and is_expected and name not in manifest.sha256:
            yield f"{MANIFEST_FILE} has no hash of {name}"


def shown_file(name: str) -> str:
    """Return a name of a manifest for a message."""
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}…"
    return repr(name)


_SHOWN = 200


class CheckReport(Frozen):
    """The result of a check."""

    tasks: dict[str, int]
    """Tasks read, by split."""
    problems: tuple[str, ...]
    """One line per problem, the first of them; empty for a sound dataset."""
    problem_count: int = 0
    """Number of problems."""


def parquet_problems(parquet: Path, lines: Path) -> Iterator[str]:
    """Compare two files of one split, a row group in memory at a time.

    Yields nothing where one of them is missing, or pyarrow is.
    """
    if not parquet.is_file() or not lines.is_file():
        return
    if not folder.can_write_parquet():
        return
    arrow: Any = import_module("pyarrow")
    files: Any = import_module("pyarrow.parquet")
    try:
        with open_file(parquet) as table, open_file(lines) as rows:
            parquet_file = files.ParquetFile(table)
            schema = parquet_file.schema_arrow
            has_context = "context" in schema.names
            if not schema.equals(task_schema(has_context=has_context)):
                yield f"{parquet.name} does not have the columns of a file of tasks"
                return
            done = 0
            for group in range(parquet_file.num_row_groups):
                table_rows = parquet_file.read_row_group(group, use_threads=False)
                group_lines = list(islice(rows, table_rows.num_rows))
                is_same = len(group_lines) == table_rows.num_rows
                if is_same:
                    line_rows = folder.table_of(group_lines, has_context=has_context)
                    is_same = line_rows.equals(table_rows)
                first = done + 1
                done += table_rows.num_rows
                if not is_same:
                    where = f"between rows {first} and {done}"
                    yield f"{parquet.name} differs from {lines.name} {where}"
                    return
            if any(line.strip() for line in rows):
                yield f"{parquet.name} ends after row {done}, and {lines.name} goes on"
    except (arrow.ArrowException, OSError):
        yield f"{parquet.name} cannot be compared with {lines.name}: one of them is damaged"


_SHORT_HASH = 12
_READ = {*LINES_FILES, REJECTED_FILE}


def check_dataset(dataset: Path, *, collected: Path | None = None) -> CheckReport:
    """Check every file and every task of a dataset folder, one row in memory at a time.

    Args:
        dataset: Folder written by `synthesise`.
        collected: The folder that it was made of; with it, each of its documents is looked for.

    Raises:
        DatasetFolderError: There is no readable manifest, or the folder is one that `collect`
            wrote.
        CollectedFolderError: `collected` cannot be read.
    """
    checked = _Folder(dataset, folder.read_manifest(dataset))
    problems = checked.problems(collected)
    first_problems = list(islice(problems, _SHOWN))
    count = len(first_problems) + sum(1 for _ in problems)
    if count > _SHOWN:
        first_problems.append(f"… and {count - _SHOWN} more")
    return CheckReport(
        tasks=checked.tasks,
        problems=tuple(first_problems),
        problem_count=count,
    )


class _Folder:
    """A dataset folder under check, and what was met in it so far."""

    def __init__(self, dataset: Path, manifest: Manifest) -> None:
        self.tasks: dict[str, int] = dict.fromkeys(SPLITS, 0)
        self._dataset = dataset
        self._manifest = manifest
        self._rules, self._wrong_rules = rules_of(manifest.config)
        self._changed: list[str] = []
        self._unread: set[str] = set()
        self._split_of: dict[str, str] = {}
        self._ids: set[str] = set()
        self._rejected: set[str] = set()
        self._unanswered: set[str] = set()
        jaccard = (
            self._rules.quality.near_duplicate_question_jaccard if self._rules else 1.0
        )
        self._questions = QuestionIndex(jaccard)
        quality = (self._rules or SynthConfig()).quality
        self._passages = PassageSet(quality.near_duplicate_passage_containment)

    def problems(self, collected: Path | None) -> Iterator[str]:
        yield from self._wrong_rules
        yield from record_problems(self._dataset, self._manifest)
        for name, expected in self._manifest.sha256.items():
            yield from self._in_file(name, self._check_hash(name, expected))
        for split in SPLITS:
            yield from self._in_file(f"{split}.jsonl", self._check_split(split))
        for twin, name in self._passages.twins():
            yield f"tasks {twin} and {name} of different splits share a passage, or most of one"
        yield from self._in_file(REJECTED_FILE, self._check_rejected())
        yield from self._check_counts()
        if collected is not None:
            yield from self._check_collected(collected)
        # A file that could not be read has its one problem already.
        for name in self._changed:
            if name not in self._unread:
                yield f"{name} was changed after it was written"

    def _in_file(self, name: str, problems: Iterator[str]) -> Iterator[str]:
        """Yield the problems of a file; once it cannot be read, nothing that follows from that."""
        wrong = ""
        try:
            yield from problems
        except OSError as error:
            wrong = f"{name} cannot be read: {error.strerror}"
        except (RubricFileError, DatasetFolderError) as error:
            wrong = str(error)
        if wrong and name not in self._unread:
            self._unread.add(name)
            changed = (
                "; the file was changed after it was written"
                if name in self._changed
                else ""
            )
            yield wrong + changed

    def _check_hash(self, name: str, expected: str) -> Iterator[str]:
        path = self._dataset / name
        if name not in DATASET_FILES:
            yield f"{MANIFEST_FILE} names {shown_file(name)}, which is no file of it"
        elif name in _READ and not path.is_file():
            return  # told where it is read
        elif file_sha256(_there(path)) != expected:
            self._changed.append(name)

    def _check_split(self, split: str) -> Iterator[str]:
        path = _there(self._dataset / f"{split}.jsonl")
        for task in read_tasks(path):
            self.tasks[split] += 1
            yield from self._task_problems(task, split)
        yield from parquet_problems(path.with_suffix(".parquet"), path)

    def _check_rejected(self) -> Iterator[str]:
        counts: Counter[tuple[str, str]] = Counter()
        for number, rejection in folder.read_rejections(
            _there(self._dataset / REJECTED_FILE)
        ):
            if rejection is None:
                raise DatasetFolderError(
                    f"{REJECTED_FILE}, line {number}, is no rejection"
                )
            counts[rejection.stage, str(rejection.reason)] += 1
            if not rejection.reason.is_settled:
                self._unanswered.add(rejection.doc_hash)
            if rejection.doc_hash not in self._split_of:
                self._rejected.add(rejection.doc_hash)
        manifest_counts = {
            (stage, reason): count
            for stage, reasons in self._manifest.rejected_by_stage.items()
            for reason, count in reasons.items()
        }
        for key in sorted(counts.keys() | manifest_counts.keys()):
            yield from _compared(
                f"rejections ({', '.join(key)})",
                counts[key],
                manifest_counts.get(key, 0),
            )

    def _check_counts(self) -> Iterator[str]:
        """Compare what was read with the manifest, as far as all of it could be read."""
        manifest = self._manifest
        tasks = self.tasks
        unread = self._unread
        if not any(tasks.values()) and unread.isdisjoint(LINES_FILES):
            yield f"there is no task at all; {REJECTED_FILE} gives the reasons"
        elif not tasks["train"] and "train.jsonl" not in unread:
            yield "train has no task; collect more documents"
        for split in SPLITS:
            if f"{split}.jsonl" not in unread:
                listed = manifest.tasks.get(split, 0)
                yield from _compared(f"tasks of {split}", tasks[split], listed)
        if unread & _READ:
            return
        waiting = self._unanswered  # pending, whatever else came of them
        accepted = len(self._split_of.keys() - waiting)
        rejected = len(self._rejected - waiting)
        yield from _compared(
            "documents with a task", accepted, manifest.accepted_documents
        )
        yield from _compared(
            "documents without a task", rejected, manifest.rejected_documents
        )
        yield from _compared(
            "documents without an answer", len(waiting), manifest.unanswered_documents
        )
        ended = accepted + rejected + manifest.pending_documents
        if ended != manifest.documents:
            yield (
                f"{manifest.documents} documents were collected, and {ended} are accepted, "
                "rejected or pending; run again"
            )

    def _check_collected(self, collected: Path) -> Iterator[str]:
        path = collected / DOCUMENTS_FILE
        if path.exists() and not path.is_file():
            raise CollectedFolderError(f"{str(path)!r} is no regular file", path=path)
        pending = 0
        missing = self._split_of.keys() | self._rejected
        for doc_hash, _ in collected_hashes(collected):
            has_outcome = doc_hash in self._split_of or doc_hash in self._rejected
            pending += doc_hash in self._unanswered or not has_outcome
            missing.discard(doc_hash)
        for doc_hash in sorted(missing):
            yield f"document {doc_hash[:_SHORT_HASH]} is not in {str(collected)!r}"
        if not self._unread & _READ:
            yield from _compared(
                "pending documents", pending, self._manifest.pending_documents
            )
        if file_sha256(path) != self._manifest.collected_sha256:
            yield f"{str(path)!r} is not the file that the dataset was made of"

    def _task_problems(self, task: Task, split: str) -> Iterator[str]:
        name = task.task_id
        if self._split_of.setdefault(task.doc_hash, split) != split:
            yield f"document {task.doc_hash[:_SHORT_HASH]} stands in two splits"
        if name in self._ids:
            yield f"task {name} stands there twice"
        elif twin := self._questions.find_or_add(task.question, name):
            yield f"tasks {twin} and {name} ask the same question"
        self._ids.add(name)
        self._passages.add(task.grounding.reveal(), split, name)
        if self._rules is not None:
            yield from _broken_rules(task, name, split, self._rules)


def _there(path: Path) -> Path:
    """Return the path of a file that can be read; opening a pipe would wait for its writer."""
    if not path.is_file():
        problem = "is no regular file" if path.exists() else "is missing"
        raise DatasetFolderError(f"{path.name} {problem}")
    return path


def _compared(name: str, count: int, listed: int) -> Iterator[str]:
    """Yield a problem where a count is not the one that the manifest lists."""
    if count != listed:
        yield f"{name}: {count}, but {MANIFEST_FILE} says {listed}"


def _broken_rules(
    task: Task,
    name: str,
    split: str,
    rules: SynthConfig,
) -> Iterator[str]:
    right = rules.split_of(task.doc_hash)
    if right != split:
        yield f"task {name} belongs to {right}, not {split}"
    criteria = len(task.rubric)
    quality = rules.quality
    fewest = quality.min_criteria
    most = quality.max_criteria
    if not fewest <= criteria <= most:
        yield f"task {name} has {criteria} criteria, not {fewest} to {most}"
    leaks = sum(leaked.count for leaked in leaked_ngrams(task, n=quality.leak_words))
    if leaks:
        yield f"task {name} leaks {leaks} runs of {quality.leak_words} words"


__all__ = ["CheckReport", "check_dataset"]
