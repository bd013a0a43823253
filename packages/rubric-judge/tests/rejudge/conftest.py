"""A task, the same under another rubric, and ledgers and runs that hold judgements."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rubric_core import Criterion, Grounding, JudgeResult, Rubric, Task
from rubric_judge import Ledger

GOOD = "It is the cross entropy, a loss from the likelihood."
PASSAGE = Grounding("The model minimises the cross entropy of the labels.")


@pytest.fixture
def task(rubric: Rubric) -> Task:
    return Task(question="Which loss is minimised?", grounding=PASSAGE, rubric=rubric)


@pytest.fixture
def other_rubric(task: Task) -> Task:
    """The same question of the same document under another rubric."""
    rubric = Rubric(
        criteria=(
            Criterion(id="entropy", weight=1.0, required_elements=("cross entropy",)),
        )
    )
    return Task(question=task.question, grounding=PASSAGE, rubric=rubric)


@pytest.fixture
def scored() -> Callable[..., JudgeResult]:
    """Return a function that makes a judgement of this share of every weight."""
    return _scored


@pytest.fixture
def record() -> Callable[..., None]:
    """Return a function that puts judgements by response into a ledger."""

    def record(
        path: Path,
        task: Task,
        results: Mapping[str, JudgeResult],
        *,
        judge: str = "j",
        replicate: int = 0,
    ) -> None:
        with Ledger(path) as ledger:
            for response, result in results.items():
                view = task.judge_view(response)
                key = ledger.key(view, judge=judge, replicate=replicate)
                ledger.record(key, view, result, judge=judge, replicate=replicate)

    return record


@pytest.fixture
def write_run() -> Callable[[Path, Task], None]:
    """Return a function that writes two steps as a run leaves them, as far as it matters here."""

    def write(folder: Path, task: Task) -> None:
        for step, share in ((1, 0.5), (2, 0.75)):
            name = f"step_{step:06d}.jsonl"
            rollout = {
                "id": f"s{step}",
                "step": step,
                "task_id": task.task_id,
                "prompt": task.question,
                "response": GOOD,
                "reward": share,
            }
            judgement = {
                "id": f"s{step}",
                "result": _scored(task, share).model_dump(mode="json"),
            }
            for kind, row in (("rollouts", rollout), ("judgements", judgement)):
                (folder / kind).mkdir(parents=True, exist_ok=True)
                (folder / kind / name).write_text(json.dumps(row) + "\n")

    return write


def _scored(task: Task, share: float, *, judge: str = "m") -> JudgeResult:
    scores = {criterion.id: criterion.weight * share for criterion in task.rubric}
    return JudgeResult.scored(task.rubric, scores, judge=judge)
