"""The page of a dataset's statistics in a real Chromium: every bar leads to what it counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from rubric_synth import SynthReport, dataset_statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from rubric_synth.document import DocumentOutcome

OF_TASKS = {
    "kind", "criteria_per_task", "criteria", "genres", "depths", "reasoning_modes",
    "concepts", "question_words", "passage_words", "total_weight", "effective_criteria",
    "keywords_in_passage", "elements_in_reference",
}  # fmt: skip
"""Fields that count tasks; others count criteria."""


@pytest.fixture
def page(
    browser: Browser,
    tmp_path: Path,
    outcomes: list[DocumentOutcome],
    write: Callable[..., SynthReport],
) -> Iterator[Page]:
    # In a thread of its own: in this one the browser's event loop runs.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(write, outcomes).result()
        thread.submit(dataset_statistics, tmp_path / "data").result()
    complaints: list[str] = []
    shown = browser.new_page(viewport={"width": 1280, "height": 900})
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.goto((tmp_path / "data" / "stats.html").as_uri())
    yield shown
    assert complaints == []


def test_every_bar_leads_to_as_many_tasks_as_it_counts(
    page: Page, wait_until: Callable[[Page, str], None]
) -> None:
    bars = page.locator(".bars tr:has(a[href*='='])").evaluate_all(
        "rows => rows.map((row) => [row.querySelector('a').hash, "
        "row.querySelector('.value').textContent])"
    )
    bins = page.locator(".drawing.wide svg a").evaluate_all(
        "all => all.map((a) => [a.getAttribute('href'), "
        "a.getAttribute('aria-label').split(': ').pop().split(' ')[0]])"
    )
    fields: set[str] = set()

    for address, count in [*bars, *bins]:
        page.evaluate("(address) => { location.hash = address }", address)
        field = address[1:].partition("=")[0]
        section = "#rejected" if field == "stage" else "#tasks"
        wait_until(page, f"'#' + document.activeElement.id === '{section}'")
        page.evaluate("document.activeElement.blur()")
        said = page.locator(f"{section} .count span").inner_text()
        number = int(said.partition(" ")[0])
        assert number > 0, address
        if field in OF_TASKS:
            assert number == int(count), (address, said)
            fields.add(field)

    assert fields > {"kind", "criteria_per_task", "criteria", "question_words"}


def test_a_bar_of_a_histogram_is_reached_by_keyboard_and_left_by_show_all(
    page: Page, wait_until: Callable[[Page, str], None]
) -> None:
    bars = page.locator(".drawing.wide").filter(has=page.locator("a")).first
    stops = bars.locator("a").evaluate_all("all => all.map((a) => a.tabIndex)")
    assert stops == [0] + [-1] * (len(stops) - 1)

    bars.locator("a").first.press("Enter")

    wait_until(page, "document.activeElement.id === 'tasks'")
    said = page.locator("#tasks .count span").inner_text()
    assert "shown: effective criteria" in said
    if (button := page.locator("#tasks .count button")).is_visible():
        button.click()
    every = page.locator("#tasks details.example").count()
    wait_until(
        page,
        f"document.querySelector('#tasks .count span').textContent.startsWith('{every} of')",
    )


def test_a_control_leads_to_the_answers_that_it_is_the_mean_of(
    page: Page, wait_until: Callable[[Page, str], None]
) -> None:
    names = page.locator("a[href^='#control=']").all_inner_texts()
    assert {"reference", "shuffled", "empty"} <= set(names)
    assert "passage start" not in names

    page.locator("a[href='#control=shuffled']").click()

    wait_until(page, "document.activeElement.id === 'tasks'")
    said = page.locator("#tasks .count span").inner_text()
    assert said == "10 of 10 shown: control shuffled"
    chosen = page.locator("#tasks details.example[open] .chosen")
    assert chosen.locator("h4").inner_text().startswith("shuffled: ")
    assert chosen.locator("h4").is_visible()
    assert len(chosen.locator(".answer").inner_text().split()) > 3


def test_calls_lead_to_what_their_stage_left_out(
    page: Page, wait_until: Callable[[Page, str], None]
) -> None:
    calls = page.locator("section", has=page.get_by_text("Calls of models")).last
    links = calls.locator("tbody a").evaluate_all("all => all.map((a) => a.hash)")
    assert len(links) == calls.locator("tbody tr").count() > 1

    for address in links:
        page.evaluate("(address) => { location.hash = address }", address)
        section = "rejected" if "stage=" in address else "tasks"
        inside = f"document.querySelector('#{section}').getBoundingClientRect().top"
        wait_until(page, f"{inside} < innerHeight")
