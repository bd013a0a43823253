"""The page on exporting an environment: its code, its targets and its figures of files."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rubric_core import read_tasks
from rubric_synth.cli import main
from rubric_synth.export.run import TARGETS

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs/how_to/export.md").read_text("utf-8")


def rows_of_export() -> ModuleType:
    """Load the tasks with marks that the tests of the export are about."""
    path = ROOT / "packages/rubric-synth/tests/export/conftest.py"
    spec = importlib.util.spec_from_file_location("rows_of_export", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the page's command writes."""
    dataset = rows_of_export().written_dataset(tmp_path / "dataset")
    (command,) = re.findall(
        r"^rubric-synth (export .+) --out my-docs$", TEXT, re.MULTILINE
    )
    words = command.replace("dataset", str(dataset), 1).split()
    with pytest.raises(SystemExit) as ended:
        main([*words, "--out", str(tmp_path / "my-docs")])
    assert not ended.value.code
    monkeypatch.syspath_prepend(tmp_path / "my-docs")
    return tmp_path / "my-docs"


def test_the_code_asks_the_questions_of_the_exported_folder(folder: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  # the page's own code is the thing under test

    tasks = list(read_tasks(folder / "my_docs/judge/tasks.jsonl"))
    asked = [(row["task_id"], row["prompt"]) for row in names["asked"]]
    assert len(asked) == 2
    assert set(asked) <= {(task.task_id, task.question) for task in tasks}
    assert callable(names["reward"])


def test_the_files_of_the_table_are_there(folder: Path) -> None:
    table = TEXT.partition("| file |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(.+?)`", table, re.MULTILINE)

    assert [name for name in named if not (folder / name).is_file()] == []


def test_a_target_is_checked_with_the_release_that_it_names() -> None:
    commands = re.findall(r"--to (.+) --out my-docs", TEXT)
    names = {name for command in commands for name in command.split()}
    rows = TEXT.partition("| stack |")[2]

    assert names == set(TARGETS)
    for name in names:
        _, _, release = TARGETS[name].stack.partition("==")
        if release:
            assert re.search(rf" {re.escape(release)}(:| on Python)", rows), name


def test_the_page_of_adapters_says_what_was_run_with_an_exported_folder() -> None:
    page = (ROOT / "docs/adapters.md").read_text("utf-8")
    table = page.partition("| stack |")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
    run = {
        re.sub(r"[-_]", "", re.findall(r"\[(.+?)\]", cells[0])[0]).lower()
        for cells in rows
        if cells[-1] != "–"
    }

    assert run == {re.sub(r"[-_]", "", name).lower() for name in TARGETS}
