"""reStructuredText, LaTeX, Word and other markup to Markdown, by pandoc in a process of its own."""

from __future__ import annotations

import contextlib
import re
import resource
import subprocess
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rubric_synth.rejection import RejectionReason
from rubric_synth.sources.extras import missing_extra
from rubric_synth.sources.raw_text import MAX_BYTES, NotTextError, decoded

if TYPE_CHECKING:
    from rubric_synth.sources.opening import SourceFile

PANDOC_FORMATS: Final = {
    ".docx": "docx",
    ".epub": "epub",
    ".latex": "latex",
    ".odt": "odt",
    ".org": "org",
    ".rest": "rst",
    ".rst": "rst",
    ".tex": "latex",
}
"""What pandoc calls the format of a file, by the end of its name."""

_BINARY: Final = frozenset({"docx", "epub", "odt"})
_PICTURES: Final = 4  # a file with pictures may be so many times larger than one without
_MAX_HEAP: Final = "1g"
_NOT_PARSED: Final = frozenset({63, 64, 91, 92, 93})  # exit statuses of pandoc
_HEAP_EXHAUSTED: Final = 251  # of its run-time system
# Directives and options that read other files, which pandoc is not allowed to, and it ends there.
_OTHER_FILES = re.compile(
    r"^[ \t]*(?:\.\.[ \t]+(?:\|[^|\n]*\|[ \t]+)?(?:include|literalinclude)::|:(?:file|url):).*$",
    re.MULTILINE,
)


class Pandoc:
    """Runs of pandoc without access to files, each bounded in time, memory and output."""

    def __init__(self, timeout_s: int, *, most: int) -> None:
        """Start nothing.

        Args:
            timeout_s: For one file.
            most: Bytes of a file, and of what comes out of it.
        """
        self._timeout_s = timeout_s
        self._most = most

    def markdown(self, file: SourceFile) -> str:
        """Return the text of a file as Markdown, the roles and directives of Sphinx as words.

        Raises:
            NotTextError: It cannot be read, or not within bounds, or pandoc is not installed.
        """
        kind = PANDOC_FORMATS[file.path.suffix.lower()]
        if kind in _BINARY:
            data = file.read(most=_PICTURES * self._most)
        else:
            data = decoded(file.read(most=self._most)).encode(errors="replace")
        if not data.strip():
            raise NotTextError(RejectionReason.EMPTY, f"{len(data)} bytes")
        if kind == "rst":
            data = _OTHER_FILES.sub("", data.decode()).encode()
        return self._converted(data, kind)

    def _converted(self, data: bytes, kind: str) -> str:
        with tempfile.TemporaryFile() as given:
            given.write(data)
            given.seek(0)
            process = subprocess.Popen(  # noqa: S603 - the program of a wheel, and our own arguments
                [_program(), *_arguments(kind)],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # its messages hold text of the file
                start_new_session=True,
            )
        with contextlib.suppress(AttributeError, OSError):  # it may outlive us, where Linux is
            most_s = 2 * self._timeout_s
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (most_s, most_s))
        timer = threading.Timer(self._timeout_s, process.kill)
        timer.start()
        try:
            with process:
                markdown = process.stdout.read(self._most + 1) if process.stdout else b""
                if len(markdown) > self._most:
                    process.kill()
        finally:
            is_late = not timer.is_alive()
            timer.cancel()
        if len(markdown) > self._most:
            detail = f"Markdown of more than the {self._most} bytes that {MAX_BYTES} allows"
            raise NotTextError(RejectionReason.TOO_LONG, detail)
        if process.returncode:
            raise self._failed(process.returncode, kind, is_late=is_late)
        return markdown.decode()

    def _failed(self, status: int, kind: str, *, is_late: bool) -> NotTextError:
        if is_late:
            detail = f"not read within the {self._timeout_s} s of collect.conversion_timeout_s"
        elif status == _HEAP_EXHAUSTED:
            detail = "pandoc needed more than 1 GiB of memory"
        elif status in _NOT_PARSED:
            detail = f"pandoc cannot read it as {kind}"
        else:
            detail = f"pandoc ended with status {status}"
        return NotTextError(RejectionReason.CONVERSION_FAILED, detail)


def _program() -> str:
    """Return the path of pandoc in its wheel; another version might read files differently.

    Raises:
        NotTextError: The extra is not installed.
    """
    missing = missing_extra("documents")
    if missing is None:
        spec = find_spec("pypandoc")
        if spec is not None and spec.origin is not None:
            return str(Path(spec.origin).with_name("files") / "pandoc")
    raise missing or NotTextError(RejectionReason.MISSING_EXTRA)


def _arguments(kind: str) -> list[str]:
    return [
        "--sandbox",
        f"--from={kind}",
        f"--metadata=rubric-synth-format:{kind}",
        f"--lua-filter={Path(__file__).with_name('pandoc_filter.lua')}",
        "--to=commonmark+pipe_tables",
        "--wrap=none",
        *("+RTS", f"-M{_MAX_HEAP}", "-RTS"),
    ]
