"""From a configuration to a judge; also what the entry points `rubric.judges` call."""

from __future__ import annotations

from collections.abc import Mapping

from rubric_core import Judge, find_judge
from rubric_judge.config import JudgeConfig, LexicalConfig, PluginConfig, judge_spec
from rubric_judge.lexical import LexicalJudge
from rubric_judge.llm import LLMJudge

__all__ = ["lexical_judge", "llm_judge", "load_judge"]


def load_judge(config: LexicalConfig | JudgeConfig | PluginConfig) -> Judge:
    """Build the judge that a configuration describes.

    Args:
        config: a `JudgeSpec`.

    Returns:
        The judge, ready to be called.

    Raises:
        JudgeSetupError: a key is named and not there.
        PluginError: no installed package registers the plugin.
    """
    match config:
        case LexicalConfig():
            return LexicalJudge(config)
        case JudgeConfig():
            return LLMJudge(config)
        case PluginConfig():
            return find_judge(config.name)(config.options)


def lexical_judge(options: Mapping[str, object]) -> Judge:
    """Build the lexical judge: the entry point `lexical`."""
    return load_judge(judge_spec({"type": "lexical", **options}))


def llm_judge(options: Mapping[str, object]) -> Judge:
    """Build a language-model judge: the entry point `llm`."""
    return load_judge(judge_spec({"type": "llm", **options}))
