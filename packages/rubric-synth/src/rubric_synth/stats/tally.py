"""Counts over the tasks of a dataset folder, and the statistics and the page made from them."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from rubric_core import Criterion, DocumentAnalysis, Judge, Task, read_tasks
from rubric_judge import ClaimJudge
from rubric_judge.checks.directive import HEADS
from rubric_judge.judges.capabilities import WordMatching
from rubric_judge.judges.claims.claim import claim_of
from rubric_judge.judges.lexical.words import WORD, stem
from rubric_judge.quality.labels.written import KnownAnswers, WrittenAnswers
from rubric_synth import errors, events
from rubric_synth.files import json_page, require_writable, write_lines
from rubric_synth.lookup.recall import ContextCounts, counts_of
from rubric_synth.run.dataset import folder as dataset_folder
from rubric_synth.stages import stages
from rubric_synth.stats.controls import control_rewards
from rubric_synth.stats.examples import Examples, task_key
from rubric_synth.stats.page import write_page
from rubric_synth.stats.report import DatasetStatistics, Names, coverage, spread


class Text(NamedTuple):
    """A text prepared for counting and matching words."""

    words: int
    """Number of words."""
    stems: frozenset[str]
    """Stems of the words."""
    lowered: str
    """The text in lower case, for terms that contain no word characters."""


def read_text(text: str) -> Text:
    """Prepare a text for counting and matching its words; numbers are words too."""
    lowered = text.lower()
    parts = lowered.split()
    # Each distinct part once: most parts of a passage are known from other passages.
    stems = frozenset[str]().union(*map(_stems, set(parts)))
    return Text(len(parts), stems, lowered)


def occurring(terms: AbstractSet[str], text: Text) -> int:
    """Return how many terms have all of their words in the text, in whatever order and form."""
    count = 0
    for term in terms:
        stems = _stems(term)
        if stems:
            count += stems <= text.stems
        else:
            count += term.lower() in text.lowered
    return count


@lru_cache(maxsize=65_536)
def _stems(term: str) -> frozenset[str]:
    words = WORD.findall(term.lower())
    return frozenset(map(stem, words))


FREE_TEXT = "free text"
_CODE = "python_tests"
_NAMES = (
    "criteria",
    "weights",
    "genres",
    "depths",
    "reasoning_modes",
    "concepts",
)


class TaskTally:
    """Counts and numbers over tasks, named as in `DatasetStatistics`; no text is kept."""

    def __init__(self) -> None:
        """Begin with no task."""
        splits = dataset_folder.SPLITS
        self.tasks: dict[str, int] = dict.fromkeys(splits, 0)
        self._doc_hashes: dict[str, set[str]] = {split: set() for split in splits}
        self._kinds: Counter[str] = Counter()
        self._criteria_per_task: Counter[int] = Counter()
        self._verification: Counter[str] = Counter()
        self._context = ContextCounts()
        self._claims = 0
        self._names: dict[str, Names] = {name: Names() for name in _NAMES}
        self._numbers: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._shares: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))

    def keyword_only_criteria(self, judge: Judge) -> int:
        """Return the number of criteria that a judge checks only by looking for words.

        Args:
            judge: Any judge; the number is 0 for one that does not look for words.
        """
        if not isinstance(judge, WordMatching):
            return 0
        not_executable = self._verification[FREE_TEXT] + self._verification[_CODE]
        return not_executable - self._claims if judge.reads_claims else not_executable

    def statistics(self) -> dict[str, Any]:
        """Return what was counted and measured; there is at least one task."""
        context = None
        if self._context.tasks:
            context = self._context
        documents = {split: len(hashes) for split, hashes in self._doc_hashes.items()}
        coverages = {name: coverage(shares) for name, shares in self._shares.items()}
        values: dict[str, Any] = {
            "tasks": self.tasks,
            "documents": documents,
            "task_kinds": dict(self._kinds.most_common()),
            "criteria_per_task": dict(sorted(self._criteria_per_task.items())),
            "verification": dict(self._verification.most_common()),
            "coverage": coverages,
            "context": context,
        }
        for name, names in self._names.items():
            values[name] = names.most()
        for name, numbers in self._numbers.items():
            values[name] = spread(numbers)
        return values

    def facets(self) -> dict[str, list[str | float]]:
        """Return every name and number that was counted, by the field it is counted in."""
        facets: dict[str, list[str | float]] = {
            "verification": [*self._verification],
            "criteria_per_task": [
                f"{count} criteria" for count in self._criteria_per_task
            ],
        }
        for name, names in self._names.items():
            facets[name] = [*names.most()]
        facets["context"] = [*self._context.kinds().values()]
        for name, numbers in (*self._numbers.items(), *self._shares.items()):
            facets[name] = [float(f"{number:.6g}") for number in numbers]
        return {name: values for name, values in facets.items() if values}

    def add(self, task: Task, split: str) -> str:
        """Count one task and return its kind."""
        criteria = task.rubric.criteria
        heads = [verification_head(criterion) for criterion in criteria]
        kind = kind_of(heads)
        self.tasks[split] += 1
        self._kinds[kind] += 1
        self._doc_hashes[split].add(task.doc_hash)
        self._criteria_per_task[len(criteria)] += 1
        self._verification.update(heads)
        for criterion, head in zip(criteria, heads, strict=True):
            if head == FREE_TEXT and claim_of(criterion):
                self._claims += 1
        self._names["criteria"].add(task.rubric.ids)
        self._names["weights"].add(f"{criterion.weight:g}" for criterion in criteria)
        if task.document_analysis is not None:
            self._add_analysis(task.document_analysis)
        self._add_numbers(task)
        self._context += counts_of(task)
        return kind

    def _add_analysis(self, analysis: DocumentAnalysis) -> None:
        if analysis.genre:
            self._names["genres"].add([analysis.genre])
        if analysis.depth:
            self._names["depths"].add([analysis.depth])
        if analysis.reasoning_mode:
            self._names["reasoning_modes"].add([analysis.reasoning_mode])
        self._names["concepts"].add(list(dict.fromkeys(analysis.concepts)))

    def _add_numbers(self, task: Task) -> None:
        criteria = task.rubric.criteria
        numbers = self._numbers
        passage = read_text(task.grounding.reveal())
        reference = read_text(task.reference_answer or "")
        numbers["total_weight"].append(task.rubric.total_weight)
        numbers["effective_criteria"].append(task.rubric.effective_criteria)
        numbers["question_words"].append(len(task.question.split()))
        numbers["passage_words"].append(passage.words)
        numbers["reference_words"].append(reference.words)
        for criterion in criteria:
            parts = (
                criterion.name,
                criterion.description,
                criterion.scoring_guide,
                criterion.verification_method,
                *stages.terms_of(criterion),
            )
            words = " ".join(parts).split()
            numbers["criterion_words"].append(len(words))
        terms_by_kind: dict[str, set[str]] = {"keywords": set(), "elements": set()}
        for criterion in criteria:
            terms_by_kind["keywords"].update(criterion.expected_keywords)
            terms_by_kind["elements"].update(criterion.required_elements)
        texts = {"passage": passage, "reference": reference}
        for kind, terms in terms_by_kind.items():
            for name, text in texts.items():
                shares = self._shares[f"{kind}_in_{name}"]
                if terms:
                    shares.append(occurring(terms, text) / len(terms))


def facets_of(task: Task) -> dict[str, list[str | float]]:
    """Return what the statistics count of one task, by the field that they count it in."""
    tally = TaskTally()
    tally.add(task, dataset_folder.SPLITS[0])
    return tally.facets()


def verification_head(criterion: Criterion) -> str:
    """Return the word that a criterion's executable directive begins with, or "free text"."""
    head = criterion.verification_method.lstrip().partition(":")[0].rstrip()
    return head if head in HEADS else FREE_TEXT


def kind_of(heads: list[str]) -> str:
    """Return the kind of task that criteria with such directives make."""
    if _CODE in heads:
        return "code"
    if "numeric" in heads:
        return "quantitative"
    return "open"


NUMBERS_FILE, PAGE_FILE = dataset_folder.STATISTICS_FILES
CONTROL_TASKS = 500


def dataset_statistics(
    dataset: Path,
    *,
    judge: Judge | Sequence[Judge] | None = None,
    controls: int = CONTROL_TASKS,
    page: Path | None = None,
    reveal_grounding: bool = False,
) -> DatasetStatistics:
    """Read a dataset folder, write `stats.json` and a page to look at, and return the statistics.

    Controls are scored on a sample of the tasks with a fixed seed; all else is of all tasks.

    Args:
        dataset: Folder written by `synthesise`.
        judge: Judge of the controls, or several replicas of one; the judge of claims if None.
        controls: Largest number of tasks whose controls are scored, each with one answer per
            control.
        page: HTML file to write; `stats.html` in the folder if None.
        reveal_grounding: Whether to show passages on the page too.

    Raises:
        DatasetFolderError: The folder is no dataset, a file is missing, or there is no task.
        RubricFileError: A row is not a task.
        OutputError: A file could not be written.
        JudgeSetupError: The judge is not there.
        ValueError: `controls` is below 1.
    """
    if controls < 1:
        raise ValueError(f"controls={controls!r} must be at least 1")
    manifest = dataset_folder.read_manifest(dataset)
    page = page or dataset / PAGE_FILE
    require_writable([dataset / NUMBERS_FILE, page])
    tally = TaskTally()
    examples = Examples(reveal_grounding=reveal_grounding, facets_of=facets_of)
    sample = examples.task_sample(controls)
    written = WrittenAnswers(dataset)
    answered = list[Task]()
    for split in dataset_folder.SPLITS:
        for task in read_tasks(dataset_folder.split_path(dataset, split)):
            kind = tally.add(task, split)
            examples.offer_task(task, split, kind)
            sample.offer(task_key(task), task)
            if task.question in written.questions:
                answered.append(task)
    if not sample.offered:
        raise errors.DatasetFolderError(
            f"{str(dataset)!r} holds no task; see {dataset_folder.REJECTED_FILE} for the reasons",
            path=dataset,
        )
    unreadable = examples.offer_rejections(dataset / dataset_folder.REJECTED_FILE)
    statistics = DatasetStatistics(
        documents_collected=manifest.documents,
        documents_accepted=manifest.accepted_documents,
        documents_rejected=manifest.rejected_documents,
        documents_pending=manifest.pending_documents,
        **manifest.model_dump(include={"rejected", "rejected_by_stage", "usage"}),
        unreadable_rejections=unreadable,
        **_counted(tally, manifest),
        **_controls(
            sample.items(),
            (answered, written.to(answered)),
            judge or ClaimJudge(),
            tally,
            examples,
        ),
    )
    numbers = json_page(statistics.model_dump(mode="json"))
    write_lines(dataset / NUMBERS_FILE, [numbers.decode()])
    name = dataset.resolve().name
    write_page(page, statistics, manifest, examples, name=name)
    events.log_finished("synth.stats.finished", tasks=statistics.tasks)
    return statistics


def _counted(tally: TaskTally, manifest: dataset_folder.Manifest) -> dict[str, Any]:
    counts = tally.statistics()
    if counts["context"] is not None and manifest.context is not None:
        # Tasks do not say what was passed over: the manifest does.
        update = {"passed_over": manifest.context.passed_over}
        counts["context"] = counts["context"].model_copy(update=update)
    return counts


def _controls(
    tasks: Sequence[Task],
    written: tuple[Sequence[Task], KnownAnswers],
    judge: Judge | Sequence[Judge],
    tally: TaskTally,
    examples: Examples,
) -> dict[str, Any]:
    measure = partial(control_rewards, on_reward=examples.add_control)
    rewards = anyio.run(measure, tasks, judge, written)
    _, known_answers = written
    first_judge = judge[0] if isinstance(judge, Sequence) else judge
    return {
        **rewards._asdict(),
        "control_tasks": len(tasks),
        "strange_answers": known_answers.strange,
        "copied_answers": known_answers.copied,
        "control_judge": first_judge.name,
        "unread_criteria": tally.keyword_only_criteria(first_judge),
    }
