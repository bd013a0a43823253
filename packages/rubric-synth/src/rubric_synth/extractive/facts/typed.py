"""The types of a parameter, where its page says them nowhere else."""

import re
from typing import Final

from rubric_core.rewriting import patterns
from rubric_synth.document import ApiItem
from rubric_synth.extractive.facts import defaults
from rubric_synth.extractive.facts.conditions import article
from rubric_synth.tables import read_table

_PATTERNS: Final = patterns(read_table("patterns")["parameters"])
_SIGNS: Final = patterns(read_table("patterns")["types_said"])
_TABLE: Final = read_table("facts")["soundness"]
_VAGUE: Final = frozenset(_TABLE["vague_types"].split())
_LITERAL_TYPES: Final = (
    ("str", r"'[^']*'|\"[^\"]*\""),
    ("bool", r"True|False"),
    ("none", r"None"),
    ("int", r"[-+]?\d+"),
    ("float", r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?|inf"),
)
_OF_ONE: Final = re.compile(
    r"\bof (int|integer|float|str|string|bool|array|array-like object|callable|ndarray)$"
)
_ARRAY_OF: Final = re.compile(r"^(int|float|bool)s? array_like$")


def types_of(item: ApiItem, *, is_first: bool = False) -> str:
    """Return the types that a parameter may have, as documented; "" where they say little.

    They say little where they are vague, or where default, limit and meaning say them already;
    that the data of an object is an array, everybody expects.

    Args:
        item: The parameter.
        is_first: Whether the page lists it first.
    """
    kind = _SIGNS["shape_before"].sub("", item.kind)
    kind = _SIGNS["aside"].sub("", kind)
    types = re.split(r",? (?:optional|default)|\s\(", kind)[0].strip(" ,")
    parts = _parts(types)
    is_lone = len(parts) == 1
    is_plural = types.endswith("s") and " " not in types
    is_cut = types.endswith((" of", " or", ","))
    is_twice = re.search(r"\b(\w+) of \1\b", types) is not None
    is_vague = is_twice or types in _VAGUE or (is_lone and ("," in types or is_plural))
    if is_cut or is_vague or not _PATTERNS["types"].match(types):
        return ""
    is_data = (is_first or item.name == "x0") and all(
        map(_SIGNS["array"].search, parts)
    )
    return "" if is_data or all(_is_said(part, item) for part in parts) else types


def plain_type(kind: str) -> str:
    """Return a type without its shape, where it is made of words for types; "" for any other.

    Args:
        kind: "(n, ) ndarray", "float", "dict".
    """
    plain = _SIGNS["aside"].sub("", _SIGNS["shape_before"].sub("", kind))
    plain = _SIGNS["behind_type"].split(plain)[0].strip()
    plain = "dict" if plain.lower() == "dictionary" else plain
    is_type = _PATTERNS["types"].match(plain) is not None and len(plain) > len("an")
    return plain if is_type else ""


def _parts(types: str) -> list[str]:
    """Cut types at "or" and commas, each without its article."""
    return [
        part.removeprefix("an ").removeprefix("a ")
        for part in re.split(r",? or |, ", types)
        if part
    ]


def _is_said(part: str, item: ApiItem) -> bool:
    """Tell whether name, default or description of a parameter say that it may be of a type."""
    name = next((name for name in _OF if re.search(_OF[name], part)), "")
    default = defaults.default_of(item)
    shown = next(
        (kind for kind, form in _LITERAL_TYPES if re.fullmatch(form, default)), ""
    )
    is_number = {name, shown} == {"int", "float"} and name == "float"
    if name and (shown == name or is_number):
        return True
    if name == "callable" and _SIGNS["function_name"].match(item.name):
        return True
    return bool(name) and _SIGNS[f"says_{name}"].search(item.description) is not None


_OF: Final = {
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
        types: As documented.
    """
    parts = [_ARRAY_OF.sub(r"array_like of \1s", part) for part in _parts(types)]
    parts = ["complex number" if part == "complex" else part for part in parts]
    named = [part.replace("array_like", "array-like object") for part in parts]
    named = [_OF_ONE.sub(r"of \1s", part) for part in named]
    bare = [
        part == "None" or (part.endswith("s") and " " not in part) for part in named
    ]
    shown = [p if b else f"{article(p)} {p}" for p, b in zip(named, bare, strict=True)]
    *most, last = shown
    return f"{', '.join(most)} or {last}" if most else last
