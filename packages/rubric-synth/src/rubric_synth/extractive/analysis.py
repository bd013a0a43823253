"""Stage 1 without a model: genre, contribution, concepts, depth and mode of reasoning by rule."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rubric_core import DocumentAnalysis
from rubric_judge.lexical.words import stem
from rubric_synth.api_entry import parse_entry
from rubric_synth.cleaning import sections
from rubric_synth.extractive.phrases import noun_phrases
from rubric_synth.language import content_words, sentences, words

if TYPE_CHECKING:
    from rubric_synth.document import Document
    from rubric_synth.extractive.terms import CorpusTerms

_CONCEPTS: Final = 8
_CONTRIBUTION_WORDS: Final = 60
_SAMPLE_CHARS: Final = 20_000
_INTRODUCTORY_WEIGHT: Final = 3.2
_ADVANCED_WEIGHT: Final = 4.6
_MODES: Final = {
    "procedural": "step steps procedure first then next method algorithm compute run select apply",
    "causal": "because therefore cause effect lead due result hence consequently drive",
    "comparative": "compare whereas unlike contrast difference similar than alternative advantage",
    "derivation": "equation derive substitute assume solution integral term expression boundary",
    "definitional": "define defined called term refers known denote mean type class",
}


class ExtractiveAnalyst:
    """Stage 1 by rule."""

    def __init__(self, terms: CorpusTerms) -> None:
        """Weigh words by their frequency in a collection."""
        self._terms = terms

    async def analyse(self, document: Document) -> DocumentAnalysis:
        """Return the analysis of a document."""
        text = self._running_text(document)
        concepts = noun_phrases(
            text[:_SAMPLE_CHARS], self._terms, limit=_CONCEPTS, prose=document.kind == "prose"
        )
        return DocumentAnalysis(
            genre=_genre(document),
            contribution=_contribution(text) or document.title,
            concepts=concepts or self._terms.key_terms(text, limit=_CONCEPTS),
            depth=_depth(self._terms.weight(text[:_SAMPLE_CHARS])),
            reasoning_mode=_reasoning_mode(text),
        )

    def _running_text(self, document: Document) -> str:
        """Return the prose of a document, without sentences that other documents share."""
        if document.kind == "api" and (entry := parse_entry(document.text)) is not None:
            items = (item.description for item in (*entry.parameters, *entry.returns))
            paragraphs = [*entry.summary, *items, *entry.notes]
        else:
            found = "\n\n".join(p for s in sections(document.text) for p in s.paragraphs)
            paragraphs = found[:_SAMPLE_CHARS].split("\n\n")
        return "\n\n".join(
            sentence
            for paragraph in paragraphs
            for sentence in sentences(paragraph)
            if not self._terms.is_boilerplate(sentence, document.title)
        )


def _genre(document: Document) -> str:
    if document.kind == "api":
        return "API reference"
    headings = {section.heading.lower() for section in sections(document.text)}
    if headings & {"abstract", "methods", "materials and methods", "conclusions"}:
        return "research article"
    if any(
        word in heading for heading in headings for word in ("summary", "objectives", "exercise")
    ):
        return "textbook section"
    return "technical documentation"


def _contribution(text: str) -> str:
    for sentence in sentences(text[:_SAMPLE_CHARS]):
        if len(content_words(sentence)) > 2 and len(sentence.split()) <= _CONTRIBUTION_WORDS:  # noqa: PLR2004 - a claim needs three
            return sentence
    return ""


def _depth(weight: float) -> str:
    if weight < _INTRODUCTORY_WEIGHT:
        return "introductory"
    return "advanced" if weight > _ADVANCED_WEIGHT else "intermediate"


def _reasoning_mode(text: str) -> str:
    found = Counter(stem(word) for word in words(text[:_SAMPLE_CHARS]))
    scores = {mode: sum(found[stem(cue)] for cue in cues.split()) for mode, cues in _MODES.items()}
    best = max(scores, key=lambda mode: scores[mode])
    return best if scores[best] else "descriptive"
