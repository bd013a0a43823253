"""Contexts for tasks: the best sections of the collected documents that a split may look up."""

from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from rubric_core import Section, Task, leaked_ngrams
from rubric_core.files import open_file
from rubric_synth.collect import folder
from rubric_synth.config import ContextConfig, SynthConfig
from rubric_synth.errors import CollectedFolderError
from rubric_synth.lookup.bm25 import Bm25
from rubric_synth.lookup.cutting import cut
from rubric_synth.lookup.recall import ContextCounts, counts_of

_LEVELS = {"train": 0, "validation": 1, "test": 2}
"""Level of each split: a task may look up documents of its own split and of those before it."""
_SPARE_SECTIONS = 8
"""Sections that may be passed over before a context has fewer than were asked for."""
_CACHED_DOCUMENTS = 256


def check_sections(collected: Path, context: ContextConfig) -> None:
    """Refuse a collection in which there is nothing to choose from.

    Raises:
        CollectedFolderError: The collection has no more sections than a context takes, or cannot be
            read.
    """
    documents = 0
    sections = 0
    for document in folder.read_collected(collected):
        documents += 1
        sections += len(cut(document, most_words=context.section_words))
        if sections > context.sections:
            return
    raise CollectedFolderError(
        f"{str(collected)!r} has {sections} sections in {documents} documents, and a context takes "
        f"{context.sections} of them: there is nothing to choose from; collect more "
        "documents, or lower the number in context or context.section_words (now "
        f"{context.section_words})",
        path=collected,
    )


class Lookup:
    """The sections of a collection, found by the words of a question.

    The index and a few bytes a section are kept; texts are read again.
    """

    def __init__(
        self,
        collected: Path,
        config: SynthConfig,
        context: ContextConfig,
    ) -> None:
        """Read the collection once.

        Args:
            collected: Folder written by `collect`.
            config: Shares of the splits, and the length of a leak.
            context: Number of sections, and their length.

        Raises:
            CollectedFolderError: The folder cannot be read, or has too few sections.
        """
        import numpy as np  # not with the command line, whose help needs none

        check_sections(collected, context)
        self._config = config
        self._context = context
        self._path = collected / folder.DOCUMENTS_FILE
        self._file: IO[bytes] | None = None
        self._offsets = array("q")
        for _, offset in folder.collected_hashes(collected):
            self._offsets.append(offset)
        self._documents = array("i")
        self._places = array("i")
        self._index = Bm25()
        levels = bytearray()
        for number, document in enumerate(folder.read_collected(collected)):
            level = _LEVELS[self._config.split_of(document.doc_hash)]
            sections = cut(document, most_words=context.section_words)
            for place, section in enumerate(sections):
                self._index.add(f"{section.heading}\n{section.text}")
                self._documents.append(number)
                self._places.append(place)
                levels.append(level)
        self._levels_N = np.frombuffer(bytes(levels), dtype=np.uint8)
        self._sections_of = lru_cache(_CACHED_DOCUMENTS)(self._read)

    def close(self) -> None:
        """Read no more sections."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def add_to(
        self, row: dict[str, Any], *, split: str
    ) -> tuple[dict[str, Any], ContextCounts]:
        """Give a task its context.

        Args:
            row: The task in the paper's JSON.
            split: Split of the task.

        Returns:
            The row with its context, and the counts of the task; the row as it was, and counts of
            no task, where no section shares a word with the question.
        """
        task = Task.from_json(row)
        chosen: list[Section] = []
        passed_over = 0
        for section in self._matches(task.question, split):
            if any(section.text == earlier.text for earlier in chosen):
                continue
            if self._gives_away(task, section):
                passed_over += 1
                continue
            chosen.append(section)
            if len(chosen) == self._context.sections:
                break
        if not chosen:
            return row, ContextCounts(passed_over=passed_over)
        task = task.model_copy(update={"context": tuple(chosen)})
        counts = counts_of(task).model_copy(update={"passed_over": passed_over})
        context = [section.model_dump(mode="json") for section in chosen]
        return {**row, "context": context}, counts

    def _matches(self, question: str, split: str) -> Iterator[Section]:
        """Yield sections that share a word with a question, the best first."""
        among = self._levels_N <= _LEVELS[split]
        most = self._context.sections + _SPARE_SECTIONS
        for number in self._index.best(question, among=among, most=most):
            document = self._documents[number]
            place = self._places[number]
            yield self._sections_of(document)[place]

    def _gives_away(self, task: Task, section: Section) -> bool:
        """Whether a section holds a run of rubric or reference that the passage does not."""
        trial = task.model_copy(update={"context": (section,)})
        leaks = leaked_ngrams(trial, n=self._config.quality.leak_words)
        return any(leak.held_by == "context" for leak in leaks)

    def _read(self, number: int) -> list[Section]:
        if self._file is None:
            self._file = open_file(self._path)
        document = folder.read_document(self._file, self._offsets[number])
        return cut(document, most_words=self._context.section_words)
