"""From a configuration to a judge; also what the entry points `rubric.judges` call."""

from __future__ import annotations

from collections.abc import Mapping

from rubric_core import Judge, find_judge
from rubric_judge.config import JudgeConfig, LexicalConfig, PluginConfig, judge_spec
from rubric_judge.lexical import LexicalJudge
from rubric_judge.limits import Limiter
from rubric_judge.llm import LLMJudge

__all__ = ["lexical_judge", "llm_judge", "load_judge", "load_replicas"]


def load_judge(
    spec: LexicalConfig | JudgeConfig | PluginConfig, *, limiter: Limiter | None = None
) -> Judge:
    """Build the judge that a configuration describes.

    Args:
        spec: a `JudgeSpec`.
        limiter: for the attempts of a language model's judge; its own `limits` when left out.

    Returns:
        The judge, ready to be called.

    Raises:
        JudgeSetupError: a key is named and not there.
        ConfigError: the `litellm_config` cannot be used.
        PluginError: no installed package registers the plugin.
    """
    match spec:
        case LexicalConfig():
            return LexicalJudge(spec)
        case JudgeConfig():
            return LLMJudge(spec, limiter=limiter)
        case PluginConfig():
            return find_judge(spec.name)(spec.options)


def load_replicas(
    spec: LexicalConfig | JudgeConfig | PluginConfig, *, limiter: Limiter | None = None
) -> tuple[Judge, ...]:
    """Build one judge for each address that a configuration names, for a pool to schedule.

    Args:
        spec: a `JudgeSpec`.
        limiter: shared by all of them; when left out, each replica has the `limits` to itself.

    Returns:
        The judges, which have one fingerprint; a single one for a single address.

    Raises:
        JudgeSetupError, ConfigError, PluginError: as `load_judge`.
    """
    if not isinstance(spec, JudgeConfig):
        return (load_judge(spec, limiter=limiter),)
    replicas = (spec.model_copy(update={"api_base": address}) for address in spec.addresses)
    return tuple(load_judge(replica, limiter=limiter) for replica in replicas)


def lexical_judge(options: Mapping[str, object]) -> Judge:
    """Build the lexical judge: the entry point `lexical`."""
    return load_judge(judge_spec({"type": "lexical", **options}))


def llm_judge(options: Mapping[str, object]) -> Judge:
    """Build a language-model judge: the entry point `llm`."""
    return load_judge(judge_spec({"type": "llm", **options}))
