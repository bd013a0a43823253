"""The three stages without a model; questions, rubrics and reference answers about prose."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rubric_core import DocumentAnalysis
from rubric_judge.judges.lexical.words import stem
from rubric_synth import language, tables
from rubric_synth.config import FEWEST_BY_RULES, ExtractiveConfig
from rubric_synth.document import Document, RejectionReason, parse_entry
from rubric_synth.sources.cleaning.markup import sections
from rubric_synth.sources.raw_text import foreign_language
from rubric_synth.stages.extractive.claims import Passage, passages
from rubric_synth.stages.extractive.corpus_terms import CorpusTerms
from rubric_synth.stages.extractive.facts import Fact, facts_of
from rubric_synth.stages.extractive.facts.drafts import (
    api_fact_drafts,
    prose_fact_draft,
)
from rubric_synth.stages.extractive.facts.opening import in_setting, product_of
from rubric_synth.stages.extractive.facts.prose import gathered
from rubric_synth.stages.extractive.phrases import noun_phrases
from rubric_synth.stages.extractive.stretches import stretches
from rubric_synth.stages.stages import Draft, StageRefusal, Stages

_RUBRIC = 5
"""Criteria of a rubric in the paper; fewer are accepted where no passage gives as many."""


def _richness(drafts: Sequence[Draft]) -> int:
    return max((len(draft.criteria) for draft in drafts), default=0)


@dataclass(frozen=True)
class _DraftWriter:
    """A document to write prose drafts of, with the weights of its words."""

    document: Document
    terms: CorpusTerms
    config: ExtractiveConfig
    product: str
    """Name of the program that the document is about; "" where it is about none."""
    is_of_a_book: bool = False
    """Whether it is a long document or a stretch of one."""

    def refusal(self) -> StageRefusal:
        """Say why the document gave no draft."""
        if self.passages:
            detail = f"{len(self.facts)} facts, no passage with {FEWEST_BY_RULES}"
            return StageRefusal(RejectionReason.TOO_FEW_FACTS, detail)
        shortest = self.config.min_passage_words
        detail = f"no passage of the {shortest} words of synthesiser.min_passage_words"
        return StageRefusal(RejectionReason.NO_PASSAGE, detail)

    def drafts(self) -> list[Draft]:
        """Write the drafts of the document's richest passages, in the order of the text."""
        drafts = self._drafts()
        richest = sorted(drafts, key=lambda draft: -len(draft.criteria))
        chosen = richest[: self.config.questions_per_document]
        return [draft for draft in drafts if draft in chosen]

    def _drafts(self) -> list[Draft]:
        """Write the drafts of passages, of longer ones where no shorter one makes a rubric."""
        if len(self.facts) < FEWEST_BY_RULES:
            return []
        best: list[Draft] = []
        for candidates in self._cuts():
            drafts = self._drafts_of(candidates)
            if any(len(draft.criteria) >= _RUBRIC for draft in drafts):
                return drafts
            best = max(best, drafts, key=_richness)
        return best

    def _cuts(self) -> Iterator[Sequence[Passage]]:
        yield self.passages
        for times in (2, 4):
            yield passages(self.document, self.config, times=times)
        most = self.config.max_passage_words
        title = self.document.title
        whole = gathered(self.passages, self.facts, title, most)
        if whole is None:
            yield []
        else:
            yield [whole]

    def _drafts_of(self, cut: Sequence[Passage]) -> list[Draft]:
        drafts = map(self.of_passage, cut)
        return [draft for draft in drafts if draft is not None]

    def of_passage(self, passage: Passage) -> Draft | None:
        """Write the draft of a passage; None where it states too few facts."""
        return prose_fact_draft(
            passage,
            self.facts,
            self.document,
            self.terms,
            self.product,
            is_of_a_book=self.is_of_a_book,
        )

    @cached_property
    def passages(self) -> list[Passage]:
        """The passages of the document."""
        return passages(self.document, self.config)

    @cached_property
    def facts(self) -> dict[str, Fact]:
        """The facts of the document that a question can ask for, by sentence."""
        known = facts_of(self.document, self.passages)
        if len(known) < FEWEST_BY_RULES:
            return known
        return in_setting(known, self.product, self.document)


def _foreign(text: str) -> str:
    """Return the code of a text's language; "" for English, and where it cannot be told."""
    words = _WORDS.findall(text[:_SAMPLE_CHARS].lower())
    common = sum(map(language.STOP_WORDS.__contains__, words))
    if common >= _COMMON * len(words):
        return ""  # as English has it: the library that tells languages is not loaded
    return foreign_language(text, wanted=frozenset({"en"}))


_WORDS = re.compile(r"[^\W\d_]+")
_COMMON = 0.2
"""Share of words such as "the" and "is", of which English prose has a third and more."""
_CONCEPTS = 8
_CONTRIBUTION_WORDS = 60
_SAMPLE_CHARS = 20_000
_INTRODUCTORY_WEIGHT = 3.2
_ADVANCED_WEIGHT = 4.6


class ExtractiveStages:
    """The three stages by rule."""

    def __init__(
        self,
        terms: CorpusTerms,
        config: ExtractiveConfig,
    ) -> None:
        """Weigh words by their frequency in a collection."""
        self._terms = terms
        self._config = config

    async def analyse(self, document: Document) -> DocumentAnalysis:
        """Return the analysis of a document."""
        text = self._running_text(document)
        concepts = noun_phrases(
            text[:_SAMPLE_CHARS],
            self._terms,
            limit=_CONCEPTS,
            prose=document.kind == "prose",
        )
        return DocumentAnalysis(
            genre=_genre(document),
            contribution=_contribution(text) or document.title,
            concepts=concepts or self._terms.key_terms(text, limit=_CONCEPTS),
            depth=_depth(self._terms.weight(text[:_SAMPLE_CHARS])),
            reasoning_mode=_reasoning_mode(text),
        )

    async def synthesise(
        self,
        document: Document,
        analysis: DocumentAnalysis,  # noqa: ARG002 - the protocol's signature
    ) -> Sequence[Draft]:
        """Return the drafts of a document; see `drafts_of`."""
        return await self.drafts_of(document)

    async def drafts_of(self, document: Document) -> Sequence[Draft]:
        """Return the drafts of a document.

        Raises:
            StageRefusal: The document says too little to ask about.
        """
        if document.kind == "api":
            return api_fact_drafts(
                document, self._terms, self._config.questions_per_document
            )
        return self._of_prose(document)

    def _of_prose(self, document: Document) -> list[Draft]:
        """Return the drafts of prose, of a long document those of each of its stretches.

        Raises:
            StageRefusal: It is in another language than English, no passage is long enough, or
                none states three facts.
        """
        code = _foreign(document.text)
        if code:
            detail = f"its language is {code}, and the rules read English"
            raise StageRefusal(RejectionReason.NOT_ENGLISH, detail)
        product = product_of(document)
        parts = stretches(document)
        is_long = len(parts) > 1

        def writer(part: Document) -> _DraftWriter:
            return _DraftWriter(part, self._terms, self._config, product, is_long)

        drafts = [draft for part in parts for draft in writer(part).drafts()]
        whole = writer(document)
        if is_long and not drafts:
            drafts = whole.drafts()
        if not drafts:
            raise whole.refusal()
        return drafts

    async def enrich(
        self,
        document: Document,  # noqa: ARG002 - the protocol's signature
        analysis: DocumentAnalysis,  # noqa: ARG002 - as document
        draft: Draft,
    ) -> Draft:
        """Return the draft with scoring cues and concepts for its criteria."""
        return draft

    def _running_text(self, document: Document) -> str:
        """Return the prose of a document, without sentences that other documents share."""
        return "\n\n".join(
            sentence
            for paragraph in _paragraphs(document)
            for sentence in language.sentences(paragraph)
            if not self._terms.is_boilerplate(sentence, document.title)
        )


def _paragraphs(document: Document) -> list[str]:
    entry = parse_entry(document.text) if document.kind == "api" else None
    if entry is not None:
        return list(entry.texts())
    paragraphs = [
        paragraph
        for section in sections(document.text)
        for paragraph in section.paragraphs
    ]
    return "\n\n".join(paragraphs)[:_SAMPLE_CHARS].split("\n\n")


def _genre(document: Document) -> str:
    if document.kind == "api":
        return "API reference"
    headings = {section.heading.lower() for section in sections(document.text)}
    if headings & {"abstract", "methods", "materials and methods", "conclusions"}:
        return "research article"
    all_headings = "\n".join(headings)
    if re.search("summary|objectives|exercise", all_headings):
        return "textbook section"
    return "technical documentation"


def _contribution(text: str) -> str:
    for sentence in language.sentences(text[:_SAMPLE_CHARS]):
        says_something = len(language.content_words(sentence)) > 2  # noqa: PLR2004 - a claim needs three
        if says_something and len(sentence.split()) <= _CONTRIBUTION_WORDS:
            return sentence
    return ""


def _depth(weight: float) -> str:
    if weight < _INTRODUCTORY_WEIGHT:
        return "introductory"
    return "advanced" if weight > _ADVANCED_WEIGHT else "intermediate"


def _reasoning_mode(text: str) -> str:
    words = language.words(text[:_SAMPLE_CHARS])
    counts = Counter(stem(word) for word in words)
    modes: dict[str, str] = tables.read_table("words")["modes"]
    scores = {
        mode: sum(counts[stem(cue)] for cue in cues.split())
        for mode, cues in modes.items()
    }
    best = max(scores, key=lambda mode: scores[mode])
    return best if scores[best] else "descriptive"


def extractive_stages(
    documents: Iterable[Document], config: ExtractiveConfig
) -> Stages:
    """Return the three stages, with words weighted by their frequency in these documents.

    Args:
        documents: The whole collection; read once, only its word counts are kept.
        config: Numbers of questions and terms, and length of a passage.
    """
    rules = ExtractiveStages(CorpusTerms(documents), config)
    return Stages(analyst=rules, synthesiser=rules, enricher=rules)
