"""Thoughts are told from answers before anything is stored, judged or shown."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from rubric_core import Reply, Thought, answer_of
from rubric_eval import EvalFolderError, judge_heldout
from rubric_eval.answers.store import read_answers
from rubric_eval.heldout.run import rejudge_heldout
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.scores.scoring import read_judges
from rubric_judge.testing import FakeEndpoint, ScriptedJudge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_core import Ask, Task
    from rubric_eval.heldout.plan import HeldoutPlan
    from rubric_eval.heldout.table import HeldoutTable
    from rubric_eval.responders.opening import OpenModel

COMPLETIONS = ["<think>Is it 4?</think>It is 5.", "<think>Is it 4? Let", "It is 5.", ""]


def _thinks(ask: Ask) -> Reply:
    number = int(ask.view.question.split()[3])
    return Reply.of_completion(answer_of(COMPLETIONS[number % 4]), tokens=10)


def test_shares_of_thoughts_stand_beside_the_reward(
    scripted: Callable[..., OpenModel],
    make_plan: Callable[..., HeldoutPlan],
    judge_file: Callable[..., Path],
    evaluate: Callable[..., HeldoutTable],
    tmp_path: Path,
) -> None:
    with FakeEndpoint(1.0) as endpoint:
        table = evaluate(
            make_plan(), [scripted("m", _thinks)], [judge_file(endpoint.url)]
        )
    (row,) = table.rows
    assert (row.mean, row.zero_frac) == (0.5, 0.5)
    assert (row.thought_frac, row.unclosed_frac, row.no_answer_frac) == (0.5, 0.25, 0.5)
    assert (row.truncated_frac, row.tokens_mean, row.invalid_frac) == (0.25, 10, 0)
    assert "25.0 % are a thought that does not end" in row.thought_note
    assert "raise --max-tokens" in row.thought_note
    stored = json.loads((tmp_path / "eval" / "heldout.json").read_text("utf-8"))
    assert stored["rows"][0]["unclosed_frac"] == 0.25
    rows = read_answers(EvalFolder(tmp_path / "eval").answers("m", 0))
    assert {row.text for row in rows} == {"It is 5.", ""}
    assert {row.thought for row in rows} == set(Thought)


def _made_older(folder: Path, text: str) -> Path:
    """Store answers as a version did that knew no thoughts."""
    path = EvalFolder(folder).answers("m", 0)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows[0]["text"] = text
    for row in rows:
        del row["thought"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    run = EvalFolder(folder).run
    content = json.loads(run.read_text("utf-8"))
    run.write_text(
        json.dumps({**content, "status": "failed", "digest": None, "files": []})
    )
    return path


def test_stored_thoughts_of_an_older_version_are_asked_for_again(
    scripted: Callable[..., OpenModel],
    make_plan: Callable[..., HeldoutPlan],
    judge_file: Callable[..., Path],
    evaluate: Callable[..., HeldoutTable],
    tmp_path: Path,
) -> None:
    def script(ask: Ask) -> str:
        return f"It is {ask.view.task_id}."

    plan = make_plan()
    with FakeEndpoint(1.0) as endpoint:
        judge = judge_file(endpoint.url)
        evaluate(plan, [scripted("m", script)], [judge])
        path = _made_older(tmp_path / "eval", "<think>4?</think>It is 5.")
        again = partial(
            rejudge_heldout, tmp_path / "eval", plan, read_judges([str(judge)])
        )
        with pytest.raises(
            EvalFolderError, match="1 of 12 stored answers of model 'm' hold their"
        ):
            anyio.run(again)
        model = scripted("m", script)
        table = evaluate(plan, [model], [judge])
    assert sum(model.responder.asked.values()) == 1  # pyright: ignore[reportAttributeAccessIssue]
    assert all("<think>" not in (row.text or "") for row in read_answers(path))
    assert table.rows[0].mean == 1


def test_in_memory_a_text_is_cut_and_an_answer_is_judged_as_it_is(
    make_task: Callable[..., Task],
) -> None:
    seen: list[str] = []

    def judged(view: object) -> dict[str, float]:
        seen.append(view.response)  # pyright: ignore[reportAttributeAccessIssue]
        return {"purpose": 3.0, "returns": 1.0}

    kept = answer_of("<think>4?</think>5", "kept")
    responses = [["<think>4?</think>5", "<think>4?", kept, " "]]
    found = anyio.run(judge_heldout, ScriptedJudge(judged), [make_task(0)], responses)
    assert sorted(seen) == ["5", "<think>4?</think>5"]
    assert found.rewards_N == (0.5,)
    assert found.zero_by_reason == {"empty_answer": 0.25, "unclosed_thought": 0.25}
