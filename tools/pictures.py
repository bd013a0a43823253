"""Take the pictures of the docs: pages of a small real run, in Debian's Chromium.

    uv run python examples/quickstart.py --model tiny --out runs/pictures
    uv run python tools/pictures.py runs/pictures [--only report] [--out docs/pictures]

Each picture is the top, or one part, of a page that a command writes: light, cropped, 64 colours,
at most 150 KB.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from PIL import Image
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = Path("/usr/bin/chromium")
LARGEST_KB: Final = 150
JUDGE: Final = "type: lexical\n"


class Picture(NamedTuple):
    """One picture: the page, the part of it, and its size."""

    page: Callable[[Path, Path], Path]
    """Makes the page, from the folder of the run and an empty one."""
    part: str = "body"
    """A selector; the picture begins at its first match."""
    width: int = 1000
    height: int = 720
    """CSS pixels at most; a picture has twice as many."""


def training_report(run: Path, folder: Path) -> Path:
    """The report of the run itself."""
    copy = shutil.copytree(run, folder / "quickstart", symlinks=True)
    settings = copy / "config.resolved.yaml"  # no path of the machine is in the picture
    settings.write_text(settings.read_text("utf-8").replace(f"{run.parent}/", "runs/"), "utf-8")
    _command("rubric-train", "report", copy)
    return copy / "report.html"


def statistics(run: Path, folder: Path) -> Path:
    """What the dataset looks like."""
    copy = shutil.copytree(run / "tasks", folder / "tasks")
    _command("rubric-synth", "stats", copy)
    return copy / "stats.html"


def evaluation(run: Path, folder: Path) -> Path:
    """Three models on test questions, compared."""
    judge = _judge(folder)
    models = [f"{name}=policy:{run / at}" for name, at in STAGES.items() if (run / at).exists()]
    asked = ["--tasks", run / "tasks/test.jsonl", "--limit", "40", "--max-tokens", "96"]
    _command("rubric-eval", "heldout", *models, *asked, "--judge", judge, "--out", folder / "e")
    _command("rubric-eval", "report", folder / "e")
    return folder / "e" / "report.html"


STAGES: Final = {"base": "base", "sft": "sft", "grpo": "checkpoints/best"}
PICTURES: Final = {
    "report": Picture(training_report, height=800),
    "answers": Picture(training_report, part=".same-questions"),
    "stats": Picture(statistics),
    "evaluation": Picture(evaluation),
}


@contextmanager
def browser() -> Generator[Browser]:
    """Start Chromium; a container's root has no sandbox to start one in."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield found
        found.close()


def take(picture: Picture, page: Page, address: str) -> bytes:
    """Return the picture as PNG."""
    page.goto(address)
    box = page.locator(picture.part).first.bounding_box()
    if box is None:
        raise SystemExit(f"{address}: nothing to see at {picture.part!r}")
    height = min(picture.height, box["height"])
    clip = {"x": 0, "y": box["y"], "width": picture.width, "height": height}
    return smaller(page.screenshot(clip=clip, full_page=True))


def smaller(png: bytes) -> bytes:
    """Return the picture with 64 colours, which pages of text and flat colours do not miss."""
    packed = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(64).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def _judge(folder: Path) -> Path:
    path = folder / "judge.yaml"
    path.write_text(JUDGE, encoding="utf-8")
    return path


def _command(name: str, *arguments: str | Path) -> None:
    program = Path(sys.executable).with_name(name)
    subprocess.run([program, *arguments], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Take all pictures, or one."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("run", type=Path, help="folder that examples/quickstart.py wrote")
    asked.add_argument("--only", choices=PICTURES, help="this picture alone")
    asked.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    given = asked.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for name, picture in PICTURES.items():
            if given.only in {None, name}:
                with tempfile.TemporaryDirectory() as folder:
                    shown = picture.page(given.run.resolve(), Path(folder))
                    size = {"width": picture.width, "height": picture.height}
                    page = chromium.new_page(
                        viewport=size, color_scheme="light", device_scale_factor=2
                    )
                    png = take(picture, page, shown.as_uri())
                    page.close()
                if len(png) > LARGEST_KB * 1000:
                    raise SystemExit(f"{name}: {len(png)} bytes, more than {LARGEST_KB} KB")
                (given.out / f"{name}.png").write_bytes(png)
                print(f"{name}.png: {len(png) // 1000} KB")


if __name__ == "__main__":
    main()
