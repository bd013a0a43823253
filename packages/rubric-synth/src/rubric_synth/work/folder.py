"""The folder `work` of a dataset: what was asked and answered, and what came of each document.

calls-00000.jsonl …   every answered call, before its answer was used
shard-00000.jsonl …   the outcome of every finished document
index.sqlite          where both lie, by the document's hash; made again if it is deleted
README.txt            what this is, and the version of its format
lock                  held by the run that is at work
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from rubric_core.files import read_file
from rubric_core.locks import folder_lock
from rubric_synth import config, errors
from rubric_synth.calls import CallRecord
from rubric_synth.document import DocumentOutcome
from rubric_synth.files import parsed_line, write_lines
from rubric_synth.tables import read_text
from rubric_synth.work.index import INDEX_FILE, CollectedLine, Index
from rubric_synth.work.segments import Place, Segments

_ABOUT: Final = read_text("work_folder.txt")
_ABOUT_FILE: Final = "README.txt"
_FORMAT: Final = _ABOUT.partition("\n")[0]


class _CallLine(config.Frozen):
    document: str
    call: CallRecord


class _OutcomeLine(config.Frozen):
    settings: str
    outcome: DocumentOutcome


_AnyLine = TypeVar("_AnyLine", bound=config.Frozen)


class WorkFolder(AbstractContextManager["WorkFolder"]):
    """Keeps calls and outcomes, so that a run can be continued however it ended.

    Each is written before it is used, so a process that is killed loses nothing. A power cut may
    lose the last seconds, for nothing waits for the disk.
    """

    def __init__(self, path: Path) -> None:
        """Open the folder, or make it, and find again what a killed run did not index.

        Raises:
            FolderLockError: Another run is at work in it, or it cannot be written.
            WorkFolderError: It is damaged or of another version.
        """
        self._path = path
        with ExitStack() as lock:
            lock.enter_context(folder_lock(path))
            _check_format(path)
            self.index = Index(path / INDEX_FILE)
            """Where the lines are, what all calls took, and notes."""
            self._calls = Segments(path, "calls", lines_per_file=10_000)
            self._shards = Segments(path, "shard", lines_per_file=1_000)
            self._find_again()
            self._lock = lock.pop_all()

    def __exit__(self, *exception: object) -> None:
        """Close it, whatever happened; what could not be indexed is found again."""
        with suppress(errors.OutputError, errors.WorkFolderError):
            self.index.flush()
        for part in (self.index, self._calls, self._shards, self._lock):
            part.close()

    def add_call(self, document: str, record: CallRecord) -> None:
        """Keep a call.

        Args:
            document: Hash of the document that it was made for.
            record: The call.

        Raises:
            OutputError: It could not be written.
        """
        place = self._calls.append(_encoded({"document": document, "call": record}))
        self.index.add_call(document, record, place)

    def add_outcome(self, outcome: DocumentOutcome, settings: bytes) -> None:
        """Keep what came of a document.

        Args:
            outcome: Tasks and rejections.
            settings: Digest of all that shaped it.

        Raises:
            OutputError: It could not be written.
        """
        place = self._shards.append(
            _encoded({"settings": settings.hex(), "outcome": outcome})
        )
        self.index.add_outcome(outcome, settings, place)

    def calls_of(self, document: str) -> tuple[CallRecord, ...]:
        """Return the answered calls of a document."""
        calls = self._calls
        return tuple(
            _parsed(_CallLine, calls.read(place), calls, place).call
            for place in sorted(self.index.calls_of(document))
        )

    def settled(
        self, wanted: Iterable[CollectedLine]
    ) -> Iterator[tuple[CollectedLine, bool | None]]:
        """Yield each with whether it is done, None where it has no outcome.

        They are looked up in batches: changes made meanwhile are missed.
        """
        return ((line, found and found[1]) for line, found in self._found(wanted))

    def outcomes(self, wanted: Iterable[CollectedLine]) -> Iterator[DocumentOutcome]:
        """Yield the outcomes of those that have one, in order."""
        for _, found in self._found(wanted):
            if found is not None:
                body = self._shards.read(found[0])
                yield _parsed(_OutcomeLine, body, self._shards, found[0]).outcome

    def first_source(self) -> str:
        """Return where the document of the first outcome came from; "" where there is none."""
        for place, body in self._shards.scan({}):
            return _parsed(_OutcomeLine, body, self._shards, place).outcome.source
        return ""

    def _find_again(self) -> None:
        for place, body in self._calls.scan(self.index.extents("calls")):
            line = _parsed(_CallLine, body, self._calls, place)
            self.index.add_call(line.document, line.call, place)
        for place, body in self._shards.scan(self.index.extents("shard")):
            line = _parsed(_OutcomeLine, body, self._shards, place)
            self.index.add_outcome(line.outcome, bytes.fromhex(line.settings), place)
        self.index.flush()

    def _found(
        self, wanted: Iterable[CollectedLine]
    ) -> Iterator[tuple[CollectedLine, tuple[Place, bool] | None]]:
        rest = iter(wanted)
        while some := list(islice(rest, 64)):
            yield from zip(some, self.index.outcomes_of(some), strict=True)


def is_work_folder(path: Path) -> bool:
    """Whether a run made this folder, one of another version too."""
    with suppress(OSError):
        return read_file(path / _ABOUT_FILE).startswith(
            _FORMAT.partition(",")[0].encode()
        )
    return False


def _check_format(path: Path) -> None:
    about = path / _ABOUT_FILE
    try:
        found = read_file(about).decode().partition("\n")[0]
    except FileNotFoundError:
        if any(path.glob("*.jsonl")):
            found = "nothing of its version"
        else:
            write_lines(about, [_ABOUT])
            return
    except (OSError, UnicodeDecodeError) as error:
        found = type(error).__name__
    if found != _FORMAT:
        raise errors.WorkFolderError(
            f"{str(about)!r} should say {_FORMAT!r} and says {found[:80]!r}: use the release "
            f"that wrote it, choose another folder, or delete {str(path)!r} and lose what it "
            "holds",
            path=path,
        )


def _encoded(line: Mapping[str, str | BaseModel]) -> bytes:
    """Return a line as its model would be written, without making one to write it."""
    try:
        return to_json(line, inf_nan_mode="null")
    except (
        PydanticSerializationError
    ):  # a lone surrogate, which a model can write in JSON
        plain = {
            name: part.model_dump() if isinstance(part, BaseModel) else part
            for name, part in line.items()
        }
        return json.dumps(plain).encode()


def _parsed(
    kind: type[_AnyLine], body: bytes, segments: Segments, place: Place
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
