"""What docs/formats.md shows, runs."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core.formats import import_formats

PAGE = Path(__file__).resolve().parents[1] / "docs" / "formats.md"


def test_the_page_runs_and_maps_a_reward_back_to_points(
    tmp_path: Path, printed: Callable[[str], str]
) -> None:
    text = PAGE.read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (commands,) = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    points = printed(code)
    program = Path(sys.executable).with_name("rubric-judge")
    for command in commands.splitlines():
        subprocess.run([program, *command.split()[1:]], cwd=tmp_path, check=True)

    # 6 of 6 positive points less 4 that were taken away.
    assert float(points) == pytest.approx((6 - 4) / 6)
    assert set(json.loads((tmp_path / "prompts.jsonl").read_text("utf-8"))) >= {
        "prompt",
        "task_id",
    }


def test_the_page_names_every_format() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE.read_text("utf-8")))

    assert set(import_formats()) <= named
