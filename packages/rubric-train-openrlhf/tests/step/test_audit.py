from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    Outcome,
    Reason,
    Rubric,
    Task,
    write_tasks,
)
from rubric_train_openrlhf.config.train import TrainConfig, parse_config
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.audit import (
    Auditor,
    Pair,
    Place,
    heldout_questions,
    training_places,
)

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_train_openrlhf.run.records import AuditRow

TASKS = [
    Task(
        question=f"What is {number}?",
        grounding=Grounding(text="That."),
        rubric=Rubric(criteria=(Criterion(id="a", weight=4),)),
    )
    for number in range(32)
]
TASK = TASKS[0]


def result(share: float) -> JudgeResult:
    return JudgeResult.scored(TASK.rubric, {"a": 4 * share}, judge="x")


def config_of(folder: Path, **audit: Any) -> TrainConfig:
    write_tasks(folder / "t.jsonl", [TASK])
    (folder / "run").mkdir(exist_ok=True)
    return parse_config(
        {
            "model": {"type": "path", "path": folder},
            "data": {"train": folder / "t.jsonl", "validation": folder / "t.jsonl"},
            "judge": {"spec": {"type": "lexical"}},
            "audit": {
                "spec": {"type": "claims"},
                "start": 16,
                "training_frac": 0.5,
                **audit,
            },
            "steps": 9,
            "out": folder / "run",
        }
    )


def note(
    auditor: Auditor, step: int, gap: float, *, n: int = 8, source: Any = "training"
) -> AuditRow:
    pairs = {
        Place(group, 0): Pair(result(0.5 + gap), result(0.5)) for group in range(n)
    }
    return auditor.note(source, step, pairs, TASKS[:n])


def test_a_draw_is_of_its_step_and_spreads_over_the_prompts() -> None:
    first = training_places(3, 1, prompts=8, group_size=4, frac=0.25)
    assert first == training_places(3, 1, prompts=8, group_size=4, frac=0.25)
    assert first != training_places(3, 2, prompts=8, group_size=4, frac=0.25)
    assert first != training_places(4, 1, prompts=8, group_size=4, frac=0.25)
    assert [place.group for place in first] == list(range(8))
    more = training_places(3, 1, prompts=8, group_size=4, frac=0.4)
    assert len(set(more)) == 13
    counts = Counter(place.group for place in more)
    assert set(counts.values()) == {1, 2}
    assert len(training_places(3, 1, prompts=8, group_size=4, frac=1e-6)) == 1
    assert len(set(training_places(3, 1, prompts=8, group_size=4, frac=1.0))) == 32


def test_held_out_questions_are_the_same_in_every_pass() -> None:
    assert heldout_questions(0, questions=10, frac=0.3) == heldout_questions(
        0, questions=10, frac=0.3
    )
    assert len(heldout_questions(0, questions=10, frac=0.3)) == 3
    assert heldout_questions(0, questions=4, frac=1.0) == [0, 1, 2, 3]


def test_the_states_on_the_way_to_an_alarm(tmp_path: Path) -> None:
    config = config_of(tmp_path, heldout_frac=0.0, start=32)
    auditor = Auditor(config, RunFolder(config.out))
    rows = [note(auditor, 1, 0.1, n=32)]
    rows += [note(auditor, step, 0.1) for step in range(2, 8)]
    # The first fills the start; 32 values after it are enough to tell.
    assert [row.state for row in rows] == [*["cannot_tell"] * 4, *["quiet"] * 3]
    assert rows[0].drift is None
    assert rows[-1].drift == pytest.approx(0.0)
    while (row := note(auditor, len(rows) + 1, 0.5)).state != "alarm":
        assert len(rows) < 30
        rows.append(row)
    assert row.alarm == 1
    assert row.alarm_step == auditor.alarm_step == row.step
    assert row.onset == 7  # the policy that wrote the responses of step 8
    assert row.drift_low is not None
    assert 0.05 <= row.drift_low <= 0.4
    later = note(auditor, row.step + 1, -0.4)
    assert (later.state, later.alarm_step) == ("alarm", row.step)


def test_an_alarm_is_told_once_by_the_look_that_raised_it(tmp_path: Path) -> None:
    config = config_of(tmp_path, start=16)
    auditor = Auditor(config, RunFolder(config.out))
    step = 1
    with capture_logs() as logs:
        while (row := note(auditor, step, 0.0 if step < 12 else 0.5)).state != "alarm":
            assert step < 60
            step += 1
        note(auditor, step, 0.5, source="heldout")  # a pass after the same step
    alarms = [entry for entry in logs if entry["event"] == "train.audit.alarm"]
    assert [entry["step"] for entry in alarms] == [step]
    assert alarms[0]["drift_low"] == row.drift_low is not None


def test_a_start_is_not_complete_before_it_has_its_values(tmp_path: Path) -> None:
    config = config_of(tmp_path, start=20)
    auditor = Auditor(config, RunFolder(config.out))
    rows = [note(auditor, step, 0.0) for step in (1, 2, 3, 4)]
    assert [row.state for row in rows] == [
        "starting",
        "starting",
        "cannot_tell",
        "cannot_tell",
    ]
    assert [row.drift for row in rows] == [None, None, None, 0.0]


def test_what_is_not_scored_is_counted_and_is_no_number(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    auditor = Auditor(config, RunFolder(config.out))
    lost = JudgeResult.unavailable(Reason.TIMEOUT)
    broken = JudgeResult.invalid(Reason.NOT_JSON)
    pairs = {
        Place(0, 0): Pair(result(0.75), result(0.5)),
        Place(0, 1): Pair(result(0.25), result(0.5)),
        Place(1, 0): Pair(result(1.0), lost),
        Place(2, 0): Pair(result(1.0), broken),
        Place(3, 0): Pair(lost, None),
        Place(4, 0): Pair(broken, None),
    }
    row = auditor.note("training", 1, pairs, TASKS[:5])
    assert row.gaps == (0.0,)
    assert (row.chosen, row.used) == (6, 2)
    assert (row.invalid, row.unavailable, row.unjudged) == (1, 1, 2)
    assert (row.training_mean, row.audit_mean) == (0.5, 0.5)
    nothing = auditor.note("training", 2, {Place(0, 0): Pair(lost, None)}, [TASK])
    assert (nothing.gap, nothing.training_mean, nothing.used) == (None, None, 0)
    assert lost.outcome is Outcome.UNAVAILABLE


def test_a_task_that_a_step_holds_twice_is_one_question(tmp_path: Path) -> None:
    """Answers to one question are alike: as several values they would be no evidence."""
    config = config_of(tmp_path)
    auditor = Auditor(config, RunFolder(config.out))
    pairs = {
        Place(0, 0): Pair(result(0.75), result(0.5)),
        Place(1, 0): Pair(result(0.75), result(0.25)),
        Place(2, 0): Pair(result(0.25), result(0.5)),
    }
    row = auditor.note("training", 1, pairs, [TASKS[0], TASKS[1], TASKS[0]])
    assert row.gaps == (0.0, 0.5)
    assert row.gap == 0.25
    assert row.used == 3


def test_failing_audits_take_the_all_clear_back(tmp_path: Path) -> None:
    config = config_of(tmp_path, heldout_frac=0.0)
    auditor = Auditor(config, RunFolder(config.out))
    rows = [note(auditor, step, 0.1) for step in range(1, 7)]
    assert rows[-1].state == "quiet"
    lost = JudgeResult.unavailable(Reason.TIMEOUT)
    failing = {Place(group, 0): Pair(result(0.5), lost) for group in range(8)}
    states = [
        auditor.note("training", step, failing, TASKS[:8]).state
        for step in range(7, 14)
    ]
    assert states[0] == "quiet"
    assert states[-1] == "cannot_tell"


def test_what_is_known_follows_from_the_rows_on_disk(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    folder = RunFolder(config.out)
    auditor = Auditor(config, folder)
    for step in range(1, 8):
        note(auditor, step, 0.03 * step)
        if step % 3 == 0:
            note(auditor, step, 0.02 * step, n=5, source="heldout")
    whole = folder.audit.read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in (0, 1, 4, len(lines) - 1):
        folder.audit.write_bytes(b"".join(lines[:kept]))
        again = Auditor(config, folder)
        for line in lines[kept:]:
            row = json.loads(line)
            gap = row["gaps"][0]
            note(again, row["step"], gap, n=len(row["gaps"]), source=row["source"])
        assert folder.audit.read_bytes() == whole


def test_two_sources_are_weighed_alike(tmp_path: Path) -> None:
    """Half of the evidence of one source is left where the other has none."""
    alone = Auditor(config_of(tmp_path, heldout_frac=0.0), RunFolder(tmp_path / "run"))
    note(alone, 1, 0.0, n=16)
    row = note(alone, 2, 0.4, n=16)
    (tmp_path / "run" / "audit.jsonl").unlink()
    both = Auditor(config_of(tmp_path), RunFolder(tmp_path / "run"))
    note(both, 1, 0.0, n=16)
    two = note(both, 2, 0.4, n=16)
    assert math.exp(two.log_evidence) == pytest.approx(
        (math.exp(row.log_evidence) + 1) / 2
    )
