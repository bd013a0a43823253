"""Verdicts on a claim by a clause: stated, contradicted, or nothing."""

from itertools import pairwise
from typing import Literal, NamedTuple

from rubric_judge.judges.claims import lexicon
from rubric_judge.judges.claims.reading import Clause, Token
from rubric_judge.judges.lexical.words import stem

Stand = Literal["stated", "contradicted", "absent"]

_SAME_NUMBER = 0.025
"""Relative difference of equal numbers; "about 1.5e-8" is 1.49e-08."""
_ABOUT = 0.3
"""Coverage from which a clause is about a claim, so that its denials count."""
_HALF = 0.5
_SUBJECT = 0.5
"""Least weight of the subject of a clause."""
_DEFAULT = "default"
"""A parameter has one default, of whatever kind: default None contradicts default 3."""
_NECESSITY = next(axis for axis, _ in lexicon.sides(stem("needed")))
"""The scale of what is needed."""
_BOUNDS = frozenset({"atleast", "atmost"})
_UNITS = {
    word: place
    for place, words in enumerate(lexicon.GRAMMAR["units"])
    for word in words.split()
}
_TELLING = 0.25
"""Weight from which the denial of a word denies the claim."""


class Match(NamedTuple):
    """The overlap of a clause and a claim."""

    coverage: float
    """Share of the claim's weight that the clause says."""
    reverse: float
    """Share of the clause's weight that the claim says."""
    pairs: tuple[tuple[Token, Token], ...]
    """Words of the claim, each with that of the clause which says it."""


def same_value(first: Token, second: Token) -> bool:
    """Tell whether two tokens are the same value; a string may stand without its quotes."""
    if first.number is not None and second.number is not None:
        most = max(abs(first.number), abs(second.number))
        return abs(first.number - second.number) <= _SAME_NUMBER * most
    if first.root.lower() == second.root.lower():
        return True
    if first.literal == second.literal:
        return False
    value = first if first.literal else second
    word = second if first.literal else first
    return value.number is None and stem(value.root) == word.root


def alike(first: Token, second: Token) -> float:
    """Return how alike two tokens are in meaning, in [0, 1]; for values, whether they are equal."""
    has_numbers = first.number is not None or second.number is not None
    if has_numbers or first.literal or second.literal:
        return float(same_value(first, second))
    return lexicon.likeness(first.root, second.root)


def match(claim: Clause, said: Clause) -> Match:
    """Match an answer's clause with a claim, word by word.

    Args:
        claim: a true statement.
        said: a clause of an answer.
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
            likeness = alike(token, content[place])
            if likeness > best:
                best = likeness
                where = place
        if where >= 0:
            covered += best * token.weight
            used.add(where)
            pairs.append((token, content[where]))
    shared_weight = sum(content[place].weight for place in used)
    return Match(
        coverage=covered / (claim.total or 1.0),
        reverse=shared_weight / (said.total or 1.0),
        pairs=tuple(pairs),
    )


def contradiction(claim: Clause, said: Clause, matching: Match) -> str:
    """Say how a clause contradicts a claim that it is about; "" where it does not.

    Args:
        claim: a true statement.
        said: a clause of an answer.
        matching: the overlap of the two.
    """
    if matching.coverage < _ABOUT and matching.reverse < _ABOUT:
        return other_value(claim, said) if is_same_bound(claim, said) else ""
    claim_roots = [token.root for token in claim.spoken]
    if claim_roots == [token.root for token in said.spoken]:
        pairs = tuple(zip(claim.spoken, said.spoken, strict=True))
        return _denied(pairs)
    return (
        _other_direction(claim, said)
        or _opposite_word(claim, said)
        or _denied_otherwise(claim, said, matching)
        or _denied_default(claim, said)
        or _other_replaced(matching)
        or other_value(claim, said)
        or _other_unit(claim, said)
    )


def is_same_bound(claim: Clause, said: Clause) -> bool:
    """Tell whether a few words set a bound of what a claim does: "…, but at most 16 KiB".

    Args:
        claim: a true statement.
        said: a clause of an answer.
    """
    bounds = {token.text for token in claim.tokens} & _BOUNDS
    is_same = any(token.text in bounds for token in said.tokens)
    return is_same and not claim.names.isdisjoint(said.names)


def _denied_otherwise(claim: Clause, said: Clause, matching: Match) -> str:
    if _is_needless(claim) and _is_needless(said):
        return ""  # "need not be sorted", "sorted input is not needed"
    return _denied(_telling(matching, claim.divided | said.divided))


def _denied_default(claim: Clause, said: Clause) -> str:
    """Find that a clause has no default where the claim has one, however common the word is."""
    denied = {token.denied for token in said.tokens if token.root == _DEFAULT}
    own = {token.denied for token in claim.tokens if token.root == _DEFAULT}
    if own == {False} and denied == {True} and _names_it(claim, said):
        return f"denies “{_DEFAULT}”"
    return ""


def _is_needless(clause: Clause) -> bool:
    """Tell whether a clause says that something is not needed."""
    sides, _ = clause.directions.get(_NECESSITY, ([], ""))
    return set(sides) == {1}


def _other_direction(claim: Clause, clause: Clause) -> str:
    claim_directions = claim.directions
    said_directions = clause.directions
    for axis in claim_directions.keys() & said_directions.keys():
        sides, word = claim_directions[axis]
        others, said_word = said_directions[axis]
        claim_sides = set(sides)
        said_sides = set(others)
        # "The more, the more" against "the more, the less", and the other way round.
        is_paired = min(len(sides), len(others)) > 1
        inverse = is_paired and len(claim_sides) != len(said_sides)
        if claim_sides.isdisjoint(said_sides) or inverse:
            return f"“{said_word}” against “{word}”"
    return ""


def swapped(
    claim: Clause, said: Clause, matching: Match, subjects: frozenset[str]
) -> str:
    """Say which other subject a clause says the claim of; "" where there is none.

    Args:
        claim: a true statement.
        said: a clause of an answer.
        matching: the overlap of the two.
        subjects: first words of the source's clauses.
    """
    if not claim.content or not said.content or matching.reverse < _HALF:
        return ""
    subject = claim.content[0]
    said_subject = said.content[0]
    if (
        min(subject.weight, said_subject.weight) < _SUBJECT
        or subject.root in said.roots
    ):
        return ""
    if said_subject.root in claim.roots or said_subject.root not in subjects:
        return ""
    if any(lexicon.likeness(said_subject.root, root) for root in claim.roots):
        return ""
    return f"says of “{said_subject.text}” what holds for “{subject.text}”"


def _opposite_word(claim: Clause, clause: Clause) -> str:
    for token in claim.content:
        if token.literal or token.root in clause.roots:
            continue
        for candidate in clause.content:
            if candidate.literal or candidate.root in claim.roots:
                continue
            if token.denied != candidate.denied:
                continue
            if not lexicon.opposite(token.root, candidate.root):
                continue
            if not (_has_like(claim, candidate) or _has_like(clause, token)):
                return f"“{candidate.text}” against “{token.text}”"
    return ""


def _has_like(clause: Clause, token: Token) -> bool:
    """Tell whether a clause holds a word like the token."""
    return any(lexicon.likeness(root, token.root) for root in clause.roots)


def _telling(
    overlap: Match, divided: frozenset[str]
) -> tuple[tuple[Token, Token], ...]:
    """Return the pairs of words whose denial tells something."""
    return tuple(
        (token, said_token)
        for token, said_token in overlap.pairs
        if min(token.weight, said_token.weight) > _TELLING
        and divided.isdisjoint({token.root, said_token.root})
    )


def _other_replaced(overlap: Match) -> str:
    """Find two words of which a clause says that each stands in the place of the other."""
    telling = _telling(overlap, frozenset())
    for token, said_token in telling:
        if said_token.replaced and not token.replaced:
            for other, said_other in telling:
                if other.replaced and not said_other.replaced:
                    return f"“{other.text}” in the place of “{token.text}”"
    return ""


def _denied(pairs: tuple[tuple[Token, Token], ...]) -> str:
    for token, said_token in pairs:
        if token.denied != said_token.denied and not _are_both_out(token, said_token):
            if said_token.denied:
                return f"denies “{token.text}”"
            return f"affirms “{token.text}”"
    return ""


def _are_both_out(first: Token, second: Token) -> bool:
    """Tell of two, one denied, if the other is replaced: "not a mean", "instead of a mean"."""
    return first.replaced != second.replaced and first.replaced == second.denied


def other_value(claim: Clause, said: Clause) -> str:
    """Find a value that stands where the claim has another one; "" where there is none.

    Args:
        claim: a true statement.
        said: a clause of an answer.
    """
    claim_values = [token for token in claim.content if token.literal]
    said_values = [token for token in said.content if token.literal]
    for our in claim_values:
        if any(same_value(our, token) for token in said.content):
            return ""
    kinds = {_kind(token) for token in claim_values}
    is_default = (
        bool(claim_values)
        and _DEFAULT in claim.roots & said.roots
        and _names_it(claim, said)
    )
    for value in said_values:
        if not is_default and _kind(value) not in kinds:
            continue
        if not any(same_value(value, token) for token in claim.content):
            return f"“{value.text}” where it is “{claim_values[0].text}”"
    return ""


def _other_unit(claim: Clause, said: Clause) -> str:
    """Find a number that has another unit of time in a claim; "" where there is none."""
    units = _units_of(claim)
    for number, (unit, text) in _units_of(said).items():
        own, own_text = units.get(number, (unit, text))
        if own != unit:
            return f"“{text}” where it is “{own_text}”"
    return ""


def _units_of(clause: Clause) -> dict[float, tuple[int, str]]:
    """Return the unit of time behind each number, and the two as written."""
    return {
        number.number: (_UNITS[unit.text.lower()], f"{number.text} {unit.text}")
        for number, unit in pairwise(clause.tokens)
        if number.number is not None and unit.text.lower() in _UNITS
    }


def _names_it(claim: Clause, clause: Clause) -> bool:
    """Tell whether a clause itself names a parameter of the claim."""
    return any(token.text in claim.names for token in clause.tokens)


def _kind(token: Token) -> str:
    if token.number is not None:
        return "number"
    return "truth" if token.root in {"true", "false"} else "string"
