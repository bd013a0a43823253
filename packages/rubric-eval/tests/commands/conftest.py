"""Evaluations on disk, and the command line that reads them."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rubric_core import (
    Criterion,
    Decoding,
    Finish,
    Grounding,
    Outcome,
    Rubric,
    Task,
    write_tasks,
)
from rubric_core.files import text_sha256
from rubric_eval.answers.store import AnswerKeys
from rubric_eval.cli import main
from rubric_eval.records.files import (
    AnswerRow,
    ItemRow,
    QuestionRow,
    ScoreRow,
    items_sha256,
    questions_sha256,
    read_run,
    write_finished_run,
    write_rows,
    write_run,
)
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import EvalRun, JudgeEntry, ModelEntry, Questions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

QUESTIONS = 30
CANARY = "PASSAGE-CANARY"

TASKS = [
    Task(
        question=f"What does function {number} do?",
        grounding=Grounding(f"{CANARY} {number}: it sorts by the absolute value."),
        rubric=Rubric(
            criteria=(
                Criterion(
                    id="sorts",
                    weight=1.0,
                    description="RUBRIC-CANARY says that ties keep their former order",
                ),
            )
        ),
    )
    for number in range(QUESTIONS)
]


@dataclass(frozen=True)
class Shape:
    """What was evaluated: reward, or share of right answers, of each model."""

    models: Mapping[str, float]
    judges: tuple[str, ...] = ("lexical",)
    seeds: tuple[int, ...] = (0,)
    said: str = "It sorts by the absolute value."
    status: str = "finished"
    fingerprint: str = "weights"
    template: str = "template"


def _identified(shape: Shape, name: str) -> dict[str, Any]:
    identity = {"weights": f"{shape.fingerprint} {name}"}
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return {
        "identity": identity,
        "fingerprint": hashlib.sha256(canonical.encode()).hexdigest(),
    }


def _run(shape: Shape, kind: str, counts: Mapping[str, int]) -> EvalRun:
    return EvalRun.model_validate(
        {
            "kind": kind,
            "status": shape.status,
            "started": "2026-11-22T10:00:00+00:00",
            "models": [
                ModelEntry(name=name, spec=name, **_identified(shape, name))
                for name in shape.models
            ],
            "judges": [
                JudgeEntry(name=name, fingerprint=name, identity={})
                for name in (shape.judges if kind == "heldout" else ())
            ],
            "questions": {
                name: Questions(
                    source=name, sha256=_questions(name, count), count=count
                )
                for name, count in counts.items()
            },
            "decoding": Decoding(),
            "seeds": shape.seeds,
            "template": shape.template,
            "templates": dict.fromkeys(counts, shape.template)
            if kind == "transfer"
            else {},
            "max_tokens": dict.fromkeys(counts, 64) if kind == "transfer" else {},
            "versions": {},
        }
    )


def _sha(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _questions(name: str, count: int) -> str:
    if name == "heldout":
        return questions_sha256(QUESTION_ROWS)
    numbers = range(count)
    return items_sha256(
        [_sha(name, n) for n in numbers], [f"{name} {n}?" for n in numbers]
    )


QUESTION_ROWS = [
    QuestionRow(
        task_id=task.task_id,
        doc_hash=task.doc_hash,
        question=task.question,
        field="sorting",
        weights={"sorts": 1.0},
        passage_sha256=task.grounding.sha256,
    )
    for task in TASKS
]


def seal(folder: EvalFolder) -> None:
    """Write the manifest once more, with digests of the files as they are now."""
    write_finished_run(folder, read_run(folder))


class Evaluations:
    """Writes evaluations under a folder; what differs from the default is a keyword."""

    def __init__(self, root: Path) -> None:
        """Take the folder."""
        self.root = root
        self.tasks = root / "tasks.jsonl"
        write_tasks(self.tasks, TASKS)

    def heldout(self, name: str = "held-out", **changes: object) -> EvalFolder:
        """A held-out evaluation of base and grpo; the second judge sees half of each reward."""
        shape = replace(Shape({"base": 0.3, "grpo": 0.6}), **changes)
        folder = EvalFolder(self.root / name)
        write_run(folder, _run(shape, "heldout", {"heldout": QUESTIONS}))
        write_rows(folder.questions, QUESTION_ROWS)
        for at, (model, reward) in enumerate(shape.models.items()):
            for seed in shape.seeds:
                rng = np.random.default_rng([at, seed])
                self._write(
                    folder,
                    shape,
                    model,
                    seed,
                    reward + rng.uniform(-0.1, 0.1, QUESTIONS),
                )
        if shape.status == "finished":
            seal(folder)
        return folder

    def _write(
        self,
        folder: EvalFolder,
        shape: Shape,
        model: str,
        seed: int,
        rewards_N: np.ndarray,
    ) -> None:
        keys = AnswerKeys(_identified(shape, model)["fingerprint"], Decoding())
        said = shape.said if model == "grpo" else "It sorts by the absolute value."
        answers = [
            AnswerRow(
                task_id=task.task_id,
                doc_hash=task.doc_hash,
                sample=0,
                prompt_sha256=text_sha256(task.question),
                key=keys.of(text_sha256(task.question), seed=seed, sample=0),
                text=f"{said} {task.question}" + " Yes." * (number % 3),
                finish=Finish.COMPLETE,
                tokens=8,
            )
            for number, task in enumerate(TASKS)
        ]
        write_rows(folder.answers(model, seed), answers)
        for number, judge in enumerate(shape.judges):
            write_rows(
                folder.scores(judge, model, seed),
                [
                    ScoreRow(
                        task_id=row.task_id,
                        doc_hash=row.doc_hash,
                        sample=0,
                        key=row.key,
                        outcome=Outcome.SCORED,
                        reward=float(reward) / (number + 1),
                        criteria_z={"sorts": float(reward) / (number + 1)},
                    )
                    for row, reward in zip(answers, rewards_N, strict=True)
                ],
            )

    def transfer(self, name: str = "transfer", **changes: object) -> EvalFolder:
        """Two benchmarks of base and grpo."""
        shape = replace(Shape({"base": 0.3, "grpo": 0.6}), **changes)
        folder = EvalFolder(self.root / name)
        sizes = {"rubric_gsm8k": 120, "rubric_gpqa_main": 80}
        write_run(folder, _run(shape, "transfer", sizes))
        write_rows(
            folder.questions,
            [
                QuestionRow(
                    task_id=id_, doc_hash=id_, question=f"{benchmark} {number}?"
                )
                for benchmark, size in sizes.items()
                for number in range(size)
                for id_ in [_sha(benchmark, number)]
            ],
        )
        for benchmark, size in sizes.items():
            for at, (model, share) in enumerate(shape.models.items()):
                for seed in shape.seeds:
                    right_N = (
                        np.random.default_rng([at, seed, size]).random(size) < share
                    )
                    rows = [
                        ItemRow(
                            item_id=_sha(benchmark, number),
                            prompt_sha256=text_sha256(f"{benchmark} {number}?"),
                            correct=bool(is_right),
                            is_answered=True,
                            is_truncated=False,
                            question=f"{benchmark} {number}?",
                            target="1",
                            response="",
                        )
                        for number, is_right in enumerate(right_N)
                    ]
                    write_rows(folder.items(benchmark, model, seed), rows)
        if shape.status == "finished":
            seal(folder)
        return folder


@pytest.fixture
def evaluations(tmp_path: Path) -> Evaluations:
    """Writes evaluations."""
    return Evaluations(tmp_path)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run `rubric-eval` with these arguments, and return its exit status."""

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["rubric-eval", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


@pytest.fixture
def sealed() -> Callable[[EvalFolder], None]:
    """Seal an evaluation anew after a change, as if its run had left it so."""
    return seal
