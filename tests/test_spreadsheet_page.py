"""What the page on spreadsheets shows, run as a reader runs it."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rubric_core import read_tasks
from rubric_core.files import toml_beside
from rubric_core.formats import columns
from rubric_core.formats.columns import PARTS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/how_to/spreadsheet.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_page_goes_from_a_table_to_a_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    notes, reasons = (text for kind, text in blocks if kind == "text")
    names: dict[str, Any] = {}
    printed = ""
    for kind, code in blocks:
        if kind == "bash" and "small_policy" not in code:
            printed += subprocess.run(
                ["bash", "-c", code], capture_output=True, text=True, check=True
            ).stdout
        elif kind == "python" and "GRPOTrainer" not in code:
            exec(code, names)  # noqa: S102 - the page's own code is the thing under test

    assert notes in printed
    assert reasons in printed
    assert "2 tasks, 0 errors, 0 warnings" in printed
    for name in ("longer", "buckle", "salt", "minus_two"):
        assert re.search(rf"^{name} +\d+\.0 ", printed, re.MULTILINE)
    rewards = [
        json.loads(line)["reward"]
        for line in Path("judged.jsonl").read_text("utf-8").splitlines()
    ]
    assert rewards == pytest.approx([1, 0.6, 1, 0.6])

    bridge, sea = read_tasks("tasks.jsonl")
    paid = asyncio.run(
        names["reward"](
            prompts=[row["prompt"] for row in names["rows"]],
            completions=["Steel gets longer when it is heated.", sea.reference_answer],
            completion_ids=[[0], [0]],
            task_id=[row["task_id"] for row in names["rows"]],
            trainer_state=None,
        )
    )
    assert [row["prompt"] for row in names["rows"]] == [bridge.question, sea.question]
    assert paid == pytest.approx([0.6, 1.0], abs=1e-4)


def test_the_reference_names_every_part_and_every_guess() -> None:
    page = (ROOT / "docs/formats.md").read_text("utf-8")
    section = page.split("## Tables\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`([^`]+)`", section))
    guesses = toml_beside(columns.__file__, "tables.toml")

    assert set(PARTS) <= named
    assert {name for part in PARTS for name in guesses[part]} - named == set(
        PARTS
    ) - named
