"""What a prompt of the three stages holds, read back by a model that is none."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

_BEGIN: Final = "----- BEGIN {label} "
_TITLE: Final = "Title: "
_GAP: Final = re.compile(r"\n\n\[\d+ paragraphs? left out here\]\Z")
_MOST_DRAFTS: Final = re.compile(r"TASK: write (?:up to )?(\d+)")


class PromptedDocument(NamedTuple):
    """A document as a prompt shows it."""

    title: str
    paragraphs: tuple[str, ...]
    """The shown ones; the first has the number 1."""

    @property
    def text(self) -> str:
        """The paragraphs, with blank lines between them."""
        return "\n\n".join(self.paragraphs)


def asked_for(body: Mapping[str, object]) -> str:
    """Return the name of the reply's schema in a request; "" where there is none."""
    found: Any = body
    for key in ("response_format", "json_schema"):
        found = found.get(key) or {}
    return str(found.get("name", ""))


def prompted_document(message: str) -> PromptedDocument:
    """Read the document out of a user message.

    Raises:
        ValueError: The message holds none.
    """
    head, _, body = fenced_text(message, "DOCUMENT").partition("\n\n")
    paragraphs: list[str] = []
    rest = f"\n\n{body}"
    while found := _next(rest, len(paragraphs) + 1):
        paragraph, rest = found
        paragraphs.append(_GAP.sub("", paragraph))
    return PromptedDocument(head.removeprefix(_TITLE), tuple(paragraphs))


def prompted_draft(message: str) -> dict[str, Any]:
    """Read the draft out of a user message of stage 3.

    Raises:
        ValueError: The message holds none.
    """
    return cast("dict[str, Any]", json.loads(fenced_text(message, "DRAFT")))


def most_drafts(message: str) -> int:
    """Return how many drafts a user message of stage 2 asks for."""
    found = _MOST_DRAFTS.findall(message)
    return int(found[-1]) if found else 1


def fenced_text(message: str, label: str) -> str:
    """Return what stands between the first BEGIN and END lines with a label.

    Raises:
        ValueError: There are none.
    """
    start = message.index(_BEGIN.format(label=label))
    first_line = message.index("\n", start)
    end_line = message[start:first_line].replace("BEGIN", "END", 1)
    return message[first_line + 1 : message.index(f"\n{end_line}", first_line)]


def _next(text: str, number: int) -> tuple[str, str] | None:
    """Cut off the paragraph with a number; None where there is none."""
    _, mark, rest = text.partition(f"\n\n[{number}] ")
    if not mark:
        return None
    following = rest.find(f"\n\n[{number + 1}] ")
    return (rest, "") if following < 0 else (rest[:following], rest[following:])
