from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from rubric_core import RubricFileError
from rubric_train_openrlhf.report.page import write_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _broken(run: Path) -> RubricFileError:
    with pytest.raises(RubricFileError) as caught:
        write_report(run)
    assert not (run / "report.html").exists()
    return caught.value


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _put_line(path: Path, number: int, line: str) -> None:
    lines = _lines(path)
    lines[number - 1] = line
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_no_folder_is_said(tmp_path: Path) -> None:
    error = _broken(tmp_path / "nowhere")
    assert "no such run folder" in str(error)


def test_a_pipe_in_place_of_a_file_is_named_and_not_waited_for(
    make_run: Callable[..., Path],
) -> None:
    run = make_run(steps=2, prompts=1, group=2)
    for path in [path for path in run.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        error = _broken(run)
        assert str(path) in str(error)
        assert "a named pipe" in str(error)
        path.unlink()
        path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "heldout.jsonl", "rollouts/step_000002.jsonl"]
)
def test_a_line_that_is_not_json_is_named(
    make_run: Callable[..., Path], name: str
) -> None:
    run = make_run(steps=6, prompts=1, group=3)
    _put_line(run / name, 2, '{"step": 2, oops')
    error = _broken(run)
    assert f"{run / name}:2: " in str(error)
    assert "is not JSON: " in str(error)
    assert error.line == 2


def test_a_wrong_field_is_named(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=3, prompts=1, group=2)
    row = json.loads(_lines(run / "metrics.jsonl")[1])
    _put_line(
        run / "metrics.jsonl", 2, json.dumps({**row, "criteria": {"purpose": "high"}})
    )
    error = _broken(run)
    assert error.field == "criteria.purpose"
    assert error.line == 2


def test_a_missing_field_is_named(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=3, prompts=1, group=2)
    row = json.loads(_lines(run / "heldout.jsonl")[0])
    del row["reward_mean"]
    _put_line(run / "heldout.jsonl", 1, json.dumps(row))
    assert _broken(run).field == "reward_mean"


def test_the_error_of_a_broken_rollout_holds_none_of_its_text(
    make_run: Callable[..., Path],
) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    for name in ("rollouts", "judgements"):
        path = run / name / "step_000001.jsonl"
        row = json.loads(_lines(path)[1])
        kept = path.read_text(encoding="utf-8")
        _put_line(
            path, 2, json.dumps({**row, "step": ["SECRET-CANARY"], "SECRET": "CANARY"})
        )
        error = _broken(run)
        assert "CANARY" not in str(error)
        assert error.line == 2
        path.write_text(kept, encoding="utf-8")


def test_a_step_that_is_there_twice_is_refused(make_run: Callable[..., Path]) -> None:
    run = make_run(steps=3, prompts=1, group=2)
    _put_line(run / "metrics.jsonl", 3, _lines(run / "metrics.jsonl")[1])
    assert "metrics.jsonl:3: step 2 after step 2" in str(_broken(run))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "config.resolved.yaml",
            "a: [1, 2\nb: }",
            "config.resolved.yaml:2:2: is not YAML",
        ),
        ("summary.json", "{\n'status'", "summary.json:2: not a whole JSON document"),
        (
            "comparison.json",
            '{"heldout": {"sft": {"mean": 0.1}}}',
            "field 'heldout.sft.n'",
        ),
        ("comparison.json", "[]", "comparison.json: "),
    ],
)
def test_a_broken_document_is_named(
    make_run: Callable[..., Path], name: str, text: str, message: str
) -> None:
    run = make_run(steps=1, prompts=1, group=2)
    (run / name).write_text(text, encoding="utf-8")
    assert message in str(_broken(run))
