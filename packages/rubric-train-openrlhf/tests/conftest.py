"""Canaries: words planted in what the policy must not see, and a search for them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pytest

from rubric_core import Criterion, DocumentAnalysis, Grounding, Rubric, Task

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_CANARY = "zqcanary"
"""Begins every planted word; no other word has it."""
_CHUNK_BYTES = 1 << 24


@dataclass(frozen=True)
class Found:
    """A planted word outside of the judge's side."""

    where: str
    word: str


class Canaries:
    """Plants words in every text of a task that is for the judge alone, and looks for them.

    A search that could not look somewhere says so in `looked_at`: an empty answer counts only for
    what was read.
    """

    def __init__(self) -> None:
        self.looked_at: dict[str, int] = {}
        """Bytes read, by kind of place."""

    def plant(self, task: Task) -> Task:
        """Put a word into passage, criteria, rationale, analysis and reference answer."""
        stem = f"{_CANARY}{task.task_id}"
        criteria = tuple(
            Criterion.model_validate(
                {
                    **dict(criterion),
                    "description": f"{criterion.description} {stem}description",
                    "scoring_guide": f"{criterion.scoring_guide} {stem}guide",
                    "expected_concepts": (*criterion.expected_concepts, f"{stem}concept"),
                    "verification_method": criterion.verification_method
                    or f"Look for {stem}method.",
                }
            )
            for criterion in task.rubric
        )
        return Task(
            question=task.question,
            grounding=Grounding(f"{task.grounding.reveal()} {stem}passage"),
            rubric=Rubric(criteria=criteria),
            question_rationale=f"{stem}rationale",
            document_analysis=DocumentAnalysis(contribution=f"{stem}contribution"),
            doc_hash=task.doc_hash,
            reference_answer=f"{task.reference_answer or 'It does.'} {stem}answer",
        )

    def in_files(self, folder: Path, *, but: Collection[str] = ()) -> list[Found]:
        """Look into every file below a folder.

        Args:
            folder: such as a run folder, or Ray's folder of logs and sockets.
            but: names directly below it that are the judge's.
        """
        files = (
            file
            for file in sorted(folder.rglob("*"))
            if file.is_file() and file.relative_to(folder).parts[0] not in but
        )
        return [found for file in files for found in self._in_file(file, kind="files")]

    def in_processes(self, pids: Iterable[int]) -> list[Found]:
        """Look into the arguments and environments of processes."""
        return [
            found
            for pid in pids
            for name in ("cmdline", "environ")
            for found in self._in_file(Path(f"/proc/{pid}/{name}"), kind=name)
        ]

    def in_object_store(self, pids: Iterable[int]) -> list[Found]:
        """Look into the shared memory that Ray keeps objects in.

        Args:
            pids: of Ray's processes; its files are deleted while they are open.
        """
        stores: dict[int, Path] = {}
        for pid in pids:
            for link in _links(Path(f"/proc/{pid}/fd")):
                if "plasma" in (target := _target(link)) and "socket" not in target:
                    stores.setdefault(link.stat().st_ino, link)
        return [
            found for link in stores.values() for found in self._in_file(link, kind="object store")
        ]

    def in_memory(self, pid: int) -> list[Found]:
        """Look into all memory of a process on the policy's side that this user may read."""
        found: list[Found] = []
        with contextlib.ExitStack() as files:
            try:
                maps = files.enter_context(Path(f"/proc/{pid}/maps").open())
                mem = files.enter_context(Path(f"/proc/{pid}/mem").open("rb"))
            except ProcessLookupError:  # it has ended, and its parent has not asked how
                return found
            for line in maps:
                span, mode = line.split()[:2]
                first, last = (int(end, 16) for end in span.split("-"))
                if not mode.startswith("rw"):
                    continue
                try:
                    mem.seek(first)
                    found += self._in_span(mem, last - first, where=f"/proc/{pid}/mem")
                except (OSError, OverflowError, ValueError):  # not backed by memory
                    continue
        return found

    def _in_span(self, content: BinaryIO, size: int, *, where: str) -> Iterator[Found]:
        rest = b""
        while size > 0 and (chunk := content.read(min(size, _CHUNK_BYTES))):
            size -= len(chunk)
            self._count("memory", len(chunk))
            yield from _words(where, rest + chunk)
            rest = chunk[-len(_CANARY) - 40 :]

    def _in_file(self, file: Path, *, kind: str) -> list[Found]:
        found: list[Found] = []
        try:
            with file.open("rb") as content:
                rest = b""
                while chunk := content.read(_CHUNK_BYTES):
                    self._count(kind, len(chunk))
                    found += _words(str(file), rest + chunk)
                    rest = chunk[-len(_CANARY) - 40 :]
        except OSError:  # a socket, or of a process that has ended
            return found
        return found

    def _count(self, kind: str, size: int) -> None:
        self.looked_at[kind] = self.looked_at.get(kind, 0) + size


def _words(where: str, content: bytes) -> Iterator[Found]:
    start = content.find(_CANARY.encode())
    while start >= 0:
        word = content[start : start + len(_CANARY) + 32]
        yield Found(where, word.split()[0].decode("ascii", errors="replace"))
        start = content.find(_CANARY.encode(), start + 1)


def _links(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


@pytest.fixture(scope="module")
def canaries() -> Canaries:
    """Plants words in tasks and looks for them; `looked_at` says how much was read."""
    return Canaries()
