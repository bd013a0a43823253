"""What a passage says, and which clauses of an answer say something else."""

from collections import defaultdict
from typing import Final

from rubric_core import Grounding
from rubric_judge.claims.reading import Clause, Token, clauses
from rubric_judge.claims.verdicts import (
    Match,
    alike,
    contradiction,
    match,
    same_value,
    swapped,
)

_LONGEST: Final = 100_000
_SMALLEST_SCORE: Final = 0.2
_SEVERAL: Final = 2
_NEARLY: Final = 0.9
_KEPT: Final = 4096
"""Words of answers of which it is kept where the passage has them."""


class Statements:
    """The clauses of a passage, and its figures."""

    def __init__(
        self, passage: Grounding, names: frozenset[str], claims: tuple[str, ...]
    ) -> None:
        """Read a passage and the claims that were made of it.

        Args:
            passage: prose or documentation, in English; empty where there is none.
            names: identifiers whose sentences belong together.
            claims: sentences that are true as well.
        """
        text = passage.reveal()[:_LONGEST]
        found = [
            *clauses(text, names),
            *(clause for claim in claims for clause in clauses(claim, names)),
        ]
        self._clauses = [one for one in found if len(one.content) >= _SEVERAL]
        self._figures = [t for one in found for t in one.tokens if t.number is not None]
        self._literals = frozenset(t.root for one in found for t in one.tokens)
        self._subjects = frozenset(one.content[0].root for one in found if one.content)
        self._known = bool(text)
        self._holders = defaultdict[object, dict[Token, list[int]]](dict)
        for place, one in enumerate(self._clauses):
            for token in one.content:
                for key in token.keys:
                    self._holders[key].setdefault(token, []).append(place)
        self._held: dict[Token, frozenset[int]] = {}

    def read(self, said: Clause) -> tuple[str, float]:
        """Return what is against the passage, and how well the passage supports the clause.

        Args:
            said: a clause of an answer.
        """
        if not self._known or len(said.content) < _SEVERAL:
            return "", 0.0
        for token in said.tokens:
            is_figure = token.literal and token.number not in {None, 1.0, 2.0}
            if is_figure and not any(
                same_value(token, figure) for figure in self._figures
            ):
                return f"the source has no “{token.text}”", 0.0
        near = self._near(said)
        if not near or near[0][0] < _SMALLEST_SCORE:
            return "", 0.0
        why = ""
        for score, clause, found in near:
            if score < _NEARLY * near[0][0]:
                break
            why = contradiction(clause, said, found) or swapped(
                clause, said, found, self._subjects
            )
            if not why:
                return "", score
        return why, 0.0

    def _near(self, said: Clause) -> list[tuple[float, Clause, Match]]:
        """Return the clauses of the passage that lie best on one of an answer, the best first."""
        near: list[tuple[float, Clause, Match]] = []
        for most, place in self._bounds(said):
            if len(near) == _SEVERAL and most <= near[-1][0]:
                break
            clause = self._clauses[place]
            if said.names and clause.names and said.names.isdisjoint(clause.names):
                continue
            found = match(clause, said)
            near.append((found.reverse * min(1.0, 2 * found.coverage), clause, found))
            near = sorted(near, key=lambda rated: -rated[0])[:_SEVERAL]
        return near

    def _bounds(self, said: Clause) -> list[tuple[float, int]]:
        """Return what each clause can score at most, by the words that it could share."""
        weights = defaultdict[int, float](float)
        for token in said.content:
            for place in self._holding(token):
                weights[place] += token.weight
        total = said.total or 1.0
        bounds = ((weight / total, place) for place, weight in weights.items())
        return sorted(bounds, key=lambda bound: (-bound[0], bound[1]))

    def _holding(self, token: Token) -> frozenset[int]:
        """Return the clauses that hold a word of the same meaning."""
        if (held := self._held.get(token)) is None:
            near = {
                one: places
                for key in token.keys & self._holders.keys()
                for one, places in self._holders[key].items()
            }
            held = frozenset(
                place
                for one, places in near.items()
                if alike(one, token)
                for place in places
            )
            if len(self._held) >= _KEPT:
                self._held.clear()
            self._held[token] = held
        return held
