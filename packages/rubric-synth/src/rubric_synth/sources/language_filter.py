"""The language of a text, told from a sample of its words."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rubric_synth.errors import OutputError
from rubric_synth.rejection import Rejection, RejectionReason

if TYPE_CHECKING:
    from rubric_synth.config import CollectConfig
    from rubric_synth.document import Document

_WORD = re.compile(r"[^\W\d_]{2,}")
_NOT_WORDS = re.compile(r"\$[^$]{1,500}\$|\\[A-Za-z]+|`[^`\n]{1,200}`|https?://\S+")
_WINDOW_CHARS: Final = 4_000
_SAMPLE_CHARS: Final = 600
_MIN_LETTERS: Final = 120
_MAX_DOUBT: Final = 0.05


def in_other_language(document: Document, *, config: CollectConfig) -> Rejection | None:
    """Return the refusal of a prose document in a language that is not wanted.

    A text is refused only if its beginning and its middle both look foreign beyond doubt: one of
    few words or full of formulas stays.
    """
    if document.kind == "api" or not config.languages:
        return None
    text = document.text
    language = ""
    for start in (0, max(0, len(text) // 2 - _SAMPLE_CHARS // 2)):
        language = _foreign_language(
            _sample(text[start : start + _WINDOW_CHARS]), wanted=frozenset(config.languages)
        )
        if not language:
            return None
    return Rejection(
        source=document.source,
        stage="collect",
        reason=RejectionReason.OTHER_LANGUAGE,
        detail=language,
        doc_hash=document.doc_hash,
    )


def _sample(window: str) -> str:
    found = " ".join(_WORD.findall(_NOT_WORDS.sub(" ", window)))
    return found[:_SAMPLE_CHARS]


def _foreign_language(sample: str, *, wanted: frozenset[str]) -> str:
    """Return the likeliest language of a sample, "" where it may well be in a wanted one."""
    if len(sample) < _MIN_LETTERS and not _is_dense(sample):
        return ""
    ranked: list[tuple[str, float]] = _identifier().rank(sample)
    if sum(share for language, share in ranked if language in wanted) > _MAX_DOUBT:
        return ""
    return ranked[0][0]


def _is_dense(sample: str) -> bool:
    """Say whether few characters make a text, as in Chinese."""
    wide = sum(ord(char) >= 0x2E80 for char in sample)  # noqa: PLR2004 - first of the CJK blocks
    return 3 * wide >= _MIN_LETTERS


@cache
def _identifier() -> Any:
    """Load the model, once and only where there is prose: it takes a second and 120 MB.

    Raises:
        OutputError: The library cannot unpack it into a temporary file.
    """
    langid: Any = import_module("py3langid.langid")
    try:
        return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    except OSError as error:
        folder = tempfile.tempdir or ""  # not known where none can be written
        place = f"the temporary folder {folder!r}" if folder else "a temporary folder"
        message = (
            f"the model that tells languages cannot be unpacked in {place}: "
            f"{error.strerror or type(error).__name__}; free 100 MB there or set TMPDIR to "
            "another folder, or keep all languages with collect.languages: []"
        )
        raise OutputError(message, path=folder) from error
