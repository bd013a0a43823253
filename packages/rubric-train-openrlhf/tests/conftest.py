"""Canaries: words planted in what the policy must not see, and a search for them."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pytest

from rubric_core import Criterion, DocumentAnalysis, Grounding, Rubric, Task
from rubric_judge import LexicalJudge
from rubric_judge.quality.calibration.record import (
    Calibration,
    CriterionCalibration,
    RewardCalibration,
    Verdict,
)
from rubric_judge.statistics.estimate import UNKNOWN, Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from rubric_core import Pool

_CANARY = "zqcanary"
"""Begins every planted word; no other word has it."""
_CHUNK_BYTES = 1 << 24
_PAGE_ENTRY = 8
"""Bytes of a page in a process's pagemap of Linux: bit 63 is "in memory", bit 62 "swapped out"."""
_JUDGES_OWN = ("judgements", "ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm")
"""In a run folder."""


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

    def plant(self, task: Task, *, passage_chars: int = 0) -> Task:
        """Put words into passage, criteria, rationale, analysis and reference answer.

        Args:
            task: to plant them in.
            passage_chars: make the passage as long as this at least.
        """
        stem = f"{_CANARY}{task.task_id}"
        return Task(
            question=task.question,
            grounding=Grounding(_passage(task.grounding.reveal(), stem, passage_chars)),
            rubric=Rubric(criteria=tuple(_criterion(one, stem) for one in task.rubric)),
            question_rationale=f"{stem}rationale",
            document_analysis=DocumentAnalysis(contribution=f"{stem}contribution"),
            doc_hash=task.doc_hash,
            reference_answer=f"{task.reference_answer or 'It does.'} {stem}answer",
        )

    def in_reach(self, run: Path, ray: Path) -> list[Found]:
        """Look where any process of a run's policy could read.

        Args:
            run: folder of the run, whose judgements and ledger are the judge's own.
            ray: Ray's folder of logs and sockets.
        """
        return [
            *self.in_files(run, but=_JUDGES_OWN),
            *self.in_files(ray),
            *self.in_processes(),
            *self.in_object_store(),
        ]

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

    def in_processes(self) -> list[Found]:
        """Look into the arguments and environments of all processes below this one."""
        return [
            found
            for pid in _descendants()
            for name in ("cmdline", "environ")
            for found in self._in_file(Path(f"/proc/{pid}/{name}"), kind=name)
        ]

    def in_object_store(self) -> list[Found]:
        """Look into the shared memory that Ray's processes below this one keep objects in."""
        stores: dict[int, Path] = {}
        for pid in _descendants():  # its files are deleted while they are open
            for link in _links(Path(f"/proc/{pid}/fd")):
                if "plasma" in (target := _target(link)) and "socket" not in target:
                    stores.setdefault(link.stat().st_ino, link)
        return [
            found
            for link in stores.values()
            for found in self._in_file(link, kind="object store")
        ]

    def in_memory(self, pid: int) -> list[Found]:
        """Look into all memory of a process on the policy's side that this user may read.

        Ray's object store, which it shares with all others, is left to `in_object_store`.
        """
        found: list[Found] = []
        with contextlib.ExitStack() as files:
            try:
                maps = files.enter_context(Path(f"/proc/{pid}/maps").open())
                mem = files.enter_context(Path(f"/proc/{pid}/mem").open("rb"))
                pages = files.enter_context(Path(f"/proc/{pid}/pagemap").open("rb"))
            except ProcessLookupError:  # it has ended, and its parent has not asked how
                return found
            for line in maps:
                span, mode = line.split()[:2]
                first, last = (int(end, 16) for end in span.split("-"))
                if not mode.startswith("rw") or "plasma" in line:  # of the object store
                    continue
                try:
                    for begin, size in _written(pages, first, last):
                        mem.seek(begin)
                        found += self._in_span(
                            mem, size, where=f"/proc/{pid}/mem", kind="memory"
                        )
                except (OSError, OverflowError, ValueError):  # not backed by memory
                    continue
        return found

    def _in_file(self, file: Path, *, kind: str) -> list[Found]:
        try:
            with file.open("rb") as content:
                if kind != "object store":
                    return list(
                        self._in_span(content, sys.maxsize, where=str(file), kind=kind)
                    )
                found: list[Found] = []
                for begin, size in _extents(content, file.stat().st_size):
                    content.seek(begin)
                    found += self._in_span(content, size, where=str(file), kind=kind)
                return found
        except OSError:  # a socket, or of a process that has ended
            return []

    def _in_span(
        self, content: BinaryIO, size: int, *, where: str, kind: str
    ) -> Iterator[Found]:
        rest = b""
        while size > 0 and (chunk := content.read(min(size, _CHUNK_BYTES))):
            size -= len(chunk)
            self._count(kind, len(chunk))
            yield from _words(where, rest + chunk)
            rest = chunk[-len(_CANARY) - 40 :]

    def _count(self, kind: str, size: int) -> None:
        self.looked_at[kind] = self.looked_at.get(kind, 0) + size


def _passage(text: str, stem: str, chars: int) -> str:
    padding = (
        "The passage goes on. " * (chars // 2 // 21 + 1) if chars > len(text) else ""
    )
    return f"{stem}start {text} {padding}{stem}middle {padding}{stem}end"


def _criterion(criterion: Criterion, stem: str) -> Criterion:
    return Criterion.model_validate(
        {
            **dict(criterion),
            "name": f"{criterion.name} {stem}name",
            "description": f"{criterion.description} {stem}description",
            "required_elements": (*criterion.required_elements, f"{stem}element"),
            "scoring_guide": f"{criterion.scoring_guide} {stem}guide",
            "expected_keywords": (*criterion.expected_keywords, f"{stem}keyword"),
            "expected_concepts": (*criterion.expected_concepts, f"{stem}concept"),
            "verification_method": criterion.verification_method
            or f"Look for {stem}method.",
        }
    )


def _descendants() -> list[int]:
    """Processes below this one, which Ray's are, by their parents."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(after_name[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {os.getpid()})


def _extents(content: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """Begin and length of what was ever written to a file: an object store is mostly a hole."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(content.fileno(), end, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        end = os.lseek(content.fileno(), begin, os.SEEK_HOLE)
        yield begin, end - begin


def _written(pages: BinaryIO, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Begin and length of what is in memory or swapped out of a span: most of many is neither."""
    size = os.sysconf("SC_PAGE_SIZE")
    pages.seek(first // size * _PAGE_ENTRY)
    entries = np.frombuffer(
        pages.read((last - first) // size * _PAGE_ENTRY), dtype=np.uint64
    )
    is_there = (entries >> np.uint64(62)) != 0
    edges = np.flatnonzero(np.diff(is_there, prepend=False, append=False))
    for begin, end in edges.reshape(-1, 2).tolist():
        yield first + begin * size, (end - begin) * size


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


_WANDB_BLOCK = 32768
_WANDB_HEADER = struct.Struct("<IHB")
"""Checksum, length and kind of a fragment; the format is LevelDB's log."""
_WHOLE = {1, 4}
"""Kinds that end a record."""


def _wandb_records(file: Path) -> Iterator[Any]:
    """Yield the records of a file that Weights & Biases wrote offline, as its sync reads them."""
    from wandb.proto.wandb_internal_pb2 import Record

    content = file.read_bytes()
    assert content[:4] == b":W&B"
    place = 7
    parts = b""
    while place + _WANDB_HEADER.size <= len(content):
        left = _WANDB_BLOCK - place % _WANDB_BLOCK
        if left < _WANDB_HEADER.size:
            place += left
            continue
        _, length, kind = _WANDB_HEADER.unpack_from(content, place)
        place += _WANDB_HEADER.size
        parts += content[place : place + length]
        place += length
        if kind in _WHOLE:
            yield Record.FromString(parts)
            parts = b""


@dataclass
class WandbFiles:
    """What a run has put into the files of Weights & Biases, over all its starts."""

    ids: set[str]
    history: list[dict[str, Any]]
    """Rows in the order in which `wandb sync` would send them."""
    config: dict[str, Any]
    exits: list[int]

    @classmethod
    def read(cls, trackers: Path) -> WandbFiles:
        """Read what is below the folder `trackers` of a run folder."""
        files = cls(set(), [], {}, [])
        for file in sorted(trackers.glob("wandb/offline-run-*/*.wandb")):
            for record in _wandb_records(file):
                match record.WhichOneof("record_type"):
                    case "run":
                        files.ids.add(record.run.run_id)
                        for item in record.run.config.update:
                            files.config[item.key] = json.loads(item.value_json)
                    case "history":
                        items = record.history.item
                        files.history.append(
                            {
                                "/".join(item.nested_key) or item.key: json.loads(
                                    item.value_json
                                )
                                for item in items
                            }
                        )
                    case "exit":
                        files.exits.append(record.exit.exit_code)
                    case _:
                        pass
        return files

    def figures(self) -> dict[str, list[tuple[int, float]]]:
        """Steps and values of each tag."""
        found: dict[str, list[tuple[int, float]]] = {}
        for row in self.history:
            for tag, value in row.items():
                is_figure = "/" in tag and not tag.startswith("answers/")
                if is_figure and isinstance(value, int | float):
                    found.setdefault(tag, []).append((row["step"], value))
        return found


@pytest.fixture(scope="session")
def read_wandb() -> Callable[[Path], WandbFiles]:
    """Read what a run has put into the files of Weights & Biases."""
    return WandbFiles.read


@pytest.fixture(scope="module")
def canaries() -> Canaries:
    """Plants words in tasks and looks for them; `looked_at` says how much was read."""
    return Canaries()


@pytest.fixture
def write_calibration(tmp_path: Path) -> Callable[..., Path]:
    """Write calibration.json of the lexical judge with these factors, and what is given changed."""
    figures = dict.fromkeys(RewardCalibration.model_fields.keys() - {"pairs"}, UNKNOWN)

    def write(
        factors: dict[str, float],
        rates: tuple[float | None, float | None] = (0.9, 0.2),
        pools: Mapping[str, Pool] = MappingProxyType({}),
        **changed: Any,
    ) -> Path:
        criteria = tuple(
            CriterionCalibration(
                criterion=name,
                pool=pools.get(name),
                labels=40,
                positives=20,
                share=0.5,
                tpr=Estimate(value=rates[0]),
                fpr=Estimate(value=rates[1]),
                **dict.fromkeys(("youden_j", "bias", "agreement", "noise"), UNKNOWN),
                verdict={0.0: Verdict.MASK, 1.0: Verdict.ADMIT}.get(
                    factor, Verdict.WEIGH_DOWN
                ),
                reason="planted",
                factor=factor,
            )
            for name, factor in factors.items()
        )
        given: dict[str, Any] = {
            "version": 1,
            "judge": "lexical",
            "judge_fingerprint": LexicalJudge().fingerprint,
            "rubrics": {},
            "raters": ("ann",),
            "criteria": criteria,
            "reward": RewardCalibration(pairs=(), **figures),
        }
        path = tmp_path / "calibration.json"
        path.write_text(
            Calibration(**(given | changed)).model_dump_json(), encoding="utf-8"
        )
        return path

    return write
