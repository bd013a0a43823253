"""What an engine is given and what it hands back, whichever machines it works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rubric_judge import ChatModel, JudgeConfig, load_judge
from rubric_judge.config import HybridConfig, LexicalConfig
from rubric_synth.config import ExtractiveConfig, LLMConfig
from rubric_synth.stages import Stages
from rubric_synth.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_core import Judge
    from rubric_judge import ModelConfig
    from rubric_judge.config import JudgeSpec
    from rubric_judge.limits import Limiter
    from rubric_synth.calls import CallRecord, DocumentCalls
    from rubric_synth.config import SynthConfig
    from rubric_synth.document import Document
    from rubric_synth.outcome import Outcome
    from rubric_synth.stages import StagesFactory


class Pending(NamedTuple):
    """A document to work on."""

    document: Document
    known: tuple[CallRecord, ...]
    """Its calls that earlier runs have had answered."""


class Sink(Protocol):
    """Keeps what comes of the work; called on the event loop of `Engine.run`."""

    def on_call(self, doc_hash: str, record: CallRecord) -> None:
        """Keep a call: an answered one before its answer is used, or what one without cost.

        Raises:
            OutputError: It could not be written; the engine stops and raises this.
        """
        ...

    def on_outcome(self, outcome: Outcome) -> None:
        """Keep all that came of one document.

        Raises:
            OutputError: It could not be written; the engine stops and raises this.
        """
        ...

    def may_call(self) -> bool:
        """Whether one more call may be made; once False, no further document is drawn.

        An engine asks before each call, or, where calls are made elsewhere, before each document.
        """
        ...


class Engine(Protocol):
    """Works on documents, several at a time."""

    @property
    def calls_in_flight(self) -> int:
        """Calls under way now, or documents in work where calls are made elsewhere."""
        ...

    async def run(self, pending: Iterable[Pending], sink: Sink) -> None:
        """Work on documents until there is none left, or until the sink permits no further call.

        A document that is cut off by that is not reported as an outcome. A cancellation ends at
        once.

        Args:
            pending: Drawn lazily, only as there is room.
            sink: Told of every answered call and of every finished document.

        Raises:
            OutputError: The sink could not keep something.
        """
        ...


@dataclass(frozen=True)
class WorkerSpec:
    """Configuration, and what a caller brings of its own; can be pickled if those can."""

    config: SynthConfig
    stages: StagesFactory | None = None
    """None for those of a language model, which the configuration describes."""
    judge: Judge | None = None
    """None for the one that the configuration describes."""

    @property
    def may_cost(self) -> bool:
        """Whether anything but a program is asked."""
        judge = self.config.quality.judge
        reader = judge.judge if isinstance(judge, HybridConfig) else judge
        programs = isinstance(self.config.synthesiser, ExtractiveConfig) and isinstance(
            reader, LexicalConfig
        )
        return not programs or self.judge is not None

    def build(
        self, *, limiter: Limiter | None = None, judge_limiter: Limiter | None = None
    ) -> Worker:
        """Make a worker; close it with `Worker.aclose`.

        Args:
            limiter: For the attempts of the model; one of its own `limits` when left out.
            judge_limiter: For those of the judge, unless both are one endpoint.

        Raises:
            JudgeSetupError: A key is named and not there.
            ConfigError: A `litellm_config` or a plugin cannot be used.
        """
        synthesiser, quality = self.config.synthesiser, self.config.quality
        model: ChatModel | None = None
        stages = self.stages
        if stages is None:
            if not isinstance(synthesiser, LLMConfig):
                message = "the extractive synthesiser needs the stages of a collection"
                raise ValueError(message)
            from rubric_synth.llm import llm_stages  # only where it is asked for

            model = ChatModel(synthesiser.model, limiter=limiter)
            stages = llm_stages(model, synthesiser)
        judge = self.judge
        if judge is None:
            shared = judge_limiter
            if model is not None and _is_at(quality.judge, model_config(self.config)):
                shared = model.limiter
            judge = load_judge(quality.judge, limiter=shared)
        return Worker(stages, judge, quality, model=model, owns_judge=self.judge is None)


class OwnStages:
    """A factory for stages that know nothing of `DocumentCalls`."""

    def __init__(self, stages: Stages) -> None:
        """Keep them."""
        self.stages = stages

    def __call__(self, calls: DocumentCalls) -> Stages:
        """Return the same for each document."""
        del calls
        return self.stages


def model_config(config: SynthConfig) -> ModelConfig | None:
    """Return the model that writes, None where a program does."""
    synthesiser = config.synthesiser
    return synthesiser.model if isinstance(synthesiser, LLMConfig) else None


def _is_at(judge: JudgeSpec, model: ModelConfig | None) -> bool:
    """Whether judge and model are one endpoint, whose limits they then share."""
    reader = judge.judge if isinstance(judge, HybridConfig) else judge
    if not isinstance(reader, JudgeConfig) or model is None:
        return False
    if (reader.addresses, reader.litellm_config) != (model.addresses, model.litellm_config):
        return False
    return reader.api_base is not None or reader.model == model.model
