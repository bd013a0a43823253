"""Evaluation folders as an evaluation leaves them, written through its own row types."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rubric_core import (
    Criterion,
    Decoding,
    Finish,
    Grounding,
    Outcome,
    Reason,
    Rubric,
    Task,
    write_tasks,
)
from rubric_core.files import text_sha256
from rubric_eval.answers.store import AnswerKeys
from rubric_eval.records.files import (
    AnswerRow,
    ItemRow,
    QuestionRow,
    ReasoningRow,
    ScoreRow,
    items_sha256,
    questions_sha256,
    read_run,
    write_finished_run,
    write_rows,
    write_run,
)
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import CONTROL, EvalRun, JudgeEntry, ModelEntry, Questions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PASSAGE_CANARY = "PASSAGE-CANARY-7f3a"
RUBRIC_CANARY = "RUBRIC-CANARY-91c2"
REASONS_CANARY = "REASONS-CANARY-55d0"

_FUNCTIONS = (
    "convolve2d",
    "lstsq",
    "welch",
    "interp1d",
    "medfilt",
    "solve_ivp",
    "fftshift",
    "svd",
)
_FIELDS = ("signal processing", "linear algebra", "numerical analysis")
_CRITERIA = {
    "purpose_named": (0.35, 0.7, 0.95),
    "parameters_named": (0.3, 0.6, 0.93),
    "parameters_described": (0.1, 0.2, 0.42),
    "returns": (0.25, 0.4, 0.66),
    "caveat": (0.08, 0.15, 0.31),
    "structure": (0.6, 0.92, 0.9),
}
DECODING = Decoding(temperature=0.8, max_tokens=1024)
_WEIGHTS = (2.0, 3.0, 2.0, 3.0, 2.0, 1.0)
_SENTENCES = (
    "It computes the discrete transform of its first argument along the last axis.",
    "The result has the same shape as the input unless a length is given.",
    "Note that the output is not normalised, so the caller must divide it by the length.",
    "It takes the input array, the axis along which it is computed, and an optional mode.",
    "For ill-conditioned matrices, small singular values are cut off at a tolerance.",
)


@dataclass(frozen=True)
class Shape:
    """How much of an evaluation there is."""

    questions: int = 40
    models: tuple[str, ...] = ("base", "sft", "grpo")
    judges: tuple[str, ...] = ("gpt-oss-20b",)
    seeds: tuple[int, ...] = (0,)
    samples: int = 2
    answer: str | None = None
    """Text of every answer, for texts that are meant to do harm."""

    question: str | None = None
    field: str | None = None
    """Of every other question."""

    status: str = "finished"


def made_tasks(shape: Shape) -> list[Task]:
    """Tasks whose passages and rubrics can be recognised on a page."""
    return [
        Task(
            question=(shape.question and f"{shape.question} {n}")
            or f"What does `{_FUNCTIONS[n % 8]}` compute, and what must its caller know? ({n})",
            grounding=Grounding(f"{PASSAGE_CANARY} of question {n}."),
            rubric=Rubric(
                criteria=tuple(
                    Criterion(
                        id=name, weight=weight, description=f"{RUBRIC_CANARY} {name}"
                    )
                    for name, weight in zip(_CRITERIA, _WEIGHTS, strict=True)
                )
            ),
        )
        for n in range(shape.questions)
    ]


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _model(name: str) -> ModelEntry:
    identity = {"weights": _digest(name)}
    if name.startswith("control_"):
        identity["kind"] = CONTROL
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return ModelEntry(
        name=name,
        spec=f"policy:runs/q/{name}",
        fingerprint=hashlib.sha256(canonical.encode()).hexdigest(),
        identity=identity,
    )


def _run(shape: Shape, kind: str, questions: dict[str, Questions]) -> EvalRun:
    return EvalRun(
        kind=kind,
        status=shape.status,
        started="2026-11-22T10:00:00+00:00",
        finished="2026-11-22T10:31:07+00:00",
        error="the judge was away" if shape.status == "failed" else None,
        models=tuple(_model(name) for name in shape.models),
        judges=tuple(
            JudgeEntry(
                name=name,
                fingerprint=_digest(name),
                identity={"model": name, "prompt": "paper_v1"},
            )
            for name in (shape.judges if kind == "heldout" else ())
        ),
        questions=questions,
        decoding=DECODING,
        seeds=shape.seeds,
        samples=shape.samples if kind == "heldout" else 1,
        template=_digest("template"),
        versions={"rubric-eval": "0.1.0", "lm-eval": "0.4.13"},
    )  # fmt: skip


def write_heldout(root: Path, shape: Shape) -> tuple[EvalFolder, list[Task]]:
    """Write a whole held-out evaluation, and return its tasks."""
    folder, tasks = EvalFolder(root), made_tasks(shape)
    rng = np.random.default_rng(3)
    rows = [
        QuestionRow(
            task_id=t.task_id,
            doc_hash=t.doc_hash,
            question=t.question,
            field=(n % 2 and shape.field) or _FIELDS[n % 3],
            weights=dict(zip(_CRITERIA, _WEIGHTS, strict=True)),
            passage_sha256=t.grounding.sha256,
        )
        for n, t in enumerate(tasks)
    ]
    asked = Questions(
        source="dataset/test.jsonl", sha256=questions_sha256(rows), count=len(tasks)
    )
    write_run(folder, _run(shape, "heldout", {"heldout": asked}))
    write_rows(folder.questions, rows)
    for m, model in enumerate(shape.models):
        for seed in shape.seeds:
            answers = [
                _answer(task, model, seed, k, shape, rng)
                for task in tasks
                for k in range(shape.samples)
            ]
            write_rows(folder.answers(model, seed), answers)
            for judge in shape.judges:
                scores = [_score(answer, m, rng) for answer in answers]
                write_rows(folder.scores(judge, model, seed), scores)
                write_rows(
                    folder.judgements(judge, model, seed),
                    [
                        ReasoningRow(
                            task_id=s.task_id,
                            sample=s.sample,
                            key=s.key,
                            reasoning=f"{REASONS_CANARY}: it says nothing of “{PASSAGE_CANARY}”.",
                        )
                        for s in scores
                        if s.outcome is Outcome.SCORED
                    ],
                )
    if shape.status == "finished":
        seal(folder)
    return folder, tasks


def seal(folder: EvalFolder) -> None:
    """Write the manifest once more, with digests of the files as they are now."""
    write_finished_run(folder, read_run(folder))


def _answer(
    task: Task, model: str, seed: int, k: int, shape: Shape, rng: np.random.Generator
) -> AnswerRow:
    count = int(rng.integers(1, 4)) if model == "base" else int(rng.integers(2, 6))
    text = " ".join(rng.choice(_SENTENCES, size=count, replace=False))
    return AnswerRow(
        task_id=task.task_id,
        doc_hash=task.doc_hash,
        sample=k,
        prompt_sha256=text_sha256(task.question),
        key=AnswerKeys(_model(model).fingerprint, DECODING).of(
            text_sha256(task.question), seed=seed, sample=k
        ),
        text=text if shape.answer is None else shape.answer,
        finish=Finish.TRUNCATED if rng.random() < 0.04 else Finish.COMPLETE,
        tokens=len(text) // 4,
    )


def _score(answer: AnswerRow, m: int, rng: np.random.Generator) -> ScoreRow:
    made = {
        "task_id": answer.task_id,
        "doc_hash": answer.doc_hash,
        "sample": answer.sample,
        "key": answer.key,
    }
    if (draw := rng.random()) < 0.03:
        away = draw < 0.01
        return ScoreRow(
            **made,
            outcome=Outcome.UNAVAILABLE if away else Outcome.INVALID,
            reason=Reason.TIMEOUT if away else Reason.NOT_JSON,
            reward=None if away else 0.0,
            criteria_z={} if away else dict.fromkeys(_CRITERIA, 0.0),
        )
    z = {
        name: float(np.clip(levels[min(m, 2)] + rng.normal(0, 0.2), 0, 1))
        for name, levels in _CRITERIA.items()
    }
    if m == 0 and rng.random() < 0.2:
        z = dict.fromkeys(z, 0.0)
    reward = sum(
        w * z[name] for name, w in zip(_CRITERIA, _WEIGHTS, strict=True)
    ) / sum(_WEIGHTS)
    return ScoreRow(**made, outcome=Outcome.SCORED, reward=reward, criteria_z=z)


_RIGHT = {
    "rubric_gsm8k": 0.62,
    "rubric_math": 0.5,
    "rubric_gpqa_main": 0.25,
    "rubric_gpqa_diamond": 0.24,
}


def write_transfer(root: Path, shape: Shape) -> EvalFolder:
    """Write a whole transfer evaluation."""
    folder = EvalFolder(root)
    rng = np.random.default_rng(5)
    numbers = range(shape.questions)
    counts = {
        name: Questions(
            source=name,
            sha256=items_sha256(
                [_digest(name, n) for n in numbers], [f"{name} {n}?" for n in numbers]
            ),
            count=shape.questions,
        )
        for name in _RIGHT
    }
    write_run(folder, _run(shape, "transfer", counts))
    write_rows(
        folder.questions,
        [
            QuestionRow(
                task_id=_digest(name, n),
                doc_hash=_digest(name, n),
                question=f"{name} {n}?",
            )
            for name in _RIGHT
            for n in numbers
        ],
    )
    for name, level in _RIGHT.items():
        for m, model in enumerate(shape.models):
            for seed in shape.seeds:
                write_rows(
                    folder.items(name, model, seed),
                    [
                        _item(name, n, level + 0.06 * m, shape, rng)
                        for n in range(shape.questions)
                    ],
                )
    if shape.status == "finished":
        seal(folder)
    return folder


def _item(
    name: str, n: int, level: float, shape: Shape, rng: np.random.Generator
) -> ItemRow:
    is_answered = bool(rng.random() > 0.05)
    if rng.random() < 0.01:
        return ItemRow(
            item_id=_digest(name, n),
            prompt_sha256=text_sha256(f"{name} {n}?"),
            correct=None,
            is_answered=False,
            is_truncated=None,
            group=("algebra", "geometry")[n % 2],
            response="",
            **_asked(n, shape, is_answered=False),
            reason=Reason.TIMEOUT,
        )
    return ItemRow(
        item_id=_digest(name, n),
        prompt_sha256=text_sha256(f"{name} {n}?"),
        correct=is_answered and bool(rng.random() < level),
        is_answered=is_answered,
        is_truncated=bool(rng.random() < 0.03),
        tokens=int(rng.integers(40, 700)),
        group=("algebra", "geometry")[n % 2],
        response=shape.answer
        or "First we add the two lengths.\n\nSo the answer is \\boxed{12}.",
        **_asked(n, shape, is_answered=is_answered),
    )


def _asked(n: int, shape: Shape, *, is_answered: bool) -> dict[str, str | None]:
    """What an item asks."""
    return {
        "question": shape.question or f"What are {n} and {n} together?",
        "target": shape.answer or str(2 * n),
        "stated": (shape.answer or "12") if is_answered else None,
    }


def write_training(root: Path, steps: int = 60) -> Path:
    """Write the curves of a training run."""
    rng = np.random.default_rng(7)
    root.mkdir(parents=True)
    done = [1 - float(np.exp(-3 * s / steps)) for s in range(steps + 1)]
    metrics = [
        {
            "step": s,
            "reward_mean": 0.2 + 0.5 * done[s] + 0.02 * float(rng.normal()),
            "reward_std": 0.12,
            "zero_reward_frac": max(
                0.25 * (1 - done[s]) + 0.01 * float(rng.normal()), 0.0
            ),
            "loss": 0.1,
        }
        for s in range(1, steps + 1)
    ]
    heldout = [
        {
            "step": s,
            "reward_mean": 0.19 + 0.48 * done[s],
            "zero_reward_frac": 0.24 * (1 - done[s]),
            "n": 96,
        }
        for s in range(0, steps + 1, 10)
    ]
    for name, rows in (("metrics", metrics), ("heldout", heldout)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (root / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return root


class Folders:
    """Writes evaluations under a folder; a shape's fields are keywords."""

    canaries = (PASSAGE_CANARY, RUBRIC_CANARY, REASONS_CANARY)
    """Of passages, criteria and the judge's words."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def heldout(self, name: str = "held", **shape: object) -> EvalFolder:
        """A held-out evaluation; its tasks lie beside it as tasks.jsonl."""
        folder, tasks = write_heldout(self.root / name, Shape(**shape))
        write_tasks(self.root / "tasks.jsonl", tasks)
        return folder

    def transfer(self, name: str = "transfer", **shape: object) -> EvalFolder:
        """A transfer evaluation."""
        return write_transfer(self.root / name, Shape(**shape))

    def training(self, steps: int = 60) -> Path:
        """A training run."""
        return write_training(self.root / "run", steps)

    def other_tasks(self, **shape: object) -> Path:
        """A file of tasks."""
        path = self.root / "other.jsonl"
        write_tasks(path, made_tasks(Shape(**shape)))
        return path


@pytest.fixture(scope="session")
def folders_in() -> type[Folders]:
    return Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


@pytest.fixture
def sealed() -> Callable[[EvalFolder], None]:
    """Seal an evaluation anew after a change, as if its run had left it so."""
    return seal
