"""The types of a parameter, where its page says them nowhere else."""

import re

from rubric_synth.document import ApiItem
from rubric_synth.stages.extractive.facts import defaults
from rubric_synth.stages.extractive.facts.conditions import article
from rubric_synth.tables import patterns, word_sets

_PATTERNS = patterns("parameters")
_SIGNS = patterns("types_said")
_VAGUE = word_sets("facts", "soundness")["vague_types"]
_LITERAL_TYPES = (
    ("str", r"'[^']*'|\"[^\"]*\""),
    ("bool", r"True|False"),
    ("none", r"None"),
    ("int", r"[-+]?\d+"),
    ("float", r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?|inf"),
)
_OF_ONE = re.compile(
    r"\bof (int|integer|float|str|string|bool|array|array-like object|callable|ndarray)$"
)
_ARRAY_OF = re.compile(r"^(int|float|bool)s? array_like$")


def types_of(item: ApiItem, *, is_first: bool = False) -> str:
    """Return the types that a parameter may have, as documented; "" where they say little.

    They say little where they are vague, or where default, limit and meaning say them already.
    Everybody expects the data of an object to be an array.

    Args:
        item: The parameter.
        is_first: Whether the page lists it first.
    """
    kind = _SIGNS["shape_before"].sub("", item.kind)
    kind = _SIGNS["aside"].sub("", kind)
    types = re.split(r",? (?:optional|default)|\s\(", kind)[0].strip(" ,")
    parts = _parts(types)
    if not _PATTERNS["types"].match(types) or types in _VAGUE:
        return ""
    is_cut = types.endswith((" of", " or", ","))
    if is_cut or re.search(r"\b(\w+) of \1\b", types) is not None:
        return ""
    is_plural = types.endswith("s") and " " not in types
    if len(parts) == 1 and ("," in types or is_plural):
        return ""
    may_be_data = is_first or item.name == "x0"
    if may_be_data and all(map(_SIGNS["array"].search, parts)):
        return ""
    if all(_is_said(part, item) for part in parts):
        return ""
    return types


def plain_type(kind: str) -> str:
    """Return a type without its shape, where it is made of words for types; "" for any other.

    Args:
        kind: "(n, ) ndarray", "float", "dict".
    """
    plain = _SIGNS["shape_before"].sub("", kind)
    plain = _SIGNS["aside"].sub("", plain)
    plain = _SIGNS["behind_type"].split(plain)[0].strip()
    if plain.lower() == "dictionary":
        plain = "dict"
    is_type = _PATTERNS["types"].match(plain) is not None
    if is_type and len(plain) > len("an"):
        return plain
    return ""


def _parts(types: str) -> list[str]:
    """Cut types at "or" and commas, each without its article."""
    return [
        part.removeprefix("an ").removeprefix("a ")
        for part in re.split(r",? or |, ", types)
        if part
    ]


def _is_said(part: str, item: ApiItem) -> bool:
    """Tell whether name, default or description of a parameter say that it may be of a type."""
    name = _type_name(part)
    if not name:
        return False
    literal = _literal_type(defaults.default_of(item))
    if literal == name or (name == "float" and literal == "int"):
        return True
    if name == "callable" and _SIGNS["function_name"].match(item.name):
        return True
    return _SIGNS[f"says_{name}"].search(item.description) is not None


def _type_name(part: str) -> str:
    """Return the plain name of a documented type; "" for one without such a name."""
    for name, pattern in _OF.items():
        if re.search(pattern, part):
            return name
    return ""


def _literal_type(value: str) -> str:
    """Return the type of a value as Python writes it; "" for none of the plain ones."""
    for name, pattern in _LITERAL_TYPES:
        if re.fullmatch(pattern, value):
            return name
    return ""


_OF = {
    "array": r"array|sequence|list|tuple",
    "str": r"^str",
    "bool": r"^bool",
    "none": r"^None$",
    "int": r"^int",
    "float": r"^(?:float|scalar|number|complex)",
    "callable": r"^(?:callable|function)",
    "dict": r"^dict",
}


def listed_types(types: str) -> str:
    """Return types as a sentence has them: "None or a tuple of ints" of "None or tuple of ints".

    Args:
        types: The types as documented.
    """
    *others, last = [_type_phrase(part) for part in _parts(types)]
    if not others:
        return last
    return f"{', '.join(others)} or {last}"


def _type_phrase(part: str) -> str:
    """Return a type as a noun phrase, with its article."""
    phrase = _ARRAY_OF.sub(r"array_like of \1s", part)
    if phrase == "complex":
        phrase = "complex number"
    phrase = phrase.replace("array_like", "array-like object")
    phrase = _OF_ONE.sub(r"of \1s", phrase)
    is_plural = phrase.endswith("s") and " " not in phrase
    if phrase == "None" or is_plural:
        return phrase
    return f"{article(phrase)} {phrase}"
