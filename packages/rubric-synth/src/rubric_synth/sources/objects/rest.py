"""Directives of Sphinx that describe objects, as pandoc can read them."""

import re

from rubric_synth.tables import patterns

_DIRECTIVE = patterns("objects")["directive"]
_OPTION_HEADING = patterns("objects")["option_heading"]


def is_with_objects(text: str) -> bool:
    """Tell whether a text in reStructuredText has a directive that describes an object."""
    return _DIRECTIVE.search(text) is not None


def with_objects(text: str) -> str:
    """Return a text whose directives hold their signature as an option, not as a paragraph.

    Pandoc takes a directive with a domain for a comment, reads a signature as prose, and takes a
    heading that begins with "--" for an item of a list.
    """
    text = _OPTION_HEADING.sub(r"``\1``\n\2\3\3\3\3", text)
    return _DIRECTIVE.sub(_with_option, text)


def _with_option(directive: re.Match[str]) -> str:
    indent = directive["indent"]
    lines = [line.strip() for line in directive["names"].splitlines()]
    signature = ", ".join(filter(None, lines))
    after = directive.string[directive.end() :]
    body = re.match(r"(?:[ \t]*\n)*([ \t]*)\S", after)
    inner = body[1] if body is not None and len(body[1]) > len(indent) else ""
    inner = inner or f"{indent}   "
    return f"{indent}.. {directive['kind']}::\n{inner}:object: {signature}"
