"""The documents that a policy built from nothing reads before anything else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from rubric_core import RubricFileError
from rubric_core.files import read_file
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


def read_corpus(path: Path, *, doc_hashes: Collection[str]) -> list[str]:
    """Read the texts of a JSONL file, without the documents of held-out tasks.

    Args:
        path: one object a line, with a `text` and, as `rubric-synth collect` writes it, a
            `doc_hash`.
        doc_hashes: of the training tasks. A row with any other hash is left out, since it may be
            what a held-out question is about; a row without a hash is read.

    Returns:
        The texts, in the order of the file.

    Raises:
        TrainConfigError: there is no such file, or nothing in it may be read.
        RubricFileError: a line is no object with a text.
    """
    try:
        content = read_file(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise TrainConfigError(
            f"cannot read the documents {str(path)!r} ({type(exc).__name__}); write them with "
            "`rubric-synth collect`",
            location="model.documents",
        ) from exc
    rows = list(_rows(path, content))
    texts = [text for text, doc_hash in rows if doc_hash is None or doc_hash in doc_hashes]
    if not texts:
        raise TrainConfigError(
            f"none of the {len(rows)} documents in {str(path)!r} belongs to a training task; give "
            "those that the tasks were made from",
            location="model.documents",
        )
    return texts


def _rows(path: Path, content: str) -> Iterator[tuple[str, str | None]]:
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except ValueError:
            row = None
        fields = cast("dict[str, object]", row) if isinstance(row, dict) else {}
        text, doc_hash = fields.get("text"), fields.get("doc_hash")
        if not isinstance(text, str) or not isinstance(doc_hash, str | None):
            raise RubricFileError(
                "this line is no JSON object with a string `text`; write the documents with "
                "`rubric-synth collect`",
                path=path,
                line=number,
                field="text",
            )
        yield text, doc_hash
