"""The page of a run in a real Chromium: links, search and filters find their responses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.report.page import write_report
from rubric_train_openrlhf.report.several import write_runs_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page; at the end it has complained of nothing and asked nobody for anything."""
    complaints: list[str] = []

    def go(path: Path, *, at: str = "", width: int = 1280) -> Page:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda one: (
                None if one.url.startswith("file:") else complaints.append(one.url)
            ),
        )
        page.goto(path.as_uri() + at)
        return page

    yield go
    assert complaints == []


@pytest.fixture
def run(make_run: Callable[..., Path], comparison: dict[str, Any]) -> Path:
    """A run of 24 steps with a comparison, three answers to one question among it."""
    run = make_run(steps=24, prompts=2, group=3)
    texts = {name: f"What {name} says. " * 12 for name in ("base", "sft", "grpo")}
    comparison["answers"] = [{"question": "What does it return?", "answers": texts}]
    (run / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")
    return run


def _edit(run: Path, step: int, number: int, **fields: object) -> None:
    path = run / "rollouts" / f"step_{step:06d}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **fields})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_link_lands_on_its_response_and_one_of_another_page_says_so(
    run: Path, visit: Callable[..., Page], wait_until: Callable[[Page, str], None]
) -> None:
    path = write_report(run)
    page = visit(path, at="#s000001-p001-g02")
    selected = page.locator("#list [aria-selected=true]")
    assert selected.get_attribute("id") == "item-s000001-p001-g02"
    assert page.locator("#step option:checked").inner_text().startswith("1")
    assert page.locator("#rollouts").bounding_box()["y"] < 100
    page.fill("#search", "no such text")
    page.evaluate("location.hash = '#s000024-p000-g00'")
    wait_until(page, "document.querySelector('#list [aria-selected=true]') !== null")
    assert selected.get_attribute("id") == "item-s000024-p000-g00"
    assert page.locator("#search").input_value() == ""
    page.evaluate("location.hash = '#s000002-p000-g09'")
    wait_until(
        page, "document.querySelector('#count').textContent.includes('not on this')"
    )


def test_search_goes_through_all_steps_and_the_filter_knows_outcomes(
    run: Path, visit: Callable[..., Page]
) -> None:
    _edit(run, 1, 0, response="A needle in the first step.")
    _edit(run, 1, 1, reward=0.0, outcome="invalid")
    page = visit(write_report(run))
    assert page.locator("#count").inner_text() == "6 responses of step 24"
    page.fill("#search", "needle")
    assert page.locator("#count").inner_text() == "1 response of all steps shown here"
    assert "needle" in page.locator("#policy-view .response").inner_text()
    page.fill("#search", "")
    page.select_option("#step", label="1")
    page.select_option("#outcome", "invalid")
    ids = page.locator("#list .item").evaluate_all(
        "items => items.map((item) => item.id)"
    )
    assert "item-s000001-p000-g01" in ids
    page.locator("#tab-judge").click()
    assert "--reveal-grounding" in page.locator("#rollouts").inner_text()


@pytest.mark.parametrize(("width", "columns"), [(1280, 3), (390, 1)])
def test_answers_stand_in_columns_and_on_a_phone_below_each_other(
    run: Path, visit: Callable[..., Page], width: int, columns: int
) -> None:
    page = visit(write_report(run), width=width)
    boxes = page.locator(".answers > div").evaluate_all(
        "all => all.map((one) => Math.round(one.getBoundingClientRect().left))"
    )
    assert len(boxes) == 3
    assert len(set(boxes)) == columns
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_lines_are_smooth_until_somebody_wants_the_values(
    run: Path, visit: Callable[..., Page]
) -> None:
    page = visit(write_report(run))
    smooth = page.locator(".drawing.wide .smooth").first
    assert smooth.is_visible()
    page.locator("#smoothing input").uncheck()
    assert smooth.is_hidden()


def test_a_page_of_several_runs_fits_a_phone(
    make_run: Callable[..., Path], visit: Callable[..., Page]
) -> None:
    runs = [make_run(name=name, steps=22, prompts=1, group=2) for name in ("a", "b")]
    page = visit(write_runs_report(runs), width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator("figure:visible").count() == 7


def _click(page: Page, key: str, step: int, height: float) -> None:
    """Click on a chart at a step, at a share of the height between its foot and its top."""
    drawing = page.locator(f".drawing.wide[data-chart={key}]")
    drawing.scroll_into_view_if_needed()
    place = drawing.evaluate(
        """(node, [step, height]) => {
          const charts = JSON.parse(document.getElementById("chart-data").textContent);
          const chart = charts[node.dataset.chart];
          const svg = node.firstElementChild;
          const box = svg.getBoundingClientRect();
          const scale = box.width / svg.viewBox.baseVal.width;
          const across = (step - chart.low) / (chart.high - chart.low);
          const foot = box.bottom - chart.bottom * scale;
          return [
            box.left + chart.left * scale
              + across * (box.width - (chart.left + chart.right) * scale),
            foot - height * (foot - box.top - chart.top * scale),
          ];
        }""",
        [step, height],
    )
    page.mouse.click(*place)


def test_a_click_on_a_chart_leads_to_the_responses_that_it_counts(
    run: Path, visit: Callable[..., Page], wait_until: Callable[[Page, str], None]
) -> None:
    _edit(run, 24, 2, reward=0.0, outcome="invalid")
    _edit(run, 24, 1, ended=False)
    page = visit(write_report(run))
    count = page.locator("#count")

    _click(page, "reward", 1, 0.5)
    assert count.inner_text() == "6 responses of step 1"
    assert page.evaluate("location.hash") == "#step=1"
    assert page.locator("#rollouts").bounding_box()["y"] < 100
    _click(page, "truncated", 24, 0.5)
    assert count.inner_text() == "1 response of step 24"
    assert page.locator("#outcome").input_value() == "cut"
    # The lowest layer is of zeros that the judge gave, those above of replies out of contract.
    _click(page, "zero", 24, 0.0)
    assert page.locator("#outcome").input_value() == "zero"
    _click(page, "zero", 24, 1.0)
    assert page.locator("#outcome").input_value() == "invalid"
    assert "item-s000024-p000-g02" in page.locator("#list").inner_html()
    page.go_back()
    wait_until(page, "document.querySelector('#outcome').value === 'zero'")


def test_arrows_and_enter_lead_there_from_the_keyboard(
    run: Path, visit: Callable[..., Page], wait_until: Callable[[Page, str], None]
) -> None:
    page = visit(write_report(run))
    link = page.locator("a[data-for=criteria]")
    assert link.inner_text() == "Responses of step 24"

    link.press("ArrowLeft")
    assert link.inner_text() == "Responses of step 23, purpose_named"
    link.press("ArrowDown")
    assert link.inner_text() == "Responses of step 23, purpose_terms"
    assert page.locator(".drawing.wide[data-chart=criteria] .tip").is_visible()
    link.press("ArrowRight")
    link.press("Enter")

    wait_until(page, "document.activeElement.id === 'list'")
    assert page.locator("#criterion").input_value() == "purpose_terms"
    assert page.locator("#step option:checked").inner_text().startswith("24")


def test_a_step_that_is_not_on_the_page_is_named_beside_the_nearest(
    run: Path, visit: Callable[..., Page]
) -> None:
    page = visit(write_report(run), at="#step=4&outcome=all")

    assert page.locator("#count").inner_text() == (
        "Step 4 is not on this page, the nearest is 3: 6 responses of step 3"
    )


def test_rows_of_criteria_and_steps_lead_to_their_responses(
    run: Path, visit: Callable[..., Page], wait_until: Callable[[Page, str], None]
) -> None:
    page = visit(write_report(run))

    page.locator(".criteria.foldable").get_by_role("link", name="caveat").first.click()
    wait_until(page, "document.querySelector('#criterion').value === 'caveat'")
    page.select_option("#outcome", "part")
    page.locator("#tab-judge").click()
    z = page.locator("#judge-view tr:has(th:text-is('caveat')) .z").inner_text()
    assert 0 < float(z.removesuffix(" %")) < 100
    assert page.evaluate("location.hash").startswith("#criterion=caveat&outcome=part")
    page.locator("summary", has_text="Numbers by step").click()
    page.get_by_role("link", name="1", exact=True).click()
    wait_until(
        page, "document.querySelector('#count').textContent.includes('of step 1')"
    )


def test_charts_of_one_quantity_have_one_scale(
    run: Path, visit: Callable[..., Page]
) -> None:
    page = visit(write_report(run))

    def levels(key: str) -> list[str]:
        return page.locator(
            f".drawing.wide[data-chart={key}] text[text-anchor=end]"
        ).all_inner_texts()

    assert levels("reward") == levels("criteria") == levels("criteria-validation")
    assert levels("zero") == levels("failures") == levels("truncated")
    assert levels("clip") != levels("zero")


def test_a_page_of_several_runs_leads_to_the_responses_of_each(
    run: Path, visit: Callable[..., Page]
) -> None:
    write_report(run)
    page = visit(write_runs_report([run]))

    _click(page, "reward", 1, 0.5)

    page.wait_for_url("**/report.html#step=1")
    assert page.locator("#count").inner_text() == "6 responses of step 1"
