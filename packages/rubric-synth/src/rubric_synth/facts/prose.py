"""Facts of prose: definitions, causes, conditions, limits, figures, comparisons, relations."""

import re
from collections.abc import Sequence
from typing import Final

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.extractive import phrases
from rubric_synth.extractive.claims import Passage, is_claim, is_close
from rubric_synth.extractive.phrases import CorpusTerms
from rubric_synth.facts.fact import Fact

_KINDS: Final[tuple[tuple[CriterionKind, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            CriterionKind.DEFINITION,
            r"\b(?:is|are) (?:called|defined as|known as|termed)\b|\brefers? to\b|\bmeans that\b|^[\w\s()-]{3,60}\b(?:is|are) (?:a|an|the) (?!same)\w+",
        ),
        (
            CriterionKind.CAUSE,
            r"\b(?:because|due to|causes?|caused by|results? (?:in|from)|leads? to|therefore|so that|as a result|hence|owing to|since|prevents?|allows?|enables?)\b",
        ),
        (
            CriterionKind.COMPARISON,
            r"\b\w+er than\b|\b(?:more|less|fewer|greater|higher|lower)\b|\b(?:unlike|whereas|in contrast|compared|rather than)\b",
        ),
        (CriterionKind.CONDITION, r"\b(?:if|when|unless|only if|provided|in which case)\b"),
        (
            CriterionKind.LIMIT,
            r"\b(?:must|cannot|only|never|not|at least|at most|no longer|limited|requires?|required)\b",
        ),
        (
            CriterionKind.RELATION,
            r"\b(?:depends?|consists?|contains?|includes?|increases?|decreases?|proportional|determined|produces?|forms?|composed)\b",
        ),
    )
)
_FIGURE: Final = re.compile(
    r"(?<![\w.(])[-−]?\d[\d,]*(?:\.\d+)?(?:\s?[×x]\s?10\^?[{]?[-−]?\d+[}]?)?(?!\w*[\])])"
)
_POINTS_BACK: Final = re.compile(
    r"^(?:using this|in (?:both|this|these|such|that|plain)|with (?:such|this|these)|thus|hence|ultimately|not surprisingly|one type|another|more precisely|similarly|of course|that is|indeed|again|on the other|for example|for instance|here|then)\b|\b(?:this|that|these|such) (?:attraction|case|way|process|method|approach|assumption|value|problem|conclusions?)\b|^all of these|\b(?:just|previously) (?:listed|mentioned|described)",
    re.IGNORECASE,
)
_YEAR: Final = re.compile(r"^(?:1[5-9]|20)\d\d$")
_SIGNS: Final = re.compile(
    r"[\\{}$|<>=]|https?:|\bFig(?:ure|\.)|\b(?:table|section|chapter) \d|\b(?:shown|seen|listed|given) (?:in|above|below)\b|\(\s*[,;)]",
    re.IGNORECASE,
)
_MOST: Final = 7
_FEWEST: Final = 4


def prose_facts(passage: Passage, title: str, terms: CorpusTerms) -> list[Fact]:
    """Read the facts of a passage, in the order of the text.

    Args:
        passage: Where they stand.
        title: Title of the document, to recognise boilerplate.
        terms: Weights of words in the collection.

    Returns:
        Up to seven; fewer where fewer sentences state a fact on their own.
    """
    key = language.stems(" ".join(terms.key_terms(passage.text, limit=25)))
    subject = language.stems(passage.subject)
    found: list[tuple[float, int, Fact]] = []
    place = 0
    for paragraph in passage.paragraphs:
        for raw in language.sentences(paragraph):
            place += 1
            sentence = language.capital_first(
                phrases.without_opening(phrases.CITATION.sub("", raw))
            )
            if (
                not is_claim(sentence)
                or _SIGNS.search(sentence)
                or _POINTS_BACK.search(sentence)
                or terms.is_boilerplate(raw, title)
            ):
                continue
            fact = _fact(sentence)
            if fact is None:
                continue
            own = language.stems(sentence)
            score = len(own & key) / len(language.words(sentence)) ** 0.5
            score *= (1.15 if place < 4 else 1.0) * (1.3 if own & subject else 1.0)  # noqa: PLR2004
            score *= 1.2 if fact.required else 1.0
            found.append((score, place, fact))
    kept: list[tuple[int, Fact]] = []
    for _, at, fact in sorted(found, key=lambda one: -one[0]):
        if len(kept) < _MOST and not any(
            is_close(fact.sentence, other.sentence) for _, other in kept
        ):
            kept.append((at, fact))
    return [fact for _, fact in sorted(kept, key=lambda pair: pair[0])]


def _fact(sentence: str) -> Fact | None:
    figures = [f for f in _FIGURE.findall(sentence) if not _YEAR.match(f) and len(f.strip("-")) > 1]
    if figures:
        return Fact(CriterionKind.QUANTITY, sentence, required=tuple(dict.fromkeys(figures))[:2])
    for kind, pattern in _KINDS:
        if pattern.search(sentence):
            return Fact(kind, sentence)
    return Fact(CriterionKind.RELATION, sentence)


def topics_of(facts: Sequence[Fact], passage: Passage, terms: CorpusTerms) -> list[str]:
    """Return a phrase for each fact that a question names.

    Args:
        facts: Those that criteria are made of.
        passage: Theirs.
        terms: Weights of words in the collection.
    """
    taken = language.stems(passage.subject) | language.stems(passage.context)
    found: list[str] = []
    for fact in facts:
        if topic := phrases.best_phrase(fact.sentence, terms, without=taken):
            found.append(topic)
            taken |= language.stems(topic)
    return found[:4]
