"""Whether every task can really be built here: its YAML, its code, its data."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rubric_core import (
    Criterion,
    Decoding,
    Grounding,
    MissingExtraError,
    Rubric,
    RubricError,
    Task,
    write_tasks,
)
from rubric_core.errors import install_command
from rubric_eval.errors import BenchmarkDataError
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.transfer.building import build, harness, quiet
from rubric_eval.transfer.suites import SUITES, SuiteName

if TYPE_CHECKING:
    from rubric_eval.transfer.suites import Benchmark

_HELDOUT: Final = "rubric_heldout"


class Validated(NamedTuple):
    """What became of one task."""

    task: str
    items: int | None
    """None where it could not be built."""

    source: str
    """Where its items are from, or what is missing."""


def validate(
    *,
    data: str | Path | None = None,
    suites: tuple[SuiteName, ...] = tuple(SuiteName),
    tasks: Path | None = None,
    judge: Path | None = None,
) -> list[Validated]:
    """Build every task, with all prompts, and say which cannot be.

    Args:
        data: a folder of local copies, "small", or None for the Hub.
        suites: which; `rubric_heldout` is in none of them, and is always built.
        tasks: held-out questions of `rubric_heldout`; None for one that stands for any.
        judge: its judge, which is asked whether it is there; None for the lexical one.

    Raises:
        MissingExtraError: lm-eval is not installed, so that nothing can be built.
    """
    for module in ("lm_eval", "math_verify"):
        if find_spec(module) is None:
            raise MissingExtraError(
                f"{module} is not installed, so no benchmark can be run: "
                f"{install_command('rubric-eval', 'lm-eval')}"
            )
    built = [_validate(one, data) for suite in suites for one in SUITES[suite]]
    return [*built, _validate_heldout(tasks, judge)]


def _validate(benchmark: Benchmark, data: str | Path | None) -> Validated:
    try:
        (built,) = build([benchmark], data=data, decoding=Decoding())
    except BenchmarkDataError as error:
        return Validated(benchmark.task, None, str(error))
    return Validated(benchmark.task, len(built.ids), built.source)


def _validate_heldout(tasks: Path | None, judge: Path | None) -> Validated:
    """Build the task whose questions and judge are the user's, with stand-ins for what is not."""
    with TemporaryDirectory() as folder:
        questions = tasks or _stand_in_tasks(Path(folder))
        reader = judge or _stand_in_judge(Path(folder))
        try:
            items = _heldout_items(questions, reader)
        except (RubricError, OSError) as error:
            return Validated(_HELDOUT, None, str(error))
    return Validated(
        _HELDOUT,
        items,
        f"{tasks or 'a question that stands for any'}, {judge or 'the lexical judge'}",
    )


def _heldout_items(questions: Path, judge: Path) -> int:
    manager = harness("lm_eval.tasks").TaskManager(
        include_defaults=False,
        include_path=[str(TASKS_PATH)],
        metadata={"questions": str(questions), "judge": str(judge)},
    )
    with quiet():
        task: Any = manager.load([_HELDOUT])["tasks"][_HELDOUT]
        task.build_all_requests(rank=0, world_size=1)
    return len(task.instances)


def _stand_in_tasks(folder: Path) -> Path:
    path = folder / "tasks.jsonl"
    rubric = Rubric(criteria=(Criterion(id="named", weight=1.0, required_elements=("Paris",)),))
    grounding = Grounding("The capital of France is Paris.")
    question = "What is the capital of France?"
    write_tasks(path, [Task(question=question, grounding=grounding, rubric=rubric)])
    return path


def _stand_in_judge(folder: Path) -> Path:
    path = folder / "judge.yaml"
    path.write_text("type: lexical\n", encoding="utf-8")
    return path
