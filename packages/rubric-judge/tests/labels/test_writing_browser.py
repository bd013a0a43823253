"""The page of written answers in a real Chromium: typed into, killed under, given hostile texts."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge.quality.labels.likeness import longest_shared_run, words
from rubric_judge.quality.labels.rows import LabelSource
from rubric_judge.quality.labels.written import read_written

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed"
)
pytestmark = pytest.mark.slow

FILE = "written_answers.jsonl"
HARM = (
    "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"
    "<!--<svg onload=window.harmed=1> \u202egnp.exe {{ 7 * 7 }} **bold**"
)
LONG = "a length of 1.5 and don't_care marks größer"
Typed = dict[tuple[str, str], str]


class Writer:
    """A person at the page, who remembers what they typed."""

    def __init__(
        self, browser: Browser, address: str, rater: str, **options: Any
    ) -> None:
        self.rater = rater
        self.typed: Typed = {}
        self.harm: list[str] = []
        self.requests: list[str] = []
        self.page: Page = browser.new_context(**options).new_page()
        self.page.on("pageerror", lambda error: self.harm.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.page.fill("#name", rater)
        self.page.keyboard.press("Enter")
        self.ready()

    def ready(self) -> None:
        self.page.wait_for_selector("#work:not([aria-busy]):not([hidden])")
        playwright_api.expect(self.page.locator("#question")).not_to_be_empty()

    def question(self) -> str:
        return self.page.inner_text("#question")

    def write(self, box: str, text: str) -> None:
        self.ready()
        self.page.fill(f"#{box}", text)
        self.typed[self.question(), box] = text
        if not text.strip():
            del self.typed[self.question(), box]

    def press(self, button: str) -> None:
        self.page.click(f"#{button}")
        self.ready()

    def says(self, place: str, text: str) -> None:
        locator = self.page.locator(f"#{place}")
        playwright_api.expect(locator).to_have_text(text, timeout=600_000)

    def saved(self) -> None:
        self.says("saved", "saved")

    def given(self, path: Path) -> Typed:
        rows = [one for _, one in read_written(path) if one.author == self.rater]
        found = {(one.question, one.truth.value): one.response for one in rows}
        assert len(found) == len(rows)
        return found


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


def test_answers_are_written_while_the_server_is_killed_twice_and_another_writes_too(
    browser: Browser,
    writing: Callable[..., Any],
    make_source: Callable[..., LabelSource],
    write_source: Callable[[Path, LabelSource], None],
    tmp_path: Path,
    port: int,
) -> None:
    write_source(tmp_path, make_source(tasks=12))
    path = tmp_path / FILE
    with ExitStack() as servers:

        def start() -> subprocess.Popen[str]:
            process, _ = servers.enter_context(writing(tmp_path, "--port", str(port)))
            return process

        server = start()
        address = f"http://127.0.0.1:{port}"
        anna, ben = Writer(browser, address, "Anna"), Writer(browser, address, "Ben")
        assert anna.question() != ben.question()
        for number in range(12):
            for writer in (anna, ben):
                writer.write("right", f"{writer.rater} is right, {number} “ü”.\n")
                writer.write("false", f"{writer.rater} is wrong, {number}.")
            if number in {3, 8}:
                server.send_signal(
                    signal.SIGKILL
                )  # the last texts are still on their way
                server.wait()
                anna.write("false", f"Written while nobody answers, {number}.")
                playwright_api.expect(anna.page.locator("#problem")).to_contain_text(
                    "Not saved: the server does not answer. What you typed stays here"
                )
                server = start()
                for writer in (anna, ben):
                    writer.saved()
                    writer.says("problem", "")
                    assert writer.given(path) == writer.typed
            anna.page.keyboard.press("Control+Enter")
            ben.press("next")
        for writer in (anna, ben):
            writer.saved()
            assert len(writer.typed) == 24
            assert writer.given(path) == writer.typed
            assert writer.harm == []
        end = "12 with both answers: all done, thank you"
        playwright_api.expect(anna.page.locator("#progress")).to_contain_text(end)
        server.send_signal(signal.SIGTERM)
        assert server.wait(600) == 0
    assert not list(tmp_path.glob(".*"))


def test_going_back_changing_and_emptying_a_box_changes_the_file(
    browser: Browser,
    writing: Callable[..., Any],
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
) -> None:
    write_source(tmp_path, source)
    path = tmp_path / FILE
    with writing(tmp_path, "--port", "0", "--count", "3") as (_, address):
        anna = Writer(browser, address, "Anna")
        first = anna.question()
        anna.write("right", "One.")
        anna.press("on")
        anna.saved()
        anna.write("right", "Two.")
        anna.write("false", "Three.")
        anna.press("next")  # the last one is open, and so is the first
        anna.press("next")
        assert (anna.question(), anna.page.input_value("#right")) == (first, "One.")
        anna.write("right", "Four.")
        anna.press("on")
        anna.write("false", "  ")
        anna.saved()
        assert anna.given(path) == anna.typed == {
            (first, "right"): "Four.",
            (anna.question(), "right"): "Two.",
        }  # fmt: skip
        anna.page.reload()
        anna.ready()
        assert (anna.question(), anna.page.input_value("#right")) == (first, "Four.")
        anna.page.click("#leave")
        anna.page.fill("#name", "Ben")
        anna.page.keyboard.press("Enter")
        anna.ready()
        assert anna.page.input_value("#right") == ""
        assert "Four." not in anna.page.content()


def test_what_is_counted_is_what_python_counts(
    browser: Browser, writing: Callable[..., Any], tmp_path: Path
) -> None:
    passage = (
        "The `axis=1` stays, in the result, with a length of 1.5 and don't_care "
        "marks: größer."
    )
    reference = "It is kept there as the last of all its axes."
    rubric = Rubric(
        criteria=(Criterion(id="c", weight=1.0, required_elements=("one|1",)),)
    )
    asked = {"question": "What?", "rubric": rubric, "reference_answer": reference}
    write_tasks(tmp_path / "tasks.jsonl", [Task(grounding=Grounding(passage), **asked)])
    with writing(tmp_path, "--port", "0") as (_, address):
        anna = Writer(browser, address, "Anna")
        page = anna.page
        assert not page.locator("#reference").is_visible()
        page.click("summary")
        assert page.inner_text("#reference") == reference
        playwright_api.expect(page.locator("#criteria")).to_contain_text(
            "contains: one or 1"
        )
        for text, told in (
            ("Nothing alike", "2 words · none in a row as in the passage"),
            ("a length of 1.5", "4 words · at most 4 in a row as in the passage"),
            (
                "So it is kept there, as THE first",
                "8 words · 6 in a row are those of the reference answer: “it is kept there as the”",
            ),
            (
                LONG,
                f"8 words · 8 in a row are those of the passage: “{LONG}”",
            ),
        ):
            anna.write("right", text)
            anna.says("right-measure", told)
            assert int(told.split()[0]) == len(words(text))
            run = longest_shared_run(text, [passage, reference])
            assert run == 0 if "none" in told else f" {run} in a row" in told
            is_long = "error" in (page.get_attribute("#right-measure", "class") or "")
            assert is_long == (run >= 6)
        anna.write("false", "The axis goes, and the result has a length of 2.5.")
        anna.says("false-measure", "11 words · 3 of 5 terms are the passage’s (60 %)")
        anna.write("false", "")
        anna.says("false-measure", "")
        anna.saved()


@pytest.mark.parametrize("width", [1280, 390])
def test_markup_in_any_text_is_shown_as_text(
    browser: Browser, writing: Callable[..., Any], tmp_path: Path, width: int
) -> None:
    one = Criterion(
        id="c", name=HARM, weight=1.0, description=HARM, scoring_guide=HARM,
        required_elements=(HARM,),
    )  # fmt: skip
    asked = {
        "question": HARM,
        "rubric": Rubric(criteria=(one,)),
        "reference_answer": HARM,
    }
    write_tasks(tmp_path / "tasks.jsonl", [Task(grounding=Grounding(HARM), **asked)])
    with writing(tmp_path, "--port", "0") as (_, address):
        options = {"viewport": {"width": width, "height": 844}, "color_scheme": "dark"}
        eve = Writer(browser, address, "<b>Eve</b>", **options)
        page = eve.page
        page.click("summary")
        eve.write("right", HARM)
        eve.saved()

        for place in (
            "#question",
            "#passage",
            "#reference",
            "#criteria b",
            "#criteria .said",
        ):
            shown = page.locator(place).first.inner_text()
            assert shown.startswith(
                "</script><script>window.harmed = 1</script><img src=x"
            )
            assert "[U+202E]gnp.exe {{ 7 * 7 }} **bold**" in shown
        assert page.inner_text("#who").startswith("<b>Eve</b>")
        assert page.evaluate("window.harmed") is None
        assert page.locator("img, svg, main script").count() == 0
        assert all(url.startswith(address) for url in eve.requests)
        assert eve.harm == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        ((_, answer),) = read_written(tmp_path / FILE)
        assert answer.response == HARM
