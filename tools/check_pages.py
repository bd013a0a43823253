"""Open pages in Debian's Chromium and say what is wrong with them.

    uv run python tools/check_pages.py site/index.html site/judge [--run runs/quickstart]

Of pages, or of all pages in folders such as the built site, and with `--run` of every kind of page
that a command writes: no message on the console, no request to elsewhere, nothing wider than the
window, text with the contrast of WCAG AA, everything that can be clicked within reach of the
keyboard, painted within a second. Each page is opened wide and narrow, light and dark.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from shown_pages import PAGES, browser, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FIRST_PAINT_MS: Final = 1000
TRIES: Final = 3
"""A page is slow where all of so many loads are: other work may have the processor."""
WINDOWS: Final[Sequence[dict[str, Any]]] = (
    {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
    {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
)
FIRST_PAINT: Final = """
new Promise((done) => new PerformanceObserver((list) => {
  for (const paint of list.getEntriesByName("first-contentful-paint")) done(paint.startTime)
}).observe({ type: "paint", buffered: true }))
"""
CHECKS: Final = (Path(__file__).parent / "check_pages.js").read_text("utf-8")


def faults(chromium: Browser, address: str, **window: Any) -> list[str]:
    """Return what is wrong with a page in a window."""
    page = chromium.new_page(**window)
    found: list[str] = []
    page.on("console", lambda message: found.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: found.append(f"error: {error}"))
    page.on("request", lambda request: found.extend(_elsewhere(request.url, address)))
    page.goto(address, wait_until="networkidle")
    if (paint_ms := _first_paint_ms(page)) > FIRST_PAINT_MS:
        found.append(f"first paint after {paint_ms:.0f} ms, more than {FIRST_PAINT_MS}")
    found += page.evaluate(CHECKS)
    found += _unreached(page)
    page.close()
    return [*dict.fromkeys(found)]


def _elsewhere(url: str, address: str) -> Iterator[str]:
    asked, own = urlsplit(url), urlsplit(address)
    if (asked.scheme, asked.netloc) != (
        own.scheme,
        own.netloc,
    ) and asked.scheme not in {
        "data",
        "blob",
        "about",
    }:
        yield f"request to elsewhere: {url}"


def _first_paint_ms(page: Page) -> float:
    paints: list[float] = []
    for _ in range(TRIES):
        paints.append(page.evaluate(FIRST_PAINT))
        if paints[-1] <= FIRST_PAINT_MS:
            break
        page.reload(wait_until="networkidle")
    return min(paints)


def _unreached(page: Page) -> Iterator[str]:
    """Press Tab from the top of the page: the focus must move, and must be seen."""
    page.evaluate("document.activeElement.blur()")
    seen: list[str] = []
    for _ in range(3):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("focused()"))
    if len({*seen}) == 1:
        yield f"keyboard: Tab does not move the focus from {seen[0]!r}"


def main() -> None:
    """Check the pages, and end with 1 where something is wrong."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("paths", type=Path, nargs="*", help="pages, or folders of them")
    asked.add_argument(
        "--run", type=Path, help="folder that examples/quickstart.py wrote"
    )
    given = asked.parse_args()
    pages = [page for path in given.paths for page in _pages(path)]
    wrong = 0
    with browser() as chromium:
        for page in pages:
            wrong += _said(chromium, page.name, page.resolve().as_uri())
        for kind in (*PAGES, "label") if given.run else ():
            with shown(kind, given.run) as address:
                wrong += _said(chromium, kind, address)
    print(f"{wrong} faults" if wrong else "no fault")
    raise SystemExit(1 if wrong else 0)


def _pages(path: Path) -> list[Path]:
    # What a server shows for a page that is not there has addresses from the server's root.
    found = sorted(one for one in path.rglob("*.html") if one.name != "404.html")
    return found if path.is_dir() else [path]


def _said(chromium: Browser, name: str, address: str) -> int:
    found = [
        f"{name}, {window['viewport']['width']} px, {window['color_scheme']}: {fault}"
        for window in WINDOWS
        for fault in faults(chromium, address, **window)
    ]
    print("\n".join(found) or f"{name}: well", flush=True)
    return len(found)


if __name__ == "__main__":
    main()
