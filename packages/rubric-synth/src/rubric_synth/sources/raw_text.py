"""Reading and decoding of files, refusals of those that are no text, and the language of a text.

Files are opened so that reading can neither block nor follow a link out of their folder.
"""

import codecs
import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from rubric_core.errors import install_command
from rubric_synth.config import CollectConfig
from rubric_synth.document import (
    Document,
    RefusedError,
    Rejection,
    RejectionReason,
    left_out,
)
from rubric_synth.errors import OutputError, SourceError
from rubric_synth.sources.cleaning.markup import clean_markdown

_MARKS = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNMARKED = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_SAMPLE_BYTES = 16_384
_MIN_DETECTED_BYTES = 64
_MAX_CHAOS = 0.1
_MIN_COHERENCE = 0.3
_MAX_CONTROL_FRAC = 0.02
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f]")


Extra = Literal["datasets", "documents", "parquet", "pdf"]
_MODULES: dict[Extra, str] = {
    "datasets": "datasets",
    "documents": "pypandoc",
    "parquet": "pyarrow",
    "pdf": "pypdfium2",
}


class NotTextError(RefusedError):
    """Input that is not a document."""

    def rejection(self, source: str) -> Rejection:
        """Return the rejection of a source."""
        return left_out(source, self.reason, self.detail)


def too_long(what: str, most: int, *, more: str = "") -> NotTextError:
    """Return the refusal of input above `collect.max_document_bytes`, which sets all limits."""
    detail = f"{what}, above the {most} that collect.max_document_bytes allows{more}"
    return NotTextError(RejectionReason.TOO_LONG, detail)


def need_extra(extra: Extra, *, source: str = "") -> None:
    """Check that an optional library is installed; an error names the command that installs it.

    Raises:
        SourceError: It is not installed, and the source needs it.
        NotTextError: It is not installed, and no source is named: a file is left out for it.
    """
    module = _MODULES[extra]
    if find_spec(module) is not None:
        return
    how = install_command("rubric-synth", extra)
    if not source:
        raise NotTextError(RejectionReason.MISSING_EXTRA, how)
    raise SourceError(f"source {source!r} needs {module}; {how}", source=source)


def decoded(data: bytes, *, declared: str = "") -> str:
    """Return the text of a file: by its mark of byte order, as UTF-8, or as what it looks like.

    Args:
        data: The whole file.
        declared: Encoding that the file names itself, used where the file is not UTF-8.

    Raises:
        NotTextError: The file is binary, or in an unknown encoding.
    """
    marked = ""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            marked = encoding
            break
    if marked:
        try:
            return data.decode(marked)
        except UnicodeDecodeError as error:
            detail = f"not {marked.upper()} at byte {error.start}, despite its byte-order mark"
            raise NotTextError(RejectionReason.WRONG_ENCODING, detail) from None
    if b"\0" in data:
        if wide := _unmarked(data):
            detail = f"{wide} without a byte-order mark; save it as UTF-8"
            raise NotTextError(RejectionReason.WRONG_ENCODING, detail)
        raise NotTextError(RejectionReason.BINARY, f"{len(data)} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = _decoded_otherwise(data, error.start, declared)
    sample = text[:_SAMPLE_BYTES]
    if len(_CONTROL.findall(sample)) > _MAX_CONTROL_FRAC * len(sample):
        raise NotTextError(RejectionReason.BINARY, f"{len(data)} bytes")
    return text


def cleaned(raw: str) -> str:
    """Return the cleaned text of a document.

    Raises:
        NotTextError: It is empty, or holds characters that no text file can hold.
    """
    if "\0" in raw:
        raise NotTextError(RejectionReason.BINARY, f"{len(raw)} characters")
    text = clean_markdown(encodable(raw))
    if not text:
        raise NotTextError(RejectionReason.EMPTY, f"{len(raw)} characters")
    return text


def encodable(text: str) -> str:
    """Return the text if UTF-8 can encode it.

    Raises:
        NotTextError: It holds half of a surrogate pair, which no file in UTF-8 can hold.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotTextError(
            RejectionReason.WRONG_ENCODING, "half of a surrogate pair"
        ) from None
    return text


def short_enough(text: str, *, most: int) -> str:
    """Return the text if it is not too long.

    Raises:
        NotTextError: It has more bytes than a document may have.
    """
    size = len(text) if text.isascii() else len(text.encode(errors="replace"))
    if size > most:
        raise too_long(f"{size} bytes of text", most)
    return text


def printable(name: str) -> str:
    """Return a text with half of a surrogate pair, as in a file's damaged name, spelled out."""
    return name.encode(errors="backslashreplace").decode()


def _unmarked(data: bytes) -> str:
    """Name the wide encoding that zero bytes stand for; "" where they make no words."""
    sample = data[:_SAMPLE_BYTES]
    if len(sample) < _MIN_DETECTED_BYTES:
        return ""
    for encoding in _UNMARKED:
        text = codecs.getincrementaldecoder(encoding)("ignore").decode(sample)
        usual = sum(char.isalpha() or char.isspace() for char in text)
        latin = sum(char.isascii() for char in text)
        if "\0" not in text and usual > 0.6 * len(text) and latin * 10 > len(text):
            return encoding.upper()
    return ""


def _decoded_otherwise(data: bytes, start: int, declared: str) -> str:
    """Decode data that is not UTF-8."""
    detail = f"not UTF-8 at byte {start}"
    # A file that names a wide encoding in ASCII is not in that encoding.
    is_wide = declared.lower().startswith(("utf-16", "utf-32"))
    if declared and not is_wide:
        try:
            return data.decode(declared)
        except (LookupError, ValueError):
            # It is no encoding, no encoding of text, or not that of the file.
            detail += ", nor the encoding that it declares"
    lossy = data.decode(errors="replace")
    damaged = lossy.count("\ufffd")
    if sum(not char.isascii() for char in lossy) > 2 * damaged:
        detail += f"; else UTF-8 with {damaged} damaged places"
        raise NotTextError(RejectionReason.WRONG_ENCODING, detail)
    if match := _detected(data, start):
        try:
            return data.decode(match)
        except UnicodeDecodeError:
            detail += f", nor {match}"
    raise NotTextError(RejectionReason.WRONG_ENCODING, f"{detail}; save it as UTF-8")


def _detected(data: bytes, start: int) -> str | None:
    """Name the encoding of the bytes around one that is not UTF-8, where there is little doubt."""
    from charset_normalizer import from_bytes  # a rare case, slow to import

    begin = max(0, start - _SAMPLE_BYTES // 2)
    sample = data[begin : begin + _SAMPLE_BYTES]
    if len(sample) < _MIN_DETECTED_BYTES:
        return None
    best = from_bytes(sample).best()
    # Code pages of Europe differ in few letters, and that of its west is by far the most common.
    western = from_bytes(sample, cp_isolation=["cp1252"]).best()
    if best is None or (
        western is not None
        and western.chaos <= best.chaos
        and western.coherence >= best.coherence - 0.05
    ):
        best = western
    if best is None:
        return None
    if best.chaos > _MAX_CHAOS or best.coherence < _MIN_COHERENCE:
        return None
    return best.encoding


_WORD = re.compile(r"[^\W\d_]{2,}")
_NOT_WORDS = re.compile(r"\$[^$]{1,500}\$|\\[A-Za-z]+|`[^`\n]{1,200}`|https?://\S+")
_SAMPLE_CHARS = 600
_MIN_LETTERS = 120
_MAX_DOUBT = 0.05


def unless_foreign(
    item: Document | Rejection, *, config: CollectConfig
) -> Document | Rejection:
    """Return the item, or the rejection of a prose document in a language that is not wanted.

    A text is refused only if its beginning and its middle both look foreign beyond doubt: one of
    few words or full of formulas stays.
    """
    if isinstance(item, Rejection):
        return item
    if item.kind == "api" or not config.languages:
        return item
    language = foreign_language(item.text, wanted=frozenset(config.languages))
    if not language:
        return item
    return left_out(
        item.source, RejectionReason.OTHER_LANGUAGE, language, item.doc_hash
    )


def foreign_language(text: str, *, wanted: frozenset[str]) -> str:
    """Return the code of a text's language; "" where it may well be a wanted one.

    Args:
        text: Any; its beginning and its middle are looked at.
        wanted: Codes in ISO 639.
    """
    language = ""
    for start in (0, max(0, len(text) // 2 - _SAMPLE_CHARS // 2)):
        language = _foreign(text[start : start + 4_000], wanted=wanted)
        if not language:
            return ""
    return language


def _foreign(window: str, *, wanted: frozenset[str]) -> str:
    """Return the likeliest language of a text, "" where it may well be in a wanted one."""
    sample = " ".join(_WORD.findall(_NOT_WORDS.sub(" ", window)))[:_SAMPLE_CHARS]
    wide = sum(ord(char) >= 0x2E80 for char in sample)  # noqa: PLR2004 - first of the CJK blocks
    # Few wide characters make a text.
    if len(sample) < _MIN_LETTERS and 3 * wide < _MIN_LETTERS:
        return ""
    ranked: list[tuple[str, float]] = _identifier().rank(sample)
    if sum(share for language, share in ranked if language in wanted) > _MAX_DOUBT:
        return ""
    return ranked[0][0]


@cache
def _identifier() -> Any:
    """Load the model, once and only where there is prose: it takes a second and 120 MB.

    Raises:
        OutputError: The library cannot unpack it into a temporary file.
    """
    langid: Any = import_module("py3langid.langid")
    try:
        return langid.LanguageIdentifier.from_model_file(
            langid.MODEL_FILE, norm_probs=True
        )
    except OSError as error:
        folder = tempfile.tempdir or ""  # not known where none can be written
        place = f"the temporary folder {folder!r}" if folder else "a temporary folder"
        why = error.strerror or type(error).__name__
        raise OutputError(
            f"the model that tells languages cannot be unpacked in {place}: {why}; free 100 "
            "MB there or set TMPDIR to another folder, or keep all languages with "
            "collect.languages: []",
            path=folder,
        ) from error


# Without O_NONBLOCK, to open a pipe is to wait for its writer.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_NO_LINK = _READ | os.O_NOFOLLOW


class SourceFile(NamedTuple):
    """A file that may be read."""

    path: Path
    """Path of the file."""
    source: str
    """Its name in the collection."""
    root: Path | None = None
    """The folder that it must be in, without links; None for a file that the user named."""

    def open(self) -> BinaryIO:
        """Open it for reading.

        Raises:
            NotTextError: It cannot be opened, lies outside the folder, or is a pipe or a device,
                which could be read forever.
        """
        try:
            # Before it is opened: some devices do something then.
            _check_regular(self.path.stat().st_mode)
            path = self.path
            root = self.root
            handle = os.open(path, _READ) if root is None else _opened_in(root, path)
        except NotTextError:
            raise
        except (OSError, ValueError) as error:
            raise unreadable(error) from error
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(os.fdopen(handle, "rb"))
            _check_regular(os.fstat(handle).st_mode)
            stack.pop_all()
        return file

    def read(self, *, most: int) -> bytes:
        """Return its bytes.

        Raises:
            NotTextError: It cannot be read, is not a regular file, or has more than `most` bytes.
        """
        try:
            with self.open() as file:
                data = file.read(most + 1)
                if len(data) > most:
                    size = max(os.fstat(file.fileno()).st_size, len(data))
                    raise too_long(f"{size} bytes", most)
        except OSError as error:
            raise unreadable(error) from error
        return data


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        detail = "not a regular file: a pipe, a device or a socket"
        raise NotTextError(RejectionReason.UNSUPPORTED_TYPE, detail)


def unreadable(error: BaseException) -> NotTextError:
    """Return the refusal of a file that could not be read."""
    message = error.strerror if isinstance(error, OSError) else None
    return NotTextError(RejectionReason.UNREADABLE, message or type(error).__name__)


def visible_files(folder: Path) -> Iterator[tuple[SourceFile, NotTextError | None]]:
    """Yield the files of a folder and of its subfolders in the order of their paths.

    Hidden files and folders are left alone; what cannot be read comes with its refusal, and so does
    a link to a folder, since it may lead back. Links to files are followed only where these are in
    the folder too. Its name becomes the first part of each source.
    """
    root = folder.resolve()
    # A stack of its own: folders can lie deeper in each other than functions may.
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        below = printable(path.relative_to(folder).as_posix())
        file = SourceFile(path, f"{printable(root.name)}/{below}", root)
        try:
            if path is folder or (path.is_dir() and not path.is_symlink()):
                entries = (
                    entry for entry in path.iterdir() if not entry.name.startswith(".")
                )
                waiting.extend(sorted(entries, reverse=True))
            elif path.is_dir():
                detail = "a link to a folder, which is not followed; name the folder as a source"
                yield file, NotTextError(RejectionReason.UNSUPPORTED_TYPE, detail)
            else:
                yield file, None
        except OSError as error:
            yield file, unreadable(error)


def _opened_in(root: Path, path: Path) -> int:
    """Open a file below a folder, step by step and never through a link.

    So that neither the file nor a folder on the way to it can become a link after the check.
    """
    real = Path(os.path.realpath(path, strict=True))
    if not real.is_relative_to(root):
        raise NotTextError(
            RejectionReason.OUTSIDE_FOLDER, "a link that leaves the folder"
        )
    *folders, name = real.relative_to(root).parts
    here = os.open(root, _READ | os.O_DIRECTORY)
    try:
        for folder in folders:
            flags = _NO_LINK | os.O_DIRECTORY
            below = os.open(folder, flags, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, _NO_LINK, dir_fd=here)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            detail = "a link took its place while it was opened"
            raise NotTextError(RejectionReason.OUTSIDE_FOLDER, detail) from None
        raise
    finally:
        os.close(here)
