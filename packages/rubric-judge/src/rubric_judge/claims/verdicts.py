"""What a clause says of a claim: stated, contradicted, or nothing."""

from typing import Final, Literal, NamedTuple

from rubric_judge.claims import lexicon
from rubric_judge.claims.reading import Clause, Token

Stand = Literal["stated", "contradicted", "absent"]

_SAME_NUMBER: Final = 0.025
"""Relative; "about 1.5e-8" is 1.49e-08."""
_ABOUT: Final = 0.3
"""Coverage from which a clause is about the claim, so that its denials count."""
_HALF: Final = 0.5
_SUBJECT: Final = 0.5
"""Weight of a word that can be what a clause is about."""
_DEFAULT: Final = "default"
"""A thing has one, of whatever kind: by default None is not by default 3."""
_TELLING: Final = 0.25
"""Weight of a word whose denial is one of the claim."""


class Match(NamedTuple):
    """How a clause and a claim lie on each other."""

    coverage: float
    """Share of the claim's weight that the clause says."""
    reverse: float
    """Share of the clause's weight that the claim says."""
    pairs: tuple[tuple[Token, Token], ...]
    """Words of the claim, each with that of the clause which says it."""


def same_value(one: Token, other: Token) -> bool:
    """Tell whether two tokens are the same value."""
    if one.number is not None and other.number is not None:
        most = max(abs(one.number), abs(other.number))
        return abs(one.number - other.number) <= _SAME_NUMBER * most
    return one.root.lower() == other.root.lower()


def alike(one: Token, other: Token) -> float:
    """Return how alike two tokens mean, in [0, 1]; of values, whether they are the same."""
    if (
        one.number is not None
        or other.number is not None
        or one.literal
        or other.literal
    ):
        return float(same_value(one, other))
    return lexicon.likeness(one.root, other.root)


def match(claim: Clause, said: Clause) -> Match:
    """Lay what is said on a claim, word by word.

    Args:
        claim: what is true.
        said: what an answer says.
    """
    pairs: list[tuple[Token, Token]] = []
    covered = 0.0
    used = set[int]()
    content = said.content
    places = said.places
    for token in claim.content:
        shared = token.keys & places.keys()
        if not shared:
            continue
        near = {place for key in shared for place in places[key]}
        best = 0.0
        where = -1
        for place in sorted(near) if len(near) > 1 else near:
            if (near_by := alike(token, content[place])) > best:
                best = near_by
                where = place
        if where >= 0:
            covered += best * token.weight
            used.add(where)
            pairs.append((token, content[where]))
    reverse = sum(content[place].weight for place in used) / (said.total or 1.0)
    return Match(covered / (claim.total or 1.0), reverse, tuple(pairs))


def contradiction(claim: Clause, said: Clause, found: Match) -> str:
    """Say how a clause contradicts a claim that it is about; "" where it does not.

    Args:
        claim: what is true.
        said: what an answer says.
        found: how the two lie on each other.
    """
    if found.coverage < _ABOUT and found.reverse < _ABOUT:
        return ""
    if [token.root for token in claim.spoken] == [token.root for token in said.spoken]:
        return _denied(tuple(zip(claim.spoken, said.spoken, strict=True)))
    return (
        _other_direction(claim, said)
        or _opposite_word(claim, said)
        or _denied(_telling(found, claim.divided | said.divided))
        or other_value(claim, said)
    )


def _other_direction(claim: Clause, said: Clause) -> str:
    ours = claim.directions
    theirs = said.directions
    for axis in ours.keys() & theirs.keys():
        (sides, word), (others, other) = ours[axis], theirs[axis]
        one = set(sides)
        two = set(others)
        # "The more, the more" against "the more, the less", and the other way round.
        inverse = min(len(sides), len(others)) > 1 and len(one) != len(two)
        if one.isdisjoint(two) or inverse:
            return f"“{other}” against “{word}”"
    return ""


def swapped(claim: Clause, said: Clause, found: Match, subjects: frozenset[str]) -> str:
    """Say of what else a clause says what the claim says of its subject; "" where it does not.

    Args:
        claim: what is true.
        said: what an answer says.
        found: how the two lie on each other.
        subjects: what the source's clauses begin with.
    """
    if not claim.content or not said.content or found.reverse < _HALF:
        return ""
    ours = claim.content[0]
    theirs = said.content[0]
    if min(ours.weight, theirs.weight) < _SUBJECT or ours.root in said.roots:
        return ""
    if theirs.root in claim.roots or theirs.root not in subjects:
        return ""
    if any(lexicon.likeness(theirs.root, root) for root in claim.roots):
        return ""
    return f"says of “{theirs.text}” what holds for “{ours.text}”"


def _opposite_word(claim: Clause, said: Clause) -> str:
    for token in claim.content:
        if token.literal or token.root in said.roots:
            continue
        for other in said.content:
            if (
                other.literal
                or other.root in claim.roots
                or token.denied != other.denied
            ):
                continue
            if lexicon.opposite(token.root, other.root) and not (
                _says(claim, other) or _says(said, token)
            ):
                return f"“{other.text}” against “{token.text}”"
    return ""


def _says(clause: Clause, token: Token) -> bool:
    return any(lexicon.likeness(root, token.root) for root in clause.roots)


def _telling(found: Match, divided: frozenset[str]) -> tuple[tuple[Token, Token], ...]:
    """Return the pairs of words whose denial tells something."""
    return tuple(
        (token, other)
        for token, other in found.pairs
        if min(token.weight, other.weight) > _TELLING
        and divided.isdisjoint({token.root, other.root})
    )


def _denied(pairs: tuple[tuple[Token, Token], ...]) -> str:
    for token, other in pairs:
        if token.denied != other.denied:
            return (
                f"denies “{token.text}”" if other.denied else f"affirms “{token.text}”"
            )
    return ""


def other_value(claim: Clause, said: Clause) -> str:
    """Find a value that stands where the claim has another one; "" where there is none.

    Args:
        claim: what is true.
        said: what an answer says.
    """
    ours = [token for token in claim.content if token.literal]
    theirs = [token for token in said.content if token.literal]
    if any(same_value(our, other) for our in ours for other in said.content):
        return ""
    kinds = {_kind(token) for token in ours}
    is_default = (
        bool(ours) and _DEFAULT in claim.roots & said.roots and _names_it(claim, said)
    )
    for other in theirs:
        if (is_default or _kind(other) in kinds) and not any(
            same_value(other, one) for one in claim.content
        ):
            return f"“{other.text}” where it is “{ours[0].text}”"
    return ""


def _names_it(claim: Clause, said: Clause) -> bool:
    """Tell whether a clause itself names what the claim is about."""
    return any(token.text in claim.names for token in said.tokens)


def _kind(token: Token) -> str:
    if token.number is not None:
        return "number"
    return "truth" if token.root in {"true", "false"} else "string"
