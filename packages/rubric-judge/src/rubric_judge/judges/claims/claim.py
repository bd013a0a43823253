"""The claims that the criteria of a rubric state, read once for all answers to a question."""

import re
from dataclasses import dataclass, replace

from rubric_core import Criterion, Rubric
from rubric_judge.checks.directive import read_directive
from rubric_judge.errors import VerificationError
from rubric_judge.judges.claims.reading import Clause, Token, clauses, tokens
from rubric_judge.judges.lexical.words import stem

IDENTIFIER = re.compile(r"`([A-Za-z_][\w.]*|--?[A-Za-z][\w-]*)`")
_CLAIM_PREFIX = re.compile(
    r"^(?:says|states|explains|notes|mentions|tells|names) that\s+", re.IGNORECASE
)
_SIGN = re.compile(r"[^\w\s]")
"""Sign in a value of several words, which is one word in quotes: two-sided, 'two-sided'."""
_QUESTION_WORD_SHARE = 0.1
"""Share of its weight that a word of the question keeps in a claim."""
_FEWEST_TELLING = 2
"""Fewest telling words of a claim; one word alone claims nothing."""


@dataclass(frozen=True)
class Claim:
    """The claim of one criterion, read."""

    id: str
    weight: float
    clause: Clause
    """All of its claim as one clause."""
    names: frozenset[str]
    """Parameters that the claim is about."""
    question_stems: frozenset[str]
    """Stems of the words of the question."""
    own: int
    """Number of words of the claim that the question does not hold."""
    required: tuple[tuple[tuple[Token, ...], ...], ...]
    """Elements that an answer must hold, each with its alternatives."""


@dataclass(frozen=True)
class Claims:
    """The claims of a rubric."""

    claims: tuple[Claim, ...]
    names: frozenset[str]
    """Identifiers whose sentences belong together."""
    sentences: tuple[str, ...]
    """The claims as they are written."""
    clauses: tuple[Clause, ...]
    """The clauses of these sentences, split as those of an answer are."""


def claim_of(criterion: Criterion) -> str:
    """Return the claim of a criterion, the text after "Says that"; "" where it states none.

    Args:
        criterion: a criterion in English.
    """
    prefix = _CLAIM_PREFIX.match(criterion.description)
    if prefix is None:
        return ""
    return criterion.description[prefix.end() :]


def is_empty(claim: str) -> bool:
    """Tell whether a claim says nothing: fewer than two telling words, values and names.

    Args:
        claim: a claim from `claim_of`.
    """
    telling = {token.root for token in tokens(claim) if token.weight > 0}
    return len(telling) < _FEWEST_TELLING


def read_claims(rubric: Rubric, question: str) -> Claims:
    """Read the claims of a rubric.

    Args:
        rubric: criteria, of which some may state no claim; one whose verification method a program
            executes is not one, whatever its description says.
        question: the question of the answers; its words are worth little in a claim.
    """
    texts: dict[str, str] = {}
    for criterion in rubric:
        texts[criterion.id] = "" if _has_directive(criterion) else claim_of(criterion)
    identifiers = IDENTIFIER.findall(question)
    names = frozenset(
        name for text in texts.values() for name in IDENTIFIER.findall(text)
    )
    names |= frozenset(identifiers[1:])
    names -= frozenset(identifiers[:1])
    question_stems = frozenset(stem(word) for word in re.findall(r"\w+", question))
    claims = tuple(
        _read_claim(criterion, texts[criterion.id], names, question_stems)
        for criterion in rubric
        if texts[criterion.id]
    )
    sentences = tuple(text for text in texts.values() if text)
    claim_clauses = tuple(clauses("\n".join(sentences), names))
    return Claims(claims, names, sentences, claim_clauses)


def _has_directive(criterion: Criterion) -> bool:
    try:
        return read_directive(criterion) is not None
    except VerificationError:
        return True  # the code that executes it reports the error


def _read_claim(
    criterion: Criterion,
    text: str,
    names: frozenset[str],
    question_stems: frozenset[str],
) -> Claim:
    mentioned = frozenset(IDENTIFIER.findall(text)) & names
    claim_tokens: list[Token] = []
    for token in tokens(text):
        if token.text in mentioned:
            claim_tokens.append(replace(token, weight=0.0))
        elif token.root in question_stems:
            weight = token.weight * _QUESTION_WORD_SHARE
            claim_tokens.append(replace(token, weight=weight))
        else:
            claim_tokens.append(token)
    required: list[tuple[tuple[Token, ...], ...]] = []
    for element in criterion.required_elements:
        alternatives = [tokens(option) for option in element.split("|")]
        alternatives += [
            quoted
            for option in element.split("|")
            if _SIGN.search(option) and len(quoted := tokens(f"'{option}'")) == 1
        ]
        non_empty = tuple(option for option in alternatives if option)
        if non_empty:
            required.append(non_empty)
    clause = Clause(text, tuple(claim_tokens), 0, mentioned)
    own = sum(token.root not in question_stems for token in clause.content)
    return Claim(
        id=criterion.id,
        weight=criterion.weight,
        clause=clause,
        names=mentioned,
        question_stems=question_stems,
        own=own,
        required=tuple(required),
    )
