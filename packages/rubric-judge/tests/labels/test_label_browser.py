"""The page in a real Chromium: typed into, killed under, and given hostile texts."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge.quality.labels.rows import LabelSource, read_labels

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed"
)
pytestmark = pytest.mark.slow

HARM = (
    "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"
    "<!--<svg onload=window.harmed=1> \u202egnp.exe {{ 7 * 7 }} **bold**"
)
HARM_IN_JSON = json.dumps(HARM)[1:-1]
KEYS: dict[str, list[float]] = {
    "fact": [0, 1, 2, 3],
    "limit": [0, 1],
    "tone": [0, 0.125, 0.25, 0.375, 0.5],
    "extra": [0, 2.5, 5, 7.5, 10],
}
"""The score of each digit: whole points, or quarters of the weight."""


class Typist:
    """A person at the page, who remembers what they typed."""

    def __init__(
        self, browser: Browser, address: str, rater: str, **options: Any
    ) -> None:
        self.rater = rater
        self.typed: dict[tuple[int, str], float | None] = {}
        self.harm: list[str] = []
        self.requests: list[str] = []
        self.page: Page = browser.new_context(**options).new_page()
        self.page.on("pageerror", lambda error: self.harm.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.page.fill("#name", rater)
        self.page.keyboard.press("Enter")
        self.ready()
        self._generator = random.Random(rater)

    def ready(self) -> None:
        self.page.wait_for_selector("#work:not([aria-busy]):not([hidden])")
        playwright_api.expect(self.page.locator("#title")).not_to_be_empty()

    def cell(self) -> tuple[int, str]:
        line = self.page.get_attribute("#response", "data-line")
        return int(line or 0), self.page.inner_text("#title")

    def progress(self) -> str:
        return self.page.inner_text("#progress")

    def score(self) -> None:
        """Type a score and wait until the page has moved on, saved or not."""
        self.ready()
        cell, before = self.cell(), self.progress()
        scores = KEYS[cell[1]]
        digit = self._generator.randrange(len(scores) + 1)
        if digit < len(scores):
            self.page.keyboard.press(str(digit))
            self.typed[cell] = scores[digit]
        else:
            self.page.keyboard.press("s")
            self.typed[cell] = None
        playwright_api.expect(self.page.locator("#progress")).not_to_have_text(before)

    def saved(self) -> None:
        playwright_api.expect(self.page.locator("#saved")).to_have_text(
            "saved", timeout=600_000
        )

    def given(
        self, path: Path, source: LabelSource
    ) -> dict[tuple[int, str], float | None]:
        labels = [one for one in read_labels(path, source) if one.rater == self.rater]
        return {(one.line, one.criterion): one.score for one in labels}


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


def test_500_labels_are_typed_while_the_server_is_killed_twice_and_another_types_too(
    browser: Browser,
    labelling: Callable[..., Any],
    make_source: Callable[..., LabelSource],
    write_source: Callable[[Path, LabelSource], None],
    tmp_path: Path,
    port: int,
) -> None:
    source = make_source(tasks=40)  # 160 responses of four criteria
    write_source(tmp_path, source)
    path = tmp_path / "labels.jsonl"
    with ExitStack() as servers:

        def start() -> subprocess.Popen[str]:
            asked = labelling(
                tmp_path, "--count", "500", "--seed", "1", "--port", str(port)
            )
            process, _ = servers.enter_context(asked)
            return process

        server = start()
        address = f"http://127.0.0.1:{port}"
        anna, ben = Typist(browser, address, "Anna"), Typist(browser, address, "Ben")
        for number in range(500):
            anna.score()
            if number % 5 == 0:
                ben.score()
            if number in {171, 338}:
                for _ in range(3):  # some of these are still on their way
                    anna.score()
                server.send_signal(signal.SIGKILL)
                server.wait()
                server = start()
                for typist in (anna, ben):
                    typist.saved()
                    assert typist.given(path, source) == typist.typed
            if len(anna.typed) == 500:
                break
        anna.saved()
        ben.saved()

        assert len(anna.typed) == 500
        assert anna.progress().endswith("500 labelled: all done, thank you")
        assert anna.given(path, source) == anna.typed
        assert ben.given(path, source) == ben.typed
        assert len(ben.typed) >= 90
        assert [*anna.typed][:20] != [*ben.typed][:20]
        assert anna.harm == ben.harm == []
        server.send_signal(signal.SIGTERM)
        assert server.wait(600) == 0
    assert len(path.read_text().splitlines()) == 500 + len(ben.typed)
    assert not list(tmp_path.glob(".*"))


def test_a_score_that_there_is_not_is_answered_on_the_page(
    browser: Browser,
    labelling: Callable[..., Any],
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
) -> None:
    write_source(tmp_path, source)
    with labelling(tmp_path, "--port", "0") as (_, address):
        anna = Typist(browser, address, "Anna")
        cell, problem = anna.cell(), anna.page.locator("#problem")
        scores = KEYS[cell[1]]
        anna.page.keyboard.press("9")  # no weight here has so many points
        playwright_api.expect(problem).to_have_text(
            f"Key 9 is no score here: keys 0 to {len(scores) - 1} give up to {scores[-1]:g}, "
            "e any other."
        )
        anna.page.keyboard.press("e")
        anna.page.keyboard.type("99")
        anna.page.keyboard.press("Enter")
        said = f"A score is a number from 0 to {scores[-1]:g}."
        playwright_api.expect(problem).to_have_text(said)
        assert anna.cell() == cell
        anna.page.keyboard.press("Escape")
        anna.score()
        playwright_api.expect(problem).to_be_empty()


def test_keys_move_undo_and_take_any_score(
    browser: Browser,
    labelling: Callable[..., Any],
    write_source: Callable[[Path, LabelSource], None],
    source: LabelSource,
    tmp_path: Path,
) -> None:
    write_source(tmp_path, source)
    path = tmp_path / "labels.jsonl"
    with labelling(tmp_path, "--port", "0") as (_, address):
        anna = Typist(browser, address, "Anna")
        keys = anna.page.keyboard
        first = anna.cell()
        anna.score()
        second = anna.cell()
        keys.press("k")
        assert anna.cell() == first
        assert anna.page.locator("#answers [aria-pressed='true']").count() == 1
        keys.press("j")
        keys.press("e")
        keys.type("99")
        keys.press("Enter")  # beyond every weight: it stays
        keys.type("0,1")
        keys.press("Enter")
        anna.saved()
        assert anna.given(path, source)[second] == 0.1
        playwright_api.expect(anna.page.locator("#progress")).to_contain_text(
            "number 3 of 80"
        )
        keys.press("u")
        anna.ready()
        anna.saved()
        assert anna.cell() == second
        assert anna.given(path, source) == anna.typed
        anna.page.reload()
        anna.ready()
        assert anna.cell() == second
        keys.press("u")  # of what was typed before the page was loaded
        anna.ready()
        anna.saved()
        assert anna.cell() == first
        assert anna.given(path, source) == {}
        anna.page.click("#skip")
        anna.saved()
        assert anna.given(path, source) == {first: None}


@pytest.mark.parametrize("width", [1280, 390])
def test_markup_in_any_text_is_shown_as_text(
    browser: Browser,
    labelling: Callable[..., Any],
    make_source: Callable[..., LabelSource],
    write_source: Callable[[Path, LabelSource], None],
    tmp_path: Path,
    width: int,
) -> None:
    texts = {"criterion": HARM, "question": HARM, "passage": HARM, "response": HARM}
    write_source(tmp_path, make_source(tasks=1, **texts))
    with labelling(tmp_path, "--port", "0") as (_, address):
        options = {"viewport": {"width": width, "height": 844}, "color_scheme": "dark"}
        rater = Typist(browser, address, "<b>Eve</b>", **options)
        page = rater.page

        for place in ("#question", "#response", "#passage", "#description"):
            shown = page.inner_text(place)
            assert shown.startswith(
                "</script><script>window.harmed = 1</script><img src=x"
            )
            assert "[U+202E]gnp.exe {{ 7 * 7 }} **bold**" in shown
        assert page.inner_text("#who").startswith("<b>Eve</b>")
        assert page.evaluate("window.harmed") is None
        assert page.locator("img, svg, main script").count() == 0
        assert all(url.startswith(address) for url in rater.requests)
        assert rater.harm == []
        assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("width", [1280, 390])
def test_a_trajectory_is_folded_by_turns_and_what_is_judged_is_marked(
    browser: Browser, labelling: Callable[..., Any], tmp_path: Path, width: int
) -> None:
    task = Task(
        question="How warm is it in Oslo and Rome?",
        grounding=Grounding("Oslo: 4 degrees."),
        rubric=Rubric(
            criteria=(
                Criterion(id="calls", weight=1, judges="tool_use"),
                Criterion(id="ends", weight=1),
            )
        ),
    )
    write_tasks(tmp_path / "tasks.jsonl", [task])
    recorded = Path(__file__).parents[1] / "recorded_traces.jsonl"
    first, *_ = recorded.read_text("utf-8").splitlines()
    rows = first.replace("TASK", task.task_id).replace("Oslo: 4 degrees", HARM_IN_JSON)
    (tmp_path / "answers.jsonl").write_text(rows, encoding="utf-8")
    with labelling(tmp_path, "--port", "0") as (_, address):
        options = {"viewport": {"width": width, "height": 844}}
        rater = Typist(browser, address, "Ann", **options)
        page = rater.page
        seen: dict[str, tuple[list[str], list[bool]]] = {}
        for _cell in range(2):
            marked = page.locator(".part.judged .author").all_inner_texts()
            folds = page.locator("details.turn").all()
            is_open = [fold.get_attribute("open") is not None for fold in folds]
            seen[page.inner_text("#title")] = marked, is_open
            page.keyboard.press("j")
            page.wait_for_timeout(300)
            rater.ready()

        assert seen == {
            "calls": (["call 1, judged"] * 2, [True, False]),
            "ends": (["reply 2, judged"], [False, True]),
        }
        assert page.evaluate("window.harmed") is None
        assert page.locator("img, svg, main script").count() == 0
        assert rater.harm == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
