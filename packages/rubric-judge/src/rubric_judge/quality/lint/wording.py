"""Criteria that a judge cannot tell apart or understand, or that exclude each other."""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from rubric_core import Criterion, Task
from rubric_judge.checks import directive, numeric
from rubric_judge.checks.pattern import ProcessorTime, RegexCheck, matches_pattern
from rubric_judge.judges.claims.claim import claim_of
from rubric_judge.quality.lint.criterion_words import (
    PHRASES,
    content,
    content_of_all,
    demanded_terms,
    directive_of,
    has_no_words,
    is_negated,
    numbers,
    overlap,
    pairs_of,
    statement,
    terms_of,
)
from rubric_judge.quality.lint.findings import Finding, as_error, as_warning

_NEAR_IDENTICAL = 0.85
_FEWEST_WORDS = 3
"""Fewest content words for a comparison; shorter descriptions are alike by chance."""

_ELSEWHERE = PHRASES["elsewhere"]


def check_wording(task: Task) -> Iterator[Finding]:
    """Find empty and duplicate criteria, ids that differ in case, and references."""
    yield from _similar_ids(task)
    for criterion in task.rubric:
        yield from _empty(criterion)
        texts = f"{criterion.description}\n{criterion.scoring_guide}"
        # The word first: most texts hold none, and the pattern takes ten times as long.
        if "criteri" in texts.lower() and _ELSEWHERE.search(texts):
            yield as_warning(
                "refers_to_another",
                "its text points to another criterion",
                remedy="say it in full: a judge scores each criterion by itself, in any "
                "order",
                criterion_id=criterion.id,
            )
    terms: dict[str, frozenset[str]] = {}
    for criterion in task.rubric:
        terms[criterion.id] = content_of_all(terms_of(criterion))
    if len(set(terms.values())) == len(terms):
        return  # no two ask for the same terms
    for first, second in pairs_of(task.rubric.criteria):
        if terms[first.id] != terms[second.id]:
            continue
        if _alike(first, second, nearly=bool(terms[first.id])):
            yield as_warning(
                "duplicate_criterion",
                f"asks for nearly the same as {first.id!r}",
                remedy="leave one out, or say what parts them: the same thing is paid "
                "for twice",
                criterion_id=second.id,
            )


def _similar_ids(task: Task) -> Iterator[Finding]:
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for name in task.rubric.ids:
        spelling = "".join(name.split()).casefold()
        spellings[spelling].append(name)
    for first, *others in spellings.values():
        if others:
            yield as_error(
                "similar_ids",
                f"differs from {first!r} in case or spaces only",
                remedy="rename one: a model that misspells an id makes the judgement "
                "invalid",
                criterion_id=others[0],
            )


def _empty(criterion: Criterion) -> Iterator[Finding]:
    described = criterion.description.strip() or criterion.scoring_guide.strip()
    if described and has_no_words(criterion) and not claim_of(criterion):
        yield as_warning(
            "no_words",
            "states no claim and has no required element, keyword, concept or "
            "directive: a program scores it 0",
            remedy="write what a full answer states, as “Says that …”, or add one of "
            "them; a language model needs none",
            criterion_id=criterion.id,
        )
    if described or isinstance(directive_of(criterion), directive.ProgramCheck):
        return
    if criterion.verification_method.strip() or terms_of(criterion):
        yield as_warning(
            "no_description",
            "has neither description nor scoring guide",
            remedy="say in a sentence what is asked",
            criterion_id=criterion.id,
        )
    else:
        yield as_error(
            "empty_criterion",
            "has no text but its id and name",
            remedy="say what is asked, or leave it out: a judge can only guess",
            criterion_id=criterion.id,
        )


def _alike(first: Criterion, second: Criterion, *, nearly: bool) -> bool:
    """Whether two criteria of the same terms have the same description and check.

    The words or content words must be equal, or nearly so where the criteria have terms.
    """
    if is_negated(first.description) != is_negated(second.description):
        return False
    words = content(first.description), content(second.description)
    fewest = min(map(len, words))
    if words[0] == words[1] and fewest < _FEWEST_WORDS:
        first_words = first.description.casefold().split()
        alike = (
            bool(first_words) and first_words == second.description.casefold().split()
        )
    else:
        near = nearly and overlap(*words) >= _NEAR_IDENTICAL
        alike = words[0] == words[1] or (fewest >= _FEWEST_WORDS and near)
    return alike and directive_of(first) == directive_of(second)


_SAME_MATTER = 0.75
_SAME_QUANTITY = 0.6
_FEWEST_OPPOSED = 2
_PATTERN_TIMEOUT_S = 0.25

_FORBIDDING = PHRASES["forbidding"]


def check_contradictions(task: Task) -> Iterator[Finding]:
    """Find `contradiction`: two criteria that exclude each other."""
    for criterion, other in pairs_of(task.rubric.criteria):
        problem = _contradiction(criterion, other)
        if problem:
            yield as_error(
                "contradiction",
                f"{problem} {criterion.id!r}",
                remedy="change or drop one: no answer can earn the whole weight",
                criterion_id=other.id,
            )


def _contradiction(criterion: Criterion, other: Criterion) -> str:
    match directive_of(criterion), directive_of(other):
        case directive.StructureChecks(count=(low, high)), directive.StructureChecks(
            count=(least, most)
        ) if max(low, least) > min(high, most):
            return "asks for another number of sentences than"
        case numeric.NumericCheck() as first, numeric.NumericCheck() as second if (
            abs(first.value - second.value) > first.tolerance + second.tolerance
            and first.unit == second.unit
            and _same_quantity(criterion.description, other.description)
        ):
            return "asks for another value of the same quantity than"
        case _ if _forbids(criterion, other) or _forbids(other, criterion):
            return "one demands what the other forbids: this and"
        case _:
            return "says the opposite of" if _opposite(criterion, other) else ""


def _same_quantity(first: str, second: str) -> bool:
    first_words = content(first) - numbers(first)
    second_words = content(second) - numbers(second)
    return overlap(first_words, second_words) >= _SAME_QUANTITY


def _forbids(criterion: Criterion, other: Criterion) -> bool:
    """Whether a criterion forbids a term that the other demands."""
    demanded = demanded_terms(other)
    check = directive_of(criterion)
    forbidding = ("(?!", "(?s)(?!")
    if isinstance(check, RegexCheck) and check.pattern.lstrip("^").startswith(
        forbidding
    ):
        return any(not _passes(check.pattern, term) for term in demanded)
    clauses = _forbidden(criterion.description)
    for term in demanded:
        words = content(term)
        if not words:
            continue
        if any(words <= clause and len(words) > len(clause) / 2 for clause in clauses):
            return True
    return False


@lru_cache(maxsize=4096)
def _forbidden(description: str) -> tuple[frozenset[str], ...]:
    forbidden: list[frozenset[str]] = []
    for match in _FORBIDDING.finditer(description):
        for clause in match.groups(""):
            words = content(clause)
            if words:
                forbidden.append(words)
    return tuple(forbidden)


def _passes(pattern: str, term: str) -> bool:
    time_left = ProcessorTime(_PATTERN_TIMEOUT_S)
    try:
        return matches_pattern(pattern, f"It is {term} here.", time_left=time_left)
    except TimeoutError:
        return True


def _opposite(first: Criterion, second: Criterion) -> bool:
    """Whether two descriptions have the same content words and one of them a negation."""
    if is_negated(first.description) == is_negated(second.description):
        return False
    words = content(first.description), content(second.description)
    if min(map(len, words)) < _FEWEST_OPPOSED:
        # Descriptions so short are opposites only with the same verb.
        said_first = statement(first.description)
        said_second = statement(second.description)
        return bool(words[0]) and said_first == said_second
    return overlap(*words) >= _SAME_MATTER
