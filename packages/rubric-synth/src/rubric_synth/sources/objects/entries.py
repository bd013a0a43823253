"""Entries of the described objects of a page: the settings, options or variables of one program."""

import re
from collections.abc import Iterable, Iterator, Sequence

from rubric_synth.document import ApiEntry, ApiForm, ApiItem
from rubric_synth.sources.objects.described import Described, ObjectKind
from rubric_synth.tables import patterns

_PATTERNS = patterns("objects")
_MOST = 12
"""Objects of an entry: as many as three questions ask for."""
_FORMS: dict[ObjectKind, ApiForm] = {
    "option": "options",
    "setting": "settings",
    "variable": "variables",
}


def entries_of(
    described: Iterable[Described],
    program: str,
) -> tuple[list[ApiEntry], int]:
    """Return the entries of a page, and the number of objects whose program is not known.

    Args:
        described: The objects, in the order of the page.
        program: Program that the page is about; "" where nothing says it.
    """
    groups: dict[tuple[ApiForm, str], dict[str, Described]] = {}
    unknown = 0
    for item in described:
        owner = _owner(item, program)
        if not owner:
            unknown += 1
            continue
        group = groups.setdefault((_FORMS[item.kind], owner), {})
        other = group.setdefault(item.name, item)
        if other.text != item.text:
            # Two objects of one name: a question could be about either.
            group[item.name] = item._replace(text="")
    entries = [
        ApiEntry(qualified_name=owner, form=form, parameters=items)
        for (form, owner), group in groups.items()
        for items in _cut([_item(item) for item in group.values() if _tells(item)])
    ]
    return entries, unknown


def _owner(item: Described, program: str) -> str:
    """Return the program that an object belongs to; "" where it is not sure.

    A manual may describe the options of several commands: a page that says neither the command
    nor that it is about the program's own command line leaves them without an owner.
    """
    if item.program or not program:
        return item.program
    if item.kind != "option":
        return program
    above = [text for text in item.headings if not text.strip("`").startswith("-")]
    if above and _PATTERNS["of_subcommand"].fullmatch(above[-1]):
        return ""
    if any(map(_PATTERNS["of_subcommands"].fullmatch, above)):
        return ""
    for heading in item.headings:
        is_general = _PATTERNS["of_command_line"].search(heading) is not None
        is_plain = _PATTERNS["of_whole_program"].fullmatch(heading) is not None
        if is_general or is_plain or _names(heading, program):
            return program
    return ""


def _names(heading: str, program: str) -> bool:
    """Tell whether a heading has the name of a program, and not as a part of another name."""
    name = re.escape(program)
    return re.search(rf"(?i)(?<![\w-]){name}(?![\w-])", heading) is not None


def _tells(item: Described) -> bool:
    """Tell whether an object has a text of its own, and is none that every program has."""
    return bool(item.text) and _PATTERNS["known_option"].match(item.text) is None


def _item(described: Described) -> ApiItem:
    return ApiItem(
        name=described.name,
        kind=described.value_type,
        description=described.text,
    )


def _cut(items: Sequence[ApiItem]) -> Iterator[tuple[ApiItem, ...]]:
    """Cut the objects of a page into parts of nearly one size."""
    parts = -(-len(items) // _MOST)
    for part in range(parts):
        start = part * len(items) // parts
        end = (part + 1) * len(items) // parts
        yield tuple(items[start:end])


def title_of(entry: ApiEntry) -> str:
    """Return the title of the document of an entry, which names its first and last object."""
    names = [item.name for item in entry.parameters]
    title = f"{entry.form.capitalize()} of {entry.qualified_name}: {names[0]}"
    if len(names) == 1:
        return title
    return f"{title} to {names[-1]}"
