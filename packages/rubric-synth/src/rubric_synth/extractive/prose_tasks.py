"""Questions, rubrics and reference answers about passages of prose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rubric_synth.extractive.claims import passage_claims
from rubric_synth.extractive.passages import passages
from rubric_synth.extractive.prose_rubric import prose_criteria
from rubric_synth.extractive.wording import choose, listed
from rubric_synth.language import capital_first, stems
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import Draft, StageRefusal

if TYPE_CHECKING:
    from rubric_core import DocumentAnalysis
    from rubric_synth.config import ExtractiveConfig
    from rubric_synth.document import Document
    from rubric_synth.extractive.claims import Claims
    from rubric_synth.extractive.passages import Passage
    from rubric_synth.extractive.terms import CorpusTerms

_OPENINGS: Final = ("Explain {subject}", "Give an account of {subject}", "Describe {subject}")
_COVERS: Final = ("Cover {points}.", "Discuss {points}.", "Include {points}.")


class _Found(NamedTuple):
    passage: Passage
    claims: Claims


def prose_drafts(
    document: Document, analysis: DocumentAnalysis, terms: CorpusTerms, config: ExtractiveConfig
) -> list[Draft]:
    """Write the drafts of a document, those of its richest passages.

    Raises:
        StageRefusal: No passage is long enough, or none makes three claims of its own.
    """
    cut = passages(document, config)
    found = [
        _Found(passage, claims)
        for passage in cut
        if (claims := passage_claims(passage, document.title, terms)) is not None
    ]
    if not found:
        if cut:
            detail = f"{len(cut)} passages, none with three claims of its own"
            raise StageRefusal(RejectionReason.NO_QUESTION, detail)
        shortest = config.min_passage_words
        detail = f"no passage of the {shortest} words of synthesiser.min_passage_words"
        raise StageRefusal(RejectionReason.NO_PASSAGE, detail)
    richest = sorted(range(len(found)), key=lambda i: (-_richness(found[i].claims), i))
    chosen = sorted(richest[: config.questions_per_document])
    return [_draft(found[i], document, analysis, terms, limit=config.key_terms) for i in chosen]


def _richness(claims: Claims) -> int:
    return len(claims.supports) + (claims.evidence is not None) + (claims.caveat is not None)


def _draft(
    found: _Found,
    document: Document,
    analysis: DocumentAnalysis,
    terms: CorpusTerms,
    *,
    limit: int,
) -> Draft:
    passage, claims = found
    question = _question(passage, claims, analysis, document.doc_hash)
    reference = _reference(claims)
    return Draft(
        question=question,
        passage=passage.text,
        criteria=prose_criteria(claims, reference, terms, limit=limit, asked=stems(question)),
        question_rationale=(
            f"A sound answer has to connect {listed([c.anchor for c in claims.supports])} "
            f"to {claims.central.anchor}, which takes understanding rather than recall."
        ),
        reference_answer=reference,
    )


def _question(passage: Passage, claims: Claims, analysis: DocumentAnalysis, key: str) -> str:
    """Name the subject, its context, the points to cover and the kinds of support wanted."""
    subject = passage.subject or listed(analysis.concepts[:2]) or claims.central.anchor
    if subject.endswith("?"):
        opening = f"{capital_first(subject)} Explain it"
    else:
        opening = choose(_OPENINGS, key).format(subject=subject)
    context = passage.context
    if not context and " " not in subject:
        context = listed([c for c in analysis.concepts if subject not in c][:2])
    if context:
        opening += f" in the context of {context}"
    points = listed([claim.anchor for claim in claims.supports])
    parts = [f"{opening}.", choose(_COVERS, key[8:]).format(points=points)]
    wanted: list[str] = []
    if claims.evidence is not None:
        wanted.append(f"give a figure for {claims.evidence.anchor}")
    if claims.caveat is not None:
        wanted.append(f"state what limits or conditions apply to {claims.caveat.anchor}")
    if wanted:
        parts.append(f"{capital_first(listed(wanted))}.")
    return " ".join(parts)


def _reference(claims: Claims) -> str:
    """Put the central claim first and the others after it in the order of the text."""
    others = [*claims.supports]
    others += [claim for claim in (claims.evidence, claims.caveat) if claim is not None]
    ordered = sorted(others, key=lambda claim: claim.position)
    return " ".join([claims.central.sentence, *(claim.sentence for claim in ordered)])
