"""The scorer for inspect_ai: in a real evaluation where it is installed."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rubric_core import JudgeResult, JudgeView, MissingExtraError, Reason, Task
from rubric_judge import LexicalJudge
from rubric_judge.adapters.inspect_ai import rubric_scorer
from rubric_judge.testing import ScriptedJudge


class Score(SimpleNamespace):
    """What the adapter uses of `inspect_ai.scorer.Score`."""

    @classmethod
    def unscored(cls, **fields: Any) -> Score:
        return cls(value=math.nan, **fields)


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> None:
    def scorer(metrics: list[Any], name: str) -> Callable[..., Any]:
        assert (metrics, name) == (["mean", "stderr"], "rubric")
        return lambda make: make

    module = ModuleType("inspect_ai.scorer")
    names = {
        "scorer": scorer,
        "Score": Score,
        "mean": lambda: "mean",
        "stderr": lambda: "stderr",
    }
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
    monkeypatch.setitem(sys.modules, "inspect_ai.scorer", module)


def scored(scorer: Any, response: str, *, sample_id: str, **metadata: Any) -> Any:
    state = SimpleNamespace(
        sample_id=sample_id,
        metadata=metadata,
        input_text="Which loss is minimised?",
        output=SimpleNamespace(completion=response),
    )
    return asyncio.run(scorer(state, target=None))


def outcome(view: JudgeView) -> JudgeResult | float:
    match view.response:
        case "prose":
            return JudgeResult.invalid(Reason.NOT_JSON)
        case "lost":
            return JudgeResult.unavailable(Reason.TIMEOUT, detail="no answer")
        case _:
            return 0.5


@pytest.mark.usefixtures("stack")
def test_each_outcome_has_its_score(tasks: dict[str, Task], task: Task) -> None:
    scorer = rubric_scorer(judge=ScriptedJudge(outcome), tasks=tasks)

    fine, prose, lost = (
        scored(scorer, text, sample_id=task.task_id)
        for text in ("fine", "prose", "lost")
    )

    assert (fine.value, fine.reason, fine.explanation) == (0.5, None, None)
    assert fine.metadata["rubric/loss"] == 0.5
    assert (prose.value, prose.reason) == (0.0, "grader_failed")
    assert math.isnan(lost.value)
    assert (lost.reason, lost.explanation) == ("scoring_failed", "timeout: no answer")


@pytest.mark.usefixtures("stack")
def test_a_sample_names_its_task_or_holds_it(
    tasks: dict[str, Task], task: Task, row: dict[str, Any]
) -> None:
    scorer = rubric_scorer(judge=LexicalJudge(), tasks=tasks)
    text = "It is the cross entropy."

    assert scored(scorer, text, sample_id="3", task_id=task.task_id).value == 0.75
    assert scored(scorer, text, sample_id="3", **row).value == 0.75


def test_without_the_stack_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)

    with pytest.raises(MissingExtraError, match="pip install inspect-ai"):
        rubric_scorer(judge=LexicalJudge())


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_an_evaluation_leaves_out_what_was_not_judged(
    tasks: dict[str, Task], task: Task, tmp_path: Path
) -> None:
    inspect_ai = pytest.importorskip("inspect_ai")
    dataset = pytest.importorskip("inspect_ai.dataset")
    model = pytest.importorskip("inspect_ai.model")
    answers = ("fine", "prose", "lost", "fine")
    outputs = [model.ModelOutput.from_content("mockllm", answer) for answer in answers]
    for output in outputs:
        output.usage = (
            model.ModelUsage()
        )  # left out, tokens are counted by a file from afar

    (log,) = inspect_ai.eval(
        inspect_ai.Task(
            dataset=[
                dataset.Sample(input=task.question, metadata={"task_id": task.task_id})
                for _ in answers
            ],
            scorer=rubric_scorer(judge=ScriptedJudge(outcome), tasks=tasks),
        ),
        model=model.get_model("mockllm/model", custom_outputs=outputs),
        max_samples=1,
        log_dir=str(tmp_path),
        display="none",
    )

    assert log.status == "success", log.error
    (result,) = log.results.scores
    assert result.name == "rubric"
    assert result.metrics["mean"].value == pytest.approx(1 / 3)
    assert (result.scored_samples, result.unscored_samples) == (3, 1)
