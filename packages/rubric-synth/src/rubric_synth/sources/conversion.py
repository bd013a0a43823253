"""HTML and PDF files, notebooks and other markup to documents, by processes that may fail."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rubric_synth.cleaning import (
    Line,
    article_text,
    document_title,
    normal_characters,
    pages_to_markdown,
    short_title,
    without_tags,
)
from rubric_synth.document import Document
from rubric_synth.rejection import RejectionReason
from rubric_synth.sources.extras import missing_extra
from rubric_synth.sources.isolated import IsolatedReader
from rubric_synth.sources.pandoc import Pandoc
from rubric_synth.sources.raw_text import NotTextError, cleaned, decoded, printable, within

if TYPE_CHECKING:
    from rubric_synth.config import CollectConfig
    from rubric_synth.sources.opening import SourceFile

_MARKUP_FRAC: Final = 8  # a page of HTML may be so many times its text
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE
)
_NO_TITLE = re.compile(
    r"^untitled|^Microsoft Word|\.(?:docx?|tex|dvi|indd|pdf|html?)$", re.IGNORECASE
)
_MIN_PAGE_LETTERS: Final = 20


class Converter:
    """Files that are not text as they are, to documents."""

    def __init__(self, config: CollectConfig) -> None:
        """Start no process yet."""
        self._most = config.max_document_bytes
        self._pandoc = Pandoc(config.conversion_timeout_s, most=_MARKUP_FRAC * self._most)
        self._reader = IsolatedReader(config.conversion_timeout_s)
        self.tables = IsolatedReader(config.conversion_timeout_s)
        """Reads Parquet, of which each row is a document; its library takes a process's memory."""

    def close(self) -> None:
        """End its processes."""
        self._reader.close()
        self.tables.close()

    def html(self, file: SourceFile) -> Document:
        """Return the main content of a page.

        Raises:
            NotTextError: It cannot be read or holds no text.
        """
        data = file.read(most=_MARKUP_FRAC * self._most)
        declared = _CHARSET.search(data[:4096])
        page = decoded(data, declared=declared[1].decode() if declared else "")
        answer = self._reader.answer({"kind": "html", "page": page})
        markdown = answer["markdown"]
        if not markdown.strip() and answer["letters"]:
            detail = f"{answer['letters']} letters lost, as where tags lie too deep in each other"
            raise NotTextError(RejectionReason.CONVERSION_FAILED, detail)
        return self._document(file, article_text(markdown), answer["title"])

    def pdf(self, file: SourceFile) -> Document:
        """Return the running text of a PDF.

        Raises:
            NotTextError: It cannot be read, is encrypted or holds no text.
        """
        with file.open() as opened:
            if not opened.read(1):
                raise NotTextError(RejectionReason.EMPTY, "0 bytes")
            if (missing := missing_extra("pdf")) is not None:
                raise missing
            answer = self._reader.answer({"kind": "pdf", "most": self._most}, opened)
        pages = [[Line(*line) for line in page] for page in answer["pages"]]
        letters = sum(sum(map(str.isalpha, line.text)) for page in pages for line in page)
        if letters < _MIN_PAGE_LETTERS * len(pages):
            detail = f"{letters} letters on {len(pages)} pages; recognise its text (OCR) first"
            raise NotTextError(RejectionReason.NO_TEXT_LAYER, detail)
        markdown = pages_to_markdown(pages, outline=answer["outline"])
        return self._document(file, markdown, answer["title"])

    def notebook(self, file: SourceFile) -> Document:
        """Return the text and the code of a Jupyter notebook, without its outputs.

        Raises:
            NotTextError: It cannot be read or holds no text.
        """
        with file.open() as opened:
            answer = self._reader.answer({"kind": "notebook"}, opened)
        return self._document(file, answer["markdown"], "")

    def markup(self, file: SourceFile) -> Document:
        """Return the text of a file in a format that pandoc reads.

        Raises:
            NotTextError: It cannot be read or holds no text.
        """
        return self._document(file, self._pandoc.markdown(file), "")

    def _document(self, file: SourceFile, markdown: str, title: str) -> Document:
        text = cleaned(within(markdown, most=self._most))
        named = " ".join(normal_characters(without_tags(title)).split())
        title = "" if _NO_TITLE.search(named) else named.encode(errors="replace").decode()
        heading = short_title(title) or document_title(text) or printable(file.path.stem)
        return Document(title=heading, text=text, source=file.source)
