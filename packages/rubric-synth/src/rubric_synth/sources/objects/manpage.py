"""Manual pages of Unix: their text, and what they are about."""

import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from rubric_synth.document import RejectionReason
from rubric_synth.sources import raw_text
from rubric_synth.sources.objects.syntax import Node, one_line
from rubric_synth.sources.raw_text import NotTextError, SourceFile

_FILE = re.compile(r"\.[1-9][a-z]{0,3}(?:\.gz)?$")
_GZIP = 31
"""Window of zlib for a stream with the header of gzip."""
_HEAD = re.compile(
    r"^\.(?P<macro>TH|Dt)[ \t]+\"?(?P<name>[^\"\s]+)\"?[ \t]+\"?(?P<section>[1-9])",
    re.MULTILINE,
)
_COMMANDS = frozenset("168")
_FILES = "5"
_NAME = re.compile(r"`?(?P<name>[\w.+-]+)`?\s+[-–—]+\s")


class Page(NamedTuple):
    """The title line of a manual page."""

    format: str
    """Its macros, as pandoc calls them: "man" or "mdoc"."""
    name: str
    """Its name in the title, often in capitals."""
    section: str
    """Its section of the manual, a digit."""


def is_manual(name: str) -> bool:
    """Tell whether a file is called as manual pages are: "ls.1", "rsync.1.gz"."""
    return _FILE.search(name) is not None


def manual_text(file: SourceFile, *, most: int) -> str:
    """Return the text of a manual page, which may be compressed.

    Args:
        file: The file.
        most: Largest size of the text in bytes.

    Raises:
        NotTextError: It cannot be read, or is no manual page.
    """
    data = file.read(most=most)
    if file.path.name.endswith(".gz"):
        data = _unpacked(data, most)
    text = raw_text.decoded(data)
    if _HEAD.search(text) is None:
        suffix = raw_text.printable(file.path.suffix)
        raise NotTextError(RejectionReason.UNSUPPORTED_TYPE, suffix)
    return text


def _unpacked(data: bytes, most: int) -> bytes:
    try:
        unpacked = zlib.decompressobj(_GZIP).decompress(data, most + 1)
    except zlib.error as error:
        raise raw_text.unreadable(error) from None
    if len(unpacked) > most:
        raise raw_text.too_long(f"more than {most} bytes unpacked", most)
    return unpacked


def page_of(text: str) -> Page:
    """Return the title line of a manual page.

    Args:
        text: As `manual_text` returns it.
    """
    match = _HEAD.search(text)
    if match is None:
        return Page("man", "", "")
    macros = "mdoc" if match["macro"] == "Dt" else "man"
    name = match["name"].replace("\\-", "-").replace("\\&", "")
    return Page(macros, name, match["section"])


def program_of(page: Page, blocks: Sequence[Node]) -> str:
    """Return the command or file that a page is about, as its NAME spells it; "" where unsure.

    Args:
        page: Its title line.
        blocks: Its blocks.
    """
    if page.section not in _COMMANDS | {_FILES}:
        return ""
    is_under_name = False
    for block in blocks:
        if block["t"] == "Header":
            is_under_name = one_line(block["c"][2]).upper() == "NAME"
        elif is_under_name and block["t"] in {"Para", "Plain"}:
            match = _NAME.match(one_line(block["c"]))
            if match is None or match["name"].casefold() != page.name.casefold():
                return ""
            return match["name"]
    return ""


def heading_of(page: Page) -> str:
    """Return the heading that the objects of a page are under, whatever its own headings say."""
    if page.section == _FILES:
        return f"Settings of {page.name}"
    return f"Command line of {page.name}"
