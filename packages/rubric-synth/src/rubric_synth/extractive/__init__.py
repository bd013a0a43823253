"""The synthesiser that needs no model: it selects and arranges what the document says.

It is the default that lets anyone run and test the whole pipeline. Its questions ask for
explanations and its rubrics look for the document's own terms; it does not understand the text.
"""

from __future__ import annotations

from collections.abc import Iterable

from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import Document
from rubric_synth.extractive.prose_tasks import ExtractiveStages
from rubric_synth.extractive.terms import CorpusTerms
from rubric_synth.stages import Stages

__all__ = ["CorpusTerms", "extractive_stages"]


def extractive_stages(documents: Iterable[Document], config: ExtractiveConfig) -> Stages:
    """Return the three stages, with words weighted by their frequency in these documents.

    Args:
        documents: All of the collection; read once, and held by their word counts alone.
        config: How many questions, how many terms, how long a passage.
    """
    rules = ExtractiveStages(CorpusTerms(documents), config)
    return Stages(analyst=rules, synthesiser=rules, enricher=rules)
