"""Facts of a document: each with a question, a claim, a sentence of the reference, a check."""

from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.stages.extractive.facts.prose import facts_of

__all__ = ["Fact", "facts_of"]
