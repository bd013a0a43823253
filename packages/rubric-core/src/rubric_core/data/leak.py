"""Does a question already hold its passage or its rubric? Counted in runs of shared words."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final

from rubric_core.errors import LeakError, SchemaError
from rubric_core.schema.sealed import Sealed
from rubric_core.schema.task import Task

_WORD: Final = re.compile(r"\w+")
_BETWEEN_TEXTS: Final = " | "
"""No word, so that no run of words goes on from one text into the next."""
_MOST_SOUGHT: Final = 200
"""Words of a question that are sought one by one; to read the text once is quicker for more."""


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
    asked = _words(task.question)
    if len(asked) < n:
        return ()
    overlaps: list[LeakedNgrams] = []
    for source, texts in hidden_texts(task):
        # A text of fewer characters cannot hold n words; most keywords are that short.
        long_enough = [text for text in texts if len(text) >= 2 * n - 1]
        if not _may_share(asked, n, long_enough):
            continue
        runs = [_words(text) for text in long_enough]
        known = {word for run in runs for word in run}
        possible = set(_ngrams(asked, n, known=known))
        if not possible:
            continue
        hidden = f" {_BETWEEN_TEXTS.join(map(' '.join, runs))} "
        shared = {ngram for ngram in possible if f" {ngram} " in hidden}
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
            for task_id, overlaps in list(leaks.items())[:3]
            for overlap in overlaps
        ]
        raise LeakError(
            f"{len(leaks)} questions share runs of {n} or more words with what only the judge may "
            f"see; reword or drop them ({'; '.join(shown)})",
            task_ids=tuple(leaks),
        )


def _may_share(words: list[str], n: int, texts: list[str]) -> bool:
    """Whether n words in a row all stand in the texts, be it within other words.

    Most questions are told apart by a few words, for one that is missing rules out every run over
    it; to find the words of a text takes many times as long.
    """
    if len(words) > _MOST_SOUGHT:
        return True
    hidden = _BETWEEN_TEXTS.join(texts).lower()
    start = 0
    while start + n <= len(words):
        for place in range(start + n - 1, start - 1, -1):
            if words[place] not in hidden:
                start = place + 1
                break
        else:
            return True
    return False


def _ngrams(words: list[str], n: int, *, known: set[str]) -> Iterator[str]:
    """Yield the runs of n words of which each is known: of few questions there are any."""
    start = 0
    for end, word in enumerate(words, start=1):
        if word not in known:
            start = end
        elif end - start >= n:
            yield " ".join(words[end - n : end])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def hidden_texts(task: Task) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the texts of the passage and of each criterion, under their names as a source."""
    yield "passage", (task.grounding.reveal(),)
    for c in task.rubric:
        lists = (*c.required_elements, *c.expected_keywords, *c.expected_concepts)
        texts = (c.name, c.description, c.scoring_guide, c.verification_method, *lists)
        yield f"criterion {c.id}", texts
