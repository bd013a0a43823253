"""A fact, and the criterion that asks for it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.stages.stages import CriterionDraft


class Fact(NamedTuple):
    """One thing that a document says and that an answer can state, deny or leave out."""

    kind: CriterionKind
    """Kind of its criterion."""
    sentence: str
    """As a reference answer says it: a whole sentence that stands on its own."""
    topic: str = ""
    """Its name in the question: a parameter, a phrase; "" for the object itself."""
    required: tuple[str, ...] = ()
    """Terms that have no paraphrase, alternatives separated by "|"."""
    weight: float = 2.0
    """Weight of its criterion."""
    claim: str = ""
    """Text of the criterion after "Says that", where it is not the sentence."""
    question: str = ""
    """Its part of the question, in lower case and without its mark."""
    is_open: bool = False
    """Whether it asks for one thing of many, which only fills up a task."""


def says_the_same(first: str, second: str) -> bool:
    """Tell whether two sentences share more than half of the content words of the shorter."""
    first_stems = _content_stems(first)
    second_stems = _content_stems(second)
    shortest = min(len(first_stems), len(second_stems))
    return 2 * len(first_stems & second_stems) > shortest


def _content_stems(text: str) -> frozenset[str]:
    return language.stems(" ".join(language.content_words(text)))


_NAMES = {
    "definition": "Says what it is",
    "cause": "Gives the reason",
    "condition": "States the condition",
    "limit": "States the limit",
    "quantity": "Gives the figure",
    "comparison": "Compares",
    "step": "Gives the step",
    "default": "Gives the default",
    "choices": "Names the allowed values",
    "returns": "Says what comes back",
    "raises": "Says what is raised",
    "shape": "Gives the shape",
    "relation": "States the relation",
}


def criteria_of(facts: Iterable[Fact]) -> tuple[CriterionDraft, ...]:
    """Return a criterion for each fact, in order."""
    return tuple(_criteria(facts))


def _criteria(facts: Iterable[Fact]) -> Iterator[CriterionDraft]:
    seen = Counter[str]()
    for fact in facts:
        seen[fact.kind] += 1
        claim = fact.claim or _lower(fact.sentence.rstrip("."))
        about = f" ({fact.topic})" if fact.topic else ""
        yield CriterionDraft(
            id=f"{fact.kind}_{seen[fact.kind]}",
            kind=fact.kind,
            weight=fact.weight,
            name=_NAMES[fact.kind] + about,
            description=f"Says that {claim}.",
            required_elements=fact.required,
            scoring_guide=(
                f"{fact.weight:g} where the answer states it in any words; half where a part is "
                "missing; 0 where it is left out or the answer says otherwise."
            ),
            verification_method=(
                "Find what the answer says of it and compare values, conditions and directions."
            ),
        )


def _lower(claim: str) -> str:
    if not claim:
        return claim
    first = claim.split(maxsplit=1)[0]
    is_word = first[1:].islower() or first == "A"
    if not first[:1].isupper() or not is_word:
        return claim
    if "`" in first:
        return claim
    return claim[0].lower() + claim[1:]
