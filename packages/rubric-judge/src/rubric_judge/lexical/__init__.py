"""The embedded judge: no model, no network, the same score for the same text for ever."""

from __future__ import annotations

from rubric_judge.lexical.judge import LexicalJudge

__all__ = ["LexicalJudge"]
