"""Sections ranked by BM25: the library `bm25s`, with words, stems and an order of ties of ours."""

from __future__ import annotations

from array import array
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rubric_judge.judges.lexical.words import FUNCTION_WORDS, WORD, stem

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_K1 = 1.5
_B = 0.75


def terms(text: str) -> list[str]:
    """Return the stems of the words of a text, function words left out, in order."""
    return [
        stem(word) for word in WORD.findall(text) if word.lower() not in FUNCTION_WORDS
    ]


class Bm25:
    """An index of sections, which are numbered from 0 in the order in which they were added.

    Scores are of Lucene's variant, with k1 = 1.5 and b = 0.75, in float32. Of equal scores the
    first section comes first: the library's own choice of the best leaves that open.
    """

    def __init__(self) -> None:
        """Begin with no section."""
        self._vocabulary: dict[str, int] = {}
        self._added: list[array[int]] = []
        self._library: Any = None

    def __len__(self) -> int:
        """Return the number of sections."""
        return len(self._added)

    def add(self, text: str) -> None:
        """Add a section.

        Args:
            text: Text whose words find the section.
        """
        vocabulary = self._vocabulary
        ids = array("i")
        for term in terms(text):
            ids.append(vocabulary.setdefault(term, len(vocabulary)))
        self._added.append(ids)

    def best(
        self,
        query: str,
        *,
        among: NDArray[np.bool_],
        most: int,
    ) -> list[int]:
        """Return the sections that share a word with a query, the best first.

        Args:
            query: Text whose words count as often as they occur.
            among: N marks of the sections to choose from.
            most: Largest number of sections to return.
        """
        import numpy as np  # not with the command line, whose help needs none

        if self._library is None:
            self._library = self._indexed()
        vocabulary = self._vocabulary
        ids = [vocabulary[term] for term in terms(query) if term in vocabulary]
        if not ids or not len(self):
            return []
        all_scores_N: NDArray[np.float32] = self._library.get_scores_from_ids(ids)
        scores_N = np.where(among, all_scores_N, np.float32(0))
        is_candidate_N = scores_N > 0
        if most < len(scores_N):
            bound = np.partition(scores_N, -most)[-most]
            is_candidate_N &= scores_N >= bound
        candidates = np.flatnonzero(is_candidate_N)
        order = np.argsort(-scores_N[candidates], kind="stable")
        ranked = candidates[order]
        return [int(number) for number in ranked[:most]]

    def _indexed(self) -> Any:
        bm25s = import_module("bm25s")  # looks for numba and jax: only where it is used
        library: Any = bm25s.BM25(
            k1=_K1,
            b=_B,
            method="lucene",
            backend="numpy",
        )
        vocabulary = self._vocabulary or {"": 0}
        ids: Sequence[Sequence[int]] = self._added
        library.index(
            (ids, vocabulary),
            create_empty_token=False,
            show_progress=False,
        )
        return library
