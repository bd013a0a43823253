"""One question to the model about one document, and what its reply holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rubric_judge import JudgeTransportError
from rubric_synth.llm.paragraphs import shown_text
from rubric_synth.llm.prompt import load_prompts
from rubric_synth.llm.reading import decoded
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from pydantic import BaseModel

    from rubric_judge import ChatModel
    from rubric_synth.calls import DocumentCalls
    from rubric_synth.config import LLMConfig
    from rubric_synth.document import Document
    from rubric_synth.llm.paragraphs import ShownText
    from rubric_synth.rejection import Stage


class Asking:
    """What the three stages of one document share: its calls, its prompts, what is shown of it."""

    def __init__(self, calls: DocumentCalls, model: ChatModel, config: LLMConfig) -> None:
        """Keep them; nothing is read yet."""
        self.config = config
        self.prompts = load_prompts(config)
        self._calls = calls
        self._model = model
        self._document: Document | None = None
        self._shown: ShownText | None = None
        self._opening = ""

    def shown(self, document: Document) -> ShownText:
        """Return what the model is shown of a document, chosen once."""
        if self._shown is None or self._document is not document:
            self._document = document
            self._shown = shown_text(document.text, limit=self.config.document_chars)
            self._opening = self.prompts.opening(document, self._shown)
        return self._shown

    async def ask(
        self, document: Document, task: str, *, stage: Stage, reply: type[BaseModel]
    ) -> object:
        """Ask for a reply and decode it.

        Args:
            document: what is asked about; the message begins with it.
            task: what comes behind.
            stage: who asks.
            reply: the model of the reply, whose schema goes to the server.

        Returns:
            The decoded JSON, not yet checked against the schema.

        Raises:
            StageRefusal: no answer came, or one that holds no JSON document.
        """
        self.shown(document)
        try:
            answer = await self._calls.ask(
                self._model,
                stage=stage,
                system=self.prompts.system,
                user=f"{self._opening}\n\n{task}",
                reply=reply,
            )
        except JudgeTransportError as error:
            detail = f"{error.reason.value} after {error.attempts} attempt(s)"
            raise StageRefusal(RejectionReason.MODEL_UNAVAILABLE, detail) from None
        return decoded(answer)
