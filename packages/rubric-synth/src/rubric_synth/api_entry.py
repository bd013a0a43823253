"""The reference entry of one programming object, and the Markdown layout it has as a document.

`render_entry` and `parse_entry` are inverse, so that collected documents stay plain, readable text.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict

ApiForm = Literal["function", "class", "method"]

_TITLE = re.compile(r"^# `(?P<name>\w+)`, a (?P<form>function|class|method) of (?P<owner>[\w.]+)$")
_ITEM = re.compile(r"^- `(?P<name>[^`]*)`(?: \[(?P<kind>.*?)\])?(?:: (?P<description>.*))?$")


class ApiItem(BaseModel):
    """One parameter, result or exception."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str
    """Its name; for an unnamed result, its type."""
    kind: str = ""
    """Its type, as documented."""
    description: str = ""
    """What it is, in one paragraph."""


class ApiEntry(BaseModel):
    """One function, class or method, as its documentation describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    qualified_name: str
    """Dotted name: the owner (module or class), then the bare name."""
    form: ApiForm = "function"
    """What the object is."""
    summary: tuple[str, ...] = ()
    """Paragraphs before the first section."""
    parameters: tuple[ApiItem, ...] = ()
    """Parameters in the documented order, one name each."""
    returns: tuple[ApiItem, ...] = ()
    """Results, or what a generator yields."""
    raises: tuple[ApiItem, ...] = ()
    """Exceptions."""
    notes: tuple[str, ...] = ()
    """Paragraphs of warnings, then notes."""

    @property
    def name(self) -> str:
        """The bare name."""
        return self.qualified_name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """The module, or for a method the class, that holds the object."""
        return self.qualified_name.rpartition(".")[0]


def render_entry(entry: ApiEntry) -> str:
    """Return the entry as Markdown."""
    blocks = [f"# `{entry.name}`, a {entry.form} of {entry.owner}", *entry.summary]
    for heading, items in (
        ("Parameters", entry.parameters),
        ("Returns", entry.returns),
        ("Raises", entry.raises),
    ):
        if items:
            blocks += [f"## {heading}", "\n".join(_render_item(item) for item in items)]
    if entry.notes:
        blocks += ["## Notes", *entry.notes]
    return "\n\n".join(blocks) + "\n"


def parse_entry(text: str) -> ApiEntry | None:
    """Read back what `render_entry` wrote; None where the text has another layout."""
    blocks = text.strip().split("\n\n")
    title = _TITLE.match(blocks[0])
    if title is None:
        return None
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for block in blocks[1:]:
        if block.startswith("## "):
            current = block.removeprefix("## ")
            sections[current] = []
        else:
            sections[current].append(block)
    return ApiEntry(
        qualified_name=f"{title['owner']}.{title['name']}",
        form=_form(title["form"]),
        summary=tuple(sections[""]),
        parameters=_parse_items(sections.get("Parameters", [])),
        returns=_parse_items(sections.get("Returns", [])),
        raises=_parse_items(sections.get("Raises", [])),
        notes=tuple(sections.get("Notes", [])),
    )


def _form(word: str) -> ApiForm:
    match word:
        case "class" | "method":
            return word
        case _:
            return "function"


def _render_item(item: ApiItem) -> str:
    kind = f" [{item.kind}]" if item.kind else ""
    description = f": {item.description}" if item.description else ""
    return f"- `{item.name}`{kind}{description}"


def _parse_items(blocks: list[str]) -> tuple[ApiItem, ...]:
    matches = (_ITEM.match(line) for block in blocks for line in block.splitlines())
    return tuple(
        ApiItem(name=m["name"], kind=m["kind"] or "", description=m["description"] or "")
        for m in matches
        if m is not None
    )
