"""Formulas of MathML as a line of plain characters: 1/2, √2, x_1^2, ^235_92U.

Dropping the tags alone would make another number: a half is no 12.
"""

import html
import re
from collections.abc import Sequence
from itertools import zip_longest
from xml.etree import ElementTree as ET

from rubric_core.rewriting import patterns
from rubric_synth.tables import read_table

_PATTERNS = patterns(read_table("scripts")["mathml"])
_MOST_DEPTH = 50
_UNSEEN = frozenset({"annotation", "annotation-xml", "mphantom"})
_SCRIPTS = {
    "msup": "^",
    "mover": "^",
    "msub": "_",
    "munder": "_",
    "msubsup": "_^",
    "munderover": "_^",
}
_ROWS = frozenset(
    {"math", "mrow", "mstyle", "mpadded", "semantics", "merror", "maction"}
)
"""Elements that stand for what is in them, side by side."""
_NO_LINE = re.compile(r"\s*0(?:\.0*)?\s*(?:%|[a-z]{2})?\s*", re.IGNORECASE)
"""The thickness of the line of what is no fraction, such as a binomial coefficient."""
_PAIRS = {"mfrac": "{}/{}", "mroot": "{}^(1/{})"}
_SEPARATORS = {"mtr": ", ", "mlabeledtr": ", ", "mtable": "; "}
_INVISIBLE = frozenset("\N{FUNCTION APPLICATION}\N{INVISIBLE TIMES}\N{INVISIBLE PLUS}")

_EDGE = "\N{INVISIBLE SEPARATOR}"
"""Stands where a frame, a line or a sign begins or ends, across which no number goes on."""

_ONE_SIGN = str.maketrans(dict.fromkeys("−–‐‑‒", "-"))


def plain_mathml(text: str) -> str:
    """Write the formulas of a text as plain characters; a formula that is no XML stays as it is."""
    if "<" in text:
        return _PATTERNS["formula"].sub(_formula, text)
    return text


def _formula(match: re.Match[str]) -> str:
    if match["code"]:
        return match[0]
    bare = _PATTERNS["prefix"].sub(r"\1", match[0])
    xml = _PATTERNS["entity"].sub(lambda entity: html.unescape(entity[0]), bare)
    try:
        plain = _plain(ET.fromstring(xml))  # noqa: S314 - without a DTD
    except (ET.ParseError, RecursionError):
        return match[0]
    return html.escape(_apart(plain, match), quote=False)


def _apart(plain: str, match: re.Match[str]) -> str:
    """Return a formula apart from digits beside it: 3 and 1/2 are no 31/2, x^2 and 3 no x^23."""
    if plain.isdecimal():
        return plain
    plain = plain.strip(_EDGE)
    before = match.string[max(match.start() - 1, 0) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    if before.isdecimal() and plain[:1].isdecimal():
        plain = f" {plain}"
    if after.isdecimal() and plain[-1:].isdecimal():
        plain = f"{plain} "
    return plain


def _plain(element: ET.Element, depth: int = 0) -> str:
    if depth > _MOST_DEPTH:
        raise RecursionError
    name = _name(element)
    if name in _UNSEEN:
        return ""
    parts = [_plain(child, depth + 1) for child in element]
    if name == "maction":  # one of its parts is shown, the first unless it says which
        number = element.get("selection", "1")
        place = int(number) - 1 if number.isdecimal() else 0
        parts = parts[max(place, 0) :][:1]
    return _written(element, name, parts)


def _written(element: ET.Element, name: str, parts: Sequence[str]) -> str:
    """Return an element of which the parts are written."""
    if name == "menclose":
        return _enclosed(element.get("notation", "longdiv"), element.text, parts)
    if name not in _ROWS:
        parts = [part.strip(_EDGE) for part in parts]
    if name in _SCRIPTS:
        return _with_scripts(name, parts)
    if name in _PAIRS and len(parts) == 2:  # noqa: PLR2004 - over and under, radicand and index
        if name == "mfrac" and _NO_LINE.fullmatch(element.get("linethickness", "")):
            return f"[{'; '.join(part.strip() for part in parts)}]"  # as a column
        first, second = map(_whole, parts)
        return _PAIRS[name].format(first, second)
    if name == "mmultiscripts":
        names = [_name(child) for child in element]
        return _around(names, parts)
    return _joined(element, name, parts)


def _enclosed(notation: str, text: str | None, parts: Sequence[str]) -> str:
    """Return what is framed, struck out or under the sign of a root or of a division."""
    inside = ((text or "").strip() + _side_by_side(parts)).strip(_EDGE)
    if "radical" in notation:
        return f"√{_whole(inside)}"
    sign = ")" if "longdiv" in notation else ""
    return f"{_EDGE}{sign}{inside}{_EDGE}"


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2].lower()


def _joined(
    element: ET.Element,
    name: str,
    parts: Sequence[str],
) -> str:
    if name == "mfenced":
        separators = element.get("separators", ",").strip()
        joined = separators[:1].join(parts)
        opening = element.get("open", "(")
        closing = element.get("close", ")")
        return f"{opening}{joined}{closing}"
    text = element.text or ""
    if name in _SEPARATORS:
        text += _SEPARATORS[name].join(parts)
    else:
        text += _side_by_side(parts)
    if name == "msqrt":
        return f"√{_whole(text)}"
    if name == "mtable":
        return f"[{text.strip()}]"
    if name == "mspace":
        return " "
    if name == "mtext":
        return text
    return text.strip()


def _side_by_side(parts: Sequence[str]) -> str:
    """Join the parts of a row; a number beside a fraction or a power stays a number of its own."""
    row = ""
    last = ""
    is_apart = False
    for each in filter(None, parts):
        part = each.strip(_EDGE)
        is_apart |= each[0] == _EDGE
        if not part or part in _INVISIBLE:
            is_apart = True
            continue
        is_one_number = last.isdecimal() and part.isdecimal() and not is_apart
        if last[-1:].isdecimal() and part[0].isdecimal() and not is_one_number:
            row += " "
        row += part
        last = part
        is_apart = each[-1] == _EDGE
    opening = _EDGE if parts and parts[0][:1] == _EDGE else ""
    closing = _EDGE if is_apart and row else ""
    return f"{opening}{row}{closing}"


def _with_scripts(kind: str, parts: Sequence[str]) -> str:
    base, *scripts = parts or [""]
    marks = _SCRIPTS[kind]
    if len(marks) != len(scripts):
        return "".join(parts)
    first = scripts[0]
    if kind == "mover" and len(first) == 1 and not first.isalnum():
        return base + first  # a bar or a hat
    written = "".join(map(_script, marks, scripts))
    return _whole(base) + written


def _around(names: Sequence[str], parts: Sequence[str]) -> str:
    """Return a base with the scripts after it, and before it."""
    place = len(names)
    if "mprescripts" in names:
        place = names.index("mprescripts")
    base = "".join(parts[:1])
    after = _script_pairs(parts[1:place])
    before = _script_pairs(parts[place + 1 :])
    return f"{before}{base}{after}"


def _script_pairs(scripts: Sequence[str]) -> str:
    """Return lowered and raised scripts, which alternate; a last one may be without a pair."""
    pairs = zip_longest(scripts[::2], scripts[1::2], fillvalue="")
    return "".join(_script("_", low) + _script("^", high) for low, high in pairs)


def _script(mark: str, script: str) -> str:
    bare = script.strip().translate(_ONE_SIGN)
    if not bare:
        return ""
    if _PATTERNS["simple"].fullmatch(bare):
        return f"{mark}{bare}"
    return f"{mark}({bare})"


def _whole(text: str) -> str:
    """Return text that can only be read as one term."""
    bare = text.strip()
    if _PATTERNS["term"].fullmatch(bare):
        return bare
    return f"({bare})"


__all__ = ["plain_mathml"]
