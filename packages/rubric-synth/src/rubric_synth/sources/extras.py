"""Optional libraries: their absence is told with the command that installs them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, Literal

from rubric_core.errors import install_command
from rubric_synth.errors import SourceError
from rubric_synth.rejection import RejectionReason
from rubric_synth.sources.raw_text import NotTextError

Extra = Literal["datasets", "documents", "parquet", "pdf"]

_MODULES: Final[dict[Extra, str]] = {
    "datasets": "datasets",
    "documents": "pypandoc",
    "parquet": "pyarrow",
    "pdf": "pypdfium2",
}


def missing_extra(extra: Extra) -> NotTextError | None:
    """Return the refusal of a file whose library is not installed; None where it is."""
    if find_spec(_MODULES[extra]) is not None:
        return None
    return NotTextError(RejectionReason.MISSING_EXTRA, install_command("rubric-synth", extra))


def need_extra(extra: Extra, *, source: str) -> None:
    """Check that a source can be read here.

    Raises:
        SourceError: Its library is not installed.
    """
    if find_spec(_MODULES[extra]) is None:
        how = install_command("rubric-synth", extra)
        message = f"source {source!r} needs {_MODULES[extra]}; {how}"
        raise SourceError(message, source=source)
