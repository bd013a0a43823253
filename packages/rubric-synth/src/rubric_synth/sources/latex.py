r"""Rewriting of LaTeX so that pandoc reads it without loss.

pandoc 3.9 leaves out commands it does not know together with a number after them ("59\textendash
60" becomes "59"), all of mhchem, and the sign of powers after siunitx's `\per`.
"""

import re

from rubric_core.rewriting import patterns, rewriting
from rubric_synth.tables import read_table

_TABLE = read_table("latex")
_PATTERNS = patterns(_TABLE["patterns"])
_SHOWN: dict[str, str] = _TABLE["shown"]
_UNITS: dict[str, str] = _TABLE["units"]
_CHEMISTRY = rewriting(_TABLE["chemistry"]["rules"])
_POWERS = {
    "square": "2",
    "squared": "2",
    "cubic": "3",
    "cubed": "3",
}


def plain_latex(source: str) -> str:
    """Return LaTeX whose numbers, units and formulas of chemistry pandoc keeps.

    Formulas, code, comments and the preamble stay as they are.
    """
    begin = _PATTERNS["begin"].search(source)
    place = begin.end() if begin is not None else 0
    own = frozenset(name[1] for name in _PATTERNS["defined"].finditer(source))
    pieces = [source[:place]]
    for match in _PATTERNS["kept"].finditer(source, place):
        pieces.append(_rewritten(source[place : match.start()], own))
        place = match.end()
        if match["alone"]:
            pieces.append(_rewritten(match["chemistry"], own))
        else:
            pieces.append(match[0])
    pieces.append(_rewritten(source[place:], own))
    text = "".join(pieces)
    return _definitions(text, own) + text


def _definitions(text: str, own: frozenset[str]) -> str:
    """Define the visible commands, but for those that the document defines itself."""
    replacements = dict(_SHOWN)
    if not _PATTERNS["siunitx"].search(text):
        replacements |= _UNITS
    definitions: list[str] = []
    for name, replacement in replacements.items():
        if name in own or f"\\{name}" not in text:
            continue
        numbers = map(int, re.findall(r"#(\d)", replacement))
        count = max(numbers, default=0)
        arguments = f"[{count}]" if count else ""
        command = f"\\providecommand{{\\{name}}}{arguments}"
        definitions.append(f"{command}{{{replacement}}}\n")
    return "".join(definitions)


def _rewritten(text: str, own: frozenset[str]) -> str:
    def set_apart(match: re.Match[str]) -> str:
        name = match["name"]
        if name in own or name in _SHOWN or name in _UNITS:
            return match[0]
        if _PATTERNS["takes"].fullmatch(name):
            return match[0]
        return f"\\{name}{{}}{match['gap']}"

    text = _PATTERNS["chemistry"].sub(lambda match: _CHEMISTRY(match["formula"]), text)
    text = _PATTERNS["isotope"].sub(r"\\textsuperscript{\1}\2", text)
    text = _PATTERNS["per"].sub(_inverse, text)
    text = _PATTERNS["boxed"].sub(r"\\mbox", text)
    text = _PATTERNS["mixed"].sub(_fraction, text)
    text = _PATTERNS["upright"].sub(r"\1", text)
    return _PATTERNS["number"].sub(set_apart, text)


def _fraction(match: re.Match[str]) -> str:
    gap = " " if match["before"] else ""
    return f"{match['before']}{gap}{match['over']}/{match['under']}"


def _inverse(match: re.Match[str]) -> str:
    word = match["power"] or match["after"] or ""
    power = _POWERS.get(word) or match["to"] or "1"
    return f"{match['unit']}\\tothe{{-{power}}}"


__all__ = ["plain_latex"]
