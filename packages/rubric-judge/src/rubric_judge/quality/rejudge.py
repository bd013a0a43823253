"""Repeated judgements of stored responses, by another judge or rubric, and their comparison."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
import pydantic
from pydantic import StrictStr

from rubric_core import (
    Answer,
    ConfigError,
    JudgeResult,
    Outcome,
    RubricFileError,
    Task,
    Thoughts,
    answer_of,
)
from rubric_core.arrays import FloatArray
from rubric_core.files import text_sha256
from rubric_core.rows import OpenRow
from rubric_judge.pool.ledger import database, store
from rubric_judge.pool.ledger.entry import LedgerEntry
from rubric_judge.quality import responses

_JudgeKey = tuple[str, str]
"""Fingerprint and name."""
_Key = TypeVar("_Key")

_EQUAL = 1e-9
"""Rewards that are closer are the same: nothing but rounding parts them."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A stored response, and the judgement that a judge gave it."""

    line: int
    """Line number in the source, from 1."""
    id: str
    """Its name in the source: a ledger's key, a rollout's id; empty in a file of responses."""
    task_id: str
    answer: Answer = field(repr=False)
    """The judged part of the response."""
    before: JudgeResult | None = None
    """None if no judgement is stored beside it."""
    question_sha256: str | None = None
    passage_sha256: str | None = None


class _Rollout(responses.ResponseRow):
    """The needed fields of a row of `rollouts/*.jsonl`."""

    id: StrictStr
    prompt: StrictStr
    answer: StrictStr | None = None
    """The judged part of the response, if that is not all of it."""

    @pydantic.model_validator(mode="after")
    def _is_no_trajectory(self) -> Self:
        return self  # a policy sampled it, and may write anything

    def judged(self, thoughts: Thoughts = "cut") -> Answer:
        """Return the judged part of the response, which is a whole completion here."""
        if self.answer is not None and self.thought is not None:
            return Answer(self.answer, self.thought)
        return answer_of(self.response, thoughts)


class _Judgement(OpenRow):
    """The needed fields of a row of `judgements/*.jsonl`."""

    id: StrictStr
    result: JudgeResult


def read_stored(
    source: Path,
    *,
    judged: Path | None = None,
    judge: str | None = None,
    thoughts: Thoughts = "cut",
) -> list[StoredResponse]:
    """Read responses, with the judgements stored beside them.

    Args:
        source: a ledger; a run folder with `rollouts/`, or one of its files; or a file of
            `{"task_id": …, "response": …}` lines.
        judged: the judgement file of a file of responses.
        judge: the judge whose judgements are read from a ledger: its fingerprint or its name, or
            the beginning of one of them.
        thoughts: how thoughts are told from answers in whole completions.

    Returns:
        The responses, in the order of the source. From a ledger, each response once for each rubric
        that it was judged under: the first replicate, with the judgement of `Ledger.find`.

    Raises:
        RubricFileError: a line does not have the file's form.
        LedgerError: the ledger cannot be read.
        ConfigError: there is no response, or a ledger holds the judgements of several judges, or
            none of the requested one.
        OSError: a file cannot be read.
    """
    if source.is_dir():
        files = sorted((source / "rollouts").glob("*.jsonl"))
        stored = list(_rollouts(files, thoughts=thoughts))
    elif database.is_sqlite(source):
        with store.Ledger(source, read_only=True) as ledger:
            entries = _ledger(ledger.entries(), source=source, judge=judge)
            stored = [_stored_answer(*entry, thoughts=thoughts) for entry in entries]
    elif source.parent.name == "rollouts":
        stored = list(_rollouts([source], thoughts=thoughts))
    else:
        stored = list(_responses(source, judged=judged, thoughts=thoughts))
    if not stored:
        raise ConfigError(
            f"{source} holds no response: give a ledger, a run folder with rollouts/*.jsonl, "
            "or a file of responses",
            location="source",
        )
    return stored


def _rollouts(files: Iterable[Path], *, thoughts: Thoughts) -> Iterator[StoredResponse]:
    lines = itertools.count(1)
    for file in files:
        judgements = file.parent.parent / "judgements" / file.name
        results: dict[str, JudgeResult] = {}
        if judgements.exists():
            rows = responses.read_rows(
                judgements, _Judgement, form="a row of a run's judgements"
            )
            results = {row.id: row.result for _, row in rows}
        for _, rollout in responses.read_rows(
            file, _Rollout, form="a row of a run's rollouts"
        ):
            before = results.get(rollout.id)
            question = text_sha256(rollout.prompt)
            answer = rollout.judged(thoughts)
            yield StoredResponse(
                next(lines), rollout.id, rollout.task_id, answer, before, question
            )


def _responses(
    file: Path, *, judged: Path | None, thoughts: Thoughts
) -> Iterator[StoredResponse]:
    results: dict[int, responses.JudgementLine] = {}
    if judged:
        for _, judgement in responses.read_judgements(judged):
            results[judgement.line] = judgement
    for line, row in responses.response_rows(file):
        before = results.get(line)
        if before is not None and before.task_id != row.task_id:
            raise RubricFileError(
                f"the response is to task {row.task_id!r}, its judgement in {judged} is of "
                f"{before.task_id!r}: give the responses that were judged",
                path=file,
                line=line,
                field="task_id",
            )
        result = before.result if before else None
        yield StoredResponse(
            line,
            "",
            row.task_id,
            row.judged(thoughts),
            result,
        )


def _ledger(
    entries: Iterable[LedgerEntry], *, source: Path, judge: str | None
) -> Iterator[tuple[int, LedgerEntry]]:
    judges: Counter[_JudgeKey] = Counter()
    by_judge: dict[tuple[_JudgeKey, Hashable], LedgerEntry] = {}
    for entry in entries:
        who = entry.judge, entry.result.judge
        judges[who] += 1
        judged = (
            entry.rubric_sha256,
            entry.passage_sha256,
            entry.question_sha256,
            entry.response,
        )
        _keep_first(by_judge, (who, judged), entry)
    chosen = _chosen(judges, judge, source=source) if judges else set[_JudgeKey]()
    kept: dict[Hashable, LedgerEntry] = {}
    for (who, judged), entry in by_judge.items():
        if who in chosen:
            _keep_first(kept, judged, entry)
    yield from enumerate(kept.values(), 1)


def _stored_answer(
    line: int, entry: LedgerEntry, *, thoughts: Thoughts
) -> StoredResponse:
    """Return an entry's response; in entries of older versions it may be a whole completion."""
    asked = entry.question_sha256, entry.passage_sha256
    answer = answer_of(entry.response, thoughts)
    return StoredResponse(
        line,
        entry.key,
        entry.task_id,
        answer,
        entry.result,
        *asked,
    )


def _keep_first(kept: dict[_Key, LedgerEntry], key: _Key, entry: LedgerEntry) -> None:
    """Keep the better judgement for the comparison: the first replicate, the first final one."""

    def rank(entry: LedgerEntry) -> tuple[int, bool, bool]:
        return (
            entry.replicate,
            entry.result.outcome is Outcome.UNAVAILABLE,
            entry.suspect,
        )

    known = kept.get(key)
    if known is None or rank(entry) < rank(known):
        kept[key] = entry


def _chosen(
    judges: Counter[_JudgeKey], judge: str | None, *, source: Path
) -> set[_JudgeKey]:
    """Return the only judge, or the requested one, by its full name or the beginning of it.

    Raises:
        ConfigError: no judge has this name, or several have.
    """
    chosen = set(judges)
    if judge is not None:
        chosen = {names for names in judges if judge in names}
        if not chosen:
            chosen = {
                names
                for names in judges
                if any(name.startswith(judge) for name in names)
            }
    if not chosen:
        raise ConfigError(
            f"{source} holds no judgement by {judge!r}; it holds those of {_listed(judges)}",
            location="of",
        )
    if len({fingerprint for fingerprint, _ in chosen}) > 1:
        several = Counter({who: judges[who] for who in chosen})
        raise ConfigError(
            f"{source} holds judgements of several judges: choose one with --of, by name or "
            f"by fingerprint, or how one of them begins: {_listed(several)}",
            location="of",
        )
    return chosen


def _listed(judges: Counter[_JudgeKey]) -> str:
    return "; ".join(
        f"{name!r} ({fingerprint}, {count} judgements)"
        for (fingerprint, name), count in judges.most_common()
    )


@dataclass(frozen=True)
class Matched:
    """Stored responses with their tasks, and those without one."""

    pairs: tuple[tuple[StoredResponse, Task], ...]
    same: int
    """Number of pairs whose task is the same as before, including the rubric."""
    unmatched: tuple[StoredResponse, ...]
    """Responses whose question of their document no task asks, or more than one."""


def match_tasks(
    stored: Sequence[StoredResponse],
    tasks: Iterable[Task],
    *,
    before: Iterable[Task] = (),
) -> Matched:
    """Find the task of each response.

    Tasks are found by id; then, for a task file with other rubrics, by passage and question, as far
    as the source knows them; then by the question, if a single task asks it.

    Args:
        stored: responses of a source.
        tasks: the tasks that they are to be judged under.
        before: the tasks that they were written for, if the source knows only their ids. These are
            matched by document and question, even if the passage was cut differently.

    Returns:
        Every response once, paired or unmatched.

    Raises:
        ConfigError: there are no tasks.
    """
    tasks = tuple(tasks)
    if not tasks:
        raise ConfigError("the task file holds no task", location="tasks")
    by_id = {task.task_id: task for task in tasks}
    by_document = _unique(tasks, lambda task: (task.doc_hash, task.question))
    successors = {
        task.task_id: by_document.get((task.doc_hash, task.question)) for task in before
    }
    by_passage = _unique(
        tasks, lambda task: (task.grounding.sha256, text_sha256(task.question))
    )
    by_question = _unique(tasks, lambda task: text_sha256(task.question))

    def find(response: StoredResponse) -> Task | None:
        passage_key = (response.passage_sha256, response.question_sha256)
        task = (
            by_id.get(response.task_id)
            or successors.get(response.task_id)
            or by_passage.get(passage_key)
        )
        if task is None and response.passage_sha256 is None:
            task = by_question.get(response.question_sha256)
        return task

    pairs: list[tuple[StoredResponse, Task]] = []
    unmatched: list[StoredResponse] = []
    for response in stored:
        task = find(response)
        if task is None:
            unmatched.append(response)
        else:
            pairs.append((response, task))
    same = sum(response.task_id == task.task_id for response, task in pairs)
    return Matched(tuple(pairs), same, tuple(unmatched))


def _unique(
    tasks: Sequence[Task], key: Callable[[Task], Hashable]
) -> Mapping[Hashable, Task]:
    """Index the tasks that are the only ones with their key."""
    by_key: defaultdict[Hashable, list[Task]] = defaultdict(list)
    for task in tasks:
        by_key[key(task)].append(task)
    return {value: alike[0] for value, alike in by_key.items() if len(alike) == 1}


@dataclass(frozen=True)
class Comparison:
    """Comparison of rewards before and after, of the responses that have both."""

    rewarded: int
    """Number of responses with a reward from both judgements."""
    mean_before: float
    mean_after: float
    changed_frac: float
    """Share of responses whose reward differs."""
    mean_abs_difference: float
    rank_correlation: float | None
    """Spearman's ρ; None without scipy, or if all rewards of one side are equal."""
    order_kept_frac: float | None
    """Share of the pairs of responses to one task that differed before and still stand in that
    order, of which a group-relative advantage is made. None without such a pair."""


def compare(
    before: Sequence[JudgeResult | None], after: Sequence[responses.JudgedResponse]
) -> Comparison | None:
    """Compare judgements of the same responses, in the same order.

    Returns:
        The comparison; None if no response has a reward from both.
    """
    both: list[tuple[float, float, str]] = []
    for result, judged in zip(before, after, strict=True):
        old = None if result is None else responses.reward_of(result)
        new = judged.reward
        if old is not None and new is not None:
            both.append((old, new, judged.view.task_id))
    if not both:
        return None
    old_N = np.array([old for old, _, _ in both])
    new_N = np.array([new for _, new, _ in both])
    differences_N = np.abs(new_N - old_N)
    return Comparison(
        rewarded=len(both),
        mean_before=float(old_N.mean()),
        mean_after=float(new_N.mean()),
        changed_frac=float((differences_N > _EQUAL).mean()),
        mean_abs_difference=float(differences_N.mean()),
        rank_correlation=_rank_correlation(old_N, new_N),
        order_kept_frac=_order_kept(both),
    )


def _rank_correlation(old_N: FloatArray, new_N: FloatArray) -> float | None:
    if np.ptp(old_N) <= _EQUAL or np.ptp(new_N) <= _EQUAL:
        return None
    try:
        from rubric_judge.statistics.untyped import stats  # optional, and slow to load
    except ImportError:
        return None
    return float(stats.spearmanr(old_N, new_N).statistic)


def _order_kept(both: Sequence[tuple[float, float, str]]) -> float | None:
    of_task: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for old, new, task_id in both:
        of_task[task_id].append((old, new))
    kept: list[bool] = []
    for rewards in of_task.values():
        for first, second in itertools.combinations(rewards, 2):
            old_difference = first[0] - second[0]
            new_difference = first[1] - second[1]
            if abs(old_difference) > _EQUAL:
                kept.append(old_difference * new_difference > 0)
    return sum(kept) / len(kept) if kept else None
