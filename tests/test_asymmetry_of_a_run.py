"""A whole run, whose judge quotes all that it sees, puts none of it on the policy's side."""

import json
import re
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog

from rubric_core import (
    JudgeResult,
    JudgeView,
    LeakError,
    RubricError,
    Task,
    write_tasks,
)
from rubric_train_openrlhf import TrainConfig, run_grpo
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_policy
from rubric_train_openrlhf.report.page import write_report

MARK = "quokkazanzibar"
WORDS = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
)
JUDGE_DATA = re.compile(
    rb'<script type="application/json" id="judge-data">.*?</script>', re.DOTALL
)


def marked_task(number: int) -> Task:
    """A task with a mark in every text that only the judge may see."""
    hidden = iter(f"{MARK} text {field} of task {number}" for field in range(100))
    return Task.from_json(
        {
            "question": f"Explain `{WORDS[number]}` with `x` and `y`: what does it return?",
            "passage": next(hidden),
            "criteria": [
                {
                    "id": name,
                    "weight": 2.0,
                    "name": next(hidden),
                    "description": next(hidden),
                    "required_elements": [next(hidden)],
                    "scoring_guide": next(hidden),
                    "verification_method": next(hidden),
                    "expected_keywords": [next(hidden)],
                    "expected_concepts": [next(hidden)],
                }
                for name in ("purpose", "returns")
            ],
            "question_rationale": next(hidden),
            "reference_answer": f"The function {WORDS[number]} returns the sum of x and y.",
        }
    )


class QuotingJudge:
    """Scores by length, and quotes the passage and the rubric in its reasoning."""

    name = "quoting"

    async def judge(self, view: JudgeView) -> JudgeResult:
        quote = json.dumps([view.grounding.reveal(), view.rubric.reveal()])
        scores = {c.id: (len(view.response) % 3) / 2 * c.weight for c in view.rubric}
        return JudgeResult.scored(view.rubric, scores, judge=self.name, reasoning=quote)


class QuotingFault:
    """Raises an error that quotes the passage and the rubric."""

    name = "fault"

    async def judge(self, view: JudgeView) -> JudgeResult:
        raise RuntimeError(view.grounding.reveal(), view.rubric.reveal())


def configuration(folder: Path, tasks: list[Task]) -> TrainConfig:
    shape = TinyConfig(
        vocab_size=320,
        hidden_size=32,
        intermediate_size=64,
        layers=1,
        heads=2,
        kv_heads=2,
    )
    texts = [" ".join([*WORDS[n:], *WORDS[:n]]) for n in range(len(WORDS))]
    build_tiny_policy(texts, shape, seed=0).save(folder / "policy")
    write_tasks(folder / "train.jsonl", tasks[:4])
    write_tasks(folder / "validation.jsonl", tasks[4:])
    return TrainConfig.model_validate(
        {
            "model": {"type": "path", "path": folder / "policy"},
            "sft": {"steps": 2, "batch_size": 2, "learning_rate": 2e-3},
            "data": {
                "train": folder / "train.jsonl",
                "validation": folder / "validation.jsonl",
            },
            "rollout": {"prompts": 2, "group_size": 3, "max_new_tokens": 8},
            "optim": {"updates_per_rollout": 1},
            "steps": 2,
            "threads": 1,
            "device": "cpu",
            "out": folder / "run",
        }
    )


class Run(NamedTuple):
    """What a run left behind."""

    files: Mapping[str, bytes]
    """Every file of the run folder, by its path in it."""
    logged: str
    """Every event with all its values."""
    error: str
    """The printed error, if there was one."""

    def marked(self) -> set[str]:
        return {
            name for name, content in self.files.items() if MARK.encode() in content
        }


def run(
    folder: Path,
    judge: object,
    tasks: list[Task],
    *,
    model: Mapping[str, object] | None = None,
) -> Run:
    config = configuration(folder, tasks)
    if model is not None:
        config = TrainConfig.model_validate(config.model_dump() | {"model": model})
    error = ""
    with structlog.testing.capture_logs() as events:
        try:
            run_grpo(config, judge=judge)  # type: ignore[arg-type]
        except RubricError as raised:
            error = "".join([*traceback.format_exception(raised), repr(vars(raised))])
    if (config.out / "metrics.jsonl").exists():
        write_report(config.out)
    paths = [path for path in config.out.rglob("*") if path.is_file()]
    files = {str(path.relative_to(config.out)): path.read_bytes() for path in paths}
    return Run(files=files, logged=repr(events), error=error)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [marked_task(number) for number in range(6)]


@pytest.fixture(scope="module")
def finished(tasks: list[Task], tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("finished"), QuotingJudge(), tasks)


def rows(files: Mapping[str, bytes], folder: str) -> Iterator[dict[str, Any]]:
    for name in sorted(files):
        if name.startswith(folder):
            yield from map(json.loads, files[name].splitlines())


def test_the_run_wrote_all_that_is_searched(finished: Run) -> None:
    folders = {name.partition("/")[0] for name in finished.files}

    assert finished.error == ""
    assert folders >= {
        "checkpoints",
        "config.resolved.yaml",
        "environment.json",
        "heldout.jsonl",
        "judgements",
        "metrics.jsonl",
        "report.html",
        "rollouts",
        "summary.json",
        "tensorboard",
    }
    assert len(list(rows(finished.files, "rollouts/"))) == 2 * 2 * 3
    assert "train.step.finished" in finished.logged


def test_the_judges_side_was_marked(finished: Run) -> None:
    assert all(
        MARK in row["result"]["reasoning"]
        for row in rows(finished.files, "judgements/")
    )


def test_only_the_judges_side_of_a_run_holds_a_mark(finished: Run) -> None:
    marked = {name for name in finished.marked() if not name.startswith("judgements/")}

    assert marked <= {"report.html"}


def test_the_reports_policy_view_holds_no_mark(finished: Run) -> None:
    page = finished.files["report.html"]

    assert len(JUDGE_DATA.findall(page)) == 1
    assert MARK.encode() not in JUDGE_DATA.sub(b"", page)


def test_no_log_of_a_run_holds_a_mark(finished: Run) -> None:
    assert MARK not in finished.logged


def test_a_rollout_has_no_field_for_a_passage_or_a_rubric(finished: Run) -> None:
    fields = {field for row in rows(finished.files, "rollouts/") for field in row}

    assert fields == {
        "advantage",
        "ended",
        "id",
        "outcome",
        "prompt",
        "response",
        "reward",
        "step",
        "task_id",
        "tokens",
    }


def test_a_policy_from_nothing_reads_the_documents_that_are_named_and_no_passage(
    tasks: list[Task], tmp_path: Path
) -> None:
    documents = tmp_path / "documents.jsonl"
    documents.write_text(
        json.dumps({"text": " ".join(WORDS * 20)}) + "\n", encoding="utf-8"
    )
    model = {
        "type": "tiny",
        "documents": documents,
        "architecture": {"vocab_size": 320, "hidden_size": 32, "layers": 1},
        "pretrain": {"steps": 2, "window_tokens": 16},
    }

    built = run(tmp_path, QuotingJudge(), tasks, model=model)

    assert built.error == ""
    assert {name for name in built.marked() if not name.startswith("judgements/")} <= {
        "report.html"
    }


def test_a_run_that_its_judge_stops_quotes_nothing(
    tasks: list[Task], tmp_path: Path
) -> None:
    stopped = run(tmp_path, QuotingFault(), tasks)

    assert "JudgeAbortError" in stopped.error
    assert MARK not in stopped.error + stopped.logged
    assert stopped.marked() == set()


def test_a_run_that_a_leak_stops_quotes_nothing(
    tasks: list[Task], tmp_path: Path
) -> None:
    secret = " ".join(WORDS[:9])
    row = tasks[0].to_json(reveal_grounding=True)
    row |= {"question": f"Explain: {secret}?", "passage": f"{secret} {MARK}"}

    stopped = run(tmp_path, QuotingJudge(), [Task.from_json(row), *tasks[1:]])

    assert LeakError.__name__ in stopped.error
    assert MARK not in stopped.error + stopped.logged
    assert secret not in stopped.error
    assert stopped.marked() == set()
