"""The document type, the outcome of a document, and the Markdown layout of API entries.

Every reason for which a document or a question does not reach the dataset is here too.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, cast

from pydantic import Field

from rubric_core.files import text_sha256
from rubric_synth.calls import CallTotals
from rubric_synth.config import Frozen, Stage
from rubric_synth.errors import SynthError


class RejectionReason(StrEnum):
    """Every way to be left out."""

    # collect
    UNREADABLE = "unreadable"
    OUTSIDE_FOLDER = "outside_folder"
    UNSUPPORTED_TYPE = "unsupported_type"
    BINARY = "binary"
    WRONG_ENCODING = "wrong_encoding"
    BROKEN_RECORD = "broken_record"
    DUPLICATE_ID = "duplicate_id"
    IMPORT_FAILED = "import_failed"
    BROKEN_PDF = "broken_pdf"
    ENCRYPTED = "encrypted"
    NO_TEXT_LAYER = "no_text_layer"
    NO_UNICODE_MAP = "no_unicode_map"
    CONVERSION_FAILED = "conversion_failed"
    MISSING_EXTRA = "missing_extra"
    OTHER_LANGUAGE = "other_language"
    EMPTY = "empty"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    EXACT_DUPLICATE = "exact_duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    SAME_NAME = "same_name"
    NO_PROGRAM = "no_program"
    # analyse, synthesise, enrich
    NOT_AN_API_ENTRY = "not_an_api_entry"
    NO_SUMMARY = "no_summary"
    NO_PARAMETERS = "no_parameters"
    NO_PASSAGE = "no_passage"
    NOT_FOR_USE = "not_for_use"
    NOT_ENGLISH = "not_english"
    TOO_FEW_FACTS = "too_few_facts"
    NO_QUESTION = "no_question"
    STAGE_FAILED = "stage_failed"
    MODEL_UNAVAILABLE = "model_unavailable"
    MODEL_REFUSED = "model_refused"
    REPLY_TRUNCATED = "reply_truncated"
    REPLY_NOT_JSON = "reply_not_json"
    REPLY_OFF_SCHEMA = "reply_off_schema"
    PASSAGE_NOT_IN_DOCUMENT = "passage_not_in_document"
    # quality
    EMPTY_QUESTION = "empty_question"
    TOO_FEW_CRITERIA = "too_few_criteria"
    TOO_MANY_CRITERIA = "too_many_criteria"
    LOW_TOTAL_WEIGHT = "low_total_weight"
    NEGATIVE_WEIGHT = "negative_weight"
    WEIGHT_OUT_OF_RANGE = "weight_out_of_range"
    MISSING_FIELD = "missing_field"
    FIELD_TOO_LONG = "field_too_long"
    REPEATED_CRITERION = "repeated_criterion"
    INVALID_SCHEMA = "invalid_schema"
    NO_REFERENCE = "no_reference"
    NOT_SELF_CONTAINED = "not_self_contained"
    NO_CLAIM = "no_claim"
    LEAK = "leak"
    DUPLICATE_QUESTION = "duplicate_question"
    DUPLICATE_PASSAGE = "duplicate_passage"
    NO_CONTEXT = "no_context"
    JUDGE_UNAVAILABLE = "judge_unavailable"
    JUDGE_INVALID = "judge_invalid"
    LOW_REFERENCE_REWARD = "low_reference_reward"
    REWARDED_EMPTY_ANSWER = "rewarded_empty_answer"
    REWARDED_QUESTION_ECHO = "rewarded_question_echo"
    REWARDED_WRONG_ANSWER = "rewarded_wrong_answer"
    NOT_DISCRIMINATING = "not_discriminating"
    BROKEN_CHECK = "broken_check"

    @property
    def is_settled(self) -> bool:
        """Whether another run would end the same: False where a model or a judge gave no answer."""
        return self not in {
            RejectionReason.MODEL_UNAVAILABLE,
            RejectionReason.JUDGE_UNAVAILABLE,
        }


class RefusedError(SynthError, ValueError):
    """Input that does not become a task; it becomes a counted rejection."""

    def __init__(self, reason: RejectionReason, detail: str = "") -> None:
        """Keep the reason and its detail."""
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        """Name the reason and, where there is one, the detail."""
        if not self.detail:
            return str(self.reason)
        return f"{self.reason}: {self.detail}"


class Rejection(Frozen):
    """One document or question that was left out."""

    source: str
    """Where the document came from."""
    stage: Stage
    """The step that refused it."""
    reason: RejectionReason
    """The one reason."""
    detail: str = ""
    """Numbers, names and hashes that explain the reason; never text of the document."""
    doc_hash: str = ""
    """Hash of the document, where its text could be read."""
    draft: dict[str, Any] | None = Field(default=None, repr=False)
    """The refused question with its rubric, where one was made."""


def left_out(
    source: str,
    reason: RejectionReason,
    detail: str,
    doc_hash: str = "",
) -> Rejection:
    """Return the rejection of what does not enter a collection."""
    return Rejection(
        source=source, stage="collect", reason=reason, detail=detail, doc_hash=doc_hash
    )


def most_first(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts with the highest first; equal ones by name."""

    def rank(item: tuple[str, int]) -> tuple[int, str]:
        name, count = item
        return -count, name

    return dict(sorted(counts.items(), key=rank))


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
        return text_sha256(self.text)


Found = Iterator[Document | Rejection]
"""Items of a source: documents, and a rejection for each item that is not one."""


class DocumentOutcome(Frozen):
    """Tasks, rejections and account of one document; every document ends as one of these."""

    source: str
    """Where the document came from."""
    doc_hash: str
    """SHA-256 of its text."""
    tasks: tuple[dict[str, Any], ...] = Field(default=(), repr=False)
    """Checked tasks in the paper's JSON, passages included."""
    rejections: tuple[Rejection, ...] = Field(default=(), repr=False)
    """Refusals with their reasons."""
    totals: dict[Stage, CallTotals] = Field(default_factory=dict[Stage, CallTotals])
    """Calls and cost of each stage, earlier runs included."""

    @property
    def is_settled(self) -> bool:
        """Whether the document is done: False where a model or a judge gave no answer."""
        return all(rejection.reason.is_settled for rejection in self.rejections)


def rejected(
    of: Document | DocumentOutcome,
    stage: Stage,
    reason: RejectionReason,
    detail: str = "",
) -> Rejection:
    """Return the rejection of a document, or of a question about it."""
    return Rejection(
        source=of.source,
        stage=stage,
        reason=reason,
        detail=detail,
        doc_hash=of.doc_hash,
    )


ApiForm = Literal["function", "class", "method", "options", "settings", "variables"]
"""Form of an object of a package, or of the objects of a manual: command-line options, settings,
environment variables."""

_TITLE = re.compile(
    r"^# `(?P<name>\w+)`, a (?P<form>function|class|method) of (?P<owner>[\w.]+)$"
)
_MANUAL_TITLES: dict[ApiForm, str] = {
    "options": "Command-line options",
    "settings": "Settings",
    "variables": "Environment variables",
}
_MANUAL_TITLE = re.compile(
    rf"^# (?P<what>{'|'.join(_MANUAL_TITLES.values())}) of (?P<owner>.+)$"
)
_ITEM = re.compile(
    r"^- `(?P<name>[^`]*)`(?: \[(?P<kind>.*?)\])?(?:: (?P<description>.*))?$"
)


class ApiItem(Frozen):
    """One parameter, result or exception."""

    name: str
    """Its name; for an unnamed result, its type."""
    kind: str = ""
    """Its type, as documented."""
    description: str = ""
    """Its description, in one paragraph."""

    def rendered(self) -> str:
        """Return the item as a line of a list."""
        kind = f" [{self.kind}]" if self.kind else ""
        description = f": {self.description}" if self.description else ""
        return f"- `{self.name}`{kind}{description}"


class ApiEntry(Frozen):
    """One function, class or method, or the settings of a program, as documentation has them."""

    qualified_name: str
    """Dotted name: the owner (module or class), then the bare name; of a manual, the program."""
    form: ApiForm = "function"
    """Form of the object."""
    summary: tuple[str, ...] = ()
    """Paragraphs before the first section."""
    parameters: tuple[ApiItem, ...] = ()
    """Parameters in the documented order, one name each; of a manual, the objects described."""
    returns: tuple[ApiItem, ...] = ()
    """Results."""
    yields: tuple[ApiItem, ...] = ()
    """Items that a generator yields, one at a time."""
    raises: tuple[ApiItem, ...] = ()
    """Exceptions."""
    notes: tuple[str, ...] = ()
    """Paragraphs of warnings, then notes."""

    @property
    def is_of_manual(self) -> bool:
        """Whether it holds options, settings or variables of a program."""
        return self.form in _MANUAL_TITLES

    @property
    def name(self) -> str:
        """The bare name."""
        if self.is_of_manual:
            return self.qualified_name
        return self.qualified_name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """The module, or for a method the class, that holds the object."""
        return self.qualified_name.rpartition(".")[0]

    def texts(self) -> Iterator[str]:
        """Yield the running text: summary, descriptions of parameters and results, notes."""
        yield from self.summary
        for item in (*self.parameters, *self.returns, *self.yields):
            yield item.description
        yield from self.notes

    def rendered(self) -> str:
        """Return the entry as Markdown."""
        if self.is_of_manual:
            items = "\n".join(item.rendered() for item in self.parameters)
            title = f"# {_MANUAL_TITLES[self.form]} of {self.name}"
            return f"{title}\n\n{items}\n"
        blocks = [f"# `{self.name}`, a {self.form} of {self.owner}", *self.summary]
        for heading in ("Parameters", "Returns", "Yields", "Raises"):
            items = getattr(self, heading.lower())
            if items:
                blocks.append(f"## {heading}")
                blocks.append("\n".join(item.rendered() for item in items))
        if self.notes:
            blocks += ["## Notes", *self.notes]
        return "\n\n".join(blocks) + "\n"


def parse_entry(text: str) -> ApiEntry | None:
    """Read back what an entry was rendered as; None where the text has another layout."""
    blocks = text.strip().split("\n\n")
    title = _TITLE.match(blocks[0])
    if title is None:
        return _parse_manual(blocks)
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
        yields=_parse_items(sections["Yields"]),
        raises=_parse_items(sections["Raises"]),
        notes=tuple(sections["Notes"]),
    )


def _parse_manual(blocks: list[str]) -> ApiEntry | None:
    """Read back the objects of a manual; None where the text has another layout."""
    title = _MANUAL_TITLE.match(blocks[0])
    if title is None:
        return None
    forms: dict[str, ApiForm] = {what: form for form, what in _MANUAL_TITLES.items()}
    return ApiEntry(
        qualified_name=title["owner"],
        form=forms[title["what"]],
        parameters=_parse_items(blocks[1:]),
    )


def _parse_items(blocks: list[str]) -> tuple[ApiItem, ...]:
    items: list[ApiItem] = []
    for block in blocks:
        for line in block.splitlines():
            match = _ITEM.match(line)
            if match is not None:
                items.append(ApiItem(**match.groupdict(default="")))
    return tuple(items)
