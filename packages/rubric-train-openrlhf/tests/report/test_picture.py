"""The script that takes the README's picture, on the report of a run."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf import write_report

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[4]
SHOWN = ROOT / "docs" / "pictures" / "report.png"


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its first chunk."""
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    return width, height


@pytest.mark.skipif(
    not Path("/usr/bin/chromium").exists(), reason="no browser: there is no /usr/bin/chromium"
)
def test_a_picture_is_taken_of_the_report_of_a_run(
    make_run: Callable[..., Path], comparison: dict[str, object], tmp_path: Path
) -> None:
    pytest.importorskip("playwright")
    run, blank, found = make_run(steps=4), tmp_path / "blank.html", []
    (run / "comparison.json").write_text(json.dumps(comparison), "utf-8")
    blank.write_text("<!doctype html><title>nothing</title>", "utf-8")
    script = [sys.executable, str(ROOT / "tools" / "pictures.py")]

    for page in (write_report(run), blank):
        picture = tmp_path / "pictures" / f"{page.stem}.png"
        subprocess.run([*script, str(page), str(picture)], check=True)
        found.append(picture)

    assert {size_of(picture) for picture in found} == {size_of(SHOWN)}
    report, nothing = (picture.stat().st_size for picture in found)
    assert report > 10 * nothing


def test_the_picture_of_the_readme_is_small() -> None:
    assert SHOWN.stat().st_size < 300_000
