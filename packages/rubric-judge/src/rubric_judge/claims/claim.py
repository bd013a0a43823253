"""The claims that the criteria of a rubric state, read once for all answers to a question."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from rubric_core import Criterion, Rubric
from rubric_judge.claims.reading import Clause, Token, clauses, tokens
from rubric_judge.errors import VerificationError
from rubric_judge.lexical.words import stem
from rubric_judge.verification.directive import read_directive

IDENTIFIER: Final = re.compile(r"`([A-Za-z_][\w.]*)`")
_SAYS: Final = re.compile(
    r"^(?:says|states|explains|notes|mentions|tells|names) that\s+", re.IGNORECASE
)
_GIVEN: Final = 0.1
"""What a word of the question is worth in a claim."""
_FEWEST_TELLING: Final = 2
"""A claim of one telling word says nothing of what the word stands for."""


@dataclass(frozen=True)
class Claim:
    """A criterion, read."""

    id: str
    weight: float
    clause: Clause
    """All of its claim as one clause."""
    names: frozenset[str]
    """Parameters that it is about."""
    given: frozenset[str]
    """Stems of the question."""
    own: int
    """How many of its words the question does not hold."""
    required: tuple[tuple[tuple[Token, ...], ...], ...]
    """Elements that an answer must hold, each with its alternatives."""


@dataclass(frozen=True)
class Claims:
    """What a rubric claims."""

    claims: tuple[Claim, ...]
    names: frozenset[str]
    """Identifiers whose sentences belong together."""
    sentences: tuple[str, ...]
    """The claims as they are written."""
    clauses: tuple[Clause, ...]
    """Those, read as an answer is."""


def claim_of(criterion: Criterion) -> str:
    """Return the claim that a criterion states: what follows "Says that"; "" where it states none.

    Args:
        criterion: of a rubric in English.
    """
    said = _SAYS.match(criterion.description)
    return criterion.description[said.end() :] if said else ""


def is_empty(claim: str) -> bool:
    """Tell whether a claim says nothing: fewer than two telling words, values and names.

    Args:
        claim: what `claim_of` returns.
    """
    telling = {token.root for token in tokens(claim) if token.weight > 0}
    return len(telling) < _FEWEST_TELLING


def read_claims(rubric: Rubric, question: str) -> Claims:
    """Read the claims of a rubric.

    Args:
        rubric: criteria, of which some may state no claim; one whose verification method a program
            executes is none, whatever its description says.
        question: what its answers are given to; its words are worth little in a claim.
    """
    said = {c.id: "" if _has_directive(c) else claim_of(c) for c in rubric}
    asked = IDENTIFIER.findall(question)
    names = _identifiers([*said.values()]) | frozenset(asked[1:])
    names -= frozenset(asked[:1])
    given = frozenset(stem(word) for word in re.findall(r"\w+", question))
    claims = tuple(_read(c, said[c.id], names, given) for c in rubric if said[c.id])
    sentences = tuple(filter(None, said.values()))
    return Claims(claims, names, sentences, tuple(clauses("\n".join(sentences), names)))


def _has_directive(criterion: Criterion) -> bool:
    try:
        return read_directive(criterion) is not None
    except VerificationError:
        return True  # whoever executes it says what is wrong


def _identifiers(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(name for text in texts for name in IDENTIFIER.findall(text))


def _read(
    criterion: Criterion, text: str, names: frozenset[str], given: frozenset[str]
) -> Claim:
    about = frozenset(IDENTIFIER.findall(text)) & names
    read = tuple(
        replace(token, weight=0.0 if token.text in about else token.weight * _GIVEN)
        if token.root in given or token.text in about
        else token
        for token in tokens(text)
    )
    required = tuple(
        tuple(one for option in element.split("|") if (one := tokens(option)))
        for element in criterion.required_elements
    )
    clause = Clause(text, read, 0, about)
    own = sum(token.root not in given for token in clause.content)
    kept = tuple(options for options in required if options)
    return Claim(criterion.id, criterion.weight, clause, about, given, own, kept)
