"""Reader of docstrings in the layouts of numpydoc, of Google and of Sphinx."""

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rubric_synth.document import ApiEntry, ApiForm, ApiItem
from rubric_synth.sources.cleaning.markup import inline_to_prose, rest_to_prose
from rubric_synth.tables import patterns, read_table


def _places(layout: str) -> dict[str, str]:
    """Return the part of an entry that each heading, or field, of a layout belongs to."""
    parts: dict[str, list[str]] = read_table("docstrings")[layout]
    return {name: part for part, names in parts.items() for name in names}


_SECTIONS = _places("google")
_FIELDS = _places("sphinx")
_PATTERNS = patterns("docstrings")
_FIELD = re.compile(rf"^:({'|'.join(_FIELDS)})(?:\s+([^:]+))?:\s*(.*)$")
_NAMES = r"(?:\\?\*){0,2}[A-Za-z_]\w*"
_PARAMETER = re.compile(
    rf"^(?P<names>{_NAMES}(?:\s*[,/]\s*{_NAMES})*)\s*(?:\((?P<kind>.*?)\))?\s*:(?:\s+(?P<body>.*))?$"
)

_NOT_A_NAME = frozenset({"optional", "default", "deprecated", "None", "True", "False"})


def read_docstring(
    docstring: str,
    *,
    qualified_name: str,
    form: ApiForm,
) -> ApiEntry:
    """Read a docstring; parts that it lacks, or has in another layout, are empty."""
    text = inspect.cleandoc(docstring.expandtabs())
    bare = ApiEntry(qualified_name=qualified_name, form=form)
    entry = _numpydoc_entry(text, bare)
    if entry.parameters or entry.returns or entry.yields:
        return entry
    return _fields_entry(text.splitlines(), bare) or entry


def _numpydoc_entry(text: str, bare: ApiEntry) -> ApiEntry:
    marks = list(_PATTERNS["numpy_heading"].finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)]
    sections = defaultdict[str, str](str)
    sections["summary"] = text[: ends[0]]
    for mark, end in zip(marks, ends[1:], strict=True):
        heading = mark[1].strip().lower()
        body = text[mark.end() : end]
        sections.setdefault(heading, body.strip("\n"))
    warnings_and_notes = (sections["warnings"], sections["notes"])
    notes = "\n\n".join(map(rest_to_prose, warnings_and_notes))
    signature = _PATTERNS["signature"]
    summary = rest_to_prose(sections["summary"])
    paragraphs = filter(None, summary.split("\n\n"))
    purposes = [text for text in paragraphs if not signature.match(text)]
    return bare.model_copy(
        update={
            "summary": tuple(purposes),
            "parameters": tuple(_numpydoc_parameters(sections["parameters"])),
            "returns": tuple(_numpydoc_items(sections["returns"])),
            "yields": tuple(_numpydoc_items(sections["yields"])),
            "raises": tuple(_numpydoc_items(sections["raises"])),
            "notes": tuple(filter(None, notes[:6000].split("\n\n"))),
        }
    )


def _numpydoc_parameters(section: str) -> Iterator[ApiItem]:
    """Yield one item per name: `x, y : array_like` gives two."""
    seen = set(_NOT_A_NAME)
    for item in _numpydoc_items(section):
        for raw in item.name.split(","):
            name = raw.strip().lstrip("*").strip()
            if name not in seen and _PATTERNS["name"].fullmatch(name):
                seen.add(name)
                yield item.model_copy(update={"name": name})


def _numpydoc_items(section: str) -> Iterator[ApiItem]:
    for match, below in _items(section, _PATTERNS["numpy_item"]):
        name = match["name"] or match["alone"]
        kind = match["kind"] or ""
        item = _item(name, kind, "\n".join(below))
        if item.name:
            yield item


def _items(
    section: str, pattern: re.Pattern[str]
) -> list[tuple[re.Match[str], list[str]]]:
    """Return each line that begins an item, with the lines below it."""
    items: list[tuple[re.Match[str], list[str]]] = []
    for line in section.splitlines():
        match = pattern.match(line)
        if match is not None:
            items.append((match, []))
        elif items:
            _, lines_below = items[-1]
            lines_below.append(line)
    return items


class _Block(NamedTuple):
    """Part of a docstring with sections or fields."""

    place: str
    """The part of the entry that it belongs to."""
    argument: str
    """Argument of a field, such as the name of a parameter."""
    lines: list[str]


def _fields_entry(lines: list[str], bare: ApiEntry) -> ApiEntry | None:
    """Read a docstring with Google sections or Sphinx fields; None where it has neither."""
    is_sphinx = any(map(_FIELD.match, lines))
    parts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    begins = _field if is_sphinx else _section
    above = [] if is_sphinx else [""]  # a first line is dedented alone
    for block in _blocks(lines, begins, after_blank=is_sphinx):
        text = inspect.cleandoc("\n".join(above + block.lines))
        parts[block.place].append((block.argument, text))
    if parts.keys().isdisjoint({"parameters", "returns", "yields", "raises"}):
        return None
    items = _sphinx_items(parts) if is_sphinx else _google_items(parts)
    # A parameter that is named twice keeps its first place.
    parameters = {item.name: item for item in reversed(items["parameters"])}
    return bare.model_copy(
        update={
            "summary": _paragraphs(parts["summary"]),
            "parameters": tuple(parameters.values())[::-1],
            "returns": tuple(items["returns"]),
            "yields": tuple(items["yields"]),
            "raises": tuple(items["raises"]),
            "notes": _paragraphs(parts["notes"]),
        }
    )


def _sphinx_items(
    parts: Mapping[str, Sequence[tuple[str, str]]],
) -> dict[str, list[ApiItem]]:
    """Return the items of a docstring with Sphinx fields, by part of the entry."""
    kinds = {name.lstrip("\\*"): kind for name, kind in parts.get("type", ())}
    parameters: list[ApiItem] = []
    for argument, text in parts.get("parameters", ()):
        kind, _, name = argument.rpartition(" ")
        kind = kind or kinds.get(name.lstrip("\\*"), "")
        parameters.extend(_named(name, kind, text))
    raises = [
        item
        for name, text in parts.get("raises", ())
        for item in _named(name, "", text)
    ]
    result_kind = ""
    result_types = parts.get("rtype", ())
    if result_types:
        _, result_kind = result_types[0]
    returns = [text for _, text in parts.get("returns", ())]
    yields = [text for _, text in parts.get("yields", ())]
    if result_kind and not returns and not yields:
        returns = [""]
    return {
        "parameters": parameters,
        "raises": raises,
        "returns": [_item("", result_kind, text) for text in returns],
        "yields": [_item("", result_kind, text) for text in yields],
    }


def _google_items(
    parts: Mapping[str, Sequence[tuple[str, str]]],
) -> dict[str, list[ApiItem]]:
    """Return the items of a docstring with Google sections, by part of the entry."""
    items: dict[str, list[ApiItem]] = defaultdict(list)
    for _, text in parts.get("parameters", ()):
        items["parameters"].extend(_listed(text, _PARAMETER))
    for _, text in parts.get("raises", ()):
        items["raises"].extend(_listed(text, _PATTERNS["error"]))
    for place in ("returns", "yields"):
        for _, text in parts.get(place, ()):
            typed = _PATTERNS["typed"].match(text)
            if typed is None:
                items[place].append(_item("", "", text))
            else:
                items[place].append(_item(typed[1], "", typed[2]))
    return items


def _paragraphs(blocks: list[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(
        paragraph
        for _, text in blocks
        for paragraph in rest_to_prose(text).split("\n\n")
        if paragraph
    )


def _blocks(
    lines: list[str],
    begins: Callable[[list[str], int], _Block | None],
    *,
    after_blank: bool,
) -> list[_Block]:
    """Cut at sections or fields; text at the margin, maybe after a blank line, ends one."""
    blocks = [_Block("summary", "", [])]
    for number, line in enumerate(lines):
        block = begins(lines, number)
        if block is not None:
            blocks.append(block)
            continue
        is_at_margin = bool(line[:1].strip())
        may_end = not after_blank or not lines[number - 1].strip()
        if blocks[-1].place != "summary" and is_at_margin and may_end:
            blocks.append(_Block("summary", "", [line]))
        else:
            blocks[-1].lines.append(line)
    return blocks


def _section(lines: list[str], number: int) -> _Block | None:
    """Begin a section of Google's, where an indented line follows its heading."""
    match = _PATTERNS["heading"].match(lines[number])
    if match is None:
        return None
    place = _SECTIONS.get(match[1].lower())
    if place is None:
        return None
    for line in lines[number + 1 :]:
        if not line.strip():
            continue
        is_indented = line[0].isspace()
        return _Block(place, "", []) if is_indented else None
    return None


def _field(lines: list[str], number: int) -> _Block | None:
    match = _FIELD.match(lines[number])
    if match is None:
        return None
    place = _FIELDS[match[1]]
    argument = match[2] or ""
    return _Block(place, argument.strip(), [match[3]])


def _listed(text: str, pattern: re.Pattern[str]) -> Iterator[ApiItem]:
    for match, below in _items(text, pattern):
        body = "\n".join([match["body"] or "", *below])
        kind = match["kind"] or ""
        yield from _named(match["names"], kind, body)


def _named(names: str, kind: str, text: str) -> Iterator[ApiItem]:
    for part in re.split(r"[,/]", names):
        name = part.strip().lstrip("\\*")
        if name:
            yield _item(name, kind, text)


def _item(name: str, kind: str, text: str) -> ApiItem:
    words = rest_to_prose(inspect.cleandoc(text)).split()
    return ApiItem(
        name=inline_to_prose(name),
        kind=inline_to_prose(kind),
        description=" ".join(words),
    )
