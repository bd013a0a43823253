"""Rows that do not belong together are no numbers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import pytest

from rubric_core import Decoding, Finish, Outcome, RubricError
from rubric_core.files import text_sha256
from rubric_eval.answers.store import AnswerKeys
from rubric_eval.errors import EvalFolderError
from rubric_eval.records.files import (
    AnswerRow,
    QuestionRow,
    ScoreRow,
    questions_sha256,
    read_rows,
    write_finished_run,
    write_rows,
)
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import EvalRun, JudgeEntry, ModelEntry, Questions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_eval.records.run import Measured

IDS: Final = ("a", "b", "c")
QUESTIONS: Final = [
    QuestionRow(
        task_id=i,
        doc_hash=i,
        question=f"{i}?",
        weights={"named": 1.0},
        passage_sha256=text_sha256(i),
    )
    for i in IDS
]
MODEL: Final = hashlib.sha256(b"{}").hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> EvalFolder:
    folder = EvalFolder(tmp_path)
    write_rows(folder.questions, QUESTIONS)
    write_rows(
        folder.answers("base", 0),
        [
            AnswerRow(
                task_id=i,
                doc_hash=i,
                sample=0,
                prompt_sha256=text_sha256(f"{i}?"),
                key=_key(i),
                text="An answer.",
                finish=Finish.COMPLETE,
            )
            for i in IDS
        ],
    )
    write_rows(folder.scores("lexical", "base", 0), [_score(i) for i in IDS])
    return folder


@pytest.fixture
def run() -> EvalRun:
    return EvalRun(
        kind="heldout",
        status="finished",
        started="2026-01-01T00:00:00+00:00",
        models=(ModelEntry(name="base", spec="base", fingerprint=MODEL, identity={}),),
        judges=(JudgeEntry(name="lexical", fingerprint="f", identity={}),),
        questions={
            "heldout": Questions(
                source="test.jsonl", sha256=questions_sha256(QUESTIONS), count=len(IDS)
            )
        },
        decoding=Decoding(),
        seeds=(0,),
        template="t",
        versions={},
    )


def _key(task_id: str) -> str:
    return AnswerKeys(MODEL, Decoding()).of(
        text_sha256(f"{task_id}?"), seed=0, sample=0
    )


def _score(task_id: str) -> ScoreRow:
    return ScoreRow(
        task_id=task_id,
        doc_hash=task_id,
        sample=0,
        key=_key(task_id),
        outcome=Outcome.SCORED,
        reward=0.5,
        criteria_z={"named": 0.5},
    )


def _twice(folder: EvalFolder) -> None:
    path = folder.scores("lexical", "base", 0)
    write_rows(path, [*read_rows(path, ScoreRow), _score("a")])


def _without_a_score(folder: EvalFolder) -> None:
    write_rows(folder.scores("lexical", "base", 0), [_score("a"), _score("b")])


def _without_a_question(folder: EvalFolder) -> None:
    write_rows(folder.questions, read_rows(folder.questions, QuestionRow)[1:])


def _with_another_question(folder: EvalFolder) -> None:
    rows = read_rows(folder.questions, QuestionRow)
    write_rows(
        folder.questions, [*rows[:2], rows[2].model_copy(update={"task_id": "d"})]
    )


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_twice, r"seed_0\.jsonl:4 is a second score of task a, sample 0"),
        (_without_a_score, "scores of 2 answers, not of 3"),
        (_without_a_question, "2 different questions in 2 lines, not 3"),
        (
            _with_another_question,
            r"seed_0\.jsonl:3: the score of task c, sample 0, is of no answer",
        ),
    ],
)
def test_rows_that_were_edited_are_refused(
    folder: EvalFolder,
    run: EvalRun,
    edit: Callable[[EvalFolder], None],
    said: str,
    read_heldout: Callable[..., Measured],
) -> None:
    write_finished_run(folder, run)
    assert read_heldout(folder, "lexical", "base").values_NK == ((0.5,),) * 3
    edit(folder)
    write_finished_run(folder, run)  # as if its run had left it so
    with pytest.raises(EvalFolderError, match=said):
        read_heldout(folder, "lexical", "base")


@pytest.mark.parametrize(
    ("outcome", "reward"), [(Outcome.SCORED, None), (Outcome.UNAVAILABLE, 0.0)]
)
def test_only_an_unavailable_judgement_is_without_a_reward(
    folder: EvalFolder,
    run: EvalRun,
    outcome: Outcome,
    reward: float | None,
    read_heldout: Callable[..., Measured],
) -> None:
    path = folder.scores("lexical", "base", 0)
    row = _score("a").model_copy(update={"outcome": outcome, "reward": reward})
    write_rows(path, [row, _score("b"), _score("c")])
    write_finished_run(folder, run)
    with pytest.raises(RubricError, match=r"seed_0\.jsonl:1: .*the reward is null"):
        read_heldout(folder, "lexical", "base")
