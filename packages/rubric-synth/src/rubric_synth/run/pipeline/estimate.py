"""Estimate of the calls, tokens, time and cost of a run, before anything is asked."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rubric_judge.config import JudgeConfig
from rubric_judge.models.litellm_client import known_prices
from rubric_judge.models.model_config import Prices
from rubric_synth.collect.folder import read_collected
from rubric_synth.config import LLMConfig, Stage, SynthConfig
from rubric_synth.document import Document
from rubric_synth.tables import read_table

_ASSUMED = read_table("estimate")
_ANSWERS = 3  # the reference, the empty one and the question


class StageEstimate(NamedTuple):
    """The most that one stage takes, over all documents."""

    stage: Stage
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    """Cost of the calls; None where no price is known."""


class SynthEstimate(NamedTuple):
    """The most that a run takes, where every document gives all its questions and all are sound."""

    documents: int
    counted: int
    """Documents whose prompts were counted; the others are assumed to be like them."""
    stages: tuple[StageEstimate, ...]
    in_flight: int
    """Calls at one time."""
    seconds: float
    """Duration of all calls, so many at a time."""

    @property
    def calls(self) -> int:
        """Calls of all stages."""
        return sum(stage.calls for stage in self.stages)

    @property
    def cost_usd(self) -> float | None:
        """Cost of all stages; None where a price is not known."""
        costs = [stage.cost_usd for stage in self.stages]
        known = [cost for cost in costs if cost is not None]
        return math.fsum(known) if len(known) == len(costs) else None


def estimate(
    collected: Path,
    config: SynthConfig,
    *,
    limit: int | None = None,
) -> SynthEstimate:
    """Estimate what a run would take that has none of its answers yet; nothing is asked.

    Args:
        collected: Folder written by `collect`.
        config: Configuration of the run.
        limit: Number of documents, from the first; all if None.

    Returns:
        Calls, tokens, time and money. Tokens read are counted in the prompts; tokens written are
        assumed.

    Raises:
        CollectedFolderError: The folder was not written by `collect`.
    """
    documents, total = _sample(collected, limit)
    stages: list[StageEstimate] = []
    questions = config.synthesiser.questions_per_document
    if isinstance(config.synthesiser, LLMConfig):
        stages += _written(documents, total, config.synthesiser)
    if (judge := config.judge_model) is not None:
        stages.append(
            _judged(total * questions, judge, len(config.quality.corruptions))
        )
    limits = [
        model.limits.max_in_flight
        for model in (config.model, config.judge_model)
        if model
    ]
    in_flight = min(
        [config.max_concurrency, *(most for most in limits if most is not None)]
    )
    calls = sum(stage.calls for stage in stages)
    written = sum(stage.completion_tokens for stage in stages)
    busy = calls * _ASSUMED["seconds"] + written / _ASSUMED["tokens_per_s"]
    return SynthEstimate(
        total, len(documents), tuple(stages), in_flight, busy / in_flight
    )


def _sample(collected: Path, limit: int | None) -> tuple[list[Document], int]:
    """Return some documents from all over the collection, and how many it has."""
    documents: list[Document] = []
    step = 1
    total = 0
    for document in read_collected(collected):
        if total == limit:
            break
        if total % step == 0:
            documents.append(document)
            if len(documents) == 2 * _ASSUMED["sampled"]:
                documents = documents[::2]
                step = 2 * step
        total += 1
    return documents, total


def _written(
    documents: Sequence[Document],
    total: int,
    config: LLMConfig,
) -> tuple[StageEstimate, ...]:
    """Count the prompts of the three stages, with an analysis and drafts of the assumed length."""
    # Only where a model writes.
    from rubric_synth.stages.llm.prompt import load_prompts, shown_text

    prompts = load_prompts(config)
    questions = config.questions_per_document
    openings: list[int] = []
    for document in documents:
        shown = shown_text(document.text, limit=config.document_chars)
        openings.append(len(prompts.opening(document, shown)))
    read = sum(openings) / max(1, len(openings)) + len(prompts.system)
    per_token = _ASSUMED["chars_per_token"]
    stages: tuple[tuple[Stage, int, float, int], ...] = (
        (
            "analyse",
            1,
            len(prompts.analysis) / per_token,
            _ASSUMED["analyse"],
        ),
        (
            "synthesise",
            1,
            len(prompts.synthesis) / per_token + _ASSUMED["analyse"],
            questions * _ASSUMED["synthesise"],
        ),
        (
            "enrich",
            questions,
            len(prompts.enrichment) / per_token + _ASSUMED["synthesise"],
            _ASSUMED["enrich"],
        ),
    )
    prices = known_prices(config.model)
    return tuple(
        _stage(
            stage,
            total * calls,
            (read / per_token + task, written),
            prices,
        )
        for stage, calls, task, written in stages
    )


def _judged(tasks: int, judge: JudgeConfig, corruptions: int) -> StageEstimate:
    each = judge.calls(_ASSUMED["criteria"])
    calls = tasks * (_ANSWERS + corruptions) * each
    read = _ASSUMED["judge_reads"] + _ASSUMED["passage"]
    written = _ASSUMED["judge_writes"] / each
    if judge.max_tokens is not None:
        written = min(written, judge.max_tokens)
    return _stage(
        "quality",
        calls,
        (read, written),
        known_prices(judge),
    )


def _stage(
    stage: Stage,
    calls: int,
    each: tuple[float, float],
    prices: Prices | None,
) -> StageEstimate:
    read, written = (round(calls * tokens) for tokens in each)
    cost = None
    if prices is not None:
        millions = (
            read * prices.prompt_usd_per_mtok + written * prices.completion_usd_per_mtok
        )
        cost = millions / 1e6
    return StageEstimate(stage, calls, read, written, cost)


__all__ = ["StageEstimate", "SynthEstimate", "estimate"]
