"""Statements of a passage, and the clauses of an answer that say something else."""

from collections import defaultdict
from dataclasses import replace
from functools import cached_property

from rubric_core import Grounding
from rubric_judge.judges.claims.reading import Clause, Token, clauses
from rubric_judge.judges.claims.verdicts import (
    Match,
    alike,
    contradiction,
    match,
    same_value,
    swapped,
)

_LONGEST = 100_000
_SMALLEST_SCORE = 0.2
_SEVERAL = 2
_NEARLY = 0.9
_LITTLE = 0.5
"""Share of a match with what holds for another name that one of the own names may have."""
_KEPT = 4096
"""Number of words of answers whose places in the passage are cached."""


class Statements:
    """The clauses of a passage, and its figures."""

    def __init__(
        self, passage: Grounding, names: frozenset[str], claims: tuple[str, ...]
    ) -> None:
        """Read a passage and the claims about it.

        Args:
            passage: prose or documentation, in English; empty where there is none.
            names: identifiers whose sentences belong together.
            claims: sentences that are true as well.
        """
        text = passage.reveal()[:_LONGEST]
        statements = clauses(text, names)
        for claim in claims:
            statements += clauses(claim, names)
        all_tokens = [token for clause in statements for token in clause.tokens]
        self._clauses = [
            clause for clause in statements if len(clause.content) >= _SEVERAL
        ]
        self._figures = [token for token in all_tokens if token.number is not None]
        self._literals = frozenset(token.root for token in all_tokens)
        self._subjects = frozenset(
            clause.content[0].root for clause in statements if clause.content
        )
        self._known = bool(text)
        self._holders = defaultdict[object, dict[Token, list[int]]](dict)
        for place, clause in enumerate(self._clauses):
            for token in clause.content:
                for key in token.keys:
                    self._holders[key].setdefault(token, []).append(place)
        self._held: dict[Token, frozenset[int]] = {}

    def read(self, said: Clause) -> tuple[str, float]:
        """Check a clause against the passage.

        Args:
            said: a clause of an answer.

        Returns:
            The contradiction, "" where there is none, and how well the passage supports the clause.
        """
        if not self._known or len(said.content) < _SEVERAL:
            return "", 0.0
        for token in said.tokens:
            is_figure = token.literal and token.number not in {None, 1.0, 2.0}
            if is_figure and not any(
                same_value(token, figure) for figure in self._figures
            ):
                return f"the source has no “{token.text}”", 0.0
        another = self._of_another(said)
        if another:
            return another, 0.0
        near = self._near(said)
        if not near or near[0][0] < _SMALLEST_SCORE:
            return "", 0.0
        why = ""
        for score, clause, overlap in near:
            if score < _NEARLY * near[0][0]:
                break
            why = contradiction(clause, said, overlap) or swapped(
                clause, said, overlap, self._subjects
            )
            if not why:
                return "", score
        return why, 0.0

    def _near(self, answer_clause: Clause) -> list[tuple[float, Clause, Match]]:
        """Return the clauses of the passage that match an answer's clause best, the best first."""
        near: list[tuple[float, Clause, Match]] = []
        for most, place in self._bounds(answer_clause):
            if len(near) == _SEVERAL and most <= near[-1][0]:
                break
            clause = self._clauses[place]
            if (
                answer_clause.names
                and clause.names
                and answer_clause.names.isdisjoint(clause.names)
            ):
                continue
            overlap = match(clause, answer_clause)
            score = overlap.reverse * min(1.0, 2 * overlap.coverage)
            near.append((score, clause, overlap))
            near = sorted(near, key=lambda candidate: -candidate[0])[:_SEVERAL]
        return near

    @cached_property
    def _bare(self) -> list[Clause]:
        """The clauses without the names that they speak of."""
        return [_without_names(clause) for clause in self._clauses]

    def _of_another(self, said: Clause) -> str:
        """Say of which other name the source says what a clause says of its own; "" of none.

        "`x` is the weight of an edge" is so of `y`, and nothing near it is said of `x`.
        """
        name = _first_name(said)
        if not name:
            return ""
        bare = _without_names(said)
        if len(bare.roots) <= _SEVERAL:
            return ""
        own = 0.0
        most = 0.0
        other = ""
        for bound, place in self._bounds(bare):
            if bound < _NEARLY * _NEARLY:
                break
            clause = self._clauses[place]
            clause_name = _first_name(clause)
            overlap = match(self._bare[place], bare)
            score = min(overlap.reverse, overlap.coverage)
            if not clause_name or not said.names.isdisjoint(clause.names):
                own = max(own, score)
            elif score > most:
                most = score
                other = clause_name
        if most < _NEARLY or own > _LITTLE * most:
            return ""
        return f"says of “{name}” what holds for “{other}”"

    def _bounds(self, answer_clause: Clause) -> list[tuple[float, int]]:
        """Return upper bounds of the clauses' scores, by the words that they could share."""
        weights = defaultdict[int, float](float)
        for token in answer_clause.content:
            for place in self._holding(token):
                weights[place] += token.weight
        total = answer_clause.total or 1.0
        bounds = ((weight / total, place) for place, weight in weights.items())
        return sorted(bounds, key=lambda bound: (-bound[0], bound[1]))

    def _holding(self, token: Token) -> frozenset[int]:
        """Return the positions of the clauses that hold a word of the same meaning."""
        holders = self._held.get(token)
        if holders is not None:
            return holders
        near: dict[Token, list[int]] = {}
        for key in token.keys & self._holders.keys():
            near |= self._holders[key]
        positions = set[int]()
        for candidate, places in near.items():
            if alike(candidate, token):
                positions.update(places)
        holders = frozenset(positions)
        if len(self._held) >= _KEPT:
            self._held.clear()
        self._held[token] = holders
        return holders


def _first_name(clause: Clause) -> str:
    """Return the first name that stands in a clause itself; "" where none does."""
    names = (token.text for token in clause.tokens if token.text in clause.names)
    return next(names, "")


def _without_names(clause: Clause) -> Clause:
    tokens = tuple(token for token in clause.tokens if token.text not in clause.names)
    return replace(clause, tokens=tokens)
