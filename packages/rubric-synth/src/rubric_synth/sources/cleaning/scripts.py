"""Raised and lowered text as a line of plain characters: 10^6, m^-2, H2O, T_max.

Dropping the tags alone would make another number: 10<sup>6</sup> is no 106. Marks of notes and of
citations go; the text before a mark tells them from exponents.
"""

import html
import re

from rubric_core.rewriting import patterns
from rubric_synth.sources.cleaning.mathml import plain_mathml
from rubric_synth.tables import read_table

_TABLE = read_table("scripts")
_PATTERNS = patterns(_TABLE["patterns"])
_UNITS = frozenset(_TABLE["units"].split())
_LENGTHS = frozenset(_TABLE["lengths"].split())
_FUNCTIONS = frozenset(_TABLE["functions"].split())
_ELEMENTS = frozenset(_TABLE["elements"].split())
_ENGLISH_UNITS = frozenset({"in", "a", "d", "h"})
"""Units that are words, or letters of a list, as well."""
_LONG_WORD = 4
_POWERS = frozenset({"2", "3", "n", "k", "x"})
_MOST_BEFORE = 60
_ONE_SIGN = str.maketrans(dict.fromkeys("−–‐‑‒", "-"))
_GREEK = {
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
    text = _PATTERNS["linked_note"].sub("", text)
    text = plain_mathml(text)
    text = _PATTERNS["fraction"].sub(_fraction, text)
    text = _PATTERNS["power"].sub(_from_mathml, text)
    pieces: list[str] = []
    place = 0
    before = ""
    for match in _PATTERNS["script"].finditer(text):
        between = text[place : match.start()]
        before = (before + between)[-_MOST_BEFORE:]
        place = match.end()
        after = text[place : place + 4]
        script = _script(match, before, after)
        before += script
        pieces += (between, script)
    pieces.append(text[place:])
    return "".join(pieces)


def with_script_tags(page: str) -> str:
    """Return a page of HTML with tags where it raised or lowered text by its style.

    Marks of notes that are named so go. Its MathML is plain, and so are the raised and lowered
    parts of its code.
    """
    page = plain_mathml(page)
    page = _PATTERNS["named_note"].sub("", page)
    tagged = r"<su\g<kind>>\g<inside></su\g<kind>>"
    page = _PATTERNS["styled"].sub(tagged, page)
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
    script = "".join(script.split())
    base = match["base"].strip()
    tag = f"su{match['kind']}"
    return f"{base}<{tag}>{script}</{tag}>"


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
    if not before.strip():
        return bare
    last = before[-1]
    follows_letter = last.isalpha() or last in ")]"
    is_index = follows_letter and bare.replace(".", "").isdigit()
    is_formula = last.isupper() and bare in {"x", "n"}  # NOx
    if (is_index or is_formula) and not after[
        :1
    ].isdigit():  # log_(10)100 is no log10100
        return bare
    return f"_{_bracketed(bare, after)}"


def raised(
    before: str,
    inside: str,
    *,
    after: str = "",
    gap: str = "",
) -> str:
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
    last = before[-1:]
    is_apart = bool(gap)
    if _is_isotope(bare, after) and (is_apart or not last.isalnum()):
        return f"{gap}^{bare}"
    if last.isdigit() and _is_degree(bare, after):
        return f"{gap}°"
    if not is_apart and _is_ordinal(before, bare):
        return bare
    if bare and _is_exponent(before, bare, is_apart=is_apart):
        return f"^{_bracketed(bare, after)}"
    return gap if after[:1].isalnum() else ""


def _is_ordinal(before: str, bare: str) -> bool:
    if before[-1:].isdigit():
        return _PATTERNS["ordinal"].fullmatch(bare) is not None
    return bare == "th" and len(_word(before)) == 1


def _bare(inside: str) -> str:
    """Return raised or lowered text without its tags, entities and emphasis."""
    plain = _PATTERNS["tag"].sub("", inside)
    plain = html.unescape(plain).translate(_ONE_SIGN)
    separator = "" if len(plain) <= _MOST_BEFORE else " "
    plain = separator.join(plain.split())
    letter = _GREEK.get(plain, plain)
    if len(plain) <= 1:
        return letter
    return letter.strip("*_")


def _bracketed(bare: str, after: str) -> str:
    """Return text that can only be read as one exponent or index: 1s^(2)2p is not 1s^22p."""
    if after[:1].isalnum() or not _PATTERNS["simple"].fullmatch(bare):
        return f"({bare})"
    return bare


def _unmarked(before: str) -> str:
    """Return the text before without the end of an emphasis: <em>x</em><sup>2</sup>."""
    if before[-1:] in {"*", "_"}:
        return before.rstrip("*_")
    return before


def _word(before: str) -> str:
    match = _PATTERNS["word"].search(before)
    if match is None:
        return ""
    return match[0]


def _is_isotope(bare: str, after: str) -> bool:
    whole = _PATTERNS["whole_isotope"].fullmatch(bare)
    if whole is not None:
        return whole[1] in _ELEMENTS
    element = _PATTERNS["element"].match(after)
    if element is None:
        return False
    if element[1] not in _ELEMENTS:
        return False
    if after[:1].isspace():
        return False
    return _PATTERNS["isotope"].fullmatch(bare) is not None


def _is_degree(bare: str, after: str) -> bool:
    if _PATTERNS["degree"].fullmatch(bare):
        return True
    return bare == "0" and _PATTERNS["temperature"].match(after) is not None


def _is_exponent(before: str, bare: str, *, is_apart: bool) -> bool:
    """Tell an exponent, a charge or an index from the mark of a note."""
    last = before[-1:]
    follows_letter = len(_word(before)) == 1 and not is_apart
    if not last.isdigit() and _PATTERNS["trade_mark"].fullmatch(bare):
        return follows_letter
    if _PATTERNS["mark"].fullmatch(bare):
        return follows_letter and bare == "*"
    if last.isdigit():
        return _is_power_of_number(before, bare, is_apart=is_apart)
    if last.isalpha() or last in {"°", "$", "}"}:
        return _is_power_of_word(_word(before), bare, is_apart=is_apart)
    return not is_apart and _is_power_of_group(before, bare)


def _is_power_of_group(before: str, bare: str) -> bool:
    """Tell whether a raised text after brackets is an exponent."""
    if _PATTERNS["listed"].fullmatch(bare):
        return False
    if before.endswith("]"):
        return True
    group = _PATTERNS["bracketed"].search(before)
    if group is None:
        return False
    return not _PATTERNS["long_word"].search(group[0])


def _is_power_of_number(
    before: str,
    bare: str,
    *,
    is_apart: bool,
) -> bool:
    match = _PATTERNS["number"].search(before)
    base = match[0] if match is not None else ""
    word = before.removesuffix(base)
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
        return word in _UNITS - _ENGLISH_UNITS and bare in {"2", "3"}
    if _PATTERNS["charge"].fullmatch(bare):
        return len(word) < _LONG_WORD or not word.islower()
    if _PATTERNS["listed"].fullmatch(bare):
        return False
    is_base = len(word) == 1 or word in _FUNCTIONS
    if not bare.isdigit():
        is_letter = len(bare) == 1 and bare.islower()
        return is_base or not is_letter
    return is_base or word in _LENGTHS or _takes_power(word, bare)


def _takes_power(word: str, digits: str) -> bool:
    """Tell whether a unit, a mixed word or no word at all has digits for an exponent."""
    if word in _UNITS and digits in {"2", "3", "4", "6"}:
        return True
    is_mixed = not word.islower() and not word.isupper()
    if is_mixed and len(word) < _LONG_WORD:
        return True
    if digits not in {"2", "3", "4"}:
        return False
    return _PATTERNS["no_word"].fullmatch(word) is not None


__all__ = ["lowered", "plain_scripts", "raised", "with_script_tags"]
