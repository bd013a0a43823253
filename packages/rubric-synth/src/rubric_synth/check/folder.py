"""Every file and every task of a dataset folder, against each other and the manifest."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rubric_core import RubricFileError, leaked_ngrams, read_tasks, split_of
from rubric_synth.check.record import Problems, is_plain, record_problems, rules_of, shown_file
from rubric_synth.check.tables import parquet_problems
from rubric_synth.collect import DOCUMENTS_FILE, collected_hashes
from rubric_synth.dataset import (
    MANIFEST_FILE,
    REJECTED_FILE,
    SPLITS,
    read_manifest,
    read_rejections,
)
from rubric_synth.duplicates import QuestionIndex
from rubric_synth.errors import CollectedFolderError, DatasetFolderError
from rubric_synth.files import file_sha256

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_core import Task
    from rubric_synth.check.record import CheckReport, Rules
    from rubric_synth.dataset import Manifest

_SHORT_HASH: Final = 12
_ROWS: Final = frozenset(f"{split}.jsonl" for split in SPLITS)
_READ: Final = _ROWS | {REJECTED_FILE}


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
    folder = _Folder(dataset, read_manifest(dataset))
    folder.check_manifest()
    folder.check_hashes()
    for split in SPLITS:
        folder.check_split(split)
    folder.check_rejected()
    folder.check_counts()
    if collected is not None:
        folder.check_collected(collected)
    return folder.report()


class _Folder:
    """A dataset folder under check, and what was met in it so far."""

    def __init__(self, dataset: Path, manifest: Manifest) -> None:
        self._dataset = dataset
        self._manifest = manifest
        self._rules, self._wrong_rules = rules_of(manifest.config)
        self._problems = Problems()
        self._changed: list[str] = []
        self._unread: set[str] = set()
        self._tasks: dict[str, int] = dict.fromkeys(SPLITS, 0)
        self._split_of: dict[str, str] = {}
        self._ids: set[str] = set()
        self._rejected: set[str] = set()
        self._unanswered: set[str] = set()
        jaccard = self._rules.quality.near_duplicate_question_jaccard if self._rules else 1.0
        self._questions = QuestionIndex(jaccard)

    def report(self) -> CheckReport:
        # A file that could not be read has its one problem already.
        for name in self._changed:
            if name not in self._unread:
                self._problems.add(f"{name} was changed after it was written")
        return self._problems.report(self._tasks)

    def check_manifest(self) -> None:
        self._problems.extend(self._wrong_rules)
        self._problems.extend(record_problems(self._dataset, self._manifest))

    def check_hashes(self) -> None:
        for name, expected in self._manifest.sha256.items():
            path = self._dataset / name
            if not is_plain(name):
                self._problems.add(
                    f"{MANIFEST_FILE} names {shown_file(name)}, which is no file of it"
                )
            elif not path.is_file():
                if name not in _READ:
                    self._cannot_read(name, _missing(path))
            elif self._hash_differs(path, expected):
                self._changed.append(name)

    def check_split(self, split: str) -> None:
        path = self._dataset / f"{split}.jsonl"
        if not path.is_file():  # to open a pipe is to wait for whoever writes into it
            self._cannot_read(path.name, _missing(path))
            return
        try:
            for task in read_tasks(path):
                self._tasks[split] += 1
                self._problems.extend(self._task_problems(task, split))
        except RubricFileError as error:
            self._cannot_read(path.name, str(error))
            return
        except OSError as error:
            self._cannot_read(path.name, f"{path.name} cannot be read: {error.strerror}")
            return
        self._problems.extend(parquet_problems(path.with_suffix(".parquet"), path))

    def check_rejected(self) -> None:
        path = self._dataset / REJECTED_FILE
        if not path.is_file():
            self._cannot_read(path.name, _missing(path))
            return
        counts: Counter[tuple[str, str]] = Counter()
        try:
            for number, rejection in read_rejections(path):
                if rejection is None:
                    wrong = f"{REJECTED_FILE}, line {number}, is no rejection"
                    self._cannot_read(REJECTED_FILE, wrong)
                    return
                counts[rejection.stage, str(rejection.reason)] += 1
                if not rejection.reason.is_settled:
                    self._unanswered.add(rejection.doc_hash)
                if rejection.doc_hash not in self._split_of:
                    self._rejected.add(rejection.doc_hash)
        except DatasetFolderError as error:
            self._cannot_read(REJECTED_FILE, str(error))
            return
        listed = {
            (stage, reason): count
            for stage, reasons in self._manifest.rejected_by_stage.items()
            for reason, count in reasons.items()
        }
        for stage, reason in sorted(counts.keys() | listed.keys()):
            self._compare(
                f"rejections ({stage}, {reason})",
                counts[stage, reason],
                listed.get((stage, reason), 0),
            )

    def check_counts(self) -> None:
        """Compare what was read with the manifest, as far as all of it could be read."""
        manifest, tasks, unread = self._manifest, self._tasks, self._unread
        if not any(tasks.values()) and not unread & _ROWS:
            self._problems.add(f"there is no task at all; {REJECTED_FILE} gives the reasons")
        elif not tasks["train"] and "train.jsonl" not in unread:
            self._problems.add("train has no task; collect more documents")
        for split in SPLITS:
            if f"{split}.jsonl" not in unread:
                self._compare(f"tasks of {split}", tasks[split], manifest.tasks.get(split, 0))
        if unread & _READ:
            return
        waiting = self._unanswered  # pending, whatever else came of them
        accepted = len(self._split_of.keys() - waiting)
        rejected = len(self._rejected - waiting)
        self._compare("documents with a task", accepted, manifest.accepted_documents)
        self._compare("documents without a task", rejected, manifest.rejected_documents)
        self._compare("documents without an answer", len(waiting), manifest.unanswered_documents)
        ended = accepted + rejected + manifest.pending_documents
        if ended != manifest.documents:
            self._problems.add(
                f"{manifest.documents} documents were collected, and {ended} are accepted, "
                "rejected or pending; run again"
            )

    def check_collected(self, collected: Path) -> None:
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
            self._problems.add(f"document {doc_hash[:_SHORT_HASH]} is not in {str(collected)!r}")
        if not self._unread & _READ:
            self._compare("pending documents", pending, self._manifest.pending_documents)
        if file_sha256(path) != self._manifest.collected_sha256:
            self._problems.add(f"{str(path)!r} is not the file that the dataset was made of")

    def _task_problems(self, task: Task, split: str) -> Iterator[str]:
        name = task.task_id
        if self._split_of.setdefault(task.doc_hash, split) != split:
            yield f"document {task.doc_hash[:_SHORT_HASH]} stands in two splits"
        if name in self._ids:
            yield f"task {name} stands there twice"
        elif twin := self._questions.find_or_add(task.question, name):
            yield f"tasks {twin} and {name} ask the same question"
        self._ids.add(name)
        if self._rules is not None:
            yield from _broken_rules(task, name, split, self._rules)

    def _hash_differs(self, path: Path, expected: str) -> bool:
        try:
            return file_sha256(path) != expected
        except OSError as error:
            self._cannot_read(path.name, f"{path.name} cannot be read: {error.strerror}")
            return False

    def _cannot_read(self, name: str, wrong: str) -> None:
        """Note the one problem of a file; what follows from it is not counted again."""
        if name in self._unread:
            return
        self._unread.add(name)
        changed = "; the file was changed after it was written" if name in self._changed else ""
        self._problems.add(wrong + changed)

    def _compare(self, what: str, found: int, listed: int) -> None:
        if found != listed:
            self._problems.add(f"{what}: {found}, but {MANIFEST_FILE} says {listed}")


def _broken_rules(task: Task, name: str, split: str, rules: Rules) -> Iterator[str]:
    right = split_of(task.doc_hash, train=rules.train_frac, validation=rules.validation_frac)
    if right != split:
        yield f"task {name} belongs to {right}, not {split}"
    criteria, quality = len(task.rubric), rules.quality
    if not quality.min_criteria <= criteria <= quality.max_criteria:
        yield (
            f"task {name} has {criteria} criteria, not {quality.min_criteria} to "
            f"{quality.max_criteria}"
        )
    leaks = sum(leaked.count for leaked in leaked_ngrams(task, n=quality.leak_words))
    if leaks:
        yield f"task {name} leaks {leaks} runs of {quality.leak_words} words"


def _missing(path: Path) -> str:
    return f"{path.name} {'is no regular file' if path.exists() else 'is missing'}"
