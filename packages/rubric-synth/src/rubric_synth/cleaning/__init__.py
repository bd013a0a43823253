"""From markup to prose: reStructuredText docstrings and Markdown files."""

from __future__ import annotations

from rubric_synth.cleaning.markdown import Section, clean_markdown, document_title, sections
from rubric_synth.cleaning.rest import rest_to_prose

__all__ = ["Section", "clean_markdown", "document_title", "rest_to_prose", "sections"]
