"""Three stages that ask a language model.

Each asks one question with a schema for the answer, through the calls of its document, and reads
the reply strictly: a bad reply is a counted refusal, a bad draft of a reply is refused alone.
"""

from __future__ import annotations

from rubric_judge import ChatModel
from rubric_synth.calls import DocumentCalls
from rubric_synth.config import LLMConfig
from rubric_synth.llm.prompt import prompt_hashes
from rubric_synth.llm.stages import LLMStages
from rubric_synth.stages import Stages, StagesFactory

__all__ = ["llm_stages", "prompt_hashes"]


def llm_stages(model: ChatModel, config: LLMConfig) -> StagesFactory:
    """Return what makes the stages for one document.

    Args:
        model: answers; not closed here.
        config: how many questions, of which kinds, and how much of a document is read.
    """

    def stages(calls: DocumentCalls) -> Stages:
        one = LLMStages(calls, model, config)
        return Stages(one, one, one)

    return stages
