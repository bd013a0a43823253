"""What a cheap judge's readings are worth: fits of planted readings, and the command over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import anyio
import numpy as np
import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    CriterionKind,
    Grounding,
    Pooling,
    Rubric,
    Task,
    group_advantages,
    write_tasks,
)
from rubric_judge import JudgePool, load_replicas, read_judge_spec
from rubric_judge.cli import app
from rubric_judge.quality.calibration.probabilities import (
    Pair,
    fitted,
    group_calibration,
    intraclass,
)
from rubric_judge.testing import FakeEndpoint, marked, marked_share
from rubric_judge.testing.calls import FakeCall

FACT = Criterion(id="fact", weight=2.0, kind=CriterionKind.CAUSE)


def _pairs(
    readings: list[float], strong: list[float], criterion: Criterion = FACT
) -> list[Pair]:
    return [
        Pair(f"task {n // 4}", str(n), criterion, reading, verdict)
        for n, (reading, verdict) in enumerate(zip(readings, strong, strict=True))
    ]


def test_a_worked_fit_pools_what_falls() -> None:
    # .2: 0 of 2; .5: 2 of 2 and .7: 1 of 2 fall, and are one block of 3 of 4; 1: 4 of 4.
    readings = [0.2, 0.2, 0.5, 0.5, 0.7, 0.7, 1.0, 1.0, 1.0, 1.0]
    strong = [0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]

    found = fitted(_pairs(readings, strong))

    assert found.counts == (2, 4, 4)
    assert found.readings == (pytest.approx(0.2), pytest.approx(0.6), 1.0)
    assert found.values == pytest.approx((0.5 / 3, 3.5 / 5, 4.5 / 5))
    assert (found.base, found.dispersion) == (0.7, 1.0)


def test_scores_between_have_less_variance_than_verdicts() -> None:
    found = fitted(_pairs([0.1, 0.9] * 4, [0.25, 0.75] * 4))

    # Variance 1/16 of the ¼ that verdicts of mean ½ have.
    assert found.dispersion == pytest.approx(0.25)


def test_planted_probabilities_are_found_again() -> None:
    rng = np.random.default_rng(0)
    reading_N = rng.random(4000)
    strong_N = (rng.random(4000) < reading_N**2).astype(float)

    found = fitted(_pairs(reading_N.tolist(), strong_N.tolist()))

    for reading in (0.2, 0.5, 0.8):
        assert found.value(reading) == pytest.approx(reading**2, abs=0.06)


def test_intraclass_correlations_by_hand() -> None:
    assert intraclass([[1.0, 1.0], [0.0, 0.0]]) == 0.95  # the bound of 1
    assert intraclass([[1.0, 0.0], [0.0, 1.0]]) == 0.0  # below 0
    assert intraclass([[1.0], [0.0]]) == 0.0
    # e = ¼ and −¾: pairs 2 · (1/16 + 1/16) + 2 · (−3/16) over 3 · 1/16 + 9/16.
    found = intraclass([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    assert found == 0.0
    rng = np.random.default_rng(1)
    rate = rng.beta(0.5, 0.5, size=(3000, 1))  # ρ = 1 / (1 + ½ + ½)
    cells = (rng.random((3000, 4)) < rate).astype(float).tolist()
    assert intraclass(cells) == pytest.approx(0.5, abs=0.03)


def test_pools_have_maps_of_their_own_where_they_have_enough() -> None:
    other = Criterion(id="limit", weight=1.0, kind=CriterionKind.DEFINITION)
    half = [0.3, 0.7] * 30
    pairs = _pairs(half, [0.0, 1.0] * 30)
    pairs += _pairs(half[:20], [1.0, 1.0] * 10, other)

    class _Named:
        task_id = "t"
        rubric = Rubric(criteria=(FACT, other))

    found = group_calibration(pairs, Pooling.of([_Named()]))

    assert list(found.criteria) == ["fact"]
    assert found.map_of(FACT) is found.criteria["fact"]
    assert found.map_of(other) is found.pooled
    with pytest.raises(ConfigError, match=r"needs 50 criteria .* here are 20"):
        group_calibration(pairs[-20:], Pooling.of([_Named()]))


def _cheap(call: FakeCall) -> float:
    """Say .8 or .2 by the mark, a fifth of them wrongly, some criterion by criterion."""
    if call.mark is None:
        return 0.0
    is_wrong = crc32(f"{call.mark.view}".encode()) % 5 == 0
    return 0.2 + 0.6 * abs(call.mark.share - is_wrong)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[tuple[Path, FakeEndpoint, FakeEndpoint]]:
    """Tasks of four answers each, labels, and a cascade of two real endpoints."""
    criteria = Criterion(id="loss", weight=2.0), Criterion(id="limit", weight=1.0)
    tasks = [
        Task(
            question=f"What is minimised in {n}?",
            grounding=Grounding(f"Model {n} minimises the loss. " * 20),
            rubric=Rubric(criteria=criteria),
        )
        for n in range(24)
    ]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    share = [float(crc32(f"share {n}".encode()) % 2) for n in range(96)]
    rows = [
        {"task_id": task.task_id, "response": marked("Some.", view=n, share=share[n])}
        for n, task in enumerate(task for task in tasks for _ in range(4))
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    labels = [
        {
            "line": n + 1,
            "task_id": row["task_id"],
            "criterion": c.id,
            "score": c.weight * share[n],
            "rater": "ann",
        }
        for n, row in enumerate(rows)
        for c in criteria
    ]
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    with FakeEndpoint(_cheap) as cheap, FakeEndpoint(marked_share) as strong:
        judges = [
            {"type": "llm", "model": f"openai/{name}", "api_base": endpoint.url}
            for name, endpoint in (("cheap", cheap), ("strong", strong))
        ]
        spec = {
            "type": "cascade",
            "decide": "group",
            "uncertainty": "margin",
            "calibration": "cascade.json",
            "target": 0.9,
        }
        (tmp_path / "judge.yaml").write_text(json.dumps({**spec, "judges": judges}))
        yield tmp_path, cheap, strong


def _run(folder: Path, command: str, **flags: str) -> Any:
    words = [command, str(folder / "tasks.jsonl"), str(folder / "answers.jsonl")]
    words += ["--judge", str(folder / "judge.yaml")]
    for name, value in flags.items():
        words += [f"--{name}", value]
    words += ["--cascade"] * (command == "calibrate")
    return app(words, result_action="return_value")


def test_the_command_finds_what_readings_are_worth_and_score_uses_it(
    folder: tuple[Path, FakeEndpoint, FakeEndpoint], capsys: pytest.CaptureFixture[str]
) -> None:
    here, cheap, strong = folder
    labels = str(here / "labels.jsonl")

    assert _run(here, "calibrate", labels=labels, risk="0.2", out=str(here)) == 0

    printed = capsys.readouterr().out
    assert "readings of" in printed
    assert "everything goes to the last judge" not in printed
    written = json.loads((here / "cascade.json").read_text())
    group = written["group"]
    assert group["pooled"]["readings"] == pytest.approx([0.2, 0.8])
    # A fifth of the readings is wrong, and both criteria of a response are wrong together.
    assert group["pooled"]["values"] == pytest.approx([0.2, 0.8], abs=0.12)
    assert sum(group["pooled"]["counts"]) == 192
    assert group["together"] > 0.9
    # Every answer was asked for once: one call for a response, and the question who is there.
    assert (len(cheap.calls), len(strong.calls)) == (97, 97)

    assert _run(here, "score", out=str(here / "judged.jsonl")) == 0

    printed = capsys.readouterr().out
    assert "of the last judge's bill" in printed
    assert "last judge less expected, audits" in printed
    rows = (here / "judged.jsonl").read_text().splitlines()
    traces = [json.loads(row)["result"]["cascade"] for row in rows]
    assert {trace["group"]["responses"] for trace in traces} == {4}
    assert len(strong.calls) < 97 + 1 + 96


def test_the_advantages_are_nearly_those_of_the_strong_judge(
    folder: tuple[Path, FakeEndpoint, FakeEndpoint],
) -> None:
    here, _, strong = folder
    _run(
        here, "calibrate", labels=str(here / "labels.jsonl"), risk="0.2", out=str(here)
    )
    spec = read_judge_spec(here / "judge.yaml")
    from rubric_core import read_tasks

    by_id = {task.task_id: task for task in read_tasks(here / "tasks.jsonl")}
    rows = [
        json.loads(row) for row in (here / "answers.jsonl").read_text().splitlines()
    ]
    views = [by_id[row["task_id"]].judge_view(row["response"]) for row in rows]
    before = len(strong.calls)

    async def judge() -> list[float]:
        pool = JudgePool(load_replicas(spec))
        results = await pool.judge_all(views)
        await pool.aclose()
        return [one.total or 0.0 for one in results]

    rewards_PG = np.array(anyio.run(judge)).reshape(24, 4)
    full_PG = np.array([1.0 if "earns 1" in v.response else 0.0 for v in views])

    ours_PG = group_advantages(rewards_PG)
    strong_PG = group_advantages(full_PG.reshape(24, 4))
    correlation = np.corrcoef(ours_PG.ravel(), strong_PG.ravel())[0, 1]
    assert correlation > 0.8
    assert 0 < len(strong.calls) - before < 90


def test_a_calibration_of_responses_is_refused_for_groups(
    folder: tuple[Path, FakeEndpoint, FakeEndpoint],
) -> None:
    here, _, _ = folder
    spec = json.loads((here / "judge.yaml").read_text())
    del spec["decide"], spec["target"]
    (here / "judge.yaml").write_text(json.dumps(spec))
    labels = str(here / "labels.jsonl")
    _run(here, "calibrate", labels=labels, risk="0.2", out=str(here))
    (here / "judge.yaml").write_text(json.dumps({**spec, "decide": "group"}))

    with pytest.raises(ConfigError, match="decide was 'response' and is 'group'"):
        load_replicas(read_judge_spec(here / "judge.yaml"))


def test_score_warns_of_answers_that_please_the_cheap_judge_alone(
    folder: tuple[Path, FakeEndpoint, FakeEndpoint], capsys: pytest.CaptureFixture[str]
) -> None:
    here, _, _ = folder
    labels = str(here / "labels.jsonl")
    _run(here, "calibrate", labels=labels, risk="0.2", out=str(here))
    _run(here, "score", out=str(here / "honest.jsonl"))
    assert "learned to please" not in capsys.readouterr().err

    # Answers that earn nothing, and of which the cheap judge says .8.
    fooling = [n for n in range(2000) if crc32(f"{n}".encode()) % 5 == 0]
    rows = [
        json.loads(row) for row in (here / "answers.jsonl").read_text().splitlines()
    ]
    for row, n in zip(rows, fooling, strict=False):
        row["response"] = marked("Some.", view=n, share=0.0)
    (here / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    _run(here, "score", out=str(here / "fooled.jsonl"))

    said = capsys.readouterr().err
    assert "the last judge's scores are below what the first one's readings are" in said
    assert "a policy learned to please the first judge" in said
