"""Docstrings in the numpydoc layout, read into an `ApiEntry`."""

from __future__ import annotations

import inspect
import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from rubric_synth.api_entry import ApiEntry, ApiForm, ApiItem
from rubric_synth.cleaning.markup import inline_to_prose, rest_to_prose

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADING = re.compile(r"^([A-Z][A-Za-z ]{2,30})[ ]*\n[-=]{3,}[ ]*$", re.MULTILINE)
_SIGNATURE = re.compile(r"^[\w.]+\(.*\)(\s*->.*)?$", re.DOTALL)
_PARAMETER_NAME = re.compile(r"[A-Za-z_]\w*")
_ITEM = re.compile(r"^(?P<name>[^:]+?)(?:\s*:\s+|\s+:\s*|:$)(?P<kind>.*)$|^(?P<alone>.+)$")
_NOT_A_NAME: Final = frozenset({"optional", "default", "deprecated", "None", "True", "False"})
_MAX_NOTES_CHARS = 6000


def parse_docstring(docstring: str, *, qualified_name: str, form: ApiForm) -> ApiEntry:
    """Read a docstring; sections that it lacks are empty."""
    parts = _split(inspect.cleandoc(docstring.expandtabs()))
    summary = [
        p for p in rest_to_prose(parts["summary"]).split("\n\n") if p and not _SIGNATURE.match(p)
    ]
    returned = parts.get("returns") or parts.get("yields") or ""
    caveats = [rest_to_prose(parts.get(name, "")) for name in ("warnings", "notes")]
    return ApiEntry(
        qualified_name=qualified_name,
        form=form,
        summary=tuple(summary),
        parameters=tuple(_parameters(parts.get("parameters", ""))),
        returns=tuple(_items(returned)),
        raises=tuple(_items(parts.get("raises", ""))),
        notes=tuple(
            paragraph
            for paragraph in "\n\n".join(caveats)[:_MAX_NOTES_CHARS].split("\n\n")
            if paragraph
        ),
    )


def _split(text: str) -> dict[str, str]:
    """Map lower-case section names to their bodies; what precedes the first is "summary"."""
    marks = list(_HEADING.finditer(text))
    sections = {"summary": text[: marks[0].start()] if marks else text}
    for mark, following in zip_longest(marks, marks[1:]):
        end = following.start() if following else len(text)
        sections.setdefault(mark[1].strip().lower(), text[mark.end() : end].strip("\n"))
    return sections


def _parameters(block: str) -> Iterator[ApiItem]:
    """Yield one item per name of a Parameters section: `x, y : array_like` gives two."""
    seen: set[str] = set()
    for item in _items(block):
        for raw in item.name.split(","):
            name = raw.strip().lstrip("*").strip()
            known = name in seen or name in _NOT_A_NAME or not _PARAMETER_NAME.fullmatch(name)
            if not known:
                seen.add(name)
                yield item.model_copy(update={"name": name})


def _items(block: str) -> Iterator[ApiItem]:
    """Yield the `name : type` entries of a section with their indented descriptions."""
    name = kind = ""
    body: list[str] = []
    for line in [*block.splitlines(), "end"]:
        if not line.strip() or line[0].isspace():
            body.append(line)
            continue
        if name:
            description = " ".join(rest_to_prose(inspect.cleandoc("\n".join(body))).split())
            yield ApiItem(name=name, kind=kind, description=description)
        match = _ITEM.match(line.strip())
        name = inline_to_prose((match["name"] or match["alone"]) if match else "")
        kind = inline_to_prose((match["kind"] or "") if match else "")
        body = []
