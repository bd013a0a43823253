"""Digests of an evaluation's files: written at its end, and checked by readers."""

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from rubric_core import RubricError
from rubric_core.artifact import verify
from rubric_core.files import file_sha256, read_file, text_sha256
from rubric_core.rows import read_model
from rubric_core.strict_json import canonical_json
from rubric_eval.errors import EvalEditedError
from rubric_eval.records.inputs import (
    PRIVATE,
    Derived,
    EvalFolder,
    evaluation_files,
    path_from,
)
from rubric_eval.records.run import EvalRun, InputFile

ACCEPT = (
    "Restore it from a copy, or run the command that made the evaluation again, which makes scores "
    "and tables anew from its answers; --accept-edited goes on as it is, and says so in what it "
    "writes"
)
"""Remedy for an edit that can be accepted."""

_MOST = 20
"""Most findings that are named one by one."""


@dataclass
class _Finding:
    path: Path
    what: str
    line: int | None
    is_known: bool
    """Whether it says what was edited, and not only that something was."""
    others: int = 0
    """Number of other lines of the same file with the same finding."""

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        message = f"{place}: {self.what}"
        if not self.others:
            return message
        lines = "line" if self.others == 1 else "lines"
        return f"{message}; the same is true of {self.others} other {lines}"


class Edits:
    """Findings about the files of evaluations, each kind once for each file."""

    def __init__(self) -> None:
        """Start without findings."""
        self._findings: dict[tuple[Path, str], _Finding] = {}
        self.notes: list[str] = []
        """Notes for the reader that are about no edit."""

    def add(
        self,
        path: Path,
        what: str,
        *,
        line: int | Callable[[], int | None] | None = None,
        is_known: bool = True,
    ) -> None:
        """Add a finding about a file, or about a line of it.

        Args:
            path: the file.
            what: the problem, without a value of the file.
            line: number of the line, from 1, or a function that finds it where that takes time.
            is_known: whether it says what was edited, and not only that something was.
        """
        finding = self._findings.get((path, what))
        if finding is not None:
            finding.others += 1
            return
        number = line() if callable(line) else line
        self._findings[path, what] = _Finding(path, what, number, is_known)

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages of all findings, those first that say what was edited."""
        findings = self._findings.values()
        ordered = sorted(findings, key=lambda finding: not finding.is_known)
        messages = [str(finding) for finding in ordered[:_MOST]]
        if len(ordered) > _MOST:
            messages.append(f"{len(ordered) - _MOST} more findings about other files")
        return tuple(messages)

    def refuse(self, remedy: str = ACCEPT) -> None:
        """Refuse the evaluations if there is a finding.

        Raises:
            EvalEditedError: with the first finding.
        """
        messages = self.messages
        if not messages:
            return
        first, *others = messages
        if others:
            first += f" (findings besides this: {len(others)})"
        raise EvalEditedError(f"{first}. {remedy}", found=messages)


@contextmanager
def refusing_edits(*, is_accepted: bool = False) -> Generator[Edits]:
    """Collect findings while evaluations are read, and refuse them at the end of the block.

    An error of the block that an edit has caused is raised as that edit.

    Args:
        is_accepted: whether to collect findings only.

    Raises:
        EvalEditedError: there is a finding, and it is not accepted.
    """
    edits = Edits()
    try:
        yield edits
    except RubricError as error:
        messages = edits.messages
        if messages and not is_accepted:
            message = f"{messages[0]}. {ACCEPT}. Accepting it would fail with: {error}"
            raise EvalEditedError(message, found=messages) from error
        raise
    if not is_accepted:
        edits.refuse()


_Sealed = TypeVar("_Sealed", bound=BaseModel)
_Derived = TypeVar("_Derived", bound=Derived)


def file_digests(folder: EvalFolder) -> tuple[InputFile, ...]:
    """Digest every file that an evaluation's run wrote, but for run.json and its cache, the ledger.

    Raises:
        OSError: a file cannot be read.
    """
    return tuple(
        InputFile(path=name, sha256=file_sha256(path))
        for name, path in sorted(folder.files().items())
    )


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the content of run.json in any layout, without its digest.

    Args:
        content: run.json as JSON values.
    """
    rest = {key: value for key, value in content.items() if key != "digest"}
    return text_sha256(canonical_json(rest))


def sealed(content: _Sealed) -> _Sealed:
    """Return a model with its field `digest` set to the digest of the other fields."""
    digest = content_digest(content.model_dump(mode="json"))
    return content.model_copy(update={"digest": digest})


def is_as_written(path: Path) -> bool:
    """Return whether the file of a sealed model still has its digest."""
    content = json.loads(read_file(path))
    return content.get("digest") == content_digest(content)


def read_derived(path: Path, model: type[_Derived], *, command: str) -> _Derived | None:
    """Read a file that a command made of an evaluation; None where it has not run.

    An edited file counts as having no inputs.

    Args:
        path: the file.
        model: the model of its content.
        command: the command that writes it, for the error.

    Raises:
        RubricFileError: it holds something else.
    """
    remedy = f"run `{command}` again, or remove the file"
    try:
        content = read_model(path, model, remedy=remedy)
    except FileNotFoundError:
        return None
    if is_as_written(path):
        return content
    return content.model_copy(update={"inputs": ()})


def changed_inputs(
    inputs: Sequence[InputFile], *, beside: Path, folders: Sequence[EvalFolder]
) -> list[str]:
    """Return the inputs that are new, gone or different since a file was made.

    Args:
        inputs: the inputs as they were.
        beside: the file that was made of them.
        folders: the evaluations whose files should be among them.

    Returns:
        Paths as the inputs name them; none while the file is up to date.
    """
    home = beside.resolve().parent
    digests = {file.path: file.sha256 for file in inputs}
    files = {
        path_from(beside, to=path): path
        for folder in folders
        for path in evaluation_files(folder)
    }
    for name in digests.keys() - files.keys():  # further inputs, such as tasks
        if (home / name).is_file():
            files[name] = home / name
    return sorted(difference.name for difference in verify(files, digests))


def is_made_of(
    inputs: Sequence[InputFile],
    names: Sequence[str],
    *,
    beside: Path,
    folders: Sequence[EvalFolder],
) -> bool:
    """Return whether a file was made of these evaluations, as they are now.

    Args:
        inputs: the inputs that the file names; none where it was edited.
        names: paths of the evaluations' folders, from the file's own.
        beside: the file.
        folders: the evaluations.
    """
    if not inputs:
        return False
    sources = [EvalFolder(beside.resolve().parent / name) for name in names]
    source_roots = {folder.root.resolve() for folder in sources}
    if source_roots != {folder.root.resolve() for folder in folders}:
        return False
    return not changed_inputs(inputs, beside=beside, folders=sources)


@dataclass(frozen=True)
class Stored(Generic[_Derived]):
    """A file that an earlier command made of evaluations."""

    content: _Derived
    is_current: bool
    """Whether it was made of these very files."""


def read_stored(
    paths: Iterable[Path],
    model: type[_Derived],
    *,
    of: Sequence[EvalFolder],
    command: str,
) -> Stored[_Derived] | None:
    """Read what a command made of evaluations, and say whether it is of them as they are now.

    Args:
        paths: files that may hold it; the first that is current is taken, else the first.
        model: the model of its content.
        of: the evaluations.
        command: the command that writes it, for errors.

    Returns:
        The content; None where the command has not run.

    Raises:
        RubricFileError: a file holds something else.
    """
    outdated: Stored[_Derived] | None = None
    for path in paths:
        content = read_derived(path, model, command=command)
        if content is None:
            continue
        if is_made_of(content.inputs, content.sources, beside=path, folders=of):
            return Stored(content, is_current=True)
        outdated = outdated or Stored(content, is_current=False)
    return outdated


def check_manifest(path: Path, run: EvalRun, edits: Edits) -> None:
    """Check run.json against its digest, and its fingerprints against the identities.

    Args:
        path: the path of run.json.
        run: its content.
        edits: gets the differences.
    """
    if not is_as_written(path):
        what = (
            "is not as the evaluation's end left it: its digest is another one, or gone"
        )
        edits.add(path, what, is_known=False)
    for model in run.models:
        if model.fingerprint != text_sha256(canonical_json(model.identity)):
            edits.add(
                path,
                f"the fingerprint of model {model.name!r} is not that of its identity",
            )
    for judge in run.judges:
        identity = judge.identity.get("fingerprint")
        if isinstance(identity, str) and judge.fingerprint != text_sha256(identity):
            edits.add(
                path,
                f"the fingerprint of judge {judge.name!r} is not that of its identity",
            )


def check_files(
    folder: EvalFolder, run: EvalRun, edits: Edits, *, part: str = ""
) -> None:
    """Check the files of a finished evaluation against their digests.

    Args:
        folder: the evaluation's folder.
        run: its manifest.
        edits: gets the differences.
        part: only existing files in this subfolder, such as "answers".

    Raises:
        OSError: a file cannot be read.
    """
    digests = {file.path: file.sha256 for file in run.files}
    for name, before, now in verify(folder.files(part), digests):
        path = folder.root / name
        if before is None:
            edits.add(path, "was not there at the evaluation's end")
        elif isinstance(now, PermissionError):
            # Judges' own words are for the owner alone, and no number is made of them.
            if not name.startswith(PRIVATE):
                raise now
            edits.notes.append(
                f"{path} may not be read, and is not held against its digest"
            )
        elif now is not None:
            what = f"is not as the evaluation's end left it (SHA-256 {digests[name][:12]}…)"
            edits.add(path, what, is_known=False)
        elif not part:
            edits.add(path, "is gone since the evaluation's end")
