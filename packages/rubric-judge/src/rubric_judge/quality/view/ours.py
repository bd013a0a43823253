"""Judged responses of our own files: judgements, a ledger, a run and an evaluation."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import Field

from rubric_core import ConfigError, JudgeResult, Outcome, RubricFileError, Task
from rubric_core.files import read_file
from rubric_core.rows import OpenRow, read_growing
from rubric_judge.pool.ledger.entry import LedgerEntry, hash_rubric
from rubric_judge.quality.criteria.ours import final_entries, step_files
from rubric_judge.quality.responses import read_judgements, read_rows
from rubric_judge.quality.view.samples import (
    Judged,
    Source,
    Texts,
    Verdict,
)
from rubric_judge.ui.page.tables import counted
from rubric_judge.ui.yaml_files import yaml_value

_CONFIGURATION = "config.resolved.yaml"
_FINGERPRINT_CHARS = 8


_T = TypeVar("_T", bound=OpenRow)


def judged_source(path: Path, texts: Texts) -> Source:
    """Read a file of `rubric-judge score`.

    Raises:
        ConfigError: there are no tasks or responses, or others than were judged.
        RubricFileError: a line is no judgement.
    """
    views = texts.views
    if views is None:
        raise ConfigError(
            f"{path} holds scores, and no answer: name the file that was judged in --responses",
            location="responses",
        )
    rows: list[Judged] = []
    for line, row in read_judgements(path):
        task = _task(texts.tasks, row.task_id, path)
        view = views.get(row.line)
        if view is None or view.task_id != row.task_id:
            answers = "is not there" if view is None else f"answers {view.task_id!r}"
            raise ConfigError(
                f"--responses: line {line} of {path} judges response {row.line}, an answer to task "
                f"{row.task_id!r}, but that line {answers}: name the file that was judged",
                location="responses",
            )
        rows.append(
            _row(task, view.response, row.result, place=f"line {row.line}", path=path)
        )
    return Source(path.name, rows, texts.tasks)


def ledger_source(path: Path, texts: Texts) -> Source:
    """Read a ledger: of each key the first final judgement.

    Raises:
        ConfigError: there are no tasks, or none of those that were judged.
        LedgerError: the file is damaged.
    """
    entries = final_entries(path)
    if not texts.tasks:
        raise ConfigError(
            f"{path} holds answers and scores, and no text of a question or a criterion: give "
            "--tasks the file of its tasks",
            location="tasks",
        )
    hashes = {name: hash_rubric(task.rubric) for name, task in texts.tasks.items()}
    known = [
        entry for entry in entries if hashes.get(entry.task_id) == entry.rubric_sha256
    ]
    if entries and not known:
        raise ConfigError(
            f"--tasks holds none of the tasks and rubrics that {path} judges, which are "
            f"{counted(len({entry.task_id for entry in entries}), 'other')}: give the "
            "file that was judged",
            location="tasks",
        )
    names = _judge_names(known)
    rows = [
        _row(
            texts.tasks[entry.task_id],
            entry.response,
            entry.result,
            place=f"judgement {entry.replicate + 1}" if entry.replicate else "",
            judge=names[entry.judge],
            path=path,
        )
        for entry in sorted(known, key=lambda entry: (entry.task_id, entry.replicate))
    ]
    notes: list[str] = []
    if left := len(entries) - len(known):
        notes.append(
            f"{counted(left, 'judgement')} of {len(entries):,} are of tasks or rubrics that "
            "--tasks does not hold, and were left out"
        )
    return Source(path.name, rows, texts.tasks, notes)


def _judge_names(entries: list[LedgerEntry]) -> dict[str, str]:
    """Return a name for each fingerprint: the judge's, with digits where two share it."""
    names = {entry.judge: "" for entry in entries}
    for entry in entries:
        names[entry.judge] = names[entry.judge] or entry.result.judge
    counts = Counter(names.values())
    for fingerprint, name in names.items():
        if counts[name] > 1 or not name:
            names[fingerprint] = f"{name} {fingerprint[:_FINGERPRINT_CHARS]}".strip()
    return names


class _Rollout(OpenRow):
    id: str
    prompt: str
    response: str
    answer: str | None = None


class _RunJudgement(OpenRow):
    id: str
    step: int
    task_id: str
    result: JudgeResult
    z: dict[str, float]
    shares: dict[str, float]


def run_source(
    path: Path, tasks: Mapping[str, Task], *, last: int | None = None
) -> Source:
    """Read the judgements of a run, with the rollouts beside them.

    Args:
        path: the run's folder, its folder `judgements/`, or one of the files in that.
        tasks: tasks by id; those that the run's configuration names if empty.
        last: only the last steps; all if None.

    Raises:
        ConfigError: there are no rollouts beside the judgements.
        RubricFileError: a broken row.
    """
    files = step_files(path, last=last) if path.is_dir() else [path]
    if not files:
        raise RubricFileError(
            "holds no judgements/step_*.jsonl: a run writes one after each step",
            path=path,
        )
    run = files[0].parent.parent
    notes: list[str] = []
    known = tasks or run_tasks(run, notes)
    rows: list[Judged] = []
    without = 0
    for file in files:
        beside = run / "rollouts" / file.name
        rollouts = {
            row.id: row for _, row in read_growing(beside, _Rollout, notes=notes)
        }
        for _, row in read_growing(file, _RunJudgement, notes=notes):
            rollout = rollouts.get(row.id)
            if rollout is None:
                without += 1
                continue
            task = known.get(row.task_id)
            answer = rollout.response if rollout.answer is None else rollout.answer
            rows.append(
                Judged(
                    task_id=row.task_id,
                    question=task.question if task else rollout.prompt,
                    response=answer,
                    judge=row.result.judge,
                    verdict=Verdict.of(row.result, row.z),
                    shares=row.shares,
                    place=row.id,
                    part=f"step {row.step}",
                )
            )
    if without and not rows:
        raise ConfigError(
            f"{path} holds judgements, and no answer: rollouts/step_*.jsonl of the run must stand "
            "beside judgements/",
            location="inputs",
        )
    if without:
        notes.append(
            f"{counted(without, 'judgement')} without a rollout beside it was left out"
        )
    return Source(run.resolve().name, rows, known, notes)


def run_tasks(run: Path, notes: list[str]) -> dict[str, Task]:
    """Read the tasks that a run's configuration names, where they are still there.

    Args:
        run: the run's folder.
        notes: gets a sentence where they are not.

    Raises:
        RubricFileError: a damaged file.
    """
    from rubric_core import read_tasks

    try:
        text = read_file(run / _CONFIGURATION).decode(errors="replace")
    except OSError:
        text = ""
    document: object = yaml_value(text, source=_CONFIGURATION) if text else {}
    config = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    data: Mapping[str, Any] = config.get("data") or {}
    paths = [Path(data[name]) for name in ("train", "validation") if data.get(name)]
    there = [path for path in paths if path.is_file()]
    if len(there) < len(paths) or not paths:
        named = next((f" ({path})" for path in paths if path not in there), "")
        notes.append(
            f"The tasks of the run are not there{named}, so that criteria have no text: give "
            "--tasks"
        )
    return {task.task_id: task for path in there for task in read_tasks(path)}


class _Question(OpenRow):
    task_id: str
    question: str
    weights: dict[str, float] = Field(default_factory=dict)


class _Answer(OpenRow):
    task_id: str
    sample: int
    key: str
    text: str | None


class _Score(OpenRow):
    task_id: str
    sample: int
    key: str
    outcome: Outcome
    reason: str | None = None
    reward: float | None
    criteria_z: dict[str, float]


class _Reasoning(OpenRow):
    task_id: str
    sample: int
    key: str
    reasoning: str


def is_evaluation(path: Path) -> bool:
    """Tell whether a folder is one of `rubric-eval heldout`."""
    return (path / "questions.jsonl").is_file() and (path / "scores").is_dir()


def evaluation_source(path: Path, tasks: Mapping[str, Task]) -> Source:
    """Read the judged answers of an evaluation's folder, by its files.

    Args:
        path: the folder.
        tasks: tasks by id, for the texts of criteria.

    Raises:
        RubricFileError: a broken row, or a folder without judged answers.
    """
    questions = {row.task_id: row for row in _rows(path / "questions.jsonl", _Question)}
    rows: list[Judged] = []
    for file in sorted((path / "scores").rglob("seed_*.jsonl")):
        judge, model = file.relative_to(path / "scores").parts[:2]
        answers = {
            (row.task_id, row.sample, row.key): row.text
            for row in _rows(path / "answers" / model / file.name, _Answer)
        }
        private = path / "judgements" / judge / model / file.name
        reasons: dict[tuple[str, int, str], str] = {}
        if private.is_file():
            reasons = {
                (row.task_id, row.sample, row.key): row.reasoning
                for row in _rows(private, _Reasoning)
            }
        for row in _rows(file, _Score):
            place = row.task_id, row.sample, row.key
            question = questions.get(row.task_id)
            text = answers.get(place)
            if question is None or text is None:
                continue
            total = sum(question.weights.values())
            is_scored = row.outcome is Outcome.SCORED
            rows.append(
                Judged(
                    task_id=row.task_id,
                    question=question.question,
                    response=text,
                    judge=judge,
                    verdict=Verdict(
                        outcome=row.outcome,
                        reward=row.reward,
                        z=row.criteria_z if is_scored else {},
                        why=(row.reason or "").replace("_", " "),
                        reasoning=reasons.get(place, ""),
                    ),
                    shares={
                        name: weight / total
                        for name, weight in question.weights.items()
                    },
                    place=f"{file.stem.replace('_', ' ')}, answer {row.sample + 1}",
                    part=model,
                )
            )
    if not rows:
        raise RubricFileError("holds no judged answer of a model", path=path)
    notes = [] if tasks else ["Criteria have no text: give --tasks the evaluation's"]
    return Source(path.resolve().name, rows, tasks, notes)


def _rows(path: Path, model: type[_T]) -> list[_T]:
    return [row for _, row in read_rows(path, model, form="a row of an evaluation")]


def _task(tasks: Mapping[str, Task], name: str, path: Path) -> Task:
    task = tasks.get(name)
    if task is None:
        raise ConfigError(
            f"--tasks holds no task {name!r}, which {path} judges: give the file that was judged",
            location="tasks",
        )
    return task


def _row(
    task: Task,
    response: str,
    result: JudgeResult,
    *,
    place: str,
    path: Path,
    judge: str = "",
) -> Judged:
    if result.scores and result.scores.keys() != set(task.rubric.ids):
        raise ConfigError(
            f"--tasks: {path} judges task {task.task_id!r} by other criteria than it has there: "
            "give the file that was judged",
            location="tasks",
        )
    return Judged.of(task, response, result, place=place, judge=judge)
