"""docs/judge/attack.md: its command, its table of figures, and its own suite."""

import json
import re
from pathlib import Path

import pytest
import structlog

from rubric_judge.cli import main

PAGE = "docs/judge/attack.md"
ROW = re.compile(
    r"^\| (\w+ \| \d+/\d+ \| \d+% \| \d+%–\d+% \| [\d.]+) \|", re.MULTILINE
)


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_its_command_measures(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (root / PAGE).read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    (judge,) = _blocks(page, "yaml")
    (template,) = _blocks(page, "json")
    (command,) = _blocks(page, "bash")
    Path("judge.yaml").write_text(judge, "utf-8")
    Path("mine").mkdir()
    Path("mine/own.jsonl").write_text(template, "utf-8")
    assert json.loads(template)["category"] == "social"

    monkeypatch.setattr("sys.argv", [*command.split(), "--suite", "mine"])
    with pytest.raises(SystemExit) as ended:
        main()
    structlog.reset_defaults()

    assert ended.value.code == 0
    assert "mine:social" in capsys.readouterr().out
    measured = Path("attacked/attack.md").read_text("utf-8")
    shown = ROW.findall(page)
    assert len(shown) == 17
    assert sorted(shown) == sorted(ROW.findall(measured))
