r"""LaTeX as pandoc reads it without loss: what it drops in silence is written otherwise beforehand.

pandoc 3.9 leaves out commands it does not know together with a number behind them ("59\textendash
60" becomes "59"), all of mhchem, and the sign of powers behind siunitx's `\per`.
"""

import re
from typing import Final

from rubric_core.rewriting import patterns, rewriting
from rubric_synth.tables import read_table

_TABLE: Final = read_table("latex")
_PATTERNS: Final = patterns(_TABLE["patterns"])
_SHOWN: Final[dict[str, str]] = _TABLE["shown"]
_UNITS: Final[dict[str, str]] = _TABLE["units"]
_CHEMISTRY: Final = rewriting(_TABLE["chemistry"]["rules"])
_POWERS: Final = {"square": "2", "squared": "2", "cubic": "3", "cubed": "3"}


def plain_latex(source: str) -> str:
    """Return LaTeX of which pandoc keeps every number, unit and formula of chemistry.

    Formulas, code, comments and what stands before the document stay as they are.
    """
    match = _PATTERNS["begin"].search(source)
    place = match.end() if match else 0
    own = frozenset(name[1] for name in _PATTERNS["defined"].finditer(source))
    pieces = [source[:place]]
    for kept in _PATTERNS["kept"].finditer(source, place):
        pieces.append(_rewritten(source[place : kept.start()], own))
        place = kept.end()
        pieces.append(_rewritten(kept["chemistry"], own) if kept["alone"] else kept[0])
    text = "".join([*pieces, _rewritten(source[place:], own)])
    return _definitions(text, own) + text


def _definitions(text: str, own: frozenset[str]) -> str:
    """Define the commands whose words are seen, but for those that the document defines itself."""
    shown_by_name = _SHOWN if _PATTERNS["siunitx"].search(text) else _SHOWN | _UNITS
    return "".join(
        f"\\providecommand{{\\{name}}}{f'[{count}]' if count else ''}{{{shown}}}\n"
        for name, shown in shown_by_name.items()
        if name not in own and f"\\{name}" in text
        for count in (max(map(int, re.findall(r"#(\d)", shown)), default=0),)
    )


def _rewritten(text: str, own: frozenset[str]) -> str:
    def kept_apart(found: re.Match[str]) -> str:
        name = found["name"]
        is_taken = name in own | _SHOWN.keys() | _UNITS.keys() or _PATTERNS[
            "takes"
        ].fullmatch(name)
        return found[0] if is_taken else f"\\{name}{{}}{found['gap']}"

    text = _PATTERNS["chemistry"].sub(lambda found: _CHEMISTRY(found["formula"]), text)
    text = _PATTERNS["isotope"].sub(r"\\textsuperscript{\1}\2", text)
    text = _PATTERNS["per"].sub(_inverse, text)
    text = _PATTERNS["boxed"].sub(r"\\mbox", text)
    text = _PATTERNS["mixed"].sub(_fraction, text)
    text = _PATTERNS["upright"].sub(r"\1", text)
    return _PATTERNS["number"].sub(kept_apart, text)


def _fraction(found: re.Match[str]) -> str:
    gap = " " if found["before"] else ""
    return f"{found['before']}{gap}{found['over']}/{found['under']}"


def _inverse(found: re.Match[str]) -> str:
    power = _POWERS.get(found["power"] or found["after"] or "") or found["to"] or "1"
    return f"{found['unit']}\\tothe{{-{power}}}"


__all__ = ["plain_latex"]
