"""All that shapes the outcome of a document besides its text, as one digest."""

from __future__ import annotations

import hashlib
import json
import uuid
from importlib.metadata import version
from typing import Any, NamedTuple

from rubric_core import Judge
from rubric_judge import ChatModel, load_judge
from rubric_judge.capabilities import fingerprint
from rubric_synth.config import LLMConfig, SynthConfig
from rubric_synth.stages import Stages, StagesFactory

_PACKAGES = ("rubric-core", "rubric-judge", "rubric-synth")
_OF_THE_WHOLE = {"judge", "near_duplicate_question_jaccard"}
"""Fields of the quality checks that say nothing of one document: the judge is there by its
fingerprint, and questions are compared when the dataset is written."""


class Settings(NamedTuple):
    """What outcomes of one run have in common."""

    digest: bytes
    """Changes with everything that may change an outcome."""
    prompts: dict[str, str]
    """SHA-256 of each prompt file by its name."""
    model: dict[str, Any] | None
    """Identity of the model that writes; None where a program does."""
    judge: str
    """Name of the judge."""


def settings_of(
    config: SynthConfig,
    *,
    collected_sha256: str,
    stages: Stages | StagesFactory | None,
    judge: Judge | None,
) -> Settings:
    """Return what the outcomes of a run depend on; nothing is sent.

    Args:
        config: The configuration.
        collected_sha256: Of the collected file, on which the extractive stages depend as a whole.
        stages: The caller's own. One without a `fingerprint` may give other drafts tomorrow: what
            comes of it is not used again by another run.
        judge: The caller's own.

    Raises:
        JudgeSetupError: A key is named and not there.
        ConfigError: A `litellm_config` or a plugin cannot be used.
    """
    judge = judge or load_judge(config.quality.judge)
    prompts: dict[str, str] = {}
    model: dict[str, Any] | None = None
    synthesiser: object = config.synthesiser.model_dump(mode="json", exclude={"model"})
    if stages is not None:
        own = list(stages) if isinstance(stages, Stages) else [stages]
        synthesiser = [_name(part) for part in own]
    elif isinstance(config.synthesiser, LLMConfig):
        from rubric_synth.llm.prompt import prompt_hashes  # only where it is asked for

        prompts = prompt_hashes(config.synthesiser)
        model = ChatModel(config.synthesiser.model).identity
    else:
        synthesiser = [synthesiser, collected_sha256]
    parts = {
        "versions": [version(name) for name in _PACKAGES],
        "synthesiser": synthesiser,
        "prompts": prompts,
        "model": model,
        "quality": config.quality.model_dump(mode="json", exclude=_OF_THE_WHOLE),
        "judge": fingerprint(judge),
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
    return Settings(digest, prompts, model, judge.name)


def _name(part: object) -> str:
    kind = f"{type(part).__module__}.{type(part).__qualname__}"
    return f"{kind} {getattr(part, 'fingerprint', None) or uuid.uuid4().hex}"
