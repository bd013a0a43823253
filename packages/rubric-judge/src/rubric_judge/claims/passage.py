"""What a passage says, and which clauses of an answer say something else."""

import re
from collections.abc import Iterator
from typing import Final

from rubric_core import Grounding
from rubric_judge.claims.reading import Clause, clauses
from rubric_judge.claims.verdicts import Match, contradiction, match, same_value, swapped

_LONGEST: Final = 100_000
_SMALLEST_SCORE: Final = 0.2
_SEVERAL: Final = 2
_NEARLY: Final = 0.9
IDENTIFIER: Final = re.compile(r"`([A-Za-z_][\w.]*)`")


class Statements:
    """The clauses of a passage, and its figures."""

    def __init__(self, passage: Grounding, names: frozenset[str], claims: tuple[str, ...]) -> None:
        """Read a passage and the claims that were made of it.

        Args:
            passage: prose or documentation, in English; empty where there is none.
            names: identifiers whose sentences belong together.
            claims: sentences that are true as well.
        """
        text = passage.reveal()[:_LONGEST]
        found = [*clauses(text, names), *(one for claim in claims for one in clauses(claim, names))]
        self._clauses = [one for one in found if len(one.content) >= _SEVERAL]
        self._figures = [t for one in found for t in one.tokens if t.number is not None]
        self._literals = frozenset(t.root for one in found for t in one.tokens)
        self._subjects = frozenset(one.content[0].root for one in found if one.content)
        self._known = bool(text)

    def against(self, said: Clause) -> str:
        """Say what in a clause is against the passage; "" where nothing is.

        Args:
            said: a clause of an answer.
        """
        return self.read(said)[0]

    def read(self, said: Clause) -> tuple[str, float]:
        """Return what is against the passage, and how well the passage supports the clause.

        Args:
            said: a clause of an answer.
        """
        if not self._known or len(said.content) < _SEVERAL:
            return "", 0.0
        for token in said.tokens:
            if token.literal and token.number is not None and token.number not in {1.0, 2.0}:
                if not any(same_value(token, figure) for figure in self._figures):
                    return f"the source has no “{token.text}”", 0.0
        near = sorted(self._near(said), key=lambda pair: -pair[0])[:_SEVERAL]
        if not near or near[0][0] < _SMALLEST_SCORE:
            return "", 0.0
        why = ""
        for score, one, found in near:
            if score < _NEARLY * near[0][0]:
                break
            why = contradiction(one, said, found) or swapped(one, said, found, self._subjects)
            if not why:
                return "", score
        return why, 0.0

    def _near(self, said: Clause) -> Iterator[tuple[float, Clause, Match]]:
        for one in self._clauses:
            if said.names and one.names and said.names.isdisjoint(one.names):
                continue
            found = match(one, said)
            yield found.reverse * min(1.0, 2 * found.coverage), one, found
