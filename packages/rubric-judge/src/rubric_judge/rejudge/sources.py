"""Where responses are stored: a ledger, a training run, or a file of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, StrictStr

from rubric_core import ConfigError, JudgeResult, Outcome, RubricFileError, Task
from rubric_core.files import open_file
from rubric_judge.ledger import Ledger, LedgerEntry
from rubric_judge.ledger.entry import hash_text
from rubric_judge.responses import read_judgements, read_rows, response_rows

_JudgeKey: TypeAlias = tuple[str, str]
"""Fingerprint and name."""
_Judged: TypeAlias = tuple[str, str, str, str]
_Key = TypeVar("_Key")

_SQLITE_HEADER = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response that was written once, and what a judge said of it."""

    line: int
    """Its place in the source, from 1."""
    id: str
    """What the source calls it: a ledger's key, a rollout's id; empty in a file of responses."""
    task_id: str
    response: str = field(repr=False)
    before: JudgeResult | None = None
    """None where no judgement is stored beside it."""
    question_sha256: str | None = None
    passage_sha256: str | None = None


class _Rollout(BaseModel):
    """What is needed of a row of `rollouts/*.jsonl`."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    id: StrictStr
    task_id: StrictStr
    prompt: StrictStr
    response: StrictStr


class _Judgement(BaseModel):
    """What is needed of a row of `judgements/*.jsonl`."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    id: StrictStr
    result: JudgeResult


def read_stored(
    source: Path, *, judged: Path | None = None, judge: str | None = None
) -> list[StoredResponse]:
    """Read responses, with the judgements that are stored beside them.

    Args:
        source: a ledger; a run folder with `rollouts/`, or one file of that; or a file of
            `{"task_id": …, "response": …}` lines.
        judged: the judgement file of such a file of responses.
        judge: whose judgements of a ledger: the judge's fingerprint or its name, or how one of
            them begins.

    Returns:
        In the order of the source. Of a ledger, each response once for each rubric that it was
        judged under: its first replicate, with the judgement that `Ledger.find` returns.

    Raises:
        RubricFileError: a line that is not what its file should hold.
        LedgerError: the ledger cannot be read.
        ConfigError: there is nothing in it, or a ledger holds the judgements of several judges, or
            none of the one that is asked for.
        OSError: a file cannot be read.
    """
    if source.is_dir():
        stored = list(_rollouts(sorted((source / "rollouts").glob("*.jsonl"))))
    elif _starts_with(source, _SQLITE_HEADER):
        with Ledger(source, read_only=True) as ledger:
            stored = list(_ledger(ledger.entries(), source=source, judge=judge))
    elif source.parent.name == "rollouts":
        stored = list(_rollouts([source]))
    else:
        stored = list(_responses(source, judged=judged))
    if not stored:
        raise ConfigError(
            f"{source} holds no response: give a ledger, a run folder with rollouts/*.jsonl, or a "
            "file of responses",
            location="source",
        )
    return stored


def _starts_with(path: Path, header: bytes) -> bool:
    with open_file(path) as file:
        return file.read(len(header)) == header


def _rollouts(files: Iterable[Path]) -> Iterator[StoredResponse]:
    line = 0
    for file in files:
        results = dict(_judgements(file.parent.parent / "judgements" / file.name))
        for _, rollout in read_rows(file, _Rollout, form="a row of a run's rollouts"):
            line += 1
            yield StoredResponse(
                line=line,
                id=rollout.id,
                task_id=rollout.task_id,
                response=rollout.response,
                before=results.get(rollout.id),
                question_sha256=hash_text(rollout.prompt),
            )


def _judgements(file: Path) -> Iterator[tuple[str, JudgeResult]]:
    if not file.exists():
        return
    for _, judgement in read_rows(file, _Judgement, form="a row of a run's judgements"):
        yield judgement.id, judgement.result


def _responses(file: Path, *, judged: Path | None) -> Iterator[StoredResponse]:
    results = {one.line: one for _, one in read_judgements(judged)} if judged else {}
    for line, response in response_rows(file):
        before = results.get(line)
        if before is not None and before.task_id != response.task_id:
            raise RubricFileError(
                f"the response is to task {response.task_id!r}, its judgement in {judged} is of "
                f"{before.task_id!r}: give the responses that were judged",
                path=file,
                line=line,
                field="task_id",
            )
        yield StoredResponse(
            line=line,
            id="",
            task_id=response.task_id,
            response=response.response,
            before=before.result if before else None,
        )


def _ledger(
    entries: Iterable[LedgerEntry], *, source: Path, judge: str | None
) -> Iterator[StoredResponse]:
    judges: Counter[_JudgeKey] = Counter()
    by_judge: dict[tuple[_JudgeKey, _Judged], LedgerEntry] = {}
    for entry in entries:
        who = entry.judge, entry.result.judge
        judges[who] += 1
        _keep(by_judge, (who, _judged(entry)), entry)
    chosen = _chosen(judges, judge, source=source) if judges else set[_JudgeKey]()
    of: dict[_Judged, LedgerEntry] = {}
    for (who, judged), entry in by_judge.items():
        if who in chosen:
            _keep(of, judged, entry)
    for line, entry in enumerate(of.values(), 1):
        yield StoredResponse(
            line=line,
            id=entry.key,
            task_id=entry.task_id,
            response=entry.response,
            before=entry.result,
            question_sha256=entry.question_sha256,
            passage_sha256=entry.passage_sha256,
        )


def _judged(entry: LedgerEntry) -> _Judged:
    return entry.rubric_sha256, entry.passage_sha256, entry.question_sha256, entry.response


def _keep(of: dict[_Key, LedgerEntry], key: _Key, entry: LedgerEntry) -> None:
    known = of.get(key)
    if known is None or _settles(entry, known):
        of[key] = entry


def _chosen(judges: Counter[_JudgeKey], judge: str | None, *, source: Path) -> set[_JudgeKey]:
    """Return the one judge, or the one that was asked for: in full, or by how it begins.

    Raises:
        ConfigError: there is none of this name, or more than one.
    """
    chosen = set(judges)
    if judge is not None:
        chosen = {who for who in judges if judge in who} or {
            who for who in judges if any(name.startswith(judge) for name in who)
        }
    if not chosen:
        raise ConfigError(
            f"{source} holds no judgement by {judge!r}; it holds those of {_listed(judges)}",
            location="of",
        )
    if len({fingerprint for fingerprint, _ in chosen}) > 1:
        several = Counter({who: judges[who] for who in chosen})
        raise ConfigError(
            f"{source} holds judgements of several judges: choose one with --of, by name or by "
            f"fingerprint, or how one of them begins: {_listed(several)}",
            location="of",
        )
    return chosen


def _settles(entry: LedgerEntry, known: LedgerEntry) -> bool:
    """Whether this is the judgement to compare with: the first replicate, the first settled."""
    if entry.replicate != known.replicate:
        return entry.replicate < known.replicate
    return _weight(entry) > _weight(known)


def _weight(entry: LedgerEntry) -> int:
    if entry.result.outcome is Outcome.UNAVAILABLE:
        return 0
    return 1 if entry.suspect else 2


def _listed(judges: Counter[_JudgeKey]) -> str:
    return "; ".join(
        f"{name!r} ({fingerprint}, {count} judgements)"
        for (fingerprint, name), count in judges.most_common()
    )


@dataclass(frozen=True, slots=True)
class Matched:
    """Stored responses with their tasks, and those that have none."""

    pairs: tuple[tuple[StoredResponse, Task], ...]
    same: int
    """Pairs whose task is the very one of before, rubric and all."""
    unmatched: tuple[StoredResponse, ...]
    """No task asks their question of their document, or more than one does."""


def match_tasks(
    stored: Sequence[StoredResponse],
    tasks: Iterable[Task],
    *,
    before: Iterable[Task] = (),
) -> Matched:
    """Find the task of each response.

    By task id; then, for a task file with other rubrics, by passage and question, as far as the
    source knows them; then by the question, where a single task asks it.

    Args:
        stored: responses of a source.
        tasks: what they are to be judged under.
        before: the tasks that they were written for, where a source knows only their ids. These
            are matched by document and question, even if the passage was cut differently.

    Returns:
        Every response once, paired or unmatched.

    Raises:
        ConfigError: there is no task at all.
    """
    tasks = tuple(tasks)
    if not tasks:
        raise ConfigError("the task file holds no task", location="tasks")
    by_id = {task.task_id: task for task in tasks}
    find_successor = _by_document(tasks)
    successors = {task.task_id: find_successor(task) for task in before}
    by_passage = _unique(tasks, lambda task: (task.grounding.sha256, hash_text(task.question)))
    by_question = _unique(tasks, lambda task: hash_text(task.question))
    pairs: list[tuple[StoredResponse, Task]] = []
    unmatched: list[StoredResponse] = []
    for one in stored:
        task = (
            by_id.get(one.task_id)
            or successors.get(one.task_id)
            or by_passage.get((one.passage_sha256, one.question_sha256))
        )
        if task is None and one.passage_sha256 is None:
            task = by_question.get(one.question_sha256)
        if task is None:
            unmatched.append(one)
        else:
            pairs.append((one, task))
    same = sum(one.task_id == task.task_id for one, task in pairs)
    return Matched(pairs=tuple(pairs), same=same, unmatched=tuple(unmatched))


def _by_document(tasks: Sequence[Task]) -> Callable[[Task], Task | None]:
    index = _unique(tasks, lambda task: (task.doc_hash, task.question))
    return lambda task: index.get((task.doc_hash, task.question))


def _unique(tasks: Sequence[Task], key: Callable[[Task], Hashable]) -> Mapping[Hashable, Task]:
    """Index the tasks that are alone with their key."""
    found: defaultdict[Hashable, list[Task]] = defaultdict(list)
    for task in tasks:
        found[key(task)].append(task)
    return {value: alike[0] for value, alike in found.items() if len(alike) == 1}
