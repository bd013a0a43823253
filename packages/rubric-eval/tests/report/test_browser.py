"""The page in a real Chromium: it renders, filters and asks nobody for anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rubric_eval.findings.reading import ReportSources
from rubric_eval.report.page import write_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

    from conftest import Folders

HARM = (
    "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"
    "<!--<svg onload=window.harmed=1> \u202egnp.exe \u2066x\u2069 \x1b[31m {{ 7 * 7 }} "
     "e" + "\u0301" * 500 + " 安全 عربي 👩‍🔬 "
)  # fmt: skip


class Visit:
    """A page opened in the browser, with what it complained of and asked for."""

    def __init__(self, browser: Browser, path: Path, **options: object) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def rows(self) -> int:
        return self.page.locator("#list .item").count()

    def width(self) -> int:
        return self.page.evaluate("document.documentElement.scrollWidth")


@pytest.fixture(scope="module")
def page(
    tmp_path_factory: pytest.TempPathFactory, folders_in: Callable[[Path], Folders]
) -> Path:
    made = folders_in(tmp_path_factory.mktemp("report"))
    heldout = made.heldout(judges=("gpt-oss-20b", "llama-70b"), seeds=(0, 1))
    folders = (heldout.root, made.transfer().root)
    return write_report(ReportSources(folders, training=made.training())).page


@pytest.mark.parametrize(
    "options",
    [
        {"viewport": {"width": 1280, "height": 900}},
        {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
        {"viewport": {"width": 390, "height": 844}},
        {"viewport": {"width": 390, "height": 844}, "java_script_enabled": False},
    ],
    ids=["light", "dark", "phone", "no script"],
)
def test_a_page_renders_in_its_width_without_an_error_or_a_request(
    browser: Browser, page: Path, options: dict[str, Any]
) -> None:
    visit = Visit(browser, page, **options)

    assert visit.page.locator("#heldout .dots tbody tr:not(.group)").count() == 6
    assert visit.page.locator("#transfer .paper tbody tr").count() == 3
    assert visit.page.locator("#training svg .curve:not(.smooth)").count() == 4
    assert visit.complaints == []
    assert visit.requests == [page.as_uri()]
    if options.get("java_script_enabled", True):
        assert visit.width() == options["viewport"]["width"]


def test_dark_and_light_differ(browser: Browser, page: Path) -> None:
    colours = {
        scheme: Visit(browser, page, color_scheme=scheme).page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for scheme in ("light", "dark")
    }

    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 22)"}


def test_filters_and_search_narrow_the_list(browser: Browser, page: Path) -> None:
    visit = Visit(browser, page)
    every = visit.rows()
    visit.page.select_option("#show", "left")
    worse = visit.rows()
    visit.page.select_option("#show", "right")
    better = visit.rows()
    visit.page.select_option("#show", "all")
    visit.page.select_option("#field", "linear algebra")
    field = visit.rows()
    visit.page.select_option("#field", "")
    visit.page.fill("#search", "`SVD`")
    searched = visit.rows()
    visit.page.fill("#search", "no such text")

    assert every == 40
    assert (worse, better) == (0, 40)  # the models are that far apart
    assert field == 13
    assert searched == 5
    assert visit.rows() == 0
    assert visit.page.locator("#detail").inner_text() == "No question matches."
    assert visit.complaints == []


def test_both_answers_stand_side_by_side_with_their_scores(
    browser: Browser, page: Path
) -> None:
    visit = Visit(browser, page)
    sides = visit.page.locator("#detail .side")

    assert [sides.nth(i).locator(".who").inner_text() for i in (0, 1)] == [
        "base",
        "grpo",
    ]
    boxes = [sides.nth(i).bounding_box() for i in (0, 1)]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    assert visit.page.locator("#detail .criteria tbody tr").count() == 6
    gaps = visit.page.locator("#list .gap").all_inner_texts()
    assert gaps == sorted(gaps, key=lambda text: -float(text))


def test_keys_steps_and_another_set_of_questions_work(
    browser: Browser, page: Path
) -> None:
    visit = Visit(browser, page)
    first = visit.page.locator("#detail .asked").inner_text()
    visit.page.focus("#list")
    visit.page.keyboard.press("ArrowDown")
    second = visit.page.locator("#detail .asked").inner_text()
    visit.page.locator(".stepper button[aria-label='Answer after']").first.click()
    stepped = visit.page.locator(".stepper span").first.inner_text()
    visit.page.select_option("#set", label="GSM8K")

    assert first != second
    assert stepped == "answer 2 of 4, seed 0, sample 1"
    assert visit.page.locator("#detail .side .score").all_inner_texts() != []
    assert set(visit.page.locator("#detail .side .score").all_inner_texts()) <= {
        "right",
        "wrong",
    }
    assert visit.page.locator("#judge-label").is_hidden()
    assert visit.complaints == []


def test_a_wrong_item_is_shown_with_what_was_asked_what_is_right_and_what_was_read(
    browser: Browser, page: Path
) -> None:
    visit = Visit(browser, page)
    visit.page.select_option("#set", label="GSM8K")
    visit.page.fill("#search", "What are 7 and 7 together?")
    caption = visit.page.locator("#caption").inner_text()
    detail = visit.page.locator("#detail")

    assert visit.rows() == 1
    assert detail.locator(".asked").inner_text() == "What are 7 and 7 together?"
    assert detail.locator(".target").inner_text() == "Right answer: 14"
    assert "read as “12”" in detail.locator(".about").first.inner_text()
    visit.page.select_option("#set", label="GPQA Main")
    assert "do not publish" in visit.page.locator("#caption").inner_text()
    assert "do not publish" not in caption
    assert visit.complaints == []


def test_a_model_without_another_is_shown_once(
    browser: Browser, folders: Folders
) -> None:
    heldout = folders.heldout(questions=8, models=("base",))
    visit = Visit(browser, write_report(ReportSources((heldout.root,))).page)
    heads = visit.page.locator("#detail .criteria thead th").all_inner_texts()

    assert visit.page.locator("#answers h2").inner_text() == "Answers"
    assert visit.page.locator("#detail .side").count() == 1
    assert heads == ["Criterion, share earned", "base"]
    assert visit.page.locator("#list .gap").count() == 0
    assert visit.page.locator("#right").is_hidden()
    assert visit.complaints == []


def test_the_heat_map_follows_its_judge_and_its_filter(
    browser: Browser, page: Path
) -> None:
    visit = Visit(browser, page)
    shown = "#criteria .heat-map:visible tbody tr:visible"
    visit.page.select_option("#heat-judge", "llama-70b")
    judged = visit.page.locator("#criteria .heat-map:visible .caption").inner_text()
    rows = visit.page.locator(shown).count()
    visit.page.fill("#heat-filter", "parameters")

    assert "judged by llama-70b" in judged
    assert rows == 6
    assert visit.page.locator(shown).count() == 2


def test_hostile_texts_are_shown_and_do_nothing(
    browser: Browser, folders: Folders
) -> None:
    heldout = folders.heldout(questions=24, answer=HARM, question=HARM, field=HARM)
    scores = heldout.scores("gpt-oss-20b", "grpo", 0)
    text = scores.read_text("utf-8").replace("caveat", json.dumps(HARM)[1:-1])
    scores.write_text(text, encoding="utf-8")
    run = json.loads(heldout.run.read_bytes())
    run["questions"]["heldout"]["source"] = run["models"][0]["spec"] = HARM
    run["models"][0]["identity"] = run["judges"][0]["identity"] = run["versions"] = {
        HARM: HARM
    }
    heldout.run.write_text(json.dumps(run), encoding="utf-8")
    transfer = folders.transfer(questions=8, answer=HARM, question=HARM)
    sources = ReportSources((heldout.root, transfer.root), accepts_edited=True)
    visit = Visit(
        browser, write_report(sources).page, viewport={"width": 390, "height": 844}
    )

    assert visit.page.evaluate("window.harmed") is None
    assert visit.page.locator("img, main script, svg[onload]").count() == 0
    assert "[U+202E]gnp.exe" in visit.page.locator("#criteria tbody").inner_text()
    assert "[U+202E]gnp.exe" in visit.page.locator("#field").inner_text()
    assert "Made of edited files." in visit.page.locator(".edited").inner_text()
    text = visit.page.locator("#detail .response").first.inner_text()
    assert text.startswith("</script><script>window.harmed = 1</script>")
    assert "[U+202E]gnp.exe" in text
    assert "{{ 7 * 7 }}" in text
    assert "安全 عربي" in text
    assert "\u0301" * 4 not in text
    visit.page.select_option("#set", label="MATH")
    for place in (".asked", ".target", ".about"):
        assert (
            "[U+202E]gnp.exe"
            in visit.page.locator(f"#detail {place}").first.inner_text()
        )
    assert visit.page.evaluate("window.harmed") is None
    assert visit.complaints == []
    assert len(visit.requests) == 1
    assert visit.width() == 390


def test_long_answers_are_cut_and_say_where_the_rest_is(
    browser: Browser, folders: Folders
) -> None:
    heldout = folders.heldout(questions=4, samples=1, answer="x" * 1_000_000)
    path = write_report(ReportSources((heldout.root,))).page
    visit = Visit(browser, path, viewport={"width": 390, "height": 844})

    assert path.stat().st_size < 400_000
    text = visit.page.locator("#detail .response").first.inner_text()
    assert text.endswith("[…988,000 more characters in answers/base/seed_0.jsonl]")
    assert visit.width() == 390


def test_a_printed_page_holds_the_tables_and_no_controls(
    browser: Browser, page: Path
) -> None:
    visit = Visit(browser, page)
    visit.page.emulate_media(media="print")

    assert visit.page.locator("#heldout .dots").is_visible()
    assert visit.page.locator("#detail .side").count() == 2
    assert not visit.page.locator("#controls").is_visible()
    assert not visit.page.locator("#list").is_visible()
    assert visit.page.pdf(format="A4", page_ranges="1")[:5] == b"%PDF-"


def test_every_row_of_every_table_leads_to_its_answers(
    browser: Browser, page: Path, wait_until: Callable[[Page, str], None]
) -> None:
    visit = Visit(browser, page)
    links = visit.page.locator("main a[href^='#set=']")
    places = {
        section: visit.page.locator(f"#{section} a[href^='#set=']").count()
        for section in ("heldout", "transfer", "differences", "hacking", "criteria")
    }
    addresses = [*dict.fromkeys(links.evaluate_all("all => all.map((a) => a.hash)"))]

    assert all(places.values()), places
    for address in addresses:
        visit.page.evaluate("(address) => { location.hash = address }", address)
        wait_until(visit.page, "document.activeElement.id === 'list' && scrollY > 0")
        visit.page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
        count = visit.page.locator("#count").inner_text()
        assert "Not on this page" not in count, address
        assert not count.startswith("0 of"), address
    assert visit.complaints == []


def test_a_cell_of_a_criterion_leads_to_that_model_and_criterion(
    browser: Browser, page: Path, wait_until: Callable[[Page, str], None]
) -> None:
    visit = Visit(browser, page)

    row = visit.page.locator("#criteria .heat-map:not([hidden]) tbody tr").first
    name = row.locator("th").inner_text()
    row.locator("td a").nth(1).press("Enter")

    wait_until(visit.page, "document.activeElement.id === 'list'")
    assert visit.page.locator("#criterion").input_value() == name
    left, right = (
        visit.page.locator(side).input_value() for side in ("#left", "#right")
    )
    assert left == right != ""
    shown = visit.page.locator("#list .scores span").first.inner_text()
    row_of_name = visit.page.locator("#detail .criteria tr", has_text=name)
    assert shown.endswith(" %")
    assert row_of_name.locator(".z").inner_text().endswith(" %")
    visit.page.select_option("#sort", "low")
    address = visit.page.evaluate("location.hash")
    again = Visit(browser, page)
    again.page.goto(page.as_uri() + address)
    assert again.page.locator("#criterion").input_value() == name
    assert again.page.locator("#sort").input_value() == "low"


def test_what_an_address_names_and_the_page_lacks_is_said(
    browser: Browser, page: Path, wait_until: Callable[[Page, str], None]
) -> None:
    visit = Visit(browser, page)

    visit.page.evaluate("location.hash = '#set=heldout&right=nobody'")

    wait_until(
        visit.page,
        "document.querySelector('#count').textContent === "
        "'Not on this page: nobody. 40 of 40 questions'",
    )


def test_answers_of_controls_are_on_the_revealed_page_alone(
    browser: Browser,
    tmp_path: Path,
    folders_in: Callable[[Path], Folders],
    wait_until: Callable[[Page, str], None],
) -> None:
    made = folders_in(tmp_path)
    heldout = made.heldout(models=("base", "grpo", "control_shuffled"))

    def links(*, revealed: bool) -> int:
        sources = ReportSources((heldout.root,), is_revealed=revealed)
        visit = Visit(browser, write_report(sources).page)
        control = visit.page.get_by_role("link", name="control_shuffled")
        if revealed:
            control.first.click()
            wait_until(
                visit.page,
                "document.querySelector('#right').value === 'control_shuffled'",
            )
            assert visit.page.locator("#detail .response").count() == 1
        else:
            assert "control_shuffled" not in visit.page.locator("#data").text_content()
        return control.count()

    assert links(revealed=False) == 0
    assert links(revealed=True) > 0
