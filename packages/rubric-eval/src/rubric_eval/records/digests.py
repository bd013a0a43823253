"""Digests of an evaluation's files: written at its end, and held against the files by readers."""

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from rubric_core import RubricError
from rubric_core.files import file_sha256, read_file
from rubric_core.rows import row_error
from rubric_eval.errors import EvalEditedError
from rubric_eval.records.inputs import Derived, EvalFolder, canonical_json, text_sha256
from rubric_eval.records.run import EvalRun, InputFile

ACCEPT: Final = (
    "Restore it from a copy, or run the command that made the evaluation again, which makes scores "
    "and tables anew from its answers; --accept-edited goes on as it is, and says so in what it "
    "writes"
)
"""What to do where an edit can be accepted."""

_MOST: Final = 20
"""Findings that are named one by one."""


@dataclass
class _Finding:
    path: Path
    what: str
    line: int | None
    is_known: bool
    """Whether it says what was edited, and not only that something was."""
    others: int = 0
    """More lines of the same file of which the same is true."""

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        count = f"{self.others} other line{'' if self.others == 1 else 's'}"
        return f"{place}: {self.what}" + (
            f"; the same is true of {count}" if self.others else ""
        )


class Edits:
    """Findings about the files of evaluations, of one kind once for each file."""

    def __init__(self) -> None:
        """Start with none."""
        self._found: dict[tuple[Path, str], _Finding] = {}
        self.notes: list[str] = []
        """What a reader should know that is no edit."""

    def add(
        self,
        path: Path,
        what: str,
        *,
        line: int | Callable[[], int | None] | None = None,
        is_known: bool = True,
    ) -> None:
        """Note that something is true of a file, or of a line of it.

        Args:
            path: the file.
            what: what is wrong, without a value of it.
            line: from 1; where it takes time to find, what finds it.
            is_known: whether it says what was edited, and not only that something was.
        """
        known = self._found.get((path, what))
        if known is not None:
            known.others += 1
        else:
            at = line() if callable(line) else line
            self._found[path, what] = _Finding(path, what, at, is_known)

    @property
    def found(self) -> tuple[str, ...]:
        """All findings, those first that say what was edited."""
        ordered = sorted(self._found.values(), key=lambda one: not one.is_known)
        said = [str(finding) for finding in ordered[:_MOST]]
        if len(ordered) > _MOST:
            said.append(f"{len(ordered) - _MOST} more findings about other files")
        return tuple(said)

    def refuse(self, remedy: str = ACCEPT) -> None:
        """Refuse where there is a finding.

        Raises:
            EvalEditedError: with the first finding.
        """
        if found := self.found:
            first, *others = found
            more = f" (findings besides this: {len(others)})" if others else ""
            raise EvalEditedError(f"{first}{more}. {remedy}", found=found)


@contextmanager
def refusing_edits(*, is_accepted: bool = False) -> Generator[Edits]:
    """Collect findings while evaluations are read, and refuse them at the end of the block.

    What cannot be read because of an edit is refused as that edit.

    Args:
        is_accepted: only collect.

    Raises:
        EvalEditedError: there is a finding, and it is not accepted.
    """
    edits = Edits()
    try:
        yield edits
    except RubricError as error:
        found = edits.found
        if found and not is_accepted:
            message = f"{found[0]}. {ACCEPT}. Accepting it would fail with: {error}"
            raise EvalEditedError(message, found=found) from error
        raise
    if not is_accepted:
        edits.refuse()


ANSWERS: Final = "answers"
_PRIVATE: Final = "judgements"
_Sealed = TypeVar("_Sealed", bound=BaseModel)
_Derived = TypeVar("_Derived", bound=Derived)


def file_digests(folder: EvalFolder) -> tuple[InputFile, ...]:
    """Digest every file that an evaluation's run wrote, but for run.json and its cache, the ledger.

    Raises:
        OSError: a file cannot be read.
    """
    return tuple(
        InputFile(path=name, sha256=file_sha256(path))
        for name, path in sorted(_files(folder).items())
    )


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what run.json says, however it is laid out; its digest left out.

    Args:
        content: run.json as JSON values.
    """
    said = {key: value for key, value in content.items() if key != "digest"}
    return text_sha256(canonical_json(said))


def sealed(content: _Sealed) -> _Sealed:
    """Return a model with its field `digest` set to the digest of all else that it says."""
    return content.model_copy(
        update={"digest": content_digest(content.model_dump(mode="json"))}
    )


def is_as_written(text: bytes) -> bool:
    """Whether the file of a sealed model still has its digest."""
    content = json.loads(text)
    return content.get("digest") == content_digest(content)


def read_derived(path: Path, model: type[_Derived], *, command: str) -> _Derived | None:
    """Read what a command made of an evaluation; None where it has not run.

    An edited file counts as having no inputs.

    Args:
        path: the file.
        model: what it holds.
        command: that writes it, for the error.

    Raises:
        RubricFileError: it holds something else.
    """
    try:
        text = read_file(path)
        found = model.model_validate_json(text)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        remedy = f"run `{command}` again, or remove the file"
        raise row_error(error, remedy, path=path) from None
    return found if is_as_written(text) else found.model_copy(update={"inputs": ()})


def check_manifest(path: Path, run: EvalRun, text: bytes, edits: Edits) -> None:
    """Hold run.json against its digest, and fingerprints against what they are hashes of.

    Args:
        path: of run.json.
        run: what it says.
        text: its bytes.
        edits: where a difference is noted.
    """
    if not is_as_written(text):
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
    """Hold the files of a finished evaluation against their digests.

    Args:
        folder: of the evaluation.
        run: its manifest.
        edits: where differences are noted.
        part: only files in this folder of it that are there, such as "answers".

    Raises:
        OSError: a file cannot be read.
    """
    there = {
        name: path for name, path in _files(folder).items() if name.startswith(part)
    }
    then = {file.path: file.sha256 for file in run.files}
    for name, path in there.items():
        known = then.get(name)
        if known is None:
            edits.add(path, "was not there at the evaluation's end")
        elif _differs(name, path, known, edits):
            what = f"is not as the evaluation's end left it (SHA-256 {known[:12]}…)"
            edits.add(path, what, is_known=False)
    if not part:
        for name in then.keys() - there.keys():
            edits.add(folder.root / name, "is gone since the evaluation's end")


def _differs(name: str, path: Path, known: str, edits: Edits) -> bool:
    try:
        return file_sha256(path) != known
    except (
        PermissionError
    ):  # what judges wrote is for the owner alone, and no number is of it
        if not name.startswith(_PRIVATE):
            raise
        edits.notes.append(
            f"{path} may not be read, and is not held against its digest"
        )
        return False


def _files(folder: EvalFolder) -> dict[str, Path]:
    """Find the files by their paths from the folder, with slashes."""
    named = (folder.questions, folder.calibration, folder.heldout, folder.transfer)
    paths = [path for path in named if path.is_file()]
    for part in (ANSWERS, "items", _PRIVATE, "scores"):
        for kind in ("*.jsonl", "weights.json"):
            paths += (folder.root / part).rglob(kind)
    return {path.relative_to(folder.root).as_posix(): path for path in paths}
