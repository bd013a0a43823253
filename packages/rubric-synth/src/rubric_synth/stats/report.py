"""What is measured of a dataset, as `stats.json` holds it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from rubric_synth.dataset import Usage
from rubric_synth.rejection import Stage


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Histogram(_Part):
    """How many numbers lie between each edge and the next."""

    edges: tuple[float, ...]
    """One more than the counts, rising."""
    counts: tuple[int, ...]
    """From each edge up to the next, the next left out."""
    has_tail: bool = False
    """Whether the last count holds all that lies above its lower edge."""
    is_whole: bool = False
    """Whether each count is of one whole number."""


class Spread(_Part):
    """Where some numbers lie."""

    min: float
    """Least."""
    p5: float
    """5 % lie below."""
    median: float
    """Half lie below."""
    mean: float
    """Their mean."""
    p95: float
    """95 % lie below."""
    max: float
    """Greatest."""
    histogram: Histogram
    """How many lie where."""


class Coverage(_Part):
    """Which share of a task's terms occurs in one of its texts."""

    tasks: int
    """Tasks that have such terms."""
    mean: float
    """Mean share over these tasks."""
    complete_frac: float
    """Share of these tasks all of whose terms occur."""
    histogram: Histogram
    """Of the shares."""


class DatasetStatistics(_Part):
    """Statistics of a dataset folder: numbers, names and ids, no text of a passage or criterion."""

    documents_collected: int
    """Documents that the dataset was made of."""
    documents_accepted: int
    """Those with at least one task."""
    documents_rejected: int
    """Those without one."""
    documents_pending: int
    """Those that have not been worked on yet."""
    tasks: dict[str, int]
    """Tasks by split."""
    documents: dict[str, int]
    """Documents by split."""
    task_kinds: dict[str, int]
    """Tasks by the checks that a program can execute: code, quantitative or open."""
    criteria_per_task: dict[int, int]
    """How many tasks have how many criteria."""
    criteria: dict[str, int]
    """How many tasks have each criterion id; the most frequent."""
    weights: dict[str, int]
    """How many criteria have each weight; the most frequent."""
    verification: dict[str, int]
    """Criteria by the first word of their verification method; "free text" where none executes."""
    total_weight: Spread
    """W."""
    effective_criteria: Spread
    """M_eff = W² / Σ w_j²."""
    question_words: Spread
    """Length of questions."""
    passage_words: Spread
    """Length of passages."""
    reference_words: Spread
    """Length of reference answers."""
    criterion_words: Spread
    """Length of all that one criterion says."""
    coverage: dict[str, Coverage]
    """Keywords and required elements, in the passage and in the reference answer."""
    genres: dict[str, int]
    """Tasks by kind of document; the most frequent."""
    depths: dict[str, int]
    """Tasks by technical depth; the most frequent."""
    reasoning_modes: dict[str, int]
    """Tasks by mode of reasoning; the most frequent."""
    concepts: dict[str, int]
    """Tasks by central concept; the most frequent."""
    rejected: dict[str, int]
    """Left-out documents and drafts, by reason."""
    rejected_by_stage: dict[Stage, dict[str, int]]
    """The same, by stage and reason."""
    usage: Usage
    """Calls, tokens and costs, by stage and in total."""
    controls: dict[str, float]
    """Mean reward of answers that should or should not score well."""
    control_tasks: int
    """Tasks that these means are of: all, or a sample with a fixed seed."""
    control_judge: str
    """Name of the judge that scored them."""
    control_failures: int = 0
    """Answers that it could not judge: the means leave them out."""
    unread_criteria: int = 0
    """Criteria in free text or unit tests, where that judge looks for words alone; 0 otherwise."""
    unreadable_rejections: int = 0
    """Damaged lines of rejected.jsonl, which were skipped."""
