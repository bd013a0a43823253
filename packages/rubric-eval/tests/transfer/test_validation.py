"""What `validate` builds, and what it says of a task that cannot be built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

pytest.importorskip("lm_eval")

from rubric_core import write_tasks
from rubric_eval.cli import main
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.transfer.building import validate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_core import Task


def test_every_task_of_the_package_is_built() -> None:
    texts = [path.read_text("utf-8") for path in TASKS_PATH.glob("*.yaml")]
    ours = {
        token.value
        for text in texts
        for key, token in _pairs(yaml.compose(text, Loader=yaml.SafeLoader))
        if key == "task"
    }
    rows = {row.task: row for row in validate(data="small")}

    assert "rubric_heldout" in ours
    assert ours <= set(rows)
    assert all(row.items for row in rows.values())


def test_questions_and_a_judge_of_ones_own_are_built(
    make_task: Callable[..., Task], tmp_path: Path
) -> None:
    write_tasks(tmp_path / "test.jsonl", [make_task(number) for number in range(3)])
    (tmp_path / "judge.yaml").write_text("type: lexical\n", encoding="utf-8")

    (row,) = validate(
        suites=(), tasks=tmp_path / "test.jsonl", judge=tmp_path / "judge.yaml"
    )

    assert (row.task, row.items) == ("rubric_heldout", 3)
    assert "test.jsonl" in row.source


@pytest.mark.parametrize("missing", ["tasks", "judge"])
def test_a_file_that_is_not_there_is_named(missing: str, tmp_path: Path) -> None:
    path = tmp_path / f"{missing}.jsonl"

    (row,) = validate(suites=(), **{missing: path})  # pyright: ignore[reportArgumentType]

    assert row.items is None
    assert path.name in row.source


@pytest.mark.parametrize("flag", ["--data", "--tasks", "--judge"])
def test_to_the_command_what_is_not_there_is_bad_input(
    flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["rubric-eval", "validate", flag, "nowhere"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = f"rubric-eval: {flag} nowhere: there is no such file or folder\n"
    assert (ended.value.code, capsys.readouterr().err) == (2, said)


def _pairs(node: yaml.MappingNode) -> list[tuple[str, yaml.Node]]:
    return [(key.value, value) for key, value in node.value]
