"""Raised and lowered text as a line of plain characters: 10^6, m^-2, H2O, T_max.

Dropping the tags alone would make another number: 10<sup>6</sup> is no 106. Marks of notes and of
citations go; the text before a mark tells them from exponents.
"""

import html
import re
from typing import Final

from rubric_core.rewriting import patterns
from rubric_synth.sources.cleaning.mathml import plain_mathml
from rubric_synth.tables import read_table

_TABLE: Final = read_table("scripts")
_PATTERNS: Final = patterns(_TABLE["patterns"])
_UNITS: Final = frozenset(_TABLE["units"].split())
_LENGTHS: Final = frozenset(_TABLE["lengths"].split())
_FUNCTIONS: Final = frozenset(_TABLE["functions"].split())
_ELEMENTS: Final = frozenset(_TABLE["elements"].split())
_LONG_WORD: Final = 4
_POWERS: Final = frozenset({"2", "3", "n", "k", "x"})
_MOST_BEFORE: Final = 60
_ONE_SIGN: Final = str.maketrans(dict.fromkeys("−–‐‑‒", "-"))
_GREEK: Final = {
    "\\mu": "μ",
    "\\circ": "°",
    "\\alpha": "α",
    "\\beta": "β",
    "\\prime": "′",
}


def plain_scripts(text: str) -> str:
    """Write the raised and lowered text of HTML, of records and of formulas as plain characters.

    Code stays as it is: its readers see its tags.
    """
    if "<" not in text and "{su" not in text and "$" not in text:
        return text
    text = plain_mathml(_PATTERNS["linked_note"].sub("", text))
    text = _PATTERNS["fraction"].sub(_fraction, text)
    text = _PATTERNS["power"].sub(_from_mathml, text)
    pieces: list[str] = []
    place = 0
    before = ""
    for match in _PATTERNS["script"].finditer(text):
        pieces.append(text[place : match.start()])
        before = (before + pieces[-1])[-_MOST_BEFORE:]
        place = match.end()
        pieces.append(_script(match, before, text[place : place + 4]))
        before += pieces[-1]
    return "".join([*pieces, text[place:]])


def with_script_tags(page: str) -> str:
    """Return a page of HTML with tags where it raised or lowered text by its style.

    Its MathML is plain, and so are the raised and lowered parts of its code.
    """
    page = _PATTERNS["styled"].sub(
        r"<su\g<kind>>\g<inside></su\g<kind>>", plain_mathml(page)
    )
    return _PATTERNS["html_code"].sub(_plain_code, page)


def _plain_code(code: re.Match[str]) -> str:
    def plain(match: re.Match[str]) -> str:
        mark = "^" if match["kind"] in "pP" else "_"
        return f"{mark}{match[2]}"

    return _PATTERNS["html_code_script"].sub(plain, code[0])


def _fraction(match: re.Match[str]) -> str:
    """Write 4<sup>1</sup>/<sub>2</sub> as 4 1/2."""
    if match["code"]:
        return match[0]
    gap = " " if match["before"] else match["gap"]
    return f"{match['before']}{gap}{match['over']}/{match['under']}"


def _from_mathml(match: re.Match[str]) -> str:
    if match["code"]:
        return match[0]
    script = _PATTERNS["tag"].sub("", match["script"])
    base = match["base"].strip()
    tag = f"su{match['kind']}"
    return f"{base}<{tag}>{''.join(script.split())}</{tag}>"


def _script(match: re.Match[str], before: str, after: str) -> str:
    """Return one raised or lowered text as plain characters."""
    if match["code"]:
        return match[0]
    inside = ""
    for group in ("lowered", "tagged", "braced", "formula", "short"):
        if match[group]:
            inside = match[group]
            break
    is_tagged_low = "b" in (match["tag"], match["brace"])
    is_lowered = match["lowered"] or is_tagged_low or match["mark"] == "_"
    gap = match["gap"]
    if not is_lowered:
        return raised(before, inside, after=after, gap=gap)
    if gap:
        return gap + lowered("", inside, after=after)
    return lowered(before, inside, after=after)


def lowered(before: str, inside: str, *, after: str = "") -> str:
    """Return lowered text as it follows the text before it: H2, T_max.

    Args:
        before: Text to the left.
        inside: The lowered text, perhaps with tags.
        after: Text to the right.
    """
    bare = _bare(inside)
    before = _unmarked(before)
    if not bare:
        return ""
    follows_letter = before[-1:].isalpha() or before[-1:] in ")]"
    is_index = follows_letter and bare.replace(".", "").isdigit()
    is_formula = bare in {"x", "n"} and before[-1:].isupper()  # NOx
    if is_index or is_formula or not before.strip():
        return bare
    return f"_{_bracketed(bare, after)}"


def raised(before: str, inside: str, *, after: str = "", gap: str = "") -> str:
    """Return raised text as it follows the text before it: an exponent, or "" for a mark.

    Args:
        before: Text to the left.
        inside: The raised text, perhaps with tags.
        after: Text to the right.
        gap: The space between it and the text to the left.
    """
    if _PATTERNS["link"].search(inside):
        return ""
    bare = _bare(inside)
    before = _unmarked(before)
    if _is_isotope(bare, after) and (gap or not before[-1:].isalnum()):
        return f"{gap}^{bare}"
    if before[-1:].isdigit() and _is_degree(bare, after):
        return f"{gap}°"
    if not gap and _is_ordinal(before, bare):
        return bare
    if not bare or not _is_exponent(before, bare, is_apart=bool(gap)):
        return "" if not after[:1].isalnum() else gap
    return f"^{_bracketed(bare, after)}"


def _is_ordinal(before: str, bare: str) -> bool:
    if before[-1:].isdigit():
        return _PATTERNS["ordinal"].fullmatch(bare) is not None
    return bare == "th" and len(_word(before)) == 1


def _bare(inside: str) -> str:
    """Return raised or lowered text without its tags, entities and emphasis."""
    plain = html.unescape(_PATTERNS["tag"].sub("", inside)).translate(_ONE_SIGN)
    separator = "" if len(plain) <= _MOST_BEFORE else " "
    plain = separator.join(plain.split())
    return _GREEK.get(plain, plain).strip("*_" if len(plain) > 1 else "")


def _bracketed(bare: str, after: str) -> str:
    """Return text that can only be read as one exponent or index: 1s^(2)2p is not 1s^22p."""
    is_clear = _PATTERNS["simple"].fullmatch(bare) and not after[:1].isalnum()
    return bare if is_clear else f"({bare})"


def _unmarked(before: str) -> str:
    """Return the text before without the end of an emphasis: <em>x</em><sup>2</sup>."""
    return before.rstrip("*_") if before[-1:] in {"*", "_"} else before


def _word(before: str) -> str:
    match = _PATTERNS["word"].search(before)
    return match[0] if match else ""


def _is_isotope(bare: str, after: str) -> bool:
    if whole := _PATTERNS["whole_isotope"].fullmatch(bare):
        return whole[1] in _ELEMENTS
    element = _PATTERNS["element"].match(after)
    if element is None or element[1] not in _ELEMENTS or after[:1].isspace():
        return False
    return _PATTERNS["isotope"].fullmatch(bare) is not None


def _is_degree(bare: str, after: str) -> bool:
    if _PATTERNS["degree"].fullmatch(bare):
        return True
    return bare == "0" and _PATTERNS["temperature"].match(after) is not None


def _is_exponent(before: str, bare: str, *, is_apart: bool) -> bool:
    """Tell an exponent, a charge or an index from the mark of a note."""
    last = before[-1:]
    is_trade_mark = (
        not last.isdigit() and _PATTERNS["trade_mark"].fullmatch(bare) is not None
    )
    if is_trade_mark or _PATTERNS["mark"].fullmatch(bare):
        follows_letter = len(_word(before)) == 1 and not is_apart
        return follows_letter and (is_trade_mark or bare == "*")
    if last.isdigit():
        return _is_power_of_number(before, bare, is_apart=is_apart)
    if last.isalpha() or last in {"°", "$", "}"}:
        return _is_power_of_word(_word(before), bare, is_apart=is_apart)
    return not is_apart and _is_power_of_group(before, bare)


def _is_power_of_group(before: str, bare: str) -> bool:
    """Whether a raised text behind brackets is an exponent."""
    if _PATTERNS["listed"].fullmatch(bare):
        return False
    if before.endswith("]"):
        return True
    group = _PATTERNS["bracketed"].search(before)
    return group is not None and not _PATTERNS["long_word"].search(group[0])


def _is_power_of_number(before: str, bare: str, *, is_apart: bool) -> bool:
    match = _PATTERNS["number"].search(before)
    base = match[0] if match else ""
    word = before[: len(before) - len(base)]
    if word[-1:].isalpha():  # SO4^2-, CaCO3 (note)
        return not is_apart and _PATTERNS["charge"].fullmatch(bare) is not None
    if base == "10" or before.endswith(("×10", "·10")):
        return True
    if _PATTERNS["listed"].fullmatch(bare) and not bare.startswith("-"):
        return False
    if bare.startswith(("-", "+")):
        return True
    is_small = len(base) == 1 and not bare.isalpha()
    return not is_apart and (is_small or bare in _POWERS)


def _is_power_of_word(word: str, bare: str, *, is_apart: bool) -> bool:
    if _PATTERNS["power_of"].fullmatch(bare) and bare.startswith(("-", "+")):
        return not is_apart or word in _UNITS or word in _LENGTHS
    if is_apart:
        return word in _UNITS - {"in", "a", "d", "h"} and bare in {"2", "3"}
    if _PATTERNS["charge"].fullmatch(bare):
        return len(word) < _LONG_WORD or not word.islower()
    if _PATTERNS["listed"].fullmatch(bare):
        return False
    is_base = len(word) == 1 or word in _FUNCTIONS
    if not bare.isdigit():
        is_letter = len(bare) == 1 and bare.islower()
        return is_base or not is_letter
    is_mixed = not word.islower() and not word.isupper()
    is_no_word = _PATTERNS["no_word"].fullmatch(word) is not None
    return (
        is_base
        or word in _LENGTHS
        or (word in _UNITS and bare in {"2", "3", "4", "6"})
        or (is_mixed and len(word) < _LONG_WORD)
        or (is_no_word and bare in {"2", "3", "4"})
    )


__all__ = ["lowered", "plain_scripts", "raised", "with_script_tags"]
