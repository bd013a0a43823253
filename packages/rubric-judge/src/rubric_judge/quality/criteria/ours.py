"""Judged answers of our own files: a run's judgements, a ledger, files of judgements."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rubric_core import ConfigError, JudgeResult, Outcome, Task
from rubric_core.reward.projection import shares_by_id, weighted_scores_z
from rubric_core.rows import OpenRow, read_growing
from rubric_judge.pool.ledger.entry import LedgerEntry, hash_rubric
from rubric_judge.pool.ledger.store import Ledger
from rubric_judge.quality.criteria.groups import JudgedAnswer
from rubric_judge.quality.criteria.record import tokens_of
from rubric_judge.quality.responses import read_judgements

STEP_FILES = "step_*.jsonl"
"""Files of a run's judgements, in its folder `judgements/`."""


# Rows as far as they are read here: no text is built of their other fields, which saves time.


class _Usage(OpenRow):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Result(OpenRow):
    outcome: Outcome
    usage: _Usage | None = None


class _RolloutRow(OpenRow):
    id: str
    advantage: float


class _JudgementRow(OpenRow):
    id: str
    step: int
    task_id: str
    result: _Result
    z: dict[str, float]
    shares: dict[str, float]
    attribution: dict[str, float]


def step_files(folder: Path, *, last: int | None = None) -> list[Path]:
    """Return the files of a run's judgements in the order of their steps.

    Args:
        folder: the run's folder, or its folder `judgements/`.
        last: only those of the last steps; all if None.
    """
    inner = folder / "judgements"
    files = sorted(
        (path for path in (inner if inner.is_dir() else folder).glob(STEP_FILES)),
        key=lambda path: (len(path.name), path.name),
    )
    return files if last is None else files[-last:]


def run_answers(
    files: Sequence[Path], *, notes: list[str] | None = None
) -> Iterator[JudgedAnswer]:
    """Yield the judged answers of a run.

    Args:
        files: the files of its steps.
        notes: gets a sentence on a line that is still being written.

    Raises:
        RubricFileError: a broken row, with its place.
    """
    for file in files:
        advantages: dict[str, float] | None = None
        for _, row in read_growing(file, _JudgementRow, notes=notes):
            advantage = None
            if row.shares and not row.attribution:
                if advantages is None:
                    advantages = _advantages(file)
                advantage = advantages.get(row.id)
            usage = row.result.usage
            tokens = None
            if usage is not None:
                tokens = usage.prompt_tokens + usage.completion_tokens
            yield JudgedAnswer(
                group=row.id.rpartition("-g")[0] or row.task_id,
                task_id=row.task_id,
                step=row.step,
                outcome=row.result.outcome,
                shares=row.shares,
                z=row.z,
                tokens=tokens,
                attribution=row.attribution,
                advantage=advantage,
            )


def _advantages(file: Path) -> dict[str, float]:
    """Return the advantages beside a step's judgements, of an estimator without a split."""
    rollouts = file.parent.with_name("rollouts") / file.name
    return {row.id: row.advantage for _, row in read_growing(rollouts, _RolloutRow)}


def ledger_answers(
    path: Path, tasks: Mapping[str, Task], notes: list[str]
) -> Iterator[JudgedAnswer]:
    """Yield the judged answers of a ledger: for each key, the first that is final.

    Args:
        path: the ledger.
        tasks: tasks by id, which give the weights.
        notes: gets what a reader should know of the file.

    Raises:
        ConfigError: there are no tasks.
        LedgerError: the file is damaged.
    """
    require_tasks(tasks, what="a ledger")
    entries = final_entries(path)
    rubrics = {name: hash_rubric(task.rubric) for name, task in tasks.items()}
    other = 0
    for entry in entries:
        if rubrics.get(entry.task_id) != entry.rubric_sha256:
            other += 1
            continue
        text = entry.judge, entry.task_id, entry.response
        yield _answer(
            (entry.judge, entry.task_id), text, tasks[entry.task_id], entry.result,
            is_repeat=entry.replicate > 0,
        )  # fmt: skip
    if other:
        notes.append(
            f"{other} of {len(entries)} judgements are of tasks or rubrics that --tasks does not "
            "hold, and were left out"
        )
    notes.append(
        "A ledger knows no steps and no groups: all answers to a task by one judge were compared "
        "with each other, an answer that occurred twice once"
    )


def judged_answers(
    paths: Sequence[Path], tasks: Mapping[str, Task]
) -> Iterator[JudgedAnswer]:
    """Yield the judged answers of files of `rubric-judge score`.

    Args:
        paths: the files; a second judgement of a line by the same judge is a repeat.
        tasks: tasks by id, which give the weights.

    Raises:
        ConfigError: there are no tasks, or not the ones that were judged.
        RubricFileError: a line is no judgement.
    """
    require_tasks(tasks, what="a file of judgements")
    seen: set[object] = set()
    for path in paths:
        for _, row in read_judgements(path):
            task = tasks.get(row.task_id)
            if task is None:
                raise ConfigError(
                    f"--tasks holds no task {row.task_id!r}, which {path} judges: give the file "
                    "that was judged",
                    location="tasks",
                )
            text = row.result.judge, row.task_id, row.line
            group = row.result.judge, row.task_id
            yield _answer(group, text, task, row.result, is_repeat=text in seen)
            seen.add(text)


def require_tasks(tasks: Mapping[str, Task], *, what: str) -> None:
    """Refuse a log that holds scores without weights, unless there are tasks that give them.

    Raises:
        ConfigError: there are no tasks.
    """
    if not tasks:
        raise ConfigError(
            f"{what} holds scores s_j and no weights w_j: give --tasks the file of its tasks",
            location="tasks",
        )


def _answer(
    group: object, text: object, task: Task, result: JudgeResult, *, is_repeat: bool
) -> JudgedAnswer:
    return JudgedAnswer(
        group=group,
        task_id=task.task_id,
        step=0,
        outcome=result.outcome,
        shares=shares_by_id(task.rubric),
        z=weighted_scores_z(result, task.rubric),
        tokens=tokens_of(result),
        answer=text,
        is_repeat=is_repeat,
    )


def final_entries(path: Path) -> list[LedgerEntry]:
    """Return of each key of a ledger the first judgement that is final, or else the last.

    Raises:
        LedgerError: the file is damaged.
    """
    entries: dict[str, LedgerEntry] = {}
    with Ledger(path, read_only=True) as ledger:
        for entry in ledger.entries():
            earlier = entries.get(entry.key)
            if earlier is None or not _is_final(earlier):
                entries[entry.key] = entry
    return list(entries.values())


def _is_final(entry: LedgerEntry) -> bool:
    """Tell whether a later judgement of the same key does not count."""
    return entry.result.outcome is not Outcome.UNAVAILABLE and not entry.suspect
