"""Does a prompt already hold its passage or its rubric? Counted in runs of shared words.

What stands in the context is no leak, for the policy is there to read it; what stands in the rubric
or the reference answer is, and so is a context that holds it without the passage doing so.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, Literal

from rubric_core.errors import LeakError, SchemaError
from rubric_core.schema.sealed import Sealed
from rubric_core.schema.task import Task

_WORD: Final = re.compile(r"\w+")
_BETWEEN_TEXTS: Final = " | "
"""No word, so that no run of words goes on from one text into the next."""
PASSAGE: Final = "passage"
"""The name of the passage as a source."""
_MOST_SOUGHT: Final = 200
"""Words of a question that are sought one by one; to read the text once is quicker for more."""


class LeakedNgrams(Sealed):
    """The n-grams that a prompt shares with one hidden text, as hashes."""

    source: str
    """`passage`, `criterion <id>`, or `reference answer`."""

    count: int
    """Distinct n-grams shared."""

    sha256: tuple[str, ...]
    """Hash of each shared n-gram, its words in lower case with single spaces; sorted."""

    held_by: Literal["question", "context"] = "question"
    """The part of the prompt that holds them."""


def leaked_ngrams(task: Task, *, n: int = 8) -> tuple[LeakedNgrams, ...]:
    """Return what the question shares with the passage and with each criterion, and the context.

    A run of at least `n` words in both is a leak; a shorter one is not, so that a question may use
    the names and terms it asks about. Case and punctuation do not count. A run of the passage that
    the context has too is none; nor is one of the rubric or the reference answer that the context
    shares and the passage as well, for both quote it.

    Raises:
        SchemaError: n < 1.
    """
    if n < 1:
        raise SchemaError(f"n must be at least 1, not {n}", field="n")
    return (*_of_question(task, n), *_of_context(task, n))


def by_holder(
    overlaps: Iterable[LeakedNgrams],
) -> Iterator[tuple[str, tuple[LeakedNgrams, ...]]]:
    """Yield the overlaps of the question, then those of the context, where there are any."""
    for held_by, found in groupby(overlaps, key=lambda one: one.held_by):
        yield held_by, tuple(found)


def _of_question(task: Task, n: int) -> Iterator[LeakedNgrams]:
    asked = _words(task.question)
    if len(asked) < n:
        return
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
        shared = _held(possible, _joined(runs))
        if shared and source == PASSAGE and task.context is not None:
            shared -= _held(shared, context_words(task))
        if shared:
            yield _leaked(source, shared, held_by="question")


def _of_context(task: Task, n: int) -> Iterator[LeakedNgrams]:
    """Yield what the context holds of the rubric and the reference answer; the passage may too."""
    if task.context is None:
        return
    read = context_words(task)
    passage = ""
    reference = ("reference answer", (task.reference_answer or "",))
    for source, texts in (*hidden_texts(task), reference):
        if source == PASSAGE:
            passage = _joined([_words(text) for text in texts])
            continue
        runs = [_words(text) for text in texts if len(text) >= 2 * n - 1]
        possible = {ngram for run in runs for ngram in _ngrams(run, n, known=set(run))}
        shared = _held(possible, read)
        shared -= _held(shared, passage)
        if shared:
            yield _leaked(source, shared, held_by="context")


def _leaked(
    source: str, shared: set[str], *, held_by: Literal["question", "context"]
) -> LeakedNgrams:
    hashes = sorted(hashlib.sha256(ngram.encode()).hexdigest() for ngram in shared)
    return LeakedNgrams(
        source=source, count=len(shared), sha256=tuple(hashes), held_by=held_by
    )


def context_words(task: Task) -> str:
    """Return the words of the context, in lower case with single spaces around; "" without one."""
    sections = task.context or ()
    return _joined(
        [
            _words(text)
            for section in sections
            for text in (section.heading, section.text)
        ]
    )


def _joined(runs: Iterable[list[str]]) -> str:
    return f" {_BETWEEN_TEXTS.join(map(' '.join, runs))} "


def _held(ngrams: set[str], words: str) -> set[str]:
    return {ngram for ngram in ngrams if f" {ngram} " in words}


def check_no_leak(tasks: Iterable[Task], *, n: int = 8) -> None:
    """Read all tasks and refuse them if any question or context leaks.

    Raises:
        LeakError: at least one does; names the tasks, and what the first few share with what.
    """
    leaks = {
        task.task_id: overlaps
        for task in tasks
        if (overlaps := leaked_ngrams(task, n=n))
    }
    if leaks:
        shown = [
            f"task {task_id}: {_NAMED[overlap.held_by]}{overlap.count} with {overlap.source}"
            for task_id, overlaps in list(leaks.items())[:3]
            for overlap in overlaps
        ]
        raise LeakError(
            f"{len(leaks)} {_what(leaks.values())} share runs of {n} or more words with what only "
            f"the judge may see; reword or drop them ({'; '.join(shown)})",
            task_ids=tuple(leaks),
        )


_NAMED: Final = {"question": "", "context": "its context "}


def _what(leaks: Iterable[tuple[LeakedNgrams, ...]]) -> str:
    parts = {overlap.held_by for overlaps in leaks for overlap in overlaps}
    return (
        "questions"
        if parts == {"question"}
        else "contexts"
        if parts == {"context"}
        else "prompts"
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
    yield PASSAGE, (task.grounding.reveal(),)
    for c in task.rubric:
        lists = (*c.required_elements, *c.expected_keywords, *c.expected_concepts)
        texts = (c.name, c.description, c.scoring_guide, c.verification_method, *lists)
        yield f"criterion {c.id}", texts
