"""From markup and print to prose: Markdown, HTML, pages of a PDF, reStructuredText docstrings."""

from __future__ import annotations

from rubric_synth.cleaning.characters import normal_characters, without_ligatures
from rubric_synth.cleaning.markdown import (
    Section,
    clean_markdown,
    document_title,
    sections,
    short_title,
)
from rubric_synth.cleaning.markup import article_text, rest_to_prose, without_tags
from rubric_synth.cleaning.pages import Line, pages_to_markdown

__all__ = [
    "Line",
    "Section",
    "article_text",
    "clean_markdown",
    "document_title",
    "normal_characters",
    "pages_to_markdown",
    "rest_to_prose",
    "sections",
    "short_title",
    "without_ligatures",
    "without_tags",
]
