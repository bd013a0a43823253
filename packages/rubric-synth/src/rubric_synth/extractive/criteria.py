"""Facts of a document, and the criterion that asks for each.

A criterion has all five components of the paper's Definition 1. Its required elements are the most
specific term of the fact and the name of a parameter or a point, its keywords are further terms of
the fact (words that many documents use only where there are no others), and its pattern in the
grammar of the lexical judge is the first line of its verification method. A fact that has no two
specific terms beside the words of the question is not asked for.

Source: paper, Definition 1.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from rubric_core import DocumentAnalysis
from rubric_judge.lexical.words import FUNCTION_WORDS, read_sentences, stem
from rubric_synth.extractive.phrases import CAVEAT_MARKERS, CorpusTerms, best_phrase
from rubric_synth.language import listed, sentences, stems, words
from rubric_synth.stages import CriterionDraft, Draft
from rubric_synth.tables import read_table

TAKES: Final = "It takes "
"""How the reference answer begins to speak of a parameter."""
AND: Final = " and "
"""Between the names of parameters that are explained together."""
_NAMED: Final = frozenset({"parameter", "supporting_point"})
"""Kinds of which an answer must hold what the question calls them."""
_PART_OF_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_CUES: Final[str] = read_table("wording")["cues"]


class Fact(NamedTuple):
    """One thing that a document says."""

    kind: str
    """Its row in the table of criteria."""
    sentence: str
    """How the reference answer says it."""
    anchor: str = ""
    """What the question calls it: names of parameters, with "and", or a phrase of the sentence."""
    own: str = ""
    """The document's part of the sentence; "" where all of it is."""
    figure: str = ""
    """A quantity, where the fact is one, as written."""


class Asked(NamedTuple):
    """A question with the facts that it asks for and a criterion for each."""

    question: str
    facts: tuple[Fact, ...]
    criteria: tuple[CriterionDraft, ...]


def ask_for(
    facts: Sequence[Fact],
    ask: Callable[[Sequence[Fact]], str],
    terms: CorpusTerms,
    *,
    limit: int,
    most: int,
) -> Asked:
    """Choose the facts that can be asked for, and return question and criteria.

    Args:
        facts: What the document says, in the order of a good answer.
        ask: Words a question for some of them.
        terms: Weights of words in the collection.
        limit: Most expected keywords of a criterion.
        most: Most facts.

    Returns:
        Those facts that weigh most, and of these the ones with the rarest terms. There may be none.
    """
    given = given_away(ask(facts))
    poor = [f for f in facts if f.kind == "parameter" and not _criterion(f, terms, limit, given)]
    joined = {other: _joined(one, other) for one, other in zip(poor[::2], poor[1::2], strict=False)}
    every = (told for fact in facts for told in (fact, joined.get(fact)) if told is not None)
    found = [(fact, c) for fact in every if (c := _criterion(fact, terms, limit, given))]
    rarity = {
        fact: terms.weight(" ".join((*c.required_elements, *c.expected_keywords)))
        for fact, c in found
    }
    ranked = sorted(found, key=lambda pair: (-pair[1].weight, -rarity[pair[0]]))
    chosen = frozenset(fact for fact, _ in ranked[:most])
    kept = [(fact, criterion) for fact, criterion in found if fact in chosen]
    told = tuple(fact for fact, _ in kept)
    return Asked(ask(told), told, tuple(_numbered([criterion for _, criterion in kept])))


def _joined(one: Fact, other: Fact) -> Fact:
    """Join two parameters of which neither says enough for a criterion."""
    return Fact(
        "parameter",
        f"{one.sentence.removesuffix('.')} and {other.sentence.removeprefix(TAKES)}",
        f"{one.anchor}{AND}{other.anchor}",
        f"{one.own}; {other.own}",
    )


def given_away(question: str) -> frozenset[str]:
    """Return the stems of a question's words and of the parts of its identifiers."""
    return frozenset(
        stem(part) for word in words(question) for part in (word, *_PART_OF_NAME.findall(word))
    )


def _criterion(
    fact: Fact, terms: CorpusTerms, limit: int, given: frozenset[str]
) -> CriterionDraft | None:
    """Return the criterion of a fact; None where it says too little that the question does not."""
    row: dict[str, Any] = read_table("criteria")[fact.kind]
    markers = stems(" ".join(CAVEAT_MARKERS)) if "{markers}" in row["pattern"] else frozenset[str]()
    named = tuple(fact.anchor.split(AND)) if fact.kind in _NAMED else ()
    # A judge by words credits a sentence with one term for every two of its words; some are the
    # required elements, and one is left for a concept.
    room = sum(sentence.capacity for sentence in read_sentences(fact.sentence)) - len(named)
    most = min(limit, max(1, room - 2)) + (not fact.figure)
    own = terms.key_terms(fact.own or fact.sentence, limit=most, without=given | markers)
    rare = [word for word in own if not terms.is_common(word)]
    rarest = max(rare, key=terms.inverse_frequency, default="")
    required = fact.figure or rarest
    others = [word for word in own if word != required]
    keywords = tuple(word for word in others if word in rare) or tuple(others)
    if not required or not keywords:
        return None
    fields = {"anchor": fact.anchor, "markers": "|".join(CAVEAT_MARKERS)}
    fields["either"] = fact.anchor.replace(AND, "|")
    told = {key: x.format(**fields) if isinstance(x, str) else x for key, x in row.items()}
    method = f"{told.pop('pattern')}\n{told['verification_method']}"
    return CriterionDraft.model_validate(
        {
            "id": fact.kind,
            **told,
            "verification_method": method,
            "required_elements": (*named, required),
            "expected_keywords": keywords,
        }
    )


def _numbered(criteria: Sequence[CriterionDraft]) -> Iterator[CriterionDraft]:
    """Number the ids of kinds that a rubric may hold several of."""
    seen = Counter[str]()
    for criterion in criteria:
        seen[criterion.id] += 1
        name = f"{criterion.id}_{seen[criterion.id]}"
        is_numbered = criterion.id in {"parameter", "supporting_point", "caveat", "returns"}
        yield criterion.model_copy(update={"id": name}) if is_numbered else criterion


def enriched(draft: Draft, analysis: DocumentAnalysis, terms: CorpusTerms) -> Draft:
    """Return a draft with scoring cues, and concepts where its reference answer holds some."""
    given = given_away(draft.question)
    told = sentences(draft.reference_answer) or [""]

    def enrich(criterion: CriterionDraft) -> CriterionDraft:
        required, keywords = criterion.required_elements, criterion.expected_keywords
        cues = _CUES.format(required=listed(required), keywords=listed(keywords))
        own = stems(" ".join((*required, *keywords)))
        sentence = max(told, key=lambda sentence: len(own & stems(sentence)))
        room = sum(part.capacity for part in read_sentences(sentence))
        has_room = len(required) + len(keywords) < room
        concepts = _concepts(sentence, analysis, terms, given) if has_room else ()
        guide = f"{criterion.scoring_guide}\n{cues}"
        return criterion.model_copy(update={"scoring_guide": guide, "expected_concepts": concepts})

    return draft.model_copy(update={"criteria": tuple(map(enrich, draft.criteria))})


def _concepts(
    sentence: str, analysis: DocumentAnalysis, terms: CorpusTerms, given: frozenset[str]
) -> tuple[str, ...]:
    """Return the first concept of the document that a sentence holds, or else its rarest phrase."""
    held = stems(sentence)
    for concept in (*analysis.concepts, best_phrase(sentence, terms, without=given)):
        parts = stems(concept) - FUNCTION_WORDS
        is_specific = not parts <= given and not all(map(terms.is_common, parts))
        if len(parts) > 1 and parts <= held and is_specific:
            return (concept,)
    return ()
