import json
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from rubric_core import read_tasks
from rubric_core.formats import export_formats, import_formats
from rubric_judge.cli import main

ROWS = (
    {"prompt": "Why?", "rubrics": [{"criterion": "says because", "points": 3}]},
    {
        "prompt": "How?",
        "rubrics": [
            {"criterion": "guesses", "points": -1},
            {"criterion": "x", "points": 2},
        ],
    },
)


def _run(*arguments: str | Path) -> int:
    sys.argv = ["rubric-judge", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        structlog.reset_defaults()
    return ended.value.code or 0  # type: ignore[return-value]


def _rows(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_import_and_export_carry_tasks_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _rows(tmp_path / "rows.jsonl", *ROWS)
    tasks, prompts = tmp_path / "tasks.jsonl", tmp_path / "prompts.jsonl"
    assert _run("import", "healthbench", source, tasks) == 0
    assert "penalties" in capsys.readouterr().out
    ids = [task.task_id for task in read_tasks(tasks)]
    assert _run("export", "policy", tasks, prompts) == 0
    assert [
        json.loads(line)["task_id"] for line in prompts.read_text().splitlines()
    ] == ids


def test_unusable_rows_are_named_and_the_rest_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _rows(tmp_path / "rows.jsonl", ROWS[0], {"prompt": "What?"})
    assert _run("import", "healthbench", source, tmp_path / "tasks.jsonl") == 0
    assert f"{source}:2: rubrics must be a list" in capsys.readouterr().err
    assert (
        _run(
            "import",
            "healthbench",
            _rows(source, {"prompt": "?"}),
            tmp_path / "t.jsonl",
        )
        == 1
    )


def test_what_becomes_of_every_value_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thought = {"ideal_completion": "<think>\nHm.\n</think>\n\nSo."}
    row = ROWS[0] | {
        "ability": "medicine",
        "ideal_completions_data": thought,
        "canary": "c",
    }
    source = _rows(tmp_path / "rows.jsonl", row)
    assert _run("import", "healthbench", source, tmp_path / "tasks.jsonl") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "of them cut after a thought 1" in shown
    assert "values read 4 values left out on purpose 2" in shown
    assert "ability 1 a label, id or count of the source's own" in shown


def test_a_row_with_an_unknown_field_is_rejected_until_it_is_left_out_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _rows(
        tmp_path / "rows.jsonl", ROWS[0] | {"zebra": "striped", "notes": ["x"]}
    )
    out = tmp_path / "tasks.jsonl"
    assert _run("import", "healthbench", source, out) == 1
    assert "--leave-out 'zebra' --leave-out 'notes" in capsys.readouterr().err
    flags = ("--leave-out", "zebra", "--leave-out", "notes")
    assert _run("import", "healthbench", source, out, *flags) == 0
    assert "as you asked" in capsys.readouterr().out


def test_an_unknown_format_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("import", "helthbench", tmp_path / "a.jsonl", tmp_path / "b.jsonl") == 2
    assert "did you mean 'healthbench'" in capsys.readouterr().err


def test_help_names_every_format() -> None:
    command = Path(sys.executable).with_name("rubric-judge")
    for name, formats in (("import", import_formats()), ("export", export_formats())):
        done = subprocess.run(
            [command, name, "--help"], capture_output=True, text=True, check=True
        )
        assert all(one in done.stdout for one in formats)
