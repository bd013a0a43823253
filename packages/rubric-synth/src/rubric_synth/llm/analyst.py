"""Stage 1: the model says what a document is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_core import DocumentAnalysis
from rubric_synth.llm.reading import checked
from rubric_synth.llm.replies import AnalysisReply

if TYPE_CHECKING:
    from rubric_synth.document import Document
    from rubric_synth.llm.asking import Asking


class LLMAnalyst:
    """Stage 1 by a language model."""

    def __init__(self, asking: Asking) -> None:
        """Ask through this."""
        self._asking = asking

    async def analyse(self, document: Document) -> DocumentAnalysis:
        """Return the model's analysis.

        Raises:
            StageRefusal: no answer, or none that can be used.

        Source: paper, §3.4, Stage 1.
        """
        value = await self._asking.ask(
            document, self._asking.prompts.analysis, stage="analyse", reply=AnalysisReply
        )
        reply = checked(AnalysisReply, value)
        return DocumentAnalysis(
            genre=reply.genre,
            contribution=reply.contribution,
            concepts=reply.concepts,
            depth=reply.depth,
            reasoning_mode=reply.reasoning_mode,
        )
