"""Stage 2 without a model: questions, rubrics and reference answers from the text itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_synth.extractive.api_tasks import api_draft
from rubric_synth.extractive.prose_tasks import prose_drafts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_core import DocumentAnalysis
    from rubric_synth.config import ExtractiveConfig
    from rubric_synth.document import Document
    from rubric_synth.extractive.terms import CorpusTerms
    from rubric_synth.stages import Draft


class ExtractiveSynthesiser:
    """Stage 2 by rule."""

    def __init__(self, terms: CorpusTerms, config: ExtractiveConfig) -> None:
        """Weigh words by their frequency in a collection."""
        self._terms = terms
        self._config = config

    async def synthesise(self, document: Document, analysis: DocumentAnalysis) -> Sequence[Draft]:
        """Return the drafts of a document.

        Raises:
            StageRefusal: The document says too little to ask about.
        """
        if document.kind == "api":
            return [api_draft(document, self._terms, self._config)]
        return prose_drafts(document, analysis, self._terms, self._config)
