"""The life of each criterion of a run: the command, and the section of the page."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from rubric_core import (
    ConfigError,
    Criterion,
    CriterionKind,
    Grounding,
    Rubric,
    RubricFileError,
    Task,
    write_tasks,
)
from rubric_judge.quality.criteria.report import CriteriaReport
from rubric_train_openrlhf.cli import report
from rubric_train_openrlhf.report.criteria import criteria_section, run_criteria
from rubric_train_openrlhf.report.page import Revealed, write_report
from rubric_train_openrlhf.run.records import JudgementRow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def judgements(run: Path) -> list[JudgementRow]:
    return [
        JudgementRow.model_validate_json(line)
        for file in sorted((run / "judgements").glob("*.jsonl"))
        for line in file.read_text("utf-8").splitlines()
    ]


def replaced(run: Path, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change every row of a run's judgements or rollouts."""
    for file in (run / name).glob("*.jsonl"):
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for row in rows:
            change(row)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_figures_are_those_of_the_rows(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=4)
    rows = judgements(run)

    report = run_criteria(run)

    scored = [row for row in rows if row.z]
    assert report.responses == len(rows) == 4 * 36
    assert report.invalid == len(rows) - len(scored) > 0
    for life in report.rows:
        assert life.mean == pytest.approx(np.mean([row.z[life.name] for row in scored]))
        assert life.scores == len(scored)
        assert life.invalid == report.invalid
        assert life.share == pytest.approx(rows[0].shares[life.name])
    assert report.steps == 4


def test_only_the_last_steps_where_asked_for(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=12)

    report = run_criteria(run, last=10)

    # Steps are numbered, and 2 comes before 10.
    last = [row for row in judgements(run) if row.step > 2]
    assert (report.steps, report.responses) == (10, len(last))


def test_prompts_are_rows_where_asked_for(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=2)

    report = run_criteria(run, by="prompt")

    assert {row.name for row in report.rows} == {row.task_id for row in judgements(run)}
    assert sum(row.gradient or 0 for row in report.rows) == pytest.approx(
        sum(row.gradient or 0 for row in run_criteria(run).rows)
    )


def test_kinds_are_those_of_the_run_s_tasks(
    make_run: Callable[..., Path], tmp_path: Path
) -> None:
    run = make_run(steps=1)
    names = list(judgements(run)[0].shares)
    tasks = [
        Task(
            question=f"{number}?",
            grounding=Grounding("It is."),
            rubric=Rubric(
                criteria=tuple(
                    Criterion(
                        id=f"{name}_{number}", weight=1.0, kind=CriterionKind.CAUSE
                    )
                    for name in names
                )
            ),
        )
        for number in range(10)
    ]
    write_tasks(tmp_path / "train.jsonl", tasks)
    config = run / "config.resolved.yaml"
    values = yaml.safe_load(config.read_text("utf-8"))
    values["data"] = {"train": str(tmp_path / "train.jsonl")}
    config.write_text(yaml.safe_dump(values), "utf-8")
    ids = sorted({row.task_id for row in judgements(run)})
    numbers = {task_id: number for number, task_id in enumerate(ids)}

    def change(row: dict[str, Any]) -> None:
        number = numbers[row["task_id"]]
        row["task_id"] = tasks[number].task_id
        for field in ("z", "shares", "attribution"):
            row[field] = {
                f"{name}_{number}": value for name, value in row[field].items()
            }
        row["result"] = {"outcome": row["result"]["outcome"]}

    replaced(run, "judgements", change)

    assert [row.name for row in run_criteria(run).rows] == ["kind.cause"]
    (tmp_path / "train.jsonl").unlink()
    # Six tasks, so that each id stands for itself.
    report = run_criteria(run)
    assert len(report.rows) == 6 * len(names)
    assert "pooled by ids that repeat" in report.notes[0]


def test_an_estimator_without_a_split_has_advantages_and_no_gradient(
    make_run: Callable[..., Path],
) -> None:
    run = make_run(steps=2)

    def fill(row: dict[str, Any]) -> None:
        row["attribution"] = row["attribution"] or dict.fromkeys(row["shares"], 0.0)

    replaced(run, "judgements", fill)
    split = run_criteria(run)
    rows = {row.id: row for row in judgements(run)}

    def whole(row: dict[str, Any]) -> None:
        row["advantage"] = sum(rows[row["id"]].attribution.values())

    replaced(run, "rollouts", whole)
    replaced(run, "judgements", lambda row: row.update(attribution={}))

    report = run_criteria(run)

    assert {row.gradient for row in report.rows} == {None}
    by_name = {row.name: row for row in split.rows}
    assert any(row.held_down for row in report.rows)
    for row in report.rows:
        assert row.held_down == pytest.approx(by_name[row.name].held_down)


def test_the_noise_is_that_of_the_run_s_calibration(
    make_run: Callable[..., Path], write_calibration: Callable[..., Path]
) -> None:
    run = make_run(steps=1)
    file = write_calibration({"structure": 1.0, "caveat": 1.0})
    document = json.loads(file.read_text("utf-8"))
    document["criteria"][0]["noise"]["value"] = 0.04
    file.write_text(json.dumps(document), "utf-8")
    assert {row.noise for row in run_criteria(run).rows} == {None}

    config = run / "config.resolved.yaml"
    values = yaml.safe_load(config.read_text("utf-8"))
    values["judge"] = {**values.get("judge", {}), "calibration": str(file)}
    config.write_text(yaml.safe_dump(values), "utf-8")

    noise = {row.name: row.noise for row in run_criteria(run).rows}
    assert noise.pop("structure") == pytest.approx(0.2)
    assert set(noise.values()) == {None}
    with pytest.raises(ConfigError, match="summary"):
        run_criteria(run, calibration=run / "summary.json")

    file.write_text("{}", "utf-8")
    section = criteria_section(run)
    assert section is not None
    assert "noise is left out" in section.caption


def test_a_folder_without_judgements_or_with_a_broken_row_is_named(
    make_run: Callable[..., Path], tmp_path: Path
) -> None:
    run = make_run(steps=2)
    file = run / "judgements/step_000001.jsonl"
    file.write_text("{}\n" + file.read_text("utf-8"), "utf-8")
    with pytest.raises(RubricFileError, match=r"step_000001\.jsonl:1: field 'id'"):
        run_criteria(run)
    for path in (run / "judgements").iterdir():
        path.unlink()
    with pytest.raises(RubricFileError, match=r"holds no judgements/step_\*\.jsonl"):
        run_criteria(run)
    with pytest.raises(RubricFileError, match="no such run folder"):
        run_criteria(tmp_path / "absent")
    assert criteria_section(run) is None


def test_the_page_has_the_table_and_what_to_do(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=25)

    def saturate(row: dict[str, Any]) -> None:
        if row["z"]:
            row["z"]["structure"] = 1.0

    replaced(run, "judgements", saturate)

    page = write_report(run).read_text("utf-8")

    assert "The life of each criterion" in page
    assert "Of the last 20 steps" in page
    assert "met by every answer: drop it" in page


def test_the_command(make_run: Callable[..., Path], tmp_path: Path) -> None:
    run = make_run(steps=2)
    code = "from rubric_train_openrlhf.cli import main; main()"
    words = ["criteria", str(run), "--json", str(tmp_path / "out.json")]

    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "2 steps" in done.stdout
    written = CriteriaReport.model_validate_json(
        (tmp_path / "out.json").read_text("utf-8")
    )
    assert written == run_criteria(run)
    assert "purpose_named" in done.stdout
    assert f"answers behind a row: rubric-judge view {run}, whose" in done.stdout


def test_on_the_private_page_a_criterion_leads_to_its_judgements(
    make_run: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(steps=2, prompts=2, group=3)
    rows = judgements(run)
    rubric = Rubric(
        criteria=tuple(
            Criterion(id=name, weight=share, description="RUBRIC-TEXT-CANARY")
            for name, share in rows[0].shares.items()
        )
    )
    task = Task(question="q", grounding=Grounding("PASSAGE-CANARY"), rubric=rubric)
    replaced(run, "judgements", lambda row: row.update(task_id=task.task_id))
    write_tasks(tmp_path / "tasks.jsonl", [task])
    before = {path for path in run.rglob("*") if path.is_file()}

    plain = write_report(run).read_text("utf-8")
    assert "view.html" not in plain
    private = write_report(run, reveal=Revealed((tmp_path / "tasks.jsonl",)))

    name = rows[0].shares and next(iter(rows[0].shares))
    assert f'href="judgements/view.html#criterion={name}"' in private.read_text("utf-8")
    page = (run / "judgements" / "view.html").read_text("utf-8")
    assert "RUBRIC-TEXT-CANARY" in page
    assert "PASSAGE-CANARY" in page
    written = {path for path in run.rglob("*") if path.is_file()} - before
    assert {path.relative_to(run).as_posix() for path in written} == {
        "report.html", "report_revealed.html", "judgements/view.html",
    }  # fmt: skip
    report(run, reveal_grounding=True, tasks=(tmp_path / "tasks.jsonl",))
    assert capsys.readouterr().out.split() == [
        str(private),
        str(run / "judgements" / "view.html"),
    ]
    # Another report of the run reads its judgements as before.
    assert write_report(run).read_text("utf-8") == plain
