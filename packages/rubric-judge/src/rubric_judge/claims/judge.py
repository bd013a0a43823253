"""The claim judge: what an answer says of each claim, by words, values and directions."""

import hashlib
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from rubric_core import Criterion, JudgeResult, JudgeView, Rubric
from rubric_judge.claims.passage import IDENTIFIER, Statements
from rubric_judge.claims.reading import Clause, Token, clauses, tokens
from rubric_judge.claims.verdicts import Stand, contradiction, match, same_value
from rubric_judge.lexical.judge import LexicalJudge
from rubric_judge.lexical.words import stem

_SAYS: Final = re.compile(
    r"^(?:says|states|explains|notes|mentions|tells|names) that\s+", re.IGNORECASE
)
_GIVEN: Final = 0.1
"""What a word of the question is worth in a claim."""
_NOTHING: Final = 0.08
"""Coverage up to which a clause says nothing of a claim."""
_ALL: Final = 0.3
"""Coverage from which it says all of it: other words are never all matched."""
_FALSE_COST: Final = 2.5
"""What share of the reward goes with a share of false clauses."""
_SEVERAL: Final = 2
_ONE_WORD: Final = 0.3
"""What a claim of which one word is met is worth."""
_KEPT: Final = 128


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


class Finding(NamedTuple):
    """What an answer says of one claim."""

    stand: Stand
    credit: float
    """In [0, 1]."""
    sentence: str = ""
    """Where it speaks of it."""
    why: str = ""
    """Which part is missing or wrong."""


def claim_of(criterion: Criterion) -> str:
    """Return the claim that a criterion states; "" where it states none."""
    said = _SAYS.match(criterion.description)
    return criterion.description[said.end() :] if said else ""


@dataclass(frozen=True)
class _Compiled:
    claims: tuple[Claim, ...]
    names: frozenset[str]
    sentences: tuple[str, ...]


def _compiled(rubric: Rubric, question: str) -> _Compiled:
    said = {criterion.id: claim_of(criterion) for criterion in rubric}
    asked = IDENTIFIER.findall(question)
    names = frozenset(asked[1:]) | frozenset(
        name for text in said.values() for name in IDENTIFIER.findall(text)
    )
    names -= frozenset(asked[:1])
    given = {stem(word) for word in re.findall(r"\w+", question)}
    found = tuple(_claim(c, said[c.id], names, given) for c in rubric if said[c.id])
    return _Compiled(found, names, tuple(filter(None, said.values())))


def _claim(criterion: Criterion, text: str, names: frozenset[str], given: set[str]) -> Claim:
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
    return Claim(
        criterion.id,
        criterion.weight,
        clause,
        about,
        frozenset(given),
        own,
        tuple(options for options in required if options),
    )


class ClaimJudge:
    """Scores what an answer says of each claim of a rubric.

        z_j = credit_j (1 − 2.5 · share of clauses against the source), at least 0

    A criterion whose description is "Says that …" states a claim; another one is scored by the
    lexical judge. It reads English and needs no model.
    """

    name = "claims_v1"

    def __init__(self) -> None:
        """Start with empty caches."""
        self._lexical = LexicalJudge()
        self._compile = lru_cache(maxsize=_KEPT)(_compiled)
        self._statements = lru_cache(maxsize=_KEPT)(Statements)

    @property
    def fingerprint(self) -> str:
        """The name and a hash of the settings."""
        return f"{self.name} {hashlib.sha256(b'').hexdigest()[:16]}"

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Score one response."""
        return self.judge_now(view)

    def judge_now(self, view: JudgeView) -> JudgeResult:
        """Score one response without an event loop."""
        if (why := view.unanswered) is not None:
            return JudgeResult.without_answer(view.rubric, why, judge=self.name)
        compiled = self._compile(view.rubric, view.question)
        if len(compiled.claims) < len(view.rubric):
            other = self._lexical.judge_now(view)
            scores = dict(other.scores or {})
        else:
            scores = {}
        statements = self._statements(view.grounding, compiled.names, compiled.sentences)
        said = clauses(view.response, compiled.names)
        read = [statements.read(one) for one in said]
        false = {i: why for i, (why, _) in enumerate(read) if why}
        support = [score for _, score in read]
        telling = sum(len(one.content) > 1 for one in said) or 1
        truth = max(0.0, 1 - _FALSE_COST * len(false) / telling)
        notes: list[str] = []
        for claim in compiled.claims:
            finding = find(claim, said, false, support)
            scores[claim.id] = claim.weight * finding.credit * truth
            notes.append(
                f"{claim.id}: {finding.stand} {finding.credit:.2f}{finding.why and f' ({finding.why})'}"
            )
        notes += [f"against the source: {why}" for why in false.values()]
        return JudgeResult.scored(view.rubric, scores, judge=self.name, reasoning="; ".join(notes))


def _windows(said: list[Clause], false: dict[int, str]) -> list[Clause]:
    """Return the clauses, whole sentences, and a sentence with the one behind it."""
    live = [one for i, one in enumerate(said) if i not in false]
    by_sentence: dict[int, list[Clause]] = {}
    for one in live:
        by_sentence.setdefault(one.sentence, []).append(one)
    whole = {
        number: Clause(
            " ".join(one.text for one in parts),
            tuple(token for one in parts for token in one.tokens),
            number,
            frozenset[str]().union(*(one.names for one in parts)),
        )
        for number, parts in by_sentence.items()
    }
    return [*live, *whole.values()]


def find(claim: Claim, said: list[Clause], false: dict[int, str], support: list[float]) -> Finding:
    """Find what an answer says of a claim.

    Args:
        claim: the claim.
        said: the clauses of the answer.
        false: positions of those that are against the source.
        support: how well the source supports each.
    """

    def about(one: Clause) -> bool:
        return not claim.names or not one.names.isdisjoint(claim.names)

    for position, one in enumerate(said):
        if about(one) and len(one.content) > 1:
            found = match(claim.clause, one)
            if found.reverse * min(1.0, 2 * found.coverage) < support[position]:
                continue  # it speaks of something else, and is right there
            if why := contradiction(claim.clause, one, found):
                return Finding("contradicted", 0.0, one.text, why)
    best, where = 0.0, None
    held = [False] * len(claim.required)
    for window in _windows(said, false):
        if not about(window):
            continue
        for place, options in enumerate(claim.required):
            held[place] = held[place] or any(_holds(window, option) for option in options)
        found = match(claim.clause, window)
        own = {id(said) for token, said in found.pairs if token.root not in claim.given}
        coverage = found.coverage * (1.0 if len(own) >= min(_SEVERAL, claim.own) else _ONE_WORD)
        if coverage > best:
            best, where = coverage, window
    meaning = min(1.0, max(0.0, (best - _NOTHING) / (_ALL - _NOTHING)))
    if where is None or not meaning:
        return Finding("absent", 0.0)
    credit = meaning
    if held:
        credit = 0.4 * meaning + 0.6 * sum(held) / len(held) if any(held) else 0.2 * meaning
    return Finding("stated" if credit else "absent", credit, where.text)


def _holds(window: Clause, option: tuple[Token, ...]) -> bool:
    return all(any(same_value(token, other) for other in window.tokens) for token in option)
