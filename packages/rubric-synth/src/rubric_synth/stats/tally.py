"""What is counted and measured of each task."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from rubric_judge.lexical.words import WORD, stem
from rubric_judge.verification.directive import HEADS
from rubric_synth.dataset import SPLITS
from rubric_synth.stats.numbers import Names, Numbers, Shares

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from rubric_core import Criterion, Task
    from rubric_synth.stats.report import Coverage, Spread


class Text(NamedTuple):
    """A text as its words are counted and matched."""

    words: int
    """How many there are."""
    stems: frozenset[str]
    """Their stems."""
    lowered: str
    """All of it in lower case, for terms without a word."""


def read_text(text: str) -> Text:
    """Return a text as its words are counted and matched; numbers are words too."""
    lowered = text.lower()
    parts = lowered.split()
    # Each different part once: of a passage most are known from others.
    return Text(len(parts), frozenset().union(*map(_stems, set(parts))), lowered)


def count_words(text: str) -> int:
    """Return the number of words, as white space parts them."""
    return len(text.split())


def occurring(terms: AbstractSet[str], text: Text) -> int:
    """Return how many terms have all of their words in the text, in whatever order and form."""
    return sum(
        needed <= text.stems if (needed := _stems(term)) else term.lower() in text.lowered
        for term in terms
    )


@lru_cache(maxsize=65_536)
def _stems(term: str) -> frozenset[str]:
    return frozenset(map(stem, WORD.findall(term.lower())))


FREE_TEXT: Final = "free text"
_CODE: Final = "python_tests"
_QUANTITATIVE: Final = "numeric"


class TaskTally:
    """Counts and numbers over tasks; no text is kept."""

    def __init__(self) -> None:
        """Begin without a task."""
        self.tasks: dict[str, int] = dict.fromkeys(SPLITS, 0)
        self.kinds: Counter[str] = Counter()
        self.criteria_per_task: Counter[int] = Counter()
        self.verification: Counter[str] = Counter()
        self.criteria, self.weights = Names(), Names()
        self.genres, self.depths, self.modes, self.concepts = Names(), Names(), Names(), Names()
        self._documents: dict[str, set[str]] = {split: set() for split in SPLITS}
        self._numbers = {
            name: Numbers()
            for name in (
                "total_weight",
                "effective_criteria",
                "question_words",
                "passage_words",
                "reference_words",
                "criterion_words",
            )
        }
        self._shares = {
            name: Shares()
            for name in (
                "keywords_in_passage",
                "keywords_in_reference",
                "elements_in_passage",
                "elements_in_reference",
            )
        }

    @property
    def documents(self) -> dict[str, int]:
        """Documents by split."""
        return {split: len(found) for split, found in self._documents.items()}

    @property
    def spreads(self) -> dict[str, Spread]:
        """Of each kind of number; there is at least one task."""
        return {name: numbers.spread() for name, numbers in self._numbers.items()}

    @property
    def coverage(self) -> dict[str, Coverage]:
        """Of each kind of term in each text."""
        return {name: shares.coverage() for name, shares in self._shares.items()}

    @property
    def worded_criteria(self) -> int:
        """Criteria of which a judge that reads nothing can only look for words."""
        return self.verification[FREE_TEXT] + self.verification[_CODE]

    def add(self, task: Task, split: str) -> str:
        """Count one task and return its kind."""
        criteria = task.rubric.criteria
        heads = [verification_head(criterion) for criterion in criteria]
        kind = kind_of(heads)
        self.tasks[split] += 1
        self.kinds[kind] += 1
        self._documents[split].add(task.doc_hash)
        self.criteria_per_task[len(criteria)] += 1
        self.verification.update(heads)
        self.criteria.add(task.rubric.ids)
        self.weights.add(f"{criterion.weight:g}" for criterion in criteria)
        self._add_analysis(task)
        self._add_numbers(task)
        return kind

    def _add_analysis(self, task: Task) -> None:
        analysis = task.document_analysis
        if analysis is None:
            return
        self.genres.add([analysis.genre] if analysis.genre else ())
        self.depths.add([analysis.depth] if analysis.depth else ())
        self.modes.add([analysis.reasoning_mode] if analysis.reasoning_mode else ())
        self.concepts.add(list(dict.fromkeys(analysis.concepts)))

    def _add_numbers(self, task: Task) -> None:
        criteria, numbers = task.rubric.criteria, self._numbers
        passage = read_text(task.grounding.reveal())
        reference = read_text(task.reference_answer or "")
        numbers["total_weight"].add(task.rubric.total_weight)
        numbers["effective_criteria"].add(task.rubric.effective_criteria)
        numbers["question_words"].add(count_words(task.question))
        numbers["passage_words"].add(passage.words)
        numbers["reference_words"].add(reference.words)
        for criterion in criteria:
            numbers["criterion_words"].add(count_words(_all_of(criterion)))
        keywords = set(chain.from_iterable(c.expected_keywords for c in criteria))
        elements = set(chain.from_iterable(c.required_elements for c in criteria))
        texts: tuple[tuple[str, Text], ...] = (("passage", passage), ("reference", reference))
        for name, text in texts:
            self._shares[f"keywords_in_{name}"].add(occurring(keywords, text), len(keywords))
            self._shares[f"elements_in_{name}"].add(occurring(elements, text), len(elements))


def verification_head(criterion: Criterion) -> str:
    """Return the word that a criterion's executable directive begins with, or "free text"."""
    head = criterion.verification_method.lstrip().partition(":")[0].rstrip()
    return head if head in HEADS else FREE_TEXT


def kind_of(heads: list[str]) -> str:
    """Return the kind of task that criteria with such directives make."""
    if _CODE in heads:
        return "code"
    return "quantitative" if _QUANTITATIVE in heads else "open"


def _all_of(criterion: Criterion) -> str:
    return " ".join(
        (
            criterion.name,
            criterion.description,
            criterion.scoring_guide,
            criterion.verification_method,
            *criterion.required_elements,
            *criterion.expected_keywords,
            *criterion.expected_concepts,
        )
    )
