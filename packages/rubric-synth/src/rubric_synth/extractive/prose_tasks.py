"""The three stages without a model; questions, rubrics and reference answers about prose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rubric_core import DocumentAnalysis
from rubric_judge.lexical.words import stem
from rubric_synth import language
from rubric_synth.cleaning.markdown import sections
from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import Document, parse_entry
from rubric_synth.extractive.api_tasks import api_draft
from rubric_synth.extractive.claims import Claim, Claims, passage_claims, passages
from rubric_synth.extractive.criteria import enriched, new_criterion
from rubric_synth.extractive.phrases import CAVEAT_MARKERS, noun_phrases
from rubric_synth.extractive.terms import CorpusTerms
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import CriterionDraft, Draft, StageRefusal, Stages
from rubric_synth.tables import read_table

_OPENINGS: Final = ("Explain {subject}", "Give an account of {subject}", "Describe {subject}")
_MIN_TERMS: Final = 2
_COVERS: Final = ("Cover {points}.", "Discuss {points}.", "Include {points}.")


def prose_drafts(
    document: Document, analysis: DocumentAnalysis, terms: CorpusTerms, config: ExtractiveConfig
) -> list[Draft]:
    """Write the drafts of a document, those of its richest passages.

    Raises:
        StageRefusal: No passage is long enough, or none makes three claims of its own.
    """
    cut = passages(document, config)
    found = [c for passage in cut if (c := passage_claims(passage, document.title, terms))]
    if not found:
        if cut:
            detail = f"{len(cut)} passages, none with three claims of its own"
            raise StageRefusal(RejectionReason.NO_QUESTION, detail)
        shortest = config.min_passage_words
        detail = f"no passage of the {shortest} words of synthesiser.min_passage_words"
        raise StageRefusal(RejectionReason.NO_PASSAGE, detail)
    richest = sorted(range(len(found)), key=lambda place: -found[place].richness)
    drafts: list[Draft] = []
    for place in sorted(richest[: config.questions_per_document]):
        claims = found[place]
        question = _question(claims, analysis, document.doc_hash)
        reference = _reference(claims)
        asked, limit = language.stems(question), config.key_terms
        points = language.listed([claim.anchor for claim in claims.supports])
        draft = Draft(
            question=question,
            passage=claims.passage.text,
            criteria=_criteria(claims, reference, terms, limit=limit, asked=asked),
            question_rationale=(
                f"A sound answer has to connect {points} to {claims.central.anchor}, which takes "
                "understanding rather than recall."
            ),
            reference_answer=reference,
        )
        drafts.append(draft)
    return drafts


def _question(claims: Claims, analysis: DocumentAnalysis, key: str) -> str:
    """Name the subject, its context, the points to cover and the kinds of support wanted."""
    passage = claims.passage
    subject = passage.subject or language.listed(analysis.concepts[:2]) or claims.central.anchor
    if subject.endswith("?"):
        opening = f"{language.capital_first(subject)} Explain it"
    else:
        opening = language.choose(_OPENINGS, key).format(subject=subject)
    context = passage.context
    if not context and " " not in subject:
        context = language.listed([c for c in analysis.concepts if subject not in c][:2])
    if context:
        opening += f" in the context of {context}"
    points = language.listed([claim.anchor for claim in claims.supports])
    parts = [f"{opening}.", language.choose(_COVERS, key[8:]).format(points=points)]
    wanted: list[str] = []
    if claims.evidence is not None:
        wanted.append(f"give a figure for {claims.evidence.anchor}")
    if claims.caveat is not None:
        wanted.append(f"state what limits or conditions apply to {claims.caveat.anchor}")
    if wanted:
        parts.append(f"{language.capital_first(language.listed(wanted))}.")
    return " ".join(parts)


def _reference(claims: Claims) -> str:
    """Put the central claim first and the others after it in the order of the text."""
    others = [c for c in (*claims.supports, claims.evidence, claims.caveat) if c is not None]
    ordered = [claims.central, *sorted(others, key=lambda claim: claim.position)]
    return " ".join(claim.sentence for claim in ordered)


def _criteria(
    claims: Claims, reference: str, terms: CorpusTerms, *, limit: int, asked: frozenset[str]
) -> tuple[CriterionDraft, ...]:
    """Return the criteria for the claims of a passage.

    Args:
        claims: What the passage says.
        reference: The reference answer, for terminology.
        terms: Weights of words in the collection.
        limit: Most expected keywords of a criterion.
        asked: Stems of the question: repeating it earns no keyword.

    Raises:
        StageRefusal: A claim has too few terms that the question does not give away.
    """

    def expected(claim: Claim, without: frozenset[str] = frozenset()) -> tuple[str, ...]:
        found = terms.key_terms(claim.sentence, limit=limit, without=asked | without)
        if len(found) < _MIN_TERMS:
            raise StageRefusal(RejectionReason.NO_QUESTION, f"{len(found)} key terms in a claim")
        return found

    criteria = [new_criterion("central_idea", expected(claims.central))]
    for number, claim in enumerate(claims.supports, start=1):
        keywords, anchor = expected(claim), claim.anchor
        point = new_criterion("supporting_point", keywords, anchor=anchor, number=number)
        criteria.append(point)
    if claims.evidence is not None:
        anchor = claims.evidence.anchor
        criteria.append(new_criterion("evidence", anchor=anchor, quantity=claims.quantity))
    if claims.caveat is not None:
        keywords = expected(claims.caveat, language.stems(" ".join(CAVEAT_MARKERS)))
        criteria.append(new_criterion("limitation", keywords, anchor=claims.caveat.anchor))
    used = asked | language.stems(" ".join(word for c in criteria for word in c.expected_keywords))
    if terminology := terms.key_terms(reference, limit=limit, without=used):
        criteria.append(new_criterion("terminology", terminology))
    return (*criteria, new_criterion("prose_structure"))


_CONCEPTS: Final = 8
_CONTRIBUTION_WORDS: Final = 60
_SAMPLE_CHARS: Final = 20_000
_INTRODUCTORY_WEIGHT: Final = 3.2
_ADVANCED_WEIGHT: Final = 4.6


class ExtractiveStages:
    """The three stages by rule."""

    def __init__(self, terms: CorpusTerms, config: ExtractiveConfig) -> None:
        """Weigh words by their frequency in a collection."""
        self._terms = terms
        self._config = config

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

    async def synthesise(self, document: Document, analysis: DocumentAnalysis) -> Sequence[Draft]:
        """Return the drafts of a document.

        Raises:
            StageRefusal: The document says too little to ask about.
        """
        if document.kind == "api":
            return [api_draft(document, self._terms, self._config)]
        return prose_drafts(document, analysis, self._terms, self._config)

    async def enrich(self, document: Document, analysis: DocumentAnalysis, draft: Draft) -> Draft:  # noqa: ARG002 - the protocol's signature
        """Return the draft with a pattern, clean terminology and concepts for each criterion."""
        return enriched(draft, analysis)

    def _running_text(self, document: Document) -> str:
        """Return the prose of a document, without sentences that other documents share."""
        if document.kind == "api" and (entry := parse_entry(document.text)) is not None:
            paragraphs = list(entry.texts())
        else:
            found = "\n\n".join(p for s in sections(document.text) for p in s.paragraphs)
            paragraphs = found[:_SAMPLE_CHARS].split("\n\n")
        return "\n\n".join(
            sentence
            for paragraph in paragraphs
            for sentence in language.sentences(paragraph)
            if not self._terms.is_boilerplate(sentence, document.title)
        )


def _genre(document: Document) -> str:
    if document.kind == "api":
        return "API reference"
    headings = {section.heading.lower() for section in sections(document.text)}
    if headings & {"abstract", "methods", "materials and methods", "conclusions"}:
        return "research article"
    if re.search("summary|objectives|exercise", "\n".join(headings)):
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
    found = Counter(stem(word) for word in language.words(text[:_SAMPLE_CHARS]))
    modes: dict[str, str] = read_table("words")["modes"]
    scores = {mode: sum(found[stem(cue)] for cue in cues.split()) for mode, cues in modes.items()}
    best = max(scores, key=lambda mode: scores[mode])
    return best if scores[best] else "descriptive"


def extractive_stages(documents: Iterable[Document], config: ExtractiveConfig) -> Stages:
    """Return the three stages, with words weighted by their frequency in these documents.

    Args:
        documents: All of the collection; read once, and held by their word counts alone.
        config: How many questions, how many terms, how long a passage.
    """
    rules = ExtractiveStages(CorpusTerms(documents), config)
    return Stages(analyst=rules, synthesiser=rules, enricher=rules)
