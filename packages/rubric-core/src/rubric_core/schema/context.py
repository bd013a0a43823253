"""The sections that a policy may look up beside the question, and the prompts made of them."""

import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from rubric_core.files import text_sha256
from rubric_core.schema.sealed import Identifier, Many, Prose, Sealed, Text

_LEAD = "Read what was found, then answer the question."


class Section(Sealed):
    """A part of a document that the policy may read: it has no field for anything hidden."""

    doc_hash: Identifier
    """Hash of the section's document; equal to the task's own for the same document."""

    heading: Text = ""
    """Titles of the document and of this part of it."""

    text: Prose
    """The part, as the policy reads it."""


def _non_empty(sections: Sequence[Section]) -> Sequence[Section]:
    if not sections:
        raise ValueError(
            "there must be a section at least; a task without a context leaves it out"
        )
    if len({(section.doc_hash, section.text) for section in sections}) < len(sections):
        raise ValueError("there must be no section twice")
    return sections


Context = Annotated[Many[Section], AfterValidator(_non_empty)]
"""Sections in the order in which the policy reads them, the best first; never empty."""


def without_context(context: object) -> bool:
    """Return whether there is nothing to look up; the field is then left out of what is written."""
    return context is None


OptionalContext = Annotated[
    Context | None, Field(repr=False, exclude_if=without_context)
]
"""A context, or None for a closed-book task."""


def as_message(question: str, context: Sequence[Section] | None) -> str:
    """Write a question as the one message of a chat.

    Args:
        question: what is asked.
        context: what may be looked up; None for the question alone.
    """
    if context is None:
        return question
    parts = [_LEAD]
    for number, section in enumerate(context, start=1):
        title = f"[{number}]"
        if section.heading:
            title += f" {section.heading}"
        parts.append(f"{title}\n{section.text}")
    parts.append(f"Question: {question}")
    return "\n\n".join(parts)


def as_plain_text(question: str, context: Sequence[Section] | None) -> str:
    """Write a question for a model without a chat template, for the model to continue."""
    lead = "Question: " if context is None else ""
    return f"{lead}{as_message(question, context)}\nAnswer:"


def context_sha256(context: Sequence[Section]) -> str:
    """Return the hash of all that a context holds."""
    content = [section.model_dump(mode="json") for section in context]
    return text_sha256(json.dumps(content, sort_keys=True))
