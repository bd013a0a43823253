"""Take the pictures of the docs: pages of a small real run, in Debian's Chromium.

    uv run python examples/quickstart.py --model tiny --out runs/quickstart
    uv run python tools/pictures.py runs/quickstart [--only report] [--out docs/pictures]

Each is the top, or one part, of a page: light, cropped, 64 colours, at most 150 KB.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from PIL import Image
from shown_pages import browser, shown

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[1]
LARGEST_KB: Final = 150


class Picture(NamedTuple):
    """One picture: the kind of page, the part of it, and its size."""

    kind: str
    part: str = "body"
    """A selector; the picture begins at its first match."""
    height: int = 720
    """CSS pixels at most; a picture has twice as many."""
    width: int = 1000


PICTURES: Final = {
    "report": Picture("training", width=1100, height=830),
    "answers": Picture("training", part=".same-questions"),
    "stats": Picture("statistics"),
    "evaluation": Picture("evaluation", width=1240, height=800),
    "label": Picture("label"),
}


def take(picture: Picture, page: Page, address: str) -> bytes:
    """Return the picture as PNG.

    Raises:
        LookupError: the page has no such part.
    """
    page.goto(address, wait_until="networkidle")
    box = page.locator(picture.part).first.bounding_box()
    if box is None:
        raise LookupError(
            f"{picture.kind}: nothing to see at {picture.part!r}; name another part"
        )
    height = min(picture.height, box["height"])
    clip = {"x": 0, "y": box["y"], "width": picture.width, "height": height}
    return smaller(page.screenshot(clip=clip, full_page=True))


def smaller(png: bytes) -> bytes:
    """Return the picture with 64 colours, which pages of text and flat colours do not miss."""
    packed = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(64).save(
        packed, "PNG", optimize=True
    )
    return packed.getvalue()


def main() -> None:
    """Take all pictures, or one."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument(
        "run", type=Path, help="folder that examples/quickstart.py wrote"
    )
    asked.add_argument("--only", choices=PICTURES, help="this picture alone")
    asked.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    given = asked.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for name, picture in PICTURES.items():
            if given.only in {None, name}:
                size = {"width": picture.width, "height": picture.height}
                page = chromium.new_page(
                    viewport=size, color_scheme="light", device_scale_factor=2
                )
                with shown(picture.kind, given.run) as address:
                    png = take(picture, page, address)
                page.close()
                if len(png) > LARGEST_KB * 1000:
                    raise SystemExit(
                        f"{name}: {len(png)} bytes, over {LARGEST_KB} KB; crop it"
                    )
                (given.out / f"{name}.png").write_bytes(png)
                print(f"{name}.png: {len(png) // 1000} KB")


if __name__ == "__main__":
    main()
