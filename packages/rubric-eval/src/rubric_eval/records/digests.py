"""Digests of an evaluation's files: written at its end, and held against the files by readers."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel

from rubric_core.files import open_file
from rubric_eval.records.run import FileDigest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rubric_eval.records.edits import Edits
    from rubric_eval.records.layout import EvalFolder
    from rubric_eval.records.run import EvalRun


ANSWERS: Final = "answers"
_PRIVATE: Final = "judgements"
_PARTS: Final = (ANSWERS, "items", _PRIVATE, "scores")
_KINDS: Final = ("*.jsonl", "weights.json")
_CHUNK_BYTES: Final = 2**20
_Sealed = TypeVar("_Sealed", bound=BaseModel)


def file_digests(folder: EvalFolder) -> tuple[FileDigest, ...]:
    """Digest every file that an evaluation's run wrote, but for run.json and its cache, the ledger.

    Raises:
        OSError: a file cannot be read.
    """
    return tuple(_digest(name, path) for name, path in sorted(_files(folder).items()))


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what run.json says, however it is laid out; its digest left out.

    Args:
        content: run.json as JSON values.
    """
    said = {key: value for key, value in content.items() if key != "digest"}
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return _sha256(canonical)


def sealed(content: _Sealed) -> _Sealed:
    """Return a model with its field `digest` set to the digest of all else that it says."""
    return content.model_copy(update={"digest": content_digest(content.model_dump(mode="json"))})


def is_as_written(text: bytes) -> bool:
    """Whether the file of a sealed model still has its digest; one that has none counts as such."""
    content = json.loads(text)
    return content.get("digest") in {None, content_digest(content)}


def check_content(path: Path, run: EvalRun, text: bytes, edits: Edits) -> None:
    """Hold run.json against its own digest.

    Args:
        path: of run.json.
        run: what it says.
        text: its bytes.
        edits: where a difference is noted.
    """
    if run.digest is None:
        if run.files:
            edits.add(path, "its field 'digest' is gone")
        else:
            edits.notes.append(
                f"{path.parent} has no digests: written by an older version, so that not every "
                "edit of its files can be noticed"
            )
    elif not is_as_written(text):
        what = "is not as the evaluation's end left it: its digest is another one"
        edits.add(path, what, is_known=False)


def check_identities(path: Path, run: EvalRun, edits: Edits) -> None:
    """Hold the fingerprints of models and judges against what they are hashes of.

    Args:
        path: of run.json.
        run: what it says.
        edits: where a difference is noted.
    """
    for model in run.models:
        canonical = json.dumps(model.identity, sort_keys=True, separators=(",", ":"))
        if model.fingerprint != _sha256(canonical):
            edits.add(path, f"the fingerprint of model {model.name!r} is not that of its identity")
    for judge in run.judges:
        identity = judge.identity.get("fingerprint")
        if isinstance(identity, str) and judge.fingerprint != _sha256(identity):
            edits.add(path, f"the fingerprint of judge {judge.name!r} is not that of its identity")


def check_files(folder: EvalFolder, run: EvalRun, edits: Edits, *, part: str = "") -> None:
    """Hold the files of a finished evaluation against their digests.

    Args:
        folder: of the evaluation.
        run: its manifest; one without digests is not checked.
        edits: where differences are noted.
        part: only files in this folder of it that are there, such as "answers".

    Raises:
        OSError: a file cannot be read.
    """
    if run.digest is None:
        return
    there = {name: path for name, path in _files(folder).items() if name.startswith(part)}
    then = {one.path: one for one in run.files}
    for name, path in there.items():
        known = then.get(name)
        if known is None:
            edits.add(path, "was not there at the evaluation's end")
        elif _differs(name, path, known, edits):
            what = f"is not as the evaluation's end left it ({_shown(known)})"
            edits.add(path, what, is_known=False)
    if not part:
        for name in then.keys() - there.keys():
            edits.add(folder.root / name, "is gone since the evaluation's end")


def _differs(name: str, path: Path, known: FileDigest, edits: Edits) -> bool:
    try:
        return path.stat().st_size != known.size or _digest(name, path) != known
    except PermissionError:  # what judges wrote is for the owner alone, and no number is of it
        if not name.startswith(_PRIVATE):
            raise
        edits.notes.append(f"{path} may not be read, and is not held against its digest")
        return False


def _files(folder: EvalFolder) -> dict[str, Path]:
    """Find the files by their paths from the folder, with slashes."""
    found = [path for path in (folder.questions, folder.heldout, folder.transfer) if path.is_file()]
    for part in _PARTS:
        for kind in _KINDS:
            found += (folder.root / part).rglob(kind)
    return {path.relative_to(folder.root).as_posix(): path for path in found}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(name: str, path: Path) -> FileDigest:
    sha256 = hashlib.sha256()
    size = rows = 0
    with open_file(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            sha256.update(chunk)
            size += len(chunk)
            rows += chunk.count(b"\n")
    return FileDigest(path=name, sha256=sha256.hexdigest(), size=size, rows=rows)


def _shown(digest: FileDigest) -> str:
    return f"{digest.rows} lines, {digest.size} bytes, SHA-256 {digest.sha256[:12]}…"
