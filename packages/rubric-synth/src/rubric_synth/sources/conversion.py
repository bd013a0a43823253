"""HTML and PDF files, read in a process of its own: no file can end or hold up a collection."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

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
from rubric_synth.sources.opening import open_regular, read_regular
from rubric_synth.sources.raw_text import NotTextError, cleaned, decoded, printable, within

if TYPE_CHECKING:
    from types import TracebackType

    from rubric_synth.config import CollectConfig

_MARKUP_FRAC: Final = 8  # a page of HTML may be so many times its text
_MAX_MEMORY_BYTES: Final = 3 << 30
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE
)
_NO_TITLE = re.compile(
    r"^untitled|^Microsoft Word|\.(?:docx?|tex|dvi|indd|pdf|html?)$", re.IGNORECASE
)
_MIN_PAGE_LETTERS: Final = 20


class Converter:
    """A process that turns files into Markdown, started at the first one and after each crash."""

    def __init__(self, config: CollectConfig) -> None:
        """Start nothing yet."""
        self._most = config.max_document_bytes
        self._timeout_s = config.conversion_timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process."""
        self._end()

    def html(self, path: Path, source: str) -> Document:
        """Return the main content of a page.

        Raises:
            NotTextError: It cannot be read or holds no text.
        """
        data = read_regular(path, most=_MARKUP_FRAC * self._most)
        declared = _CHARSET.search(data[:4096])
        page = decoded(data, declared=declared[1].decode() if declared else "")
        answer = self._answer({"html": page})
        markdown = answer["markdown"]
        if not markdown.strip() and answer["letters"]:
            detail = f"{answer['letters']} letters lost, as where tags lie too deep in each other"
            raise NotTextError(RejectionReason.CONVERSION_FAILED, detail)
        text = cleaned(within(article_text(markdown), most=self._most))
        return self._document(path, source, text, answer["title"])

    def pdf(self, path: Path, source: str) -> Document:
        """Return the running text of a PDF.

        Raises:
            NotTextError: It cannot be read, is encrypted or holds no text.
        """
        with open_regular(path) as file:
            if not file.read(1):
                raise NotTextError(RejectionReason.EMPTY, "0 bytes")
        if (missing := missing_extra("pdf")) is not None:
            raise missing
        answer = self._answer({"pdf": str(path), "most": self._most})
        pages = [[Line(*line) for line in page] for page in answer["pages"]]
        letters = sum(sum(map(str.isalpha, line.text)) for page in pages for line in page)
        if letters < _MIN_PAGE_LETTERS * len(pages):
            detail = f"{letters} letters on {len(pages)} pages; recognise its text (OCR) first"
            raise NotTextError(RejectionReason.NO_TEXT_LAYER, detail)
        raw = pages_to_markdown(pages, outline=answer["outline"])
        return self._document(path, source, cleaned(within(raw, most=self._most)), answer["title"])

    def _document(self, path: Path, source: str, text: str, title: str) -> Document:
        named = " ".join(normal_characters(without_tags(title)).split())
        title = "" if _NO_TITLE.search(named) else named.encode(errors="replace").decode()
        heading = short_title(title) or document_title(text) or printable(path.stem)
        return Document(title=heading, text=text, source=source)

    def _answer(self, job: dict[str, object]) -> dict[str, Any]:
        process = self._running()
        line = b""
        with contextlib.suppress(BrokenPipeError):
            if process.stdin is not None and process.stdout is not None:
                process.stdin.write(json.dumps(job).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
        if not line.endswith(b"\n"):
            raise NotTextError(RejectionReason.CONVERSION_FAILED, self._cause_of_death())
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise NotTextError(RejectionReason(answer["refused"]), answer.get("detail", ""))
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            script = Path(__file__).with_name("converter.py")
            limits = [str(self._timeout_s), str(_MAX_MEMORY_BYTES)]
            # -P: the script's folder is no place to import from. A session of its own: an
            # interrupt from the terminal is this process's to handle.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                [sys.executable, "-P", str(script), *limits],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process

    def _cause_of_death(self) -> str:
        code = self._end()
        if code == -signal.SIGALRM:
            return f"not read within {self._timeout_s} s"
        return "the reader ran out of memory or crashed"

    def _end(self) -> int:
        """End the process and return how it ended."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
