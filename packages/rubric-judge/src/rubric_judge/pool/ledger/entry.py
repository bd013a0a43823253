"""The entry of one judgement in the ledger."""

import hashlib
import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rubric_core import JudgeResult, Rubric, SchemaError, Task
from rubric_core.files import text_sha256
from rubric_judge.errors import LedgerError

SUSPECT = "suspect"
"""Value in the column of the outcome: an invalid answer that is not final."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One judgement: who judged what, with which result.

    It holds the response in full, but only hashes of rubric, passage and question, which are in the
    task file.
    """

    key: str
    """The key that `Ledger.find` looks for."""
    judge: str
    """The judge's fingerprint."""
    task_id: str
    """The task that the response answers, under the rubric that it was judged by."""
    replicate: int
    """0 for the first judgement of a response, 1 for a repetition of it, and so on."""
    rubric_sha256: str
    passage_sha256: str
    question_sha256: str
    response: str = field(repr=False)
    """The policy's response."""
    recorded_at: float
    """Seconds since 1970."""
    result: JudgeResult
    suspect: bool = False
    """Whether it is an invalid answer of a judge that had not given a valid one when it was
    recorded; `Ledger.find` does not return it to a later run."""


_PLAIN = tuple(field.name for field in fields(LedgerEntry))[:8]
"""Columns that hold a field as it is; they come first."""
COLUMNS = (*_PLAIN, "outcome", "recorded_at", "result")
"""Columns of an entry beside its number and check sum; the result is JSON."""


def row_to_write(entry: LedgerEntry) -> tuple[object, ...]:
    """Return the columns to store, and their check sum."""
    outcome = SUSPECT if entry.suspect else entry.result.outcome.value
    plain = (getattr(entry, name) for name in _PLAIN)
    row = [*plain, outcome, entry.recorded_at, entry.result.model_dump_json()]
    return *row, _check_sum(row)


def row_to_entry(stored: tuple[Any, ...], *, path: Path) -> LedgerEntry:
    """Read one stored row: its number, its check sum and the columns.

    Raises:
        LedgerError: the row is not what was written, so that a score could have changed.
    """
    number, check_sum, *row = stored
    if _check_sum(row) != check_sum:
        raise damaged(f"entry {number}: its check sum does not fit", path=path)
    *plain, outcome, recorded_at, text = row
    try:
        result = JudgeResult.model_validate_json(text)
    except SchemaError as error:
        raise damaged(
            f"entry {number}: its result cannot be read: {error}", path=path
        ) from None
    return LedgerEntry(
        *plain, recorded_at=recorded_at, result=result, suspect=outcome == SUSPECT
    )


def _check_sum(row: list[Any]) -> bytes:
    return hashlib.blake2b(
        json.dumps(row, default=repr).encode(), digest_size=16
    ).digest()


def damaged(problem: str, *, path: Path) -> LedgerError:
    """Return the error for a file that is not what was written, with the remedy."""
    return LedgerError(
        "the file is damaged: restore it from a copy, save what is whole with "
        f"`rubric_judge.pool.ledger.store.salvage`, or name a new file ({problem})",
        path=path,
    )


def check_replicate(replicate: object) -> None:
    """Check the number of a repetition.

    Raises:
        ValueError: it is not an integer from 0 that the file can hold; True and 1.0 are other keys.
    """
    is_valid = (
        isinstance(replicate, int)
        and not isinstance(replicate, bool)
        and 0 <= replicate < 2**63
    )
    if not is_valid:
        raise ValueError(f"replicate={replicate!r} must be an integer, 0 or more")


def hash_question(task: Task) -> str:
    """Return the SHA-256 of a question and its document's hash, independent of the rubric."""
    return text_sha256(json.dumps([task.doc_hash, task.question]))


def hash_answer(task_id: str, response: str) -> str:
    """Return half of the SHA-256 of a response to a task, its id in calibrations."""
    return text_sha256(json.dumps([task_id, response]))[:32]


def hash_rubric(rubric: Rubric) -> str:
    """Return the SHA-256 of every field of every criterion."""
    return text_sha256(json.dumps(rubric.reveal(), sort_keys=True))
