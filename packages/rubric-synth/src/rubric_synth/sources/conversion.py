"""Conversion of HTML, PDF, notebooks and markup to documents, in a process that may hang or crash.

reStructuredText, LaTeX, Word and their like are read by pandoc, which has no access to files.
"""

import contextlib
import json
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, cast

from rubric_synth.config import CollectConfig
from rubric_synth.document import Document, RejectionReason
from rubric_synth.sources import raw_text
from rubric_synth.sources.cleaning import markup
from rubric_synth.sources.cleaning.columns import Piece, reading_order
from rubric_synth.sources.cleaning.pages import pages_to_markdown
from rubric_synth.sources.cleaning.scripts import plain_scripts, with_script_tags
from rubric_synth.sources.latex import plain_latex
from rubric_synth.sources.objects import manpage
from rubric_synth.sources.objects.syntax import one_line
from rubric_synth.sources.raw_text import NotTextError, SourceFile
from rubric_synth.tables import phrase

_MAX_MEMORY_BYTES = 2 << 30
_Job = dict[str, object]


class IsolatedReader:
    """The process of `converter`, started at the first job and again after each crash."""

    def __init__(self, timeout_s: int | None) -> None:
        """Start nothing yet.

        Args:
            timeout_s: Seconds for one answer; no limit if None.
        """
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._files: socket.socket | None = None

    def answer(
        self,
        job: _Job,
        file: BinaryIO | None = None,
    ) -> dict[str, Any]:
        """Return the answer to a job.

        Args:
            job: What to do.
            file: The file to read, which the process gets open: by its name it might be another.

        Raises:
            NotTextError: The process refused the file, or came to its end over it.
        """
        self._send(job, file)
        return self._receive()

    def answers(
        self,
        job: _Job,
        file: BinaryIO | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the answers to a job until there are no more, each within the time for one.

        Raises:
            NotTextError: As for `answer`.
        """
        self._send(job, file)
        try:
            while not (answer := self._receive()).get("done"):
                yield answer
        except GeneratorExit:
            self.close()  # its remaining answers must not reach the next job
            raise

    def _send(self, job: _Job, file: BinaryIO | None) -> None:
        process, files = self._running()
        # Where the process has died, there is no answer.
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            if file is not None:
                socket.send_fds(files, [b"f"], [file.fileno()])
            line = json.dumps({**job, "with_file": file is not None}) + "\n"
            cast("BinaryIO", process.stdin).write(line.encode())
            cast("BinaryIO", process.stdin).flush()

    def _receive(self) -> dict[str, Any]:
        process, _ = self._running()
        line = cast("BinaryIO", process.stdout).readline()
        if not line.endswith(b"\n"):
            raise NotTextError(
                RejectionReason.CONVERSION_FAILED, self._cause_of_death()
            )
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise NotTextError(
                RejectionReason(answer["refused"]), answer.get("detail", "")
            )
        return answer

    def _running(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if self._process is None or self._files is None:
            script = Path(__file__).with_name("converter.py")
            self._files, theirs = socket.socketpair()
            with theirs:
                limits = map(
                    str, (self._timeout_s or 0, _MAX_MEMORY_BYTES, theirs.fileno())
                )
                # -P: the script's folder is no place to import from. A session of its own: an
                # interrupt from the terminal is this process's to handle.
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                    [sys.executable, "-P", str(script), *limits],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=[theirs.fileno()],
                )
            weakref.finalize(self, _end, self._process)
        return self._process, self._files

    def _cause_of_death(self) -> str:
        code = self.close()
        if code == -signal.SIGALRM:
            return f"not read within the {self._timeout_s} s of collect.conversion_timeout_s"
        return f"the reader crashed, or needed more than {_MAX_MEMORY_BYTES >> 30} GiB of memory"

    def close(self) -> int:
        """End the process and return how it ended."""
        process = self._process
        self._process = None
        if self._files is not None:
            self._files.close()
        self._files = None
        if process is None:
            return 0
        return _end(process, within_s=1)


def _end(process: subprocess.Popen[bytes], *, within_s: float = 0) -> int:
    """End a process that is no longer needed, and return how it ended."""
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):
            cast("BinaryIO", pipe).close()
    try:
        return process.wait(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


PANDOC_FORMATS = {
    **{f".{name}": name for name in ("docx", "epub", "latex", "odt", "org", "rst")},
    ".rest": "rst",
    ".tex": "latex",
}
"""Format of a file as pandoc calls it, by the end of its name."""

_NOT_PARSED = frozenset({63, 64, 91, 92, 93})  # exit statuses of pandoc
_ARGUMENTS = ("--sandbox", "--wrap=none", "+RTS", "-M1g", "-RTS")
_AS_PROSE = (
    f"--lua-filter={Path(__file__).with_name('pandoc_filter.lua')}",
    "--to=commonmark+pipe_tables",
)
_AS_BLOCKS = ("--to=json",)
_HEAP_EXHAUSTED = 251  # exit status of pandoc's run-time system
# Directives and options that read other files: pandoc is not allowed to, and ends there.
_OTHER_FILES = phrase("other_files", re.MULTILINE)
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE
)
_NO_TITLE = phrase("no_title")


_UNKNOWN_LETTER = re.compile("(?<=\\w)\ufffd|\ufffd(?=\\w)")
_WORDS_PER_DAMAGE = 200
_ENOUGH_LETTERS = 200
_FEWEST_VOWELS = 0.2


class Converter:
    """Converter of files that are no plain text to documents."""

    def __init__(self, config: CollectConfig) -> None:
        """Start no process yet."""
        self._most = config.max_document_bytes
        # A page of HTML may be so many times its text.
        self._most_markup = 8 * self._most
        self._timeout_s = config.conversion_timeout_s
        self._reader = IsolatedReader(config.conversion_timeout_s)
        self.tables = IsolatedReader(config.conversion_timeout_s)
        """Reader of Parquet, in a process of its own: its library takes a process's memory."""

    def close(self) -> None:
        """End its processes."""
        self._reader.close()
        self.tables.close()

    def html(self, file: SourceFile) -> Document:
        """Return the main content of a page.

        Raises:
            NotTextError: It cannot be read or holds no text.
        """
        data = file.read(most=self._most_markup)
        declared = _CHARSET.search(data[:4096])
        encoding = declared[1].decode() if declared else ""
        page = raw_text.decoded(data, declared=encoding)
        page = with_script_tags(page)
        answer = self._reader.answer({"kind": "html", "page": page})
        markdown = answer["markdown"]
        if not markdown.strip() and answer["letters"]:
            detail = f"{answer['letters']} letters lost, as where tags lie too deep in each other"
            raise NotTextError(RejectionReason.CONVERSION_FAILED, detail)
        return self._document(
            file, markup.article_text(plain_scripts(markdown)), answer["title"]
        )

    def pdf(self, file: SourceFile) -> Document:
        """Return the running text of a PDF.

        Raises:
            NotTextError: It cannot be read, is encrypted or holds no text.
        """
        with file.open() as opened:
            if not opened.read(1):
                raise NotTextError(RejectionReason.EMPTY, "0 bytes")
            raw_text.need_extra("pdf")
            answer = self._reader.answer({"kind": "pdf", "most": self._most}, opened)
        pages = [
            reading_order([Piece(*piece) for piece in page]) for page in answer["pages"]
        ]
        texts = [line.text for page in pages for line in page]
        letters = sum(sum(map(str.isalpha, text)) for text in texts)
        if letters < 20 * len(pages):
            detail = f"{letters} letters on {len(pages)} pages; recognise its text (OCR) first"
            raise NotTextError(RejectionReason.NO_TEXT_LAYER, detail)
        _check_letters(texts)
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
        """Return the text of a file that pandoc reads, with the markup of Sphinx as words.

        Raises:
            NotTextError: It cannot be read, or not within bounds, or pandoc is not installed.
        """
        kind = PANDOC_FORMATS[file.path.suffix.lower()]
        if kind in {"docx", "epub", "odt"}:
            # A file with pictures may be so many times larger than one without.
            data = file.read(most=4 * self._most_markup)
        else:
            text = raw_text.decoded(file.read(most=self._most_markup))
            data = text.encode(errors="replace")
        if not data.strip():
            raise NotTextError(RejectionReason.EMPTY, f"{len(data)} bytes")
        if kind == "rst":
            text = _OTHER_FILES.sub("", data.decode())
            data = markup.with_titles_of_labels(text).encode()
        if kind == "latex":
            data = plain_latex(data.decode()).encode()
        markdown = _pandoc(
            data, kind, most=self._most_markup, timeout_s=self._timeout_s
        )
        return self._document(file, markdown, "")

    def manual_page(self, file: SourceFile) -> Document:
        """Return the text of a manual page of Unix.

        Raises:
            NotTextError: It cannot be read, or not within bounds, or is no manual page, or pandoc
                is not installed.
        """
        text = manpage.manual_text(file, most=self._most_markup)
        page = manpage.page_of(text)
        markdown = _pandoc(
            text.encode(errors="replace"),
            page.format,
            most=self._most_markup,
            timeout_s=self._timeout_s,
        )
        return self._document(file, markdown, f"{page.name}({page.section})")

    def blocks(self, text: str, kind: str) -> tuple[str, list[dict[str, Any]]]:
        """Return the title that pandoc reads in a text, "" for none, and its blocks.

        Args:
            text: The text of a file.
            kind: Its format as pandoc calls it.

        Raises:
            NotTextError: It cannot be read, or not within bounds, or pandoc is not installed.
        """
        answer = _pandoc(
            text.encode(errors="replace"),
            kind,
            most=self._most_markup,
            timeout_s=self._timeout_s,
            to=_AS_BLOCKS,
        )
        content: dict[str, Any] = json.loads(answer)
        title: dict[str, Any] = content["meta"].get("title", {})
        blocks: list[dict[str, Any]] = content["blocks"]
        if title.get("t") != "MetaInlines":
            return "", blocks
        return one_line(title["c"]), blocks

    def _document(
        self,
        file: SourceFile,
        markdown: str,
        title: str,
    ) -> Document:
        text = raw_text.cleaned(raw_text.short_enough(markdown, most=self._most))
        plain = markup.normal_characters(markup.without_tags(title))
        title = " ".join(plain.split())
        if _NO_TITLE.search(title):
            title = ""
        title = title.encode(errors="replace").decode()
        heading = markup.short_title(title) or markup.document_title(text)
        heading = heading or raw_text.printable(file.path.stem)
        return Document(title=heading, text=text, source=file.source)


def _check_letters(lines: list[str]) -> None:
    """Refuse a print with unknown letters: its words would be others.

    Raises:
        NotTextError: More than one word of 200 has such a letter, or hardly any has a vowel.
    """
    text = "\n".join(lines)
    words = text.split()
    damaged = len(_UNKNOWN_LETTER.findall(text))
    if damaged * _WORDS_PER_DAMAGE > len(words):
        detail = f"{damaged} of {len(words)} words hold characters of fonts without a Unicode map"
        raise NotTextError(RejectionReason.NO_UNICODE_MAP, detail)
    letters = [char for char in text.casefold() if "a" <= char <= "z"]
    vowels = sum(char in "aeiouy" for char in letters)
    if len(letters) >= _ENOUGH_LETTERS and vowels < _FEWEST_VOWELS * len(letters):
        detail = f"{vowels} vowels in {len(letters)} letters: its codes are not Unicode"
        raise NotTextError(RejectionReason.NO_UNICODE_MAP, detail)


def _pandoc(
    data: bytes,
    kind: str,
    *,
    most: int,
    timeout_s: int,
    to: Sequence[str] = _AS_PROSE,
) -> str:
    """Convert markup in a process that is bounded in time, memory and output."""
    options = f"--from={kind}", f"--metadata=rubric-synth-format:{kind}"
    with tempfile.TemporaryFile() as source:
        source.write(data)
        source.seek(0)
        process = subprocess.Popen(  # noqa: S603 - the program of a wheel, and our own arguments
            [pandoc_program(), *_ARGUMENTS, *to, *options],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # its messages hold text of the file
            start_new_session=True,
        )
    # Linux alone has this limit, for a pandoc that outlives this process.
    with contextlib.suppress(AttributeError, OSError):
        limit_s = 2 * timeout_s
        limits = (limit_s, limit_s)
        resource.prlimit(process.pid, resource.RLIMIT_CPU, limits)
    timer = threading.Timer(timeout_s, process.kill)
    timer.start()
    try:
        with process:
            markdown = cast("BinaryIO", process.stdout).read(most + 1)
            if len(markdown) > most:
                process.kill()
    finally:
        is_late = not timer.is_alive()
        timer.cancel()
    if len(markdown) > most:
        detail = f"Markdown of more than the {most} bytes that collect.max_document_bytes allows"
        raise NotTextError(RejectionReason.TOO_LONG, detail)
    if status := process.returncode:
        detail = f"pandoc ended with status {status}"
        if is_late:
            detail = (
                f"not read within the {timeout_s} s of collect.conversion_timeout_s"
            )
        elif status == _HEAP_EXHAUSTED:
            detail = "pandoc needed more than 1 GiB of memory"
        elif status in _NOT_PARSED:
            detail = f"pandoc cannot read it as {kind}"
        raise NotTextError(RejectionReason.CONVERSION_FAILED, detail)
    return markdown.decode()


def pandoc_program() -> str:
    """Return the path of pandoc in its wheel; another version might read files differently.

    Raises:
        NotTextError: The extra is not installed.
    """
    raw_text.need_extra("documents")
    spec = find_spec("pypandoc")
    return str(Path(str(spec and spec.origin)).with_name("files") / "pandoc")
