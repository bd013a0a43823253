"""The sources as they were given: each once, and none of them the folder to write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rubric_synth.collect.folder import DOCUMENTS_FILE, MANIFEST_FILE, REJECTED_FILE
from rubric_synth.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE_PREFIX: Final = "python:"
_NO_PATHS: Final = (PACKAGE_PREFIX, "hf:")
_FILES: Final = frozenset({DOCUMENTS_FILE, REJECTED_FILE, MANIFEST_FILE})


def given_sources(sources: Sequence[str | Path], out: Path) -> dict[str, str | Path]:
    """Return the sources by name, in the order of their names; one that is given twice is one.

    Raises:
        SourceError: There is none, or one of them is or holds the folder to write.
    """
    if not sources:
        message = "no source was given; name a folder, a file or python:PACKAGE"
        raise SourceError(message)
    given: dict[str, str | Path] = {}
    seen: set[str] = set()
    target = out.resolve()
    for source in sorted(sources, key=str):
        name = str(source)
        is_path = not name.startswith(_NO_PATHS)
        identity = str(Path(source).resolve()) if is_path else name
        if is_path and _is_output(Path(identity), target):
            message = (
                f"source {name!r} holds the folder to write, {str(out)!r}, so that collecting "
                "would read its own output; choose a folder outside the source"
            )
            raise SourceError(message, source=name)
        if identity not in seen:
            seen.add(identity)
            given[name] = source
    return given


def _is_output(source: Path, target: Path) -> bool:
    is_around = target.is_relative_to(source) and not source.is_file()
    return is_around or (source.parent == target and source.name in _FILES)
