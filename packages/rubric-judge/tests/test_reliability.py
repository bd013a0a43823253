from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    Reason,
    Rubric,
    RubricFileError,
    Task,
    write_tasks,
)
from rubric_judge.cli import main
from rubric_judge.reliability import Rating, collect, measure, read_ratings
from rubric_judge.reliability.report import Estimate, ReliabilityReport
from rubric_judge.responses import JudgedResponse, write_judgements
from rubric_judge.testing import FakeEndpoint
from rubric_judge.testing.endpoint import FakeCall

WEIGHTS = (3.0, 1.0, 1.0)
CONFIGS = Path(__file__).parents[3] / "configs" / "judge"


def _tasks(count: int) -> dict[str, Task]:
    rubric = Rubric(
        criteria=tuple(
            Criterion(id=f"c{m}", weight=weight, required_elements=(f"word{m}",))
            for m, weight in enumerate(WEIGHTS)
        )
    )
    tasks = [
        Task(question=f"Question {p}?", grounding=Grounding(f"Passage {p}."), rubric=rubric)
        for p in range(count)
    ]
    return {task.task_id: task for task in tasks}


def _scored(task: Task, z_M: np.ndarray, judge: str) -> JudgeResult:
    scores = {c.id: c.weight * float(z) for c, z in zip(task.rubric, z_M, strict=True)}
    return JudgeResult.scored(task.rubric, scores, judge=judge)


def _simulated(
    tasks: Mapping[str, Task],
    *,
    noise: Mapping[str, float],
    replicates: int = 4,
    group: int = 8,
    shared: float = 0.0,
    bias: float = 0.0,
    seed: int = 0,
) -> list[Rating]:
    """Judges that see z_j ~ 0.5 ± 0.1 with normal noise, of which a part is shared by criteria."""
    generator = np.random.default_rng(seed)
    ratings: list[Rating] = []
    line = 0
    for task in tasks.values():
        for _ in range(group):
            line += 1
            true_M = 0.5 + generator.uniform(-0.17, 0.17, len(WEIGHTS))
            for place, (judge, std) in enumerate(noise.items()):
                for _ in range(replicates):
                    own_M = generator.normal(size=len(WEIGHTS))
                    common = generator.normal()
                    error_M = std * (np.sqrt(1 - shared) * own_M + np.sqrt(shared) * common)
                    z_M = np.clip(true_M + error_M + bias * place, 0, 1)
                    ratings.append(Rating(judge, task.task_id, line, _scored(task, z_M, judge)))
    return ratings


def _holds(estimate: Estimate, value: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= value <= estimate.high


# --- planted values -------------------------------------------------------------------------------

ALPHA = np.array(WEIGHTS) / sum(WEIGHTS)
SIGNAL = 0.34**2 / 12 * float((ALPHA**2).sum())
"""Variance of the reward over responses: uniform z of width 0.34, independent over criteria."""


def test_planted_noise_is_measured_and_predicts_the_noise_of_the_reward() -> None:
    tasks = _tasks(20)
    report = measure(
        collect(_simulated(tasks, noise={"a": 0.05, "b": 0.1}, bias=0.02), tasks), resamples=200
    )

    for judge, std in zip(report.judges, (0.05, 0.1), strict=True):
        noise = std**2 * float((ALPHA**2).sum())
        assert judge.judgements == 640
        assert judge.tau2.value == pytest.approx(std**2, rel=0.1)
        assert _holds(judge.tau2, std**2)
        assert _holds(judge.predicted, noise)
        assert _holds(judge.independent, noise)
        assert _holds(judge.measured, noise)
        assert _holds(judge.inflation, 1.0)
        assert judge.icc1.value == pytest.approx(SIGNAL / (SIGNAL + noise), abs=0.06)
        assert judge.icc1_within.value == pytest.approx(SIGNAL / (SIGNAL + noise), abs=0.06)
    (pair,) = report.pairs
    assert _holds(pair.bias, -0.02)
    assert pair.responses == 160
    first, second = report.judges
    assert (first.flips.value or 0) < (second.flips.value or 0)
    assert {one.criterion for one in report.criteria} == {"c0", "c1", "c2"}
    assert report.criteria[0].judge == "b"


def test_errors_that_criteria_share_do_not_average_away() -> None:
    tasks = _tasks(20)
    report = measure(
        collect(_simulated(tasks, noise={"a": 0.08}, shared=1.0), tasks), resamples=100
    )
    (judge,) = report.judges

    # Fully shared: Var = τ² instead of τ² Σα².
    assert judge.measured.value == pytest.approx(0.08**2, rel=0.15)
    assert _holds(judge.inflation, 1 / float((ALPHA**2).sum()))
    assert report.panel is None


def test_a_judge_without_noise_has_none_in_any_figure() -> None:
    tasks = _tasks(9)
    report = measure(collect(_simulated(tasks, noise={"a": 0.0, "b": 0.0}), tasks), resamples=50)

    for judge in report.judges:
        assert judge.tau2.value == judge.predicted.value == judge.measured.value == 0.0
        assert judge.icc1.value == judge.icc1_within.value == 1.0
        assert judge.flips.value == judge.flipped_weight.value == 0.0
        assert judge.below_noise_frac.value == judge.constant_frac.value == 0.0
        assert judge.replicates_needed == {"0.8": 1, "0.9": 1, "0.95": 1}
    (pair,) = report.pairs
    assert pair.spearman.value == pytest.approx(1)
    assert pair.kendall_within.value == pytest.approx(1)
    assert pair.kappa.value == 1.0
    assert pair.bias.value == 0.0
    assert report.panel is not None
    assert report.panel.alpha.value == pytest.approx(1)
    assert report.panel.icc_a1.value == pytest.approx(1)
    assert report.panel.effective_judges.value == pytest.approx(1)


def _coverage(runs: int, *, tasks: int, resamples: int) -> dict[str, float]:
    """Share of simulated studies whose intervals hold the planted values."""
    by_id = _tasks(tasks)
    noise = 0.08**2 * float((ALPHA**2).sum())
    held: dict[str, list[bool]] = {"tau2": [], "measured": [], "icc1_within": []}
    for seed in range(runs):
        ratings = _simulated(by_id, noise={"a": 0.08}, seed=seed, group=6, replicates=3)
        (judge,) = measure(collect(ratings, by_id), resamples=resamples).judges
        held["tau2"].append(_holds(judge.tau2, 0.08**2))
        held["measured"].append(_holds(judge.measured, noise))
        held["icc1_within"].append(_holds(judge.icc1_within, SIGNAL / (SIGNAL + noise)))
    return {name: float(np.mean(values)) for name, values in held.items()}


def test_most_intervals_hold_the_planted_values() -> None:
    assert min(_coverage(12, tasks=15, resamples=99).values()) >= 0.75


@pytest.mark.slow
def test_nearly_all_intervals_hold_the_planted_values() -> None:
    coverage = _coverage(100, tasks=25, resamples=400)

    assert min(coverage.values()) >= 0.88, coverage


# --- judgements -----------------------------------------------------------------------------------


def test_what_has_no_scores_is_counted_and_never_a_number() -> None:
    tasks = _tasks(2)
    task = next(iter(tasks.values()))
    good = _scored(task, np.array([1.0, 0.0, 0.5]), "a")
    results = [
        good,
        JudgeResult.invalid(Reason.NOT_JSON, judge="a"),
        JudgeResult.unavailable(Reason.TIMEOUT, judge="a"),
        good,
    ]
    ratings = collect([Rating("a", task.task_id, 1, result) for result in results], tasks)
    (judge,) = measure(ratings, resamples=50).judges

    assert (judge.invalid_frac, judge.unavailable_frac) == (0.25, 0.25)
    assert judge.reasons == {"not_json": 1, "timeout": 1}
    assert judge.replicates == 2
    assert judge.mean_reward.value == pytest.approx(3.5 / 5)
    assert judge.measured.value == 0.0
    assert judge.flips.value is None  # a group of one has no advantage


def test_rubrics_of_different_length_and_weight_zero_are_kept_apart() -> None:
    wide = Rubric(criteria=(Criterion(id="x", weight=1), Criterion(id="none", weight=0)))
    narrow = Rubric(criteria=(Criterion(id="y", weight=2),))
    tasks = {
        task.task_id: task
        for task in (
            Task(question="One?", grounding=Grounding("One."), rubric=wide),
            Task(question="Two?", grounding=Grounding("Two."), rubric=narrow),
        )
    }
    first, second = tasks.values()
    ratings = [
        Rating("a", first.task_id, 1, JudgeResult.scored(wide, {"x": z, "none": 0}, judge="a"))
        for z in (0.4, 0.6)
    ]
    ratings += [
        Rating("a", second.task_id, 2, JudgeResult.scored(narrow, {"y": s}, judge="a"))
        for s in (1.0, 1.0)
    ]

    report = measure(collect(ratings, tasks), resamples=50)

    assert {one.criterion: one.tau2.value for one in report.criteria} == pytest.approx(
        {"x": 0.02, "y": 0.0}
    )
    assert report.judges[0].measured.value == pytest.approx(0.01)


def test_there_must_be_a_judgement() -> None:
    with pytest.raises(ConfigError, match="there is no judgement"):
        collect([], {})


def test_a_judgement_of_another_rubric_is_refused_with_its_place(tmp_path: Path) -> None:
    tasks = _tasks(1)
    (task,) = tasks.values()
    path = tmp_path / "a.jsonl"
    view = task.judge_view("Text.")
    result = _scored(task, np.ones(3), "")
    write_judgements(path, [JudgedResponse(line=7, view=view, result=result)])

    assert [(one.judge, one.line) for one in read_ratings(path, tasks)] == [("a", 7)]

    path.write_text("\n" + path.read_text().replace('"c1"', '"other"'))
    with pytest.raises(RubricFileError, match=r"a\.jsonl:2: scores for"):
        list(read_ratings(path, tasks))
    with pytest.raises(RubricFileError, match=r"a\.jsonl:2: no task has the id"):
        list(read_ratings(path, {}))


def test_a_missing_library_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['krippendorff'] = None\n"
        "from rubric_core import MissingExtraError\n"
        "try:\n    import rubric_judge.reliability\n"
        "except MissingExtraError as error: print(error)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "pip install 'rubric-judge[reliability]'" in done.stdout


# --- the command ----------------------------------------------------------------------------------

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Return a function that runs `rubric-judge reliability` beside nine tasks with responses."""
    monkeypatch.chdir(tmp_path)
    tasks = _tasks(9)
    write_tasks(tmp_path / "tasks.jsonl", tasks.values())
    texts = ("It has word0 in it.", "It has word1 and word2 in it.", "It has nothing in it.")
    rows = [{"task_id": name, "response": text} for name in tasks for text in texts]
    Path("responses.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["rubric-judge", "reliability", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    yield run
    structlog.reset_defaults()


def _noisy(generator: random.Random) -> Callable[[FakeCall], dict[str, float]]:
    def award(call: FakeCall) -> dict[str, float]:
        return {
            name: weight * generator.choice((0.25, 0.5, 0.75))
            for name, weight in call.weights.items()
        }

    return award


def test_judges_are_called_measured_drawn_and_resumed(command: Command, tmp_path: Path) -> None:
    with FakeEndpoint(_noisy(random.Random(0))) as endpoint:
        (tmp_path / "noisy.yaml").write_text(
            f"type: llm\nmodel: openai/fake\ntransport: direct\napi_base: {endpoint.url}\n"
        )
        words = ("tasks.jsonl", "responses.jsonl", "--judge", str(CONFIGS / "lexical.yaml"),
                 "--judge", "noisy.yaml", "--replicates", "3", "--resamples", "30",
                 "--ledger", "ledger.sqlite", "--out", "out")  # fmt: skip
        status, printed, complaints = command(*words)
        calls = len(endpoint.calls)
        first = (tmp_path / "out/reliability.json").read_text()
        again = command(*words)

        assert (status, complaints, calls) == (0, "", 1 + 81)  # the first asks whether it is there
        assert again[0] == 0
        assert len(endpoint.calls) == calls  # nothing was asked for twice
    assert (tmp_path / "out/reliability.json").read_text() == first
    report = ReliabilityReport.model_validate_json(first)
    lexical, noisy = report.judges
    assert (lexical.tau2.value, lexical.flips.value) == (0.0, 0.0)
    assert noisy.tau2.value == pytest.approx(0.25**2 * 2 / 3, rel=0.35)
    assert "Judges" in printed
    assert "Krippendorff" in printed
    page = (tmp_path / "out/reliability.md").read_text()
    assert "| τ² of a criterion |" in page
    names = ["judges", "noise_by_criterion", "noise_predicted_measured", "sign_flips"]
    for name in names:
        assert f"]({name}.png)" in page
        assert (tmp_path / f"out/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"out/{name}.svg").read_text().startswith("<?xml")
    written = sorted(path.name for path in (tmp_path / "out").glob("judgements_*"))
    assert written == [f"judgements_{j}_{r}.jsonl" for j in ("lexical", "noisy") for r in (0, 1, 2)]

    status, _, _ = command(
        "tasks.jsonl", "--judgements", *(f"out/{name}" for name in written),
        "--resamples", "30", "--out", "from_files",
    )  # fmt: skip

    assert status == 0
    assert (tmp_path / "from_files/reliability.json").read_text() == first


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("tasks.jsonl",), "there is nothing to measure"),
        (("tasks.jsonl", "--judge", "lexical.yaml"), "--judge and RESPONSES go together"),
        (
            ("tasks.jsonl", "responses.jsonl", "--judge", "j.yaml", "--replicates", "0"),
            "--replicat",
        ),
        (("tasks.jsonl", "responses.jsonl", "--judge", "j.yaml", "--workers", "0"), "--workers is"),
        (
            ("tasks.jsonl", "responses.jsonl", "--judge", "a/j.yaml", "--judge", "b/j.yaml"),
            "2 files are called 'j'",
        ),
        (("tasks.jsonl", "--judgements", "none.jsonl"), "No such file"),
    ],
)
def test_a_wrong_input_ends_in_one_line(
    command: Command, words: tuple[str, ...], problem: str
) -> None:
    status, _, complaints = command(*words, "--out", "out")

    assert status == 2
    assert complaints.startswith("rubric-judge: ")
    assert problem in complaints
    assert complaints.count("\n") == 1


def test_a_judge_that_is_never_reached_ends_with_status_1(command: Command, tmp_path: Path) -> None:
    tasks = _tasks(1)
    (task,) = tasks.values()
    row: dict[str, Any] = {
        "line": 1,
        "task_id": task.task_id,
        "reward": None,
        "result": {"outcome": "unavailable", "reason": "timeout", "judge": "gone"},
    }
    (tmp_path / "gone.jsonl").write_text(json.dumps(row))

    status, printed, complaints = command(
        "tasks.jsonl", "--judgements", "gone.jsonl", "--out", "out"
    )

    assert status == 1
    assert "100.0%" in printed
    assert complaints == "without scores, gone: timeout 1\n"
