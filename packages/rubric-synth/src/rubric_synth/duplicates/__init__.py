"""Duplicates: equal, nearly equal and equally named documents, and questions asked twice."""

from __future__ import annotations

from rubric_synth.duplicates.question_index import QuestionIndex
from rubric_synth.duplicates.selection import Fingerprint, Twin, find_twins, fingerprint

__all__ = ["Fingerprint", "QuestionIndex", "Twin", "find_twins", "fingerprint"]
