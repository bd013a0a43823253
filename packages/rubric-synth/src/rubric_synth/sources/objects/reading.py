"""Documents of the described objects of a manual, in reStructuredText, Markdown, HTML or troff."""

import re
from typing import Protocol

from rubric_synth.document import Document, Found, RejectionReason, left_out
from rubric_synth.sources import raw_text
from rubric_synth.sources.cleaning.markup import normal_characters, without_tags
from rubric_synth.sources.objects import manpage
from rubric_synth.sources.objects.described import Described
from rubric_synth.sources.objects.entries import entries_of, title_of
from rubric_synth.sources.objects.finding import Finder
from rubric_synth.sources.objects.program import Programs, title_program
from rubric_synth.sources.objects.rest import is_with_objects, with_objects
from rubric_synth.sources.objects.syntax import Node
from rubric_synth.sources.raw_text import NotTextError, SourceFile
from rubric_synth.tables import patterns

_PATTERNS = patterns("objects")
_FORMATS = {
    ".rst": "rst",
    ".rest": "rst",
    ".txt": "rst",
    ".md": "commonmark_x-smart",
    ".markdown": "commonmark_x-smart",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}
_SPAN_IN_CODE = re.compile(r"<span class=\"pre\">([^<>]*)</span>")
_TITLE = re.compile(r"<title[^>]{0,200}>(.{0,2000}?)</title", re.DOTALL | re.IGNORECASE)


class BlockReader(Protocol):
    """Reader of the blocks of a text, such as `Converter`."""

    def blocks(self, text: str, kind: str) -> tuple[str, list[Node]]:
        """Return the title of a text, "" for none, and its blocks.

        Args:
            text: The text of a file.
            kind: Its format as pandoc calls it.
        """
        ...


class ManualReader:
    """Reader of the described objects of files, for one collection."""

    def __init__(self, converter: BlockReader, most: int) -> None:
        """Read no file yet.

        Args:
            converter: Runs pandoc.
            most: Largest size of a file in bytes.
        """
        self._converter = converter
        self._most = most
        self._programs = Programs()

    def documents(self, file: SourceFile) -> Found:
        """Yield a document for each entry of a page, or the reason why its objects are left out.

        Args:
            file: A file, which was read as prose before.
        """
        place = f"{file.source}#objects"
        try:
            yield from self._documents(file, place)
        except NotTextError as error:
            yield error.rejection(place)
        except RecursionError:
            detail = "its blocks are nested too deeply"
            yield left_out(place, RejectionReason.CONVERSION_FAILED, detail)

    def _documents(self, file: SourceFile, place: str) -> Found:
        if manpage.is_manual(file.path.name.lower()):
            described, name = self._of_manual_page(file)
        else:
            described, name = self._of_page(file)
        entries, unknown = entries_of(described, name)
        for entry in entries:
            yield Document(
                title=title_of(entry),
                text=entry.rendered(),
                source=f"{file.source}#{entry.parameters[0].name}",
                kind="api",
            )
        if unknown:
            detail = (
                f"{unknown} described objects of a program that nothing names surely"
            )
            yield left_out(place, RejectionReason.NO_PROGRAM, detail)

    def _of_page(self, file: SourceFile) -> tuple[list[Described], str]:
        """Return the objects of a page, and the program that it is about; "" where unsure."""
        suffix = file.path.suffix.lower()
        kind = _FORMATS.get(suffix)
        if kind is None:
            return [], ""
        text = normal_characters(raw_text.decoded(file.read(most=self._most)))
        if not _PATTERNS[f"hint_in_{kind.partition('_')[0]}"].search(text):
            return [], ""
        if suffix == ".txt" and not is_with_objects(text):
            return [], ""  # plain text, not reStructuredText as Django's
        if kind == "rst":
            text = with_objects(text)
        if kind == "html":
            name = title_program(_title_of(text))
            if not name and "sig-name" not in text:
                return [], ""  # no page of a manual that Sphinx wrote
            text = _SPAN_IN_CODE.sub(r"\1", text)  # within it, pandoc sees no code
        else:
            name = self._programs.program_of(file)
        title, blocks = self._converter.blocks(text, kind)
        return list(Finder(title).find(blocks)), name

    def _of_manual_page(self, file: SourceFile) -> tuple[list[Described], str]:
        """Return the objects of a page of Unix's manual, and its command or file."""
        text = manpage.manual_text(file, most=self._most)
        page = manpage.page_of(text)
        _, blocks = self._converter.blocks(text, page.format)
        name = manpage.program_of(page, blocks)
        finder = Finder(
            manpage.heading_of(page),
            has_plain_names=page.section == "5",
            is_of_one_command=True,
        )
        return list(finder.find(blocks)), name


def _title_of(page: str) -> str:
    """Return the title in the head of a page of HTML; "" for none."""
    match = _TITLE.search(page[:200_000])
    if match is None:
        return ""
    return " ".join(without_tags(match[1]).split())
