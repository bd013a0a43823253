"""The viewer in a real Chromium: filters, addresses, keyboard, CSV, and only rows in sight."""

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from rubric_core import Criterion, Evidence, Grounding, Outcome, Rubric, Task
from rubric_core.reward.projection import shares_by_id
from rubric_judge.quality.view.joining import Sample, Samples, joined
from rubric_judge.quality.view.page import write_page
from rubric_judge.quality.view.samples import Judged, Source, Verdict
from rubric_judge.ui.page.links import link_to

HOSTILE = "</script><script>document.title = 'run'</script><img src=x onerror=alert(1)>"
TASK = Task(
    question="What is it?",
    grounding=Grounding("The PASSAGE."),
    rubric=Rubric(
        criteria=(
            Criterion(id="names", weight=3.0, description="Says what it is."),
            Criterion(id="cost", weight=1.0, description="Says the cost."),
        )
    ),
)
TASKS = {TASK.task_id: TASK}


def row(answer: str, judge: str, names: float, cost: float) -> Judged:
    verdict = Verdict(
        outcome=Outcome.SCORED,
        reward=0.75 * names + 0.25 * cost,
        z={"names": names, "cost": cost},
        reasoning=f"Reasons of {judge}.",
        evidence={"names": Evidence(quote="it is a sum", found_in=None)},
    )
    return Judged(
        TASK.task_id,
        TASK.question,
        answer,
        judge,
        verdict,
        shares_by_id(TASK.rubric),
        "",
    )


def samples_of(count: int) -> tuple[Source, Samples]:
    """Judgements of two judges, who differ on `names` in every tenth answer."""
    rows: list[Judged] = []
    for number in range(count):
        answer = HOSTILE if number == 1 else f"=answer {number}"
        z = float(number % 2)
        rows.append(row(answer, "one", z, number / count))
        rows.append(row(answer, "two", 1 - z if number % 10 == 0 else z, 1.0))
    source = Source("study", rows, TASKS)
    return source, joined([source])


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open the page of so many samples; at the end it has complained of nothing."""
    complaints: list[str] = []

    def go(
        count: int = 40,
        *,
        at: str = "",
        people: Mapping[str, Mapping[str, float]] | None = None,
        width: int = 1280,
    ) -> Page:
        source, samples = samples_of(count)
        if people:
            first, *others = samples.rows
            labelled = [Sample(first.name, first.judged, people), *others]
            samples = Samples(samples.columns, labelled, samples.notes)
        path = tmp_path / f"{count}.html"
        write_page(samples, [source], path, title="study")
        page = browser.new_page(
            viewport={"width": width, "height": 900}, accept_downloads=True
        )
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda one: (
                None
                if one.url.startswith(("file:", "blob:"))
                else complaints.append(one.url)
            ),
        )
        page.goto(path.as_uri() + at)
        return page

    yield go
    assert complaints == []


def texts(page: Page, where: str) -> list[str]:
    return page.locator(where).all_inner_texts()


def test_only_rows_in_sight_are_in_the_document(visit: Callable[..., Page]) -> None:
    few = visit(200)
    many = visit(10_000)

    assert few.locator("#count").inner_text() == "200 samples"
    assert many.locator("#count").inner_text() == "10,000 samples"
    counts = [page.locator("*").count() for page in (few, many)]
    assert counts[0] == counts[1]
    many.locator("#list").press("End")
    assert (
        many.locator(".item[aria-selected=true] .text").inner_text() == "=answer 9999"
    )
    assert many.locator(".item").count() < 40


def test_an_answer_is_shown_and_never_run(visit: Callable[..., Page]) -> None:
    page = visit()

    page.locator("#list").press("ArrowDown")

    assert page.locator("#detail .response").inner_text() == HOSTILE
    assert page.title() == "study · judgements"
    assert page.locator("img").count() == 0


def test_filters_and_addresses_choose_samples(visit: Callable[..., Page]) -> None:
    page = visit()

    page.locator("#criterion").select_option("names")
    page.locator("#differ").select_option("judges")
    assert page.locator("#count").inner_text() == "4 of 40 samples"
    page.locator("#outcome").select_option("part")
    assert page.locator("#count").inner_text() == "0 of 40 samples"
    assert page.locator("#detail").inner_text() == "No sample matches."
    page.locator("#clear").click()
    page.locator("#search").fill("ANSWER 17")
    assert texts(page, ".item .text") == ["=answer 17"]
    page.locator("#search").fill("")
    page.locator("#criterion").select_option("cost")
    page.locator("#sort").select_option("score-up")
    assert texts(page, ".item .text")[0] == "=answer 0"
    page.locator("#sort").select_option("score-down")
    assert texts(page, ".item .text")[0] == "=answer 39"


def test_an_address_of_a_sample_or_of_a_criterion_opens_there(
    visit: Callable[..., Page],
) -> None:
    page = visit(at=link_to("", criterion="names", differ="judges", sort="gap"))
    assert page.locator("#count").inner_text() == "4 of 40 samples"
    assert texts(page, ".focus th") == ["names"]
    page.locator("#list").press("ArrowDown")
    address = page.evaluate("location.hash")

    again = visit(at=address)

    assert again.locator(".response").inner_text() == "=answer 10"
    assert again.locator("#count").inner_text() == "4 of 40 samples"
    unknown = visit(at="#0123456789")
    assert "0123456789 is not on this page" in unknown.locator("#count").inner_text()


def test_a_row_of_the_table_leads_to_its_samples(visit: Callable[..., Page]) -> None:
    page = visit()

    page.locator("#criteria a", has_text="names").click()

    assert page.locator("#criterion").input_value() == "names"


def test_people_stand_beside_the_judges(visit: Callable[..., Page]) -> None:
    tie = {"names": {"Anna": 0.0, "Ben": 1.0}, "cost": {"Anna": 1.0}}
    page = visit(people=tie)

    page.locator("#differ").select_option("people")
    page.locator("#criterion").select_option("names")
    # Raters who are divided have not decided.
    assert page.locator("#count").inner_text() == "0 of 40 samples"
    page.locator("#differ").select_option("raters")
    assert page.locator("#count").inner_text() == "1 of 40 samples"
    page.locator("#criterion").select_option("cost")
    page.locator("#differ").select_option("strict")
    assert page.locator("#count").inner_text() == "1 of 40 samples"
    table = page.locator(".verdicts").inner_text()
    assert "Anna 0 %, Ben 100 %" in table
    assert "it is a sum found in neither text" in table


def test_scores_of_the_list_are_named_in_their_order(
    visit: Callable[..., Page],
) -> None:
    page = visit(people={"names": {"Anna": 1.0}})

    said = page.locator(".legend-of-scores").inner_text()
    assert said.startswith("Scores in the list, from the top: one, two, people;")
    assert len(texts(page, ".item:first-child .scores b")) == 3


def test_the_page_can_be_used_by_keyboard(visit: Callable[..., Page]) -> None:
    page = visit(width=390)
    order: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = "document.activeElement.id || document.activeElement.textContent"
        order.append(page.evaluate(focused))
        if order[-1] == "Next":
            break

    wanted = [
        "Skip to the samples",
        "criterion",
        "search",
        "csv",
        "list",
        "detail",
        "Next",
    ]
    places = [order.index(name) for name in wanted]
    assert places == sorted(places)
    page.keyboard.press("Enter")
    assert page.locator("#detail .response").inner_text() == HOSTILE
    assert page.evaluate("document.activeElement.textContent") == "Next"
    wide = "document.documentElement.scrollWidth - innerWidth"
    assert page.evaluate(wide) <= 0


def test_the_file_for_a_spreadsheet_computes_nothing(
    visit: Callable[..., Page],
) -> None:
    page = visit(20, people={"names": {"Anna": 1.0}})
    page.locator("#criterion").select_option("names")

    with page.expect_download() as waited:
        page.locator("#csv").click()

    content = Path(waited.value.path()).read_text("utf-8-sig")
    rows = list(csv.DictReader(content.splitlines()))
    assert len(rows) == 20
    assert rows[0]["answer"] == "'=answer 0"
    assert rows[1]["answer"] == HOSTILE
    assert (rows[0]["one: score"], rows[0]["two: score"]) == ("0", "1")
    assert (rows[0]["label: Anna"], rows[1]["label: Anna"]) == ("1", "")


def test_a_choice_that_is_not_on_the_page_is_said(visit: Callable[..., Page]) -> None:
    page = visit(at=link_to("", part="step 7", criterion="names"))

    said = page.locator("#count").inner_text()
    assert said == "Not on this page: step 7. 40 samples"
    assert page.evaluate("document.activeElement.id") == "list"
