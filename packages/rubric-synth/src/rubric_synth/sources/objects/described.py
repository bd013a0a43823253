"""A described object of a manual, and the names in its title."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rubric_synth.tables import patterns

ObjectKind = Literal["option", "setting", "variable"]
"""Option of a command line, setting of a program, or variable of its environment."""
_PATTERNS = patterns("objects")


class Described(NamedTuple):
    """One object of a manual, as its description has it."""

    kind: ObjectKind
    name: str
    program: str
    """The program that its directive names; "" where the page has to say it."""
    value_type: str
    """Its type as documented; "" for none."""
    text: str
    """Its description in one paragraph, code in code marks."""
    headings: tuple[str, ...] = ()
    """The headings above it, the title of the page first."""


def option_name(title: str) -> str:
    """Return the name of an option, its long one where there is one; "" for what is none.

    Args:
        title: "-o FILE, --output=FILE", "--[no-]color".
    """
    bare = title.replace("`", "").strip()
    if _PATTERNS["option_title"].match(bare) is None:
        return ""
    names = list(dict.fromkeys(_PATTERNS["option"].findall(bare)))
    long_names = [name for name in names if name.startswith("--")]
    if len(long_names) > 1:
        return ""  # synonyms, or a thing and its opposite: the title does not say
    if long_names:
        return long_names[0]
    return names[0] if len(names) == 1 else ""


def setting_name(title: str) -> str:
    """Return the name of a setting or variable; "" where a title is more than one name.

    Args:
        title: "`DEBUG`", "core.editor", "site_name (str)".
    """
    bare = title.replace("`", "").strip().rstrip(":¶").strip()
    match = _PATTERNS["setting_title"].fullmatch(bare)
    if match is None or _PATTERNS["file_name"].search(match["name"]):
        return ""
    return match["name"]


def is_code_name(name: str) -> bool:
    """Tell whether a name can be no word of English: "site_name", "DEBUG", "core.editor"."""
    return _PATTERNS["code_name"].fullmatch(name) is not None


def kind_of(name: str, headings: Sequence[str]) -> ObjectKind | None:
    """Return the kind of an object, by its name and the headings above it; None where unsure.

    Args:
        name: Its name.
        headings: The headings above it, the title of the page first.
    """
    if name.startswith("-"):
        return "option"
    for heading in reversed(headings):
        if _PATTERNS["of_something_else"].search(heading):
            return None
        if _PATTERNS["of_environment"].search(heading):
            return "variable" if name.isupper() else None
        if _PATTERNS["of_settings"].search(heading):
            return "setting"
    return None
