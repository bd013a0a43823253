"""Does a question already hold its passage or its rubric? Counted in runs of shared words."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from rubric_core.errors import LeakError, SchemaError
from rubric_core.sealed import Sealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rubric_core.criterion import Criterion
    from rubric_core.task import Task

_WORD: Final = re.compile(r"\w+")
_REPORTED: Final = 3


class LeakedNgrams(Sealed):
    """The n-grams that a question shares with one hidden text, as hashes."""

    source: str
    """`passage`, or `criterion <id>`."""

    count: int
    """Distinct n-grams shared."""

    sha256: tuple[str, ...]
    """Hash of each shared n-gram, its words in lower case with single spaces; sorted."""


def leaked_ngrams(task: Task, *, n: int = 8) -> tuple[LeakedNgrams, ...]:
    """Return what the question shares with the passage and with each criterion.

    A run of at least `n` words in both is a leak; a shorter one is not, so that a question may use
    the names and terms it asks about. Case and punctuation do not count.

    Raises:
        SchemaError: n < 1.
    """
    if n < 1:
        raise SchemaError(f"n must be at least 1, not {n}", field="n")
    asked = _ngrams(task.question, n)
    if not asked:
        return ()
    overlaps: list[LeakedNgrams] = []
    for source, texts in _hidden_texts(task):
        shared = asked & {ngram for text in texts for ngram in _ngrams(text, n)}
        if shared:
            hashes = sorted(hashlib.sha256(ngram.encode()).hexdigest() for ngram in shared)
            overlaps.append(LeakedNgrams(source=source, count=len(shared), sha256=tuple(hashes)))
    return tuple(overlaps)


def check_no_leak(tasks: Iterable[Task], *, n: int = 8) -> None:
    """Read all tasks and refuse them if any question leaks.

    Raises:
        LeakError: at least one does; names the tasks, and what the first few share with what.
    """
    leaks = {task.task_id: overlaps for task in tasks if (overlaps := leaked_ngrams(task, n=n))}
    if leaks:
        shown = [
            f"task {task_id}: {overlap.count} with {overlap.source}"
            for task_id, overlaps in list(leaks.items())[:_REPORTED]
            for overlap in overlaps
        ]
        raise LeakError(
            f"{len(leaks)} questions share runs of {n} or more words with what only the judge may "
            f"see; reword or drop them ({'; '.join(shown)})",
            task_ids=tuple(leaks),
        )


def _ngrams(text: str, n: int) -> set[str]:
    words = _WORD.findall(text.lower())
    return {" ".join(words[i : i + n]) for i in range(len(words) - n + 1)}


def _hidden_texts(task: Task) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "passage", (task.grounding.reveal(),)
    for criterion in task.rubric:
        yield f"criterion {criterion.id}", _texts(criterion)


def _texts(criterion: Criterion) -> tuple[str, ...]:
    return (
        criterion.name,
        criterion.description,
        criterion.scoring_guide,
        criterion.verification_method,
        *criterion.required_elements,
        *criterion.expected_keywords,
        *criterion.expected_concepts,
    )
