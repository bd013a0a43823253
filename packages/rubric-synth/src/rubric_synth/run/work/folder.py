"""The folder `work` of a dataset: the answered calls, and the outcome of each document.

calls-00000.jsonl …   every answered call, before its answer was used
shard-00000.jsonl …   the outcome of every finished document
index.sqlite          places of both, by the document's hash; made again if it is deleted
README.txt            a note on the folder, and the version of its format
lock                  held by the run that is at work
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from rubric_core.errors import shortened
from rubric_core.files import read_file
from rubric_core.locks import folder_lock
from rubric_synth import config, errors
from rubric_synth.calls import CallRecord
from rubric_synth.document import DocumentOutcome
from rubric_synth.files import parsed_line, write_lines
from rubric_synth.run.work.index import INDEX_FILE, CollectedLine, Index
from rubric_synth.run.work.segments import Place, Segments
from rubric_synth.tables import read_text

_ABOUT = read_text("work_folder.txt")
_ABOUT_FILE = "README.txt"
_FORMAT = _ABOUT.partition("\n")[0]


class _CallLine(config.Frozen):
    document: str
    call: CallRecord


class _OutcomeLine(config.Frozen):
    settings: str
    outcome: DocumentOutcome


_AnyLine = TypeVar("_AnyLine", bound=config.Frozen)


class WorkFolder(AbstractContextManager["WorkFolder"]):
    """Calls and outcomes, kept so that a run can be continued however it ended.

    Each is written before it is used, so a process that is killed loses nothing. A power cut may
    lose the last seconds, for nothing waits for the disk.
    """

    def __init__(self, path: Path) -> None:
        """Open the folder, or make it, and index the lines that a killed run did not.

        Raises:
            FolderLockError: Another run is at work in the folder, or it cannot be written.
            WorkFolderError: The folder is damaged or of another version.
        """
        self._path = path
        with ExitStack() as lock:
            lock.enter_context(folder_lock(path))
            _check_format(path)
            self.index = Index(path / INDEX_FILE)
            """Places of the lines, usage of all calls, and notes."""
            self._calls = Segments(path, "calls", lines_per_file=10_000)
            self._shards = Segments(path, "shard", lines_per_file=1_000)
            self._index_new_lines()
            self._lock = lock.pop_all()

    def __exit__(self, *exception: object) -> None:
        """Close the folder, whatever happened; lines not in the index are found again."""
        with suppress(errors.OutputError, errors.WorkFolderError):
            self.index.flush()
        for part in (self.index, self._calls, self._shards, self._lock):
            part.close()

    def add_call(self, document: str, record: CallRecord) -> None:
        """Keep a call.

        Args:
            document: Hash of the document that the call was made for.
            record: The call.

        Raises:
            OutputError: The call could not be written.
        """
        line = _encoded({"document": document, "call": record})
        place = self._calls.append(line)
        self.index.add_call(document, record, place)

    def add_outcome(self, outcome: DocumentOutcome, settings: bytes) -> None:
        """Keep the outcome of a document.

        Args:
            outcome: Tasks and rejections.
            settings: Digest of all that shaped the outcome.

        Raises:
            OutputError: The outcome could not be written.
        """
        line = _encoded({"settings": settings.hex(), "outcome": outcome})
        place = self._shards.append(line)
        self.index.add_outcome(outcome, settings, place)

    def calls_of(self, document: str) -> tuple[CallRecord, ...]:
        """Return the answered calls of a document."""
        records: list[CallRecord] = []
        for place in sorted(self.index.calls_of(document)):
            body = self._calls.read(place)
            line = _parsed(_CallLine, body, self._calls, place)
            records.append(line.call)
        return tuple(records)

    def settled(
        self, wanted: Iterable[CollectedLine]
    ) -> Iterator[tuple[CollectedLine, bool | None]]:
        """Yield each line with whether its outcome is settled, None where it has no outcome.

        Outcomes are looked up in batches: changes made meanwhile are missed.
        """
        for line, entry in self._look_up(wanted):
            if entry is None:
                yield line, None
            else:
                _, is_settled = entry
                yield line, is_settled

    def outcomes(self, wanted: Iterable[CollectedLine]) -> Iterator[DocumentOutcome]:
        """Yield the outcomes of the lines that have one, in order."""
        for _, entry in self._look_up(wanted):
            if entry is not None:
                place, _ = entry
                body = self._shards.read(place)
                line = _parsed(_OutcomeLine, body, self._shards, place)
                yield line.outcome

    def first_source(self) -> str:
        """Return where the document of the first outcome came from; "" where there is none."""
        for place, body in self._shards.scan({}):
            line = _parsed(_OutcomeLine, body, self._shards, place)
            return line.outcome.source
        return ""

    def _index_new_lines(self) -> None:
        """Index the lines that lie beyond what the index knows of each file."""
        for place, body in self._calls.scan(self.index.extents("calls")):
            line = _parsed(_CallLine, body, self._calls, place)
            self.index.add_call(line.document, line.call, place)
        for place, body in self._shards.scan(self.index.extents("shard")):
            line = _parsed(_OutcomeLine, body, self._shards, place)
            settings = bytes.fromhex(line.settings)
            self.index.add_outcome(line.outcome, settings, place)
        self.index.flush()

    def _look_up(
        self, lines: Iterable[CollectedLine]
    ) -> Iterator[tuple[CollectedLine, tuple[Place, bool] | None]]:
        """Yield each line with the place of its outcome and whether that is settled."""
        rest = iter(lines)
        while batch := list(islice(rest, 64)):
            outcomes = self.index.outcomes_of(batch)
            yield from zip(batch, outcomes, strict=True)


def is_work_folder(path: Path) -> bool:
    """Whether a run made this folder, a run of another version included."""
    name = _FORMAT.partition(",")[0]
    with suppress(OSError):
        return read_file(path / _ABOUT_FILE).startswith(name.encode())
    return False


def _check_format(path: Path) -> None:
    about = path / _ABOUT_FILE
    try:
        first_line = read_file(about).decode().partition("\n")[0]
    except FileNotFoundError:
        if not any(path.glob("*.jsonl")):
            write_lines(about, [_ABOUT])
            return
        first_line = "nothing of its version"
    except (OSError, UnicodeDecodeError) as error:
        first_line = type(error).__name__
    if first_line != _FORMAT:
        raise errors.WorkFolderError(
            f"{str(about)!r} should say {_FORMAT!r} and says {shortened(first_line, 80)!r}: use "
            f"the release that wrote it, choose another folder, or delete {str(path)!r} and lose "
            "what it holds",
            path=path,
        )


def _encoded(line: Mapping[str, str | BaseModel]) -> bytes:
    """Return a line as its model would be written, without making that model."""
    try:
        return to_json(line, inf_nan_mode="null")
    except PydanticSerializationError:
        # A lone surrogate, which a language model can write in JSON.
        plain = {
            name: part.model_dump() if isinstance(part, BaseModel) else part
            for name, part in line.items()
        }
        return json.dumps(plain).encode()


def _parsed(
    kind: type[_AnyLine],
    body: bytes,
    segments: Segments,
    place: Place,
) -> _AnyLine:
    try:
        return parsed_line(kind, body)
    except ValueError as error:
        path = segments.path(place.segment)
        folder = path.parent
        raise errors.WorkFolderError(
            f"{str(path)!r} holds a line of another release: use that release, choose another "
            f"folder, or delete {str(folder)!r} and lose what it holds",
            path=path,
        ) from error
