"""The document type, the outcome of a document, and the Markdown layout of API entries."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, cast

from pydantic import Field

from rubric_synth.calls import CallTotals
from rubric_synth.config import Frozen
from rubric_synth.rejection import Rejection, RejectionReason, Stage

DocumentKind = Literal["prose", "api"]


class Document(Frozen):
    """Cleaned text with its origin; printing one shows its title and hash, not its text."""

    title: str = Field(min_length=1, repr=False)
    """Heading, file name or dotted name of an object."""
    text: str = Field(min_length=1, repr=False)
    """The whole cleaned text; the API layout of `api_entry` when kind is "api"."""
    source: str = Field(min_length=1)
    """Where it came from: `folder/file.md`, `file.jsonl#id`, `python:numpy.linalg.svd`."""
    kind: DocumentKind = "prose"
    """Prose, or the reference entry of one programming object."""

    @cached_property
    def doc_hash(self) -> str:
        """SHA-256 of the text; it alone decides the split."""
        return hashlib.sha256(self.text.encode()).hexdigest()


Found = Iterator[Document | Rejection]
"""What a source gives: documents, and a rejection for each item that is not one."""


class DocumentOutcome(Frozen):
    """Tasks, rejections and account of one document; every document ends as one of these."""

    source: str
    """Where the document came from."""
    doc_hash: str
    """SHA-256 of its text."""
    tasks: tuple[dict[str, Any], ...] = Field(default=(), repr=False)
    """Checked tasks in the paper's JSON, passages included."""
    rejections: tuple[Rejection, ...] = Field(default=(), repr=False)
    """What was refused, and why."""
    totals: dict[Stage, CallTotals] = Field(default_factory=dict[Stage, CallTotals])
    """What each stage asked and what it cost, earlier runs included."""

    @property
    def is_settled(self) -> bool:
        """Whether the document is done: False where a model or a judge gave no answer."""
        return all(rejection.reason.is_settled for rejection in self.rejections)


def rejected(
    of: Document | DocumentOutcome, stage: Stage, reason: RejectionReason, detail: str = ""
) -> Rejection:
    """Return the rejection of a document, or of a question about it."""
    return Rejection(
        source=of.source, stage=stage, reason=reason, detail=detail, doc_hash=of.doc_hash
    )


ApiForm = Literal["function", "class", "method"]

_TITLE = re.compile(r"^# `(?P<name>\w+)`, a (?P<form>function|class|method) of (?P<owner>[\w.]+)$")
_ITEM = re.compile(r"^- `(?P<name>[^`]*)`(?: \[(?P<kind>.*?)\])?(?:: (?P<description>.*))?$")


class ApiItem(Frozen):
    """One parameter, result or exception."""

    name: str
    """Its name; for an unnamed result, its type."""
    kind: str = ""
    """Its type, as documented."""
    description: str = ""
    """What it is, in one paragraph."""


class ApiEntry(Frozen):
    """One function, class or method, as its documentation describes it."""

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

    def texts(self) -> Iterator[str]:
        """Yield the running text: summary, descriptions of parameters and results, notes."""
        yield from self.summary
        yield from (item.description for item in (*self.parameters, *self.returns))
        yield from self.notes


def render_entry(entry: ApiEntry) -> str:
    """Return the entry as Markdown."""
    blocks = [f"# `{entry.name}`, a {entry.form} of {entry.owner}", *entry.summary]
    for heading in ("Parameters", "Returns", "Raises"):
        if items := getattr(entry, heading.lower()):
            blocks += [f"## {heading}", "\n".join(map(_render_item, items))]
    if entry.notes:
        blocks += ["## Notes", *entry.notes]
    return "\n\n".join(blocks) + "\n"


def parse_entry(text: str) -> ApiEntry | None:
    """Read back what `render_entry` wrote; None where the text has another layout."""
    blocks = text.strip().split("\n\n")
    title = _TITLE.match(blocks[0])
    if title is None:
        return None
    sections: defaultdict[str, list[str]] = defaultdict(list)
    current = ""
    for block in blocks[1:]:
        if block.startswith("## "):
            current = block.removeprefix("## ")
        else:
            sections[current].append(block)
    return ApiEntry(
        qualified_name=f"{title['owner']}.{title['name']}",
        form=cast("ApiForm", title["form"]),
        summary=tuple(sections[""]),
        parameters=_parse_items(sections["Parameters"]),
        returns=_parse_items(sections["Returns"]),
        raises=_parse_items(sections["Raises"]),
        notes=tuple(sections["Notes"]),
    )


def _render_item(item: ApiItem) -> str:
    kind = f" [{item.kind}]" if item.kind else ""
    description = f": {item.description}" if item.description else ""
    return f"- `{item.name}`{kind}{description}"


def _parse_items(blocks: list[str]) -> tuple[ApiItem, ...]:
    lines = (line for block in blocks for line in block.splitlines())
    return tuple(ApiItem(**m.groupdict(default="")) for line in lines if (m := _ITEM.match(line)))
