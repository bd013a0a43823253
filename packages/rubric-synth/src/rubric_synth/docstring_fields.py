"""Docstrings with Google sections (`Args:`) or Sphinx fields (`:param x:`), read into an entry."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rubric_synth.api_entry import ApiEntry, ApiForm, ApiItem
from rubric_synth.cleaning.markup import inline_to_prose, rest_to_prose

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTIONS: Final = {
    "args": "parameters",
    "arguments": "parameters",
    "parameters": "parameters",
    "params": "parameters",
    "keyword args": "parameters",
    "keyword arguments": "parameters",
    "other parameters": "parameters",
    "returns": "returns",
    "return": "returns",
    "yields": "returns",
    "raises": "raises",
    "note": "notes",
    "notes": "notes",
    "warning": "notes",
    "warnings": "notes",
    "attributes": "dropped",
    "example": "dropped",
    "examples": "dropped",
    "references": "dropped",
    "see also": "dropped",
    "todo": "dropped",
}
_FIELDS: Final = {
    "param": "parameters",
    "parameter": "parameters",
    "arg": "parameters",
    "argument": "parameters",
    "key": "parameters",
    "keyword": "parameters",
    "kwarg": "parameters",
    "return": "returns",
    "returns": "returns",
    "yield": "returns",
    "yields": "returns",
    "raise": "raises",
    "raises": "raises",
    "except": "raises",
    "exception": "raises",
    "type": "type",
    "rtype": "rtype",
}
_HEADING = re.compile(r"^(?P<name>[A-Z][A-Za-z ]+):[ ]*(?P<inline>.*)$")
_FIELD = re.compile(rf"^:(?P<name>{'|'.join(_FIELDS)})(?:\s+(?P<argument>[^:]+))?:\s*(?P<body>.*)$")
_NAMES = r"(?:\\?\*){0,2}[A-Za-z_]\w*"
_ITEM = re.compile(
    rf"^(?P<names>{_NAMES}(?:\s*[,/]\s*{_NAMES})*)\s*(?:\((?P<kind>.*?)\))?\s*:(?:\s+(?P<body>.*))?$"
)
_TYPED = re.compile(
    r"^(?P<name>[\w.~`]+(?:\[.*?\])?(?:\s*\|\s*[\w.]+)*)\s*:\s+(?P<body>.*)$", re.DOTALL
)
_RAISED = re.compile(r"^(?P<names>[A-Za-z_~`:][\w.~`:]*)\s*(?P<kind>)?:(?:\s+(?P<body>.*))?$")


class _Block(NamedTuple):
    """Part of a docstring: its place in the entry, what it names, and its dedented text."""

    place: str
    argument: str
    text: str


def parse_fields(docstring: str, *, qualified_name: str, form: ApiForm) -> ApiEntry | None:
    """Read a docstring with Google sections or Sphinx fields; None where it has neither."""
    lines = inspect.cleandoc(docstring.expandtabs()).splitlines()
    if any(_FIELD.match(line) for line in lines):
        blocks, read = list(_sphinx_blocks(lines)), _sphinx_parts
    else:
        blocks, read = list(_google_blocks(lines)), _google_parts
    if not any(block.place in {"parameters", "returns", "raises"} for block in blocks):
        return None
    parts = read(blocks)
    return ApiEntry(
        qualified_name=qualified_name,
        form=form,
        summary=_paragraphs(blocks, "summary"),
        parameters=tuple({item.name: item for item in reversed(parts["parameters"])}.values())[
            ::-1
        ],
        returns=tuple(parts["returns"]),
        raises=tuple(parts["raises"]),
        notes=_paragraphs(blocks, "notes"),
    )


def _paragraphs(blocks: list[_Block], place: str) -> tuple[str, ...]:
    texts = (rest_to_prose(block.text) for block in blocks if block.place == place)
    return tuple(part for text in texts for part in text.split("\n\n") if part)


def _google_blocks(lines: list[str]) -> Iterator[_Block]:
    """Cut at headings that an indented line follows; text at the margin ends a section."""
    place, kept = "summary", list[str]()
    for number, line in enumerate(lines):
        found = _heading(line, lines[number + 1 :])
        resumed = place != "summary" and bool(line.strip()) and not line[0].isspace()
        if found or resumed:
            yield _Block(place, "", inspect.cleandoc("\n" + "\n".join(kept)))
            place, kept = found or "summary", []
        if not found:
            kept.append(line)
    yield _Block(place, "", inspect.cleandoc("\n" + "\n".join(kept)))


def _heading(line: str, following: list[str]) -> str:
    match = _HEADING.match(line)
    if match is None or match["inline"]:
        return ""
    body = next((text for text in following if text.strip()), "")
    return _SECTIONS.get(match["name"].lower(), "") if body[:1].isspace() else ""


def _google_parts(blocks: list[_Block]) -> dict[str, list[ApiItem]]:
    parts: dict[str, list[ApiItem]] = {"parameters": [], "returns": [], "raises": []}
    for block in blocks:
        match block.place:
            case "parameters":
                parts["parameters"] += _google_items(block.text, _ITEM)
            case "raises":
                parts["raises"] += _google_items(block.text, _RAISED)
            case "returns":
                parts["returns"].append(_result(block.text))
            case _:
                pass
    return parts


def _google_items(text: str, pattern: re.Pattern[str]) -> Iterator[ApiItem]:
    """Yield one item per name; a line that names nothing belongs to the item before it."""
    names, kind, body = "", "", list[str]()
    for line in [*text.splitlines(), None]:
        match = pattern.match(line) if line is not None else None
        if line is not None and match is None:
            body.append(line)
            continue
        yield from _named(names, kind, "\n".join(body))
        if match is not None:
            names, kind, body = match["names"], match["kind"] or "", [match["body"] or ""]


def _sphinx_blocks(lines: list[str]) -> Iterator[_Block]:
    """Cut at fields; a field ends at the next one or at text at the margin after a blank line."""
    place, argument, kept = "summary", "", list[str]()
    for number, line in enumerate(lines):
        field = _FIELD.match(line)
        after_blank = number > 0 and not lines[number - 1].strip()
        resumed = place != "summary" and after_blank and line[:1].strip() != ""
        if field is not None or resumed:
            yield _Block(place, argument, inspect.cleandoc("\n".join(kept)))
            place, argument, kept = "summary", "", []
        if field is not None:
            place, argument = _FIELDS[field["name"]], (field["argument"] or "").strip()
            kept = [field["body"]]
        else:
            kept.append(line)
    yield _Block(place, argument, inspect.cleandoc("\n".join(kept)))


def _sphinx_parts(blocks: list[_Block]) -> dict[str, list[ApiItem]]:
    parts: dict[str, list[ApiItem]] = {"parameters": [], "returns": [], "raises": []}
    kinds = {b.argument.lstrip("\\*"): b.text for b in blocks if b.place == "type"}
    result_kind = next((b.text for b in blocks if b.place == "rtype"), "")
    for block in blocks:
        match block.place:
            case "parameters":
                kind, _, name = block.argument.rpartition(" ")
                kind = kind or kinds.get(name.lstrip("\\*"), "")
                parts["parameters"] += _named(name, kind, block.text)
            case "raises":
                parts["raises"] += _named(block.argument, "", block.text)
            case "returns":
                parts["returns"].append(_item("", result_kind, block.text))
            case _:
                pass
    if result_kind and not parts["returns"]:
        parts["returns"].append(_item("", result_kind, ""))
    return parts


def _result(text: str) -> ApiItem:
    typed = _TYPED.match(text)
    return _item(typed["name"], "", typed["body"]) if typed else _item("", "", text)


def _named(names: str, kind: str, text: str) -> Iterator[ApiItem]:
    for name in re.split(r"[,/]", names):
        if bare := name.strip().lstrip("\\*"):
            yield _item(bare, kind, text)


def _item(name: str, kind: str, text: str) -> ApiItem:
    return ApiItem(
        name=inline_to_prose(name),
        kind=" ".join(inline_to_prose(kind).split()),
        description=" ".join(rest_to_prose(inspect.cleandoc(text)).split()),
    )
