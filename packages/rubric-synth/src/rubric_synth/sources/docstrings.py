"""Docstrings in the layout of numpydoc, of Google or of Sphinx, read into an `ApiEntry`."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rubric_synth.cleaning.markup import inline_to_prose, rest_to_prose
from rubric_synth.document import ApiEntry, ApiForm, ApiItem
from rubric_synth.tables import read_table


def _places(layout: str) -> dict[str, str]:
    parts: dict[str, list[str]] = read_table("docstrings")[layout]
    return {name: part for part, names in parts.items() for name in names}


_SECTIONS: Final = _places("google")
_FIELDS: Final = _places("sphinx")
_HEADING = re.compile(r"^([A-Z][A-Za-z ]+):[ ]*$")
_FIELD = re.compile(rf"^:({'|'.join(_FIELDS)})(?:\s+([^:]+))?:\s*(.*)$")
_NAMES = r"(?:\\?\*){0,2}[A-Za-z_]\w*"
_PARAMETER = re.compile(
    rf"^(?P<names>{_NAMES}(?:\s*[,/]\s*{_NAMES})*)\s*(?:\((?P<kind>.*?)\))?\s*:(?:\s+(?P<body>.*))?$"
)
_RAISED = re.compile(r"^(?P<names>[A-Za-z_~`:][\w.~`:]*)(?P<kind>)\s*:(?:\s+(?P<body>.*))?$")
_TYPED = re.compile(r"^([\w.~`]+(?:\[.*?\])?(?:\s*\|\s*[\w.]+)*)\s*:\s+(.*)$", re.DOTALL)

_NUMPY_HEADING = re.compile(r"^([A-Z][A-Za-z ]{2,30})[ ]*\n[-=]{3,}[ ]*$", re.MULTILINE)
_NUMPY_ITEM = re.compile(
    r"^(?=\S)(?:(?P<name>[^:]+?)(?:\s*:\s+|\s+:\s*|:$)(?P<kind>.*)|(?P<alone>.+))$"
)
_SIGNATURE = re.compile(r"^[\w.]+\(.*\)(\s*->.*)?$", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_NOT_A_NAME: Final = frozenset({"optional", "default", "deprecated", "None", "True", "False"})
_MAX_NOTES_CHARS: Final = 6000


def read_docstring(docstring: str, *, qualified_name: str, form: ApiForm) -> ApiEntry:
    """Read a docstring; parts that it lacks, or has in another layout, are empty."""
    text = inspect.cleandoc(docstring.expandtabs())
    bare = ApiEntry(qualified_name=qualified_name, form=form)
    entry = _numpydoc_entry(text, bare)
    if entry.parameters or entry.returns:
        return entry
    return _fields_entry(text.splitlines(), bare) or entry


def _numpydoc_entry(text: str, bare: ApiEntry) -> ApiEntry:
    marks = list(_NUMPY_HEADING.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)]
    sections = {"summary": text[: ends[0]]}
    for mark, end in zip(marks, ends[1:], strict=True):
        sections.setdefault(mark[1].strip().lower(), text[mark.end() : end].strip("\n"))
    notes = "\n\n".join(rest_to_prose(sections.get(name, "")) for name in ("warnings", "notes"))
    summary = rest_to_prose(sections["summary"]).split("\n\n")
    returned = sections.get("returns") or sections.get("yields") or ""
    return bare.model_copy(
        update={
            "summary": tuple(p for p in summary if p and not _SIGNATURE.match(p)),
            "parameters": tuple(_numpydoc_parameters(sections.get("parameters", ""))),
            "returns": tuple(_numpydoc_items(returned)),
            "raises": tuple(_numpydoc_items(sections.get("raises", ""))),
            "notes": tuple(p for p in notes[:_MAX_NOTES_CHARS].split("\n\n") if p),
        }
    )


def _numpydoc_parameters(section: str) -> Iterator[ApiItem]:
    """Yield one item per name: `x, y : array_like` gives two."""
    seen = set(_NOT_A_NAME)
    for item in _numpydoc_items(section):
        for raw in item.name.split(","):
            name = raw.strip().lstrip("*").strip()
            if name not in seen and _NAME.fullmatch(name):
                seen.add(name)
                yield item.model_copy(update={"name": name})


def _numpydoc_items(section: str) -> Iterator[ApiItem]:
    for match, below in _items(section, _NUMPY_ITEM):
        item = _item(match["name"] or match["alone"], match["kind"] or "", "\n".join(below))
        if item.name:
            yield item


def _items(section: str, pattern: re.Pattern[str]) -> list[tuple[re.Match[str], list[str]]]:
    """Return each line that begins an item, with the lines below it."""
    found: list[tuple[re.Match[str], list[str]]] = []
    for line in section.splitlines():
        if match := pattern.match(line):
            found.append((match, []))
        elif found:
            found[-1][1].append(line)
    return found


class _Block(NamedTuple):
    """Part of a docstring with sections or fields."""

    place: str
    """The part of the entry that it belongs to."""
    argument: str
    """What a field names."""
    lines: list[str]


def _fields_entry(lines: list[str], bare: ApiEntry) -> ApiEntry | None:
    """Read a docstring with Google sections or Sphinx fields; None where it has neither."""
    is_sphinx = any(map(_FIELD.match, lines))
    parts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    above = [] if is_sphinx else [""]  # a first line is dedented alone
    for block in _blocks(lines, _field if is_sphinx else _section, after_blank=is_sphinx):
        text = inspect.cleandoc("\n".join(above + block.lines))
        parts[block.place].append((block.argument, text))
    if parts.keys().isdisjoint({"parameters", "returns", "raises"}):
        return None
    if is_sphinx:
        kinds = {name.lstrip("\\*"): kind for name, kind in parts["type"]}
        parameters = _sphinx_parameters(parts["parameters"], kinds)
        raises = (item for name, text in parts["raises"] for item in _named(name, "", text))
        kind = next((kind for _, kind in parts["rtype"]), "")
        results = parts["returns"] or [("", "")] * bool(kind)
        returns = (_item("", kind, text) for _, text in results)
    else:
        parameters = (item for _, text in parts["parameters"] for item in _listed(text, _PARAMETER))
        raises = (item for _, text in parts["raises"] for item in _listed(text, _RAISED))
        returns = (_google_result(text) for _, text in parts["returns"])
    return bare.model_copy(
        update={
            "summary": _paragraphs(parts["summary"]),
            "parameters": tuple({p.name: p for p in reversed(list(parameters))}.values())[::-1],
            "returns": tuple(returns),
            "raises": tuple(raises),
            "notes": _paragraphs(parts["notes"]),
        }
    )


def _paragraphs(blocks: list[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(part for _, text in blocks for part in rest_to_prose(text).split("\n\n") if part)


def _blocks(
    lines: list[str], begins: Callable[[list[str], int], _Block | None], *, after_blank: bool
) -> list[_Block]:
    """Cut at sections or fields; text at the margin, maybe after a blank line, ends one."""
    blocks = [_Block("summary", "", [])]
    for number, line in enumerate(lines):
        if (block := begins(lines, number)) is not None:
            blocks.append(block)
        elif (
            blocks[-1].place != "summary"
            and line[:1].strip()
            and not (after_blank and lines[number - 1].strip())
        ):
            blocks.append(_Block("summary", "", [line]))
        else:
            blocks[-1].lines.append(line)
    return blocks


def _section(lines: list[str], number: int) -> _Block | None:
    """Begin a section of Google's, where an indented line follows its heading."""
    match = _HEADING.match(lines[number])
    place = _SECTIONS.get(match[1].lower()) if match else None
    if place is None:
        return None
    body = next((line for line in lines[number + 1 :] if line.strip()), "")
    return _Block(place, "", []) if body[:1].isspace() else None


def _field(lines: list[str], number: int) -> _Block | None:
    match = _FIELD.match(lines[number])
    return match and _Block(_FIELDS[match[1]], (match[2] or "").strip(), [match[3]])


def _sphinx_parameters(fields: list[tuple[str, str]], kinds: dict[str, str]) -> Iterator[ApiItem]:
    for argument, text in fields:
        kind, _, name = argument.rpartition(" ")
        yield from _named(name, kind or kinds.get(name.lstrip("\\*"), ""), text)


def _listed(text: str, pattern: re.Pattern[str]) -> Iterator[ApiItem]:
    for match, below in _items(text, pattern):
        body = "\n".join([match["body"] or "", *below])
        yield from _named(match["names"], match["kind"] or "", body)


def _google_result(text: str) -> ApiItem:
    typed = _TYPED.match(text)
    return _item(typed[1], "", typed[2]) if typed else _item("", "", text)


def _named(names: str, kind: str, text: str) -> Iterator[ApiItem]:
    for name in re.split(r"[,/]", names):
        if bare := name.strip().lstrip("\\*"):
            yield _item(bare, kind, text)


def _item(name: str, kind: str, text: str) -> ApiItem:
    return ApiItem(
        name=inline_to_prose(name),
        kind=inline_to_prose(kind),
        description=" ".join(rest_to_prose(inspect.cleandoc(text)).split()),
    )
