"""Formulas of MathML as a line of plain characters: 1/2, √2, x_1^2, ^235_92U.

What is left when the tags are dropped is another number: a half is no 12.
"""

import html
import re
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from rubric_core.rewriting import patterns
from rubric_synth.tables import read_table

_PATTERNS: Final = patterns(read_table("scripts")["mathml"])
_MOST_DEPTH: Final = 50
_UNSEEN: Final = frozenset({"annotation", "annotation-xml", "mphantom"})
_SCRIPTS: Final = {
    "msup": "^",
    "mover": "^",
    "msub": "_",
    "munder": "_",
    "msubsup": "_^",
    "munderover": "_^",
}
_PAIRS: Final = {"mfrac": "{}/{}", "mroot": "{}^(1/{})"}
_SEPARATORS: Final = {"mtr": ", ", "mlabeledtr": ", ", "mtable": "; "}
_ONE_SIGN: Final = str.maketrans(dict.fromkeys("−–‐‑‒", "-"))


def plain_mathml(text: str) -> str:
    """Write the formulas of a text; one that is no XML stays as it is."""
    return _PATTERNS["formula"].sub(_formula, text) if "<" in text else text


def _formula(found: re.Match[str]) -> str:
    if found["code"]:
        return found[0]
    bare = _PATTERNS["prefix"].sub(r"\1", found[0])
    named = _PATTERNS["entity"].sub(lambda entity: html.unescape(entity[0]), bare)
    try:
        shown = _shown(ET.fromstring(named))  # noqa: S314 - without a DTD
    except (ET.ParseError, RecursionError):
        return found[0]
    return html.escape(shown, quote=False)


def _shown(element: ET.Element, depth: int = 0) -> str:
    if depth > _MOST_DEPTH:
        raise RecursionError
    name = _name(element)
    if name in _UNSEEN:
        return ""
    parts = [_shown(child, depth + 1) for child in element]
    if name in _SCRIPTS:
        return _with_scripts(name, parts)
    if name in _PAIRS and len(parts) == 2:  # noqa: PLR2004 - over and under, radicand and index
        return _PAIRS[name].format(_whole(parts[0]), _whole(parts[1]))
    if name == "mmultiscripts":
        return _around([_name(child) for child in element], parts)
    return _joined(element, name, parts)


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _joined(element: ET.Element, name: str, parts: Sequence[str]) -> str:
    if name == "mfenced":
        joined = element.get("separators", ",").strip()[:1].join(parts)
        return f"{element.get('open', '(')}{joined}{element.get('close', ')')}"
    text = (element.text or "") + _SEPARATORS.get(name, "").join(parts)
    if name == "msqrt":
        return f"√{_whole(text)}"
    if name == "mtable":
        return f"[{text.strip()}]"
    return " " if name == "mspace" else text if name == "mtext" else text.strip()


def _with_scripts(kind: str, parts: Sequence[str]) -> str:
    base, *scripts = parts or [""]
    marks = _SCRIPTS[kind]
    if len(marks) != len(scripts):
        return "".join(parts)
    if kind == "mover" and not scripts[0].isalnum() and len(scripts[0]) == 1:
        return base + scripts[0]  # a bar or a hat
    return _whole(base) + "".join(map(_script, marks, scripts))


def _around(names: Sequence[str], parts: Sequence[str]) -> str:
    """Return a base with the scripts behind it, and before it."""
    place = names.index("mprescripts") if "mprescripts" in names else len(names)
    behind, before = (
        "".join(
            _script(mark, script)
            for pair in zip(some[::2], some[1::2], strict=False)
            for mark, script in zip("_^", pair, strict=False)
        )
        for some in (parts[1:place], parts[place + 1 :])
    )
    return f"{before}{''.join(parts[:1])}{behind}"


def _script(mark: str, script: str) -> str:
    bare = script.strip().translate(_ONE_SIGN)
    return (
        f"{mark}{bare if _PATTERNS['simple'].fullmatch(bare) else f'({bare})'}"
        if bare
        else ""
    )


def _whole(text: str) -> str:
    """Return what can only be read as one term."""
    bare = text.strip()
    return bare if _PATTERNS["term"].fullmatch(bare) else f"({bare})"


__all__ = ["plain_mathml"]
