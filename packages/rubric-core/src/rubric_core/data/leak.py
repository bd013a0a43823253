"""Leaks of the passage or the rubric into a prompt, counted in runs of shared words.

A run of the passage that the context holds is no leak, for the policy is there to read it. A run of
the rubric or the reference answer is a leak in the question, and in the context unless the passage
holds it too.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter
from typing import Literal

from rubric_core.errors import LeakError, SchemaError
from rubric_core.files import text_sha256
from rubric_core.schema.sealed import Sealed
from rubric_core.schema.task import Task

_WORD = re.compile(r"\w+")
_BETWEEN_TEXTS = " | "
"""A separator that holds no word, so that no run of words goes on from one text into the next."""
PASSAGE = "passage"
"""The name of the passage as a source."""
_MOST_SOUGHT = 200
"""Most words of a question to seek one by one; for more, one pass over the text is quicker."""


class LeakedNgrams(Sealed):
    """The n-grams that a prompt shares with one hidden text, as hashes."""

    source: str
    """`passage`, `criterion <id>`, or `reference answer`."""

    count: int
    """Number of distinct shared n-grams."""

    sha256: tuple[str, ...]
    """Hash of each shared n-gram, its words in lower case with single spaces; sorted."""

    held_by: Literal["question", "context"] = "question"
    """The part of the prompt that holds them."""


def leaked_ngrams(task: Task, *, n: int = 8) -> tuple[LeakedNgrams, ...]:
    """Return the n-grams that the question, or the context, shares with each hidden text.

    A run of at least `n` words in both is a leak; a shorter one is not, so that a question may use
    the names and terms it asks about. Case and punctuation do not count. A run of the passage is no
    leak if the context has it too; nor is a run of the rubric or the reference answer that both the
    context and the passage hold, for both quote the document.

    Raises:
        SchemaError: n < 1.
    """
    if n < 1:
        raise SchemaError(f"n must be at least 1, not {n}", field="n")
    return (*_question_leaks(task, n), *_context_leaks(task, n))


def by_holder(
    overlaps: Iterable[LeakedNgrams],
) -> Iterator[tuple[str, tuple[LeakedNgrams, ...]]]:
    """Yield the overlaps of the question, then those of the context, where there are any."""
    for held_by, group in groupby(overlaps, key=attrgetter("held_by")):
        yield held_by, tuple(group)


def _question_leaks(task: Task, n: int) -> Iterator[LeakedNgrams]:
    question = _words(task.question)
    if len(question) < n:
        return
    for source, texts in hidden_texts(task):
        # A text of fewer characters cannot hold n words; most keywords are that short.
        long_enough = [text for text in texts if len(text) >= 2 * n - 1]
        if not _may_share(question, n, long_enough):
            continue
        runs = [_words(text) for text in long_enough]
        known = set(chain.from_iterable(runs))
        possible = set(_ngrams(question, n, known=known))
        if not possible:
            continue
        shared = _held(possible, _joined(runs))
        if shared and source == PASSAGE and task.context is not None:
            shared -= _held(shared, context_words(task))
        if shared:
            yield _leaked(source, shared, held_by="question")


def _context_leaks(task: Task, n: int) -> Iterator[LeakedNgrams]:
    """Yield the n-grams of the rubric and the reference answer that only the context holds."""
    if task.context is None:
        return
    context = context_words(task)
    passage = ""
    reference = ("reference answer", (task.reference_answer or "",))
    for source, texts in (*hidden_texts(task), reference):
        if source == PASSAGE:
            passage = _joined([_words(text) for text in texts])
            continue
        possible: set[str] = set()
        for text in texts:
            if len(text) >= 2 * n - 1:
                words = _words(text)
                possible.update(_ngrams(words, n, known=set(words)))
        shared = _held(possible, context)
        shared -= _held(shared, passage)
        if shared:
            yield _leaked(source, shared, held_by="context")


def _leaked(
    source: str,
    shared: set[str],
    *,
    held_by: Literal["question", "context"],
) -> LeakedNgrams:
    hashes = sorted(text_sha256(ngram) for ngram in shared)
    return LeakedNgrams(
        source=source,
        count=len(shared),
        sha256=tuple(hashes),
        held_by=held_by,
    )


def context_words(task: Task) -> str:
    """Return the words of the context, in lower case with single spaces around; "" without one."""
    runs: list[list[str]] = []
    for section in task.context or ():
        runs.append(_words(section.heading))
        runs.append(_words(section.text))
    return _joined(runs)


def _joined(runs: Iterable[list[str]]) -> str:
    texts = map(" ".join, runs)
    return f" {_BETWEEN_TEXTS.join(texts)} "


def _held(ngrams: set[str], words: str) -> set[str]:
    """Return the n-grams that a text of words holds."""
    return {ngram for ngram in ngrams if f" {ngram} " in words}


def check_no_leak(tasks: Iterable[Task], *, n: int = 8) -> None:
    """Read all tasks and refuse them if any question or context leaks.

    Raises:
        LeakError: at least one does; names the tasks, and the overlaps of the first few.
    """
    leaks: dict[str, tuple[LeakedNgrams, ...]] = {}
    for task in tasks:
        overlaps = leaked_ngrams(task, n=n)
        if overlaps:
            leaks[task.task_id] = overlaps
    if not leaks:
        return
    examples: list[str] = []
    for task_id, overlaps in list(leaks.items())[:3]:
        for overlap in overlaps:
            holder = _HOLDERS[overlap.held_by]
            examples.append(
                f"task {task_id}: {holder}{overlap.count} with {overlap.source}"
            )
    parts = _leaking_parts(leaks.values())
    raise LeakError(
        f"{len(leaks)} {parts} share runs of {n} or more words with what "
        f"only the judge may see; reword or drop them ({'; '.join(examples)})",
        task_ids=tuple(leaks),
    )


_HOLDERS = {"question": "", "context": "its context "}


def _leaking_parts(leaks: Iterable[tuple[LeakedNgrams, ...]]) -> str:
    """Return the name of the parts of prompts that leak: "prompts" for both."""
    parts = {overlap.held_by for overlap in chain.from_iterable(leaks)}
    if parts == {"question"}:
        return "questions"
    if parts == {"context"}:
        return "contexts"
    return "prompts"


def _may_share(
    words: list[str],
    n: int,
    texts: list[str],
) -> bool:
    """Return whether n words in a row all occur in the texts, perhaps within other words.

    A few words settle most questions, for a missing word rules out every run over it; to find the
    words of a text takes many times as long.
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


def _ngrams(
    words: list[str],
    n: int,
    *,
    known: set[str],
) -> Iterator[str]:
    """Yield the runs of n known words; few questions have any."""
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
    for criterion in task.rubric:
        texts = (
            criterion.name,
            criterion.description,
            criterion.scoring_guide,
            criterion.verification_method,
            *criterion.required_elements,
            *criterion.expected_keywords,
            *criterion.expected_concepts,
        )
        yield f"criterion {criterion.id}", texts
