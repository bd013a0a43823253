"""Trajectories that people label: what the page gets, and what calibrate makes of the labels."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge.cli.calibrate import calibrate_judge
from rubric_judge.quality.label_page.desk import Desk, Scored
from rubric_judge.quality.labels.rows import LabelSource, read_labels
from rubric_judge.quality.labels.sampling import Drawn
from rubric_judge.quality.labels.store import open_labels
from rubric_judge.quality.responses import read_submitted
from rubric_judge.quality.trajectories import judged_places
from rubric_judge.testing import FakeEndpoint

RECORDED = Path(__file__).parents[1] / "recorded_traces.jsonl"
TARGETS = ("tool_use", None, "every_turn", "full_trace", "turn_1", "turn_2", "turn_3")
TASK = Task(
    question="How warm is it in Oslo and Rome?",
    grounding=Grounding("Oslo: 4 degrees. Rome: 4 degrees."),
    rubric=Rubric(
        criteria=tuple(
            Criterion(id=str(judges), weight=1, description="Good.", judges=judges)
            for judges in TARGETS
        )
    ),
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Tasks; and recorded trajectories, with one response of a text after them."""
    tasks, responses = tmp_path / "tasks.jsonl", tmp_path / "responses.jsonl"
    write_tasks(tasks, [TASK])
    rows = RECORDED.read_text("utf-8").replace("TASK", TASK.task_id)
    responses.write_text(rows, encoding="utf-8")
    return tasks, responses


def _source(files: tuple[Path, Path]) -> LabelSource:
    by_id = {TASK.task_id: TASK}
    return LabelSource.of(by_id, read_submitted(files[1], by_id))


@contextmanager
def _desk(source: LabelSource, path: Path) -> Generator[Desk]:
    drawn = [Drawn(line, TASK.rubric.ids, 1.0) for line in (1, 2, 3)]
    with open_labels(path, source) as store:
        yield Desk(source, drawn, store, seed=0)


def test_the_page_gets_a_trajectory_in_parts_with_those_that_a_criterion_judges(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    source = _source(files)
    with _desk(source, tmp_path / "l.jsonl") as desk:
        texts: Any = desk.texts(1)

    assert [(part["heading"], part["turn"]) for part in texts["parts"]] == [
        ("reply 1", 1), ("call 1", 1), ("call 1", 1), ("result 1", 1),
        ("result 1", 1), ("reply 2", 2),
    ]  # fmt: skip
    assert texts["parts"][3]["text"] == "Oslo: 4 degrees"
    judged = {name: shown["judged"] for name, shown in texts["criteria"].items()}
    assert judged == {
        "tool_use": [1, 2],
        "None": [5],
        "every_turn": [0, 1, 2, 5],
        "full_trace": [0, 1, 2, 5],
        "turn_1": [0, 1, 2],
        "turn_2": [5],
        "turn_3": [],
    }
    assert texts["criteria"]["None"]["judges"] == "last reply"
    assert "[result 1]\nOslo: 4 degrees" in texts["response"]


def test_the_parts_that_are_marked_are_those_that_a_judge_is_shown(
    files: tuple[Path, Path],
) -> None:
    from rubric_core.traces import full_excerpt

    for item in read_submitted(files[1], {TASK.task_id: TASK}):
        assert item.recorded is not None
        parts = full_excerpt(item.recorded.trace).parts
        for criterion in TASK.rubric:
            marked = [parts[i].text for i in judged_places(parts, criterion.judges)]
            shown = [
                text
                for part in item.views.parts
                if criterion.id in part.view.rubric.ids
                for text in part.view.quotable.split("\n\n")
            ]
            assert marked == shown, criterion.id


def test_a_text_is_no_trajectory_on_the_page(tmp_path: Path) -> None:
    plain = Task(
        question="Q?",
        grounding=Grounding("g"),
        rubric=Rubric(criteria=(Criterion(id="a", weight=1),)),
    )
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"task_id": plain.task_id, "response": "Yes."}))
    by_id = {plain.task_id: plain}
    source = LabelSource.of(by_id, read_submitted(path, by_id))
    with open_labels(tmp_path / "l.jsonl", source) as store:
        texts: Any = Desk(source, [Drawn(1, ("a",), 1.0)], store, seed=0).texts(1)

    assert set(texts) == {"question", "passage", "response", "criteria"}
    assert not {"judged", "judges"} & set(texts["criteria"]["a"])


def test_labels_of_trajectories_calibrate_a_judge(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    source = _source(files)
    path = tmp_path / "labels.jsonl"
    with _desk(source, path) as desk:
        for line in (1, 2, 3):
            for name in TASK.rubric.ids:
                score = float(name != "turn_3")
                desk.keep(Scored(rater="ann", line=line, criterion=name, score=score))
    assert len(list(read_labels(path, source))) == 21

    with FakeEndpoint(1.0) as endpoint:
        judge = tmp_path / "llm.yaml"
        judge.write_text(
            "type: llm\nmodel: openai/fake\ntransport: direct\n"
            f"api_base: {endpoint.url}\n",
            encoding="utf-8",
        )
        out = tmp_path / "out"
        tasks, responses = files
        status = calibrate_judge(tasks, responses, labels=(path,), judge=judge, out=out)

    assert status == 0
    assert (out / "calibration.json").exists()
    rows = [
        json.loads(line)
        for file in out.glob("judgements_*_0.jsonl")
        for line in file.read_text("utf-8").splitlines()
    ]
    assert len(rows) == 3
    for row in rows:
        assert row["result"]["scores"]["turn_3"] == 0.0
        assert row["trace"]["judged"]["turn_3"] == "missing"
        assert sum(row["result"]["scores"].values()) == 6.0
