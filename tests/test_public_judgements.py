"""Published figures of real judges and people, by the benchmark's functions and by the commands."""

import json
import runpy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from rubric_core import (
    Criterion,
    JudgeResult,
    Reason,
    Rubric,
    normalized_reward,
    read_tasks,
)
from rubric_core.data.dataset import write_tasks
from rubric_judge.cli import main
from rubric_judge.quality.responses import JudgedResponse, write_judgements

ROOT = Path(__file__).resolve().parents[1]
FIGURES = {
    "PaperBench": 5,
    "Newsroom": 6,
    "LLM-Rubric": 2,
    "LLMBar": 2,
    "WildBench": 2,
    "HealthBench": 2,
    "CJE": 7,
    "Themis": 6,
    "corrections": 2,
}
Command = Callable[..., None]


@pytest.fixture(scope="module")
def benchmark() -> Iterator[dict[str, Any]]:
    """What `benchmarks/public_judgements.py` defines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield runpy.run_path(str(ROOT / "benchmarks" / "public_judgements.py"))


@pytest.fixture(scope="module")
def data(benchmark: dict[str, Any]) -> Path:
    folder = benchmark["find_data"]()
    if folder is None:
        pytest.skip("the public judgements are not here")
    return folder


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Return a function that runs `rubric-judge` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> None:
        monkeypatch.setattr("sys.argv", ["rubric-judge", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0

    yield run
    structlog.reset_defaults()


def test_every_source_is_asked(benchmark: dict[str, Any]) -> None:
    assert set(benchmark["SOURCES"]) == set(FIGURES)


@pytest.mark.parametrize("source", FIGURES)
def test_the_published_figures_are_ours(
    benchmark: dict[str, Any], data: Path, source: str
) -> None:
    figures = list(benchmark["SOURCES"][source](data))

    assert len(figures) == FIGURES[source]
    assert [one for one in figures if one.missed] == []


@pytest.mark.parametrize(
    ("source", "file", "change"),
    [
        (
            "PaperBench",
            "paperbench_judge_eval/semantic-self-consistency.expected_result.json",
            ('"score": 1.0,', '"score": 0.0,'),
        ),
        (
            "Newsroom",
            "judge_bench/newsroom.annotations.json",
            ("[4, 5, 1]", "[4, 5, 4]"),
        ),
        (
            "HealthBench",
            "healthbench_audit/results_openai_gpt-4o-mini.md",
            ("15933 (TP)", "15833 (TP)"),
        ),
    ],
)
def test_one_other_number_is_one_figure_missed(
    benchmark: dict[str, Any],
    data: Path,
    tmp_path: Path,
    source: str,
    file: str,
    change: tuple[str, str],
) -> None:
    path = tmp_path / file
    shutil.copytree(data / Path(file).parent, path.parent)
    path.chmod(0o600)
    before, missing, after = path.read_text("utf-8").rpartition(change[0])
    assert missing
    path.write_text(f"{before}{change[1]}{after}", "utf-8")

    record = benchmark["record"](list(benchmark["SOURCES"][source](tmp_path)))

    assert (record["value"], record["passed"]) == (1, False)


def test_the_commands_give_a_tree_of_paperbench_its_root(
    command: Command, benchmark: dict[str, Any], data: Path
) -> None:
    path = data / "paperbench_judge_eval/rice.expected_result.json"
    root = json.loads(path.read_text("utf-8"))

    command("import", "paperbench", path, "tree.jsonl")

    (task,) = read_tasks("tree.jsonl")
    leaves = zip(task.rubric, benchmark["leaf_scores"](root), strict=True)
    scores = {criterion.id: criterion.weight * met for criterion, met in leaves}
    result = JudgeResult.scored(task.rubric, scores, judge="experts")
    assert normalized_reward(result, task.rubric) == pytest.approx(0.185681, abs=1e-6)


@pytest.mark.parametrize("raters", ["judges", "replicates"])
def test_the_command_measures_newsroom_as_was_published(
    command: Command, benchmark: dict[str, Any], data: Path, raters: str
) -> None:
    tasks, ratings = benchmark["newsroom_ratings"](data)
    write_tasks("tasks.jsonl", tasks.values())
    names = sorted({one.judge for one in ratings})
    for name in names:
        rows = [
            JudgedResponse(
                line=one.line,
                view=tasks[one.task_id].judge_view("-"),
                result=one.result.with_call(
                    judge=name if raters == "judges" else "people"
                ),
            )
            for one in ratings
            if one.judge == name
        ]
        write_judgements(Path(f"{name}.jsonl"), rows)
    files = [f"{name}.jsonl" for name in names]

    command(
        "reliability",
        "tasks.jsonl",
        "--judgements",
        *files,
        "--resamples",
        20,
        "--out",
        "out",
    )

    found = json.loads(Path("out/reliability.json").read_text("utf-8"))
    if raters == "judges":
        panel = found["panel"]
        for level, figures in {
            "alpha_ordinal": (0.2849, 0.1151, -0.0158, 0.0650),
            "alpha_nominal": (0.0765, 0.0647, -0.0095, 0.0061),
        }.items():
            by_criterion = panel[f"{level}_by_criterion"]
            assert list(by_criterion) == [
                "Informativeness",
                "Relevance",
                "Fluency",
                "Coherence",
            ]
            assert list(by_criterion.values()) == pytest.approx(figures, abs=1e-4)
        assert "|   ordinal |" in Path("out/reliability.md").read_text("utf-8")
    else:
        (people,) = found["judges"]
        assert people["measured"]["value"] / people["predicted"][
            "value"
        ] == pytest.approx(2.96, abs=0.005)
        assert people["inflation"]["low"] > 2


@pytest.mark.parametrize("study", ["GPT-4|Vanilla", "Falcon|Vanilla", "PaLM2|Swap_CoT"])
def test_the_command_counts_llmbars_verdicts_against_the_labels(
    command: Command, benchmark: dict[str, Any], data: Path, study: str
) -> None:
    rows = [
        row
        for row in benchmark["rows_of"](data / "llmbar/verdicts.csv.gz")
        if f"{row['dataset']}|{row['judge']}|{row['prompt']}"
        == f"LLMBar.Natural|{study}"
    ]
    rubric = Rubric(criteria=(Criterion(id="first_is_better", weight=1.0),))
    tasks = [benchmark["plain_task"](f"Pair {row['item']}", rubric) for row in rows]
    write_tasks("tasks.jsonl", tasks)
    for judge, column in (("labels", "label"), ("judge", "winner_in_order")):
        said = [{"1": 1.0, "2": 0.0}.get(row[column]) for row in rows]
        judged = [
            JudgeResult.invalid(Reason.NOT_JSON, judge=judge)
            if score is None
            else JudgeResult.scored(rubric, {"first_is_better": score}, judge=judge)
            for score in said
        ]
        pairs = zip(tasks, judged, strict=True)
        lines = [
            JudgedResponse(n, task.judge_view("-"), one)
            for n, (task, one) in enumerate(pairs, 1)
        ]
        write_judgements(Path(f"{judge}.jsonl"), lines)

    command(
        "reliability", "tasks.jsonl", "--judgements", "labels.jsonl", "judge.jsonl",
        "--reference", "labels", "--resamples", 20, "--out", "out",
    )  # fmt: skip

    pooled, alone = json.loads(Path("out/reliability.json").read_text("utf-8"))["rates"]
    assert (pooled["criterion"], alone["criterion"]) == (None, "first_is_better")
    published = json.loads(
        (data / "llmbar/published_statistics.json").read_text("utf-8")
    )
    correct = (
        alone["met"] * alone["tpr"]["value"] + alone["not_met"] * alone["tnr"]["value"]
    )
    assert published[f"LLMBar.Natural|{study}"]["correct_False"].startswith(
        f"{correct:.0f} / 100"
    )
    tpr, tnr, j = (alone[name]["value"] for name in ("tpr", "tnr", "youden_j"))
    assert j == pytest.approx(tpr + tnr - 1)
