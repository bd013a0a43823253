"""Take a picture of a report for the pages, in this machine's Chromium.

uv run python tools/pictures.py runs/q/report.html docs/pictures/report.png
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = Path("/usr/bin/chromium")


def take(page: Path, picture: Path, *, width: int, height: int) -> None:
    """Write a PNG of the top of a page, so many CSS pixels wide and high, in its light colours."""
    # A container's root has no sandbox to start one in.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        shown = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="light",
            device_scale_factor=1.5,
        )
        shown.goto(page.resolve().as_uri())
        picture.parent.mkdir(parents=True, exist_ok=True)
        shown.screenshot(path=str(picture))
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path, help="a report of a run or of an evaluation")
    parser.add_argument("picture", type=Path, help="the PNG to write")
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--height", type=int, default=560)
    chosen = parser.parse_args()
    take(chosen.page, chosen.picture, width=chosen.width, height=chosen.height)
