"""What only the judge may read, cut into runs of words, and a search for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rubric_core import Criterion, Task

Run = tuple[str, ...]
"""Words that follow each other, in lower case."""

_LONGEST: Final = 8
"""Words of a run, as where a question is compared with its passage."""
_SHORTEST: Final = 5
"""Words of a text that is too short to be cut; fewer may well stand together by chance."""
_WORD: Final = re.compile(r"\w+")
_ESCAPED: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|["\\/bfnrt])')
"""Of JSON, of YAML in quotes and of Python's repr."""
_PRINTED: Final = re.compile(rb"(?:[\t\n\r\x20-\x7e]|[\xc2-\xf4][\x80-\xbf]{1,3}){20,}")
"""Text among other bytes, such as a table of Arrow's: shorter ones hold no run."""


class HiddenTexts:
    """Texts that the policy's side must not hold, by what they are."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kinds: dict[Run, str] = {}
        self._lengths: dict[str, set[int]] = {}

    def __len__(self) -> int:
        """Number of runs."""
        return len(self._kinds)

    def hide(self, texts: Iterable[str], *, kind: str) -> None:
        """Add texts.

        Args:
            texts: any; those of a few words are left out.
            kind: what to call them where one is found.
        """
        for text in texts:
            for run in _runs(text):
                self._kinds.setdefault(run, kind)
                self._lengths.setdefault(run[0], set()).add(len(run))

    def show(self, texts: Iterable[str]) -> None:
        """Allow what stands in texts that the policy is meant to read."""
        for text in texts:
            for run in self._found(_words(text)):
                del self._kinds[run]

    def kinds_in(self, content: bytes) -> list[str]:
        """Name what stands in a file or an argument, in any case, escaped or among other bytes."""
        pieces = _PRINTED.findall(content)
        found = {
            self._kinds[run]
            for piece in pieces
            for run in self._found(_words(_unescaped(piece.decode("utf-8", errors="replace"))))
        }
        return sorted(found)

    def _found(self, words: list[str]) -> set[Run]:
        return {
            run
            for start, word in enumerate(words)
            for length in self._lengths.get(word, ())
            if (run := tuple(words[start : start + length])) in self._kinds
        }


def judges_texts(task: Task) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The texts of a task that the policy never reads, by what they are."""
    yield "a passage", (task.grounding.reveal(),)
    yield "a rubric", tuple(text for one in task.rubric for text in _texts(one))
    yield "a rationale", (task.question_rationale,)
    if task.document_analysis is not None:
        analysis = task.document_analysis
        yield "a document's analysis", (analysis.contribution, *analysis.concepts)


def _texts(criterion: Criterion) -> tuple[str, ...]:
    return (
        criterion.name,
        criterion.description,
        criterion.scoring_guide,
        criterion.verification_method,
        *criterion.required_elements,
        *criterion.expected_keywords,
        *criterion.expected_concepts,
    )


def _runs(text: str) -> Iterator[Run]:
    words = _words(text)
    if len(words) < _SHORTEST:
        return
    length = min(_LONGEST, len(words))
    for start in range(len(words) - length + 1):
        yield tuple(words[start : start + length])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
