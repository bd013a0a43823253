"""The site: what is made for it when it is built, its pictures, and the checks of its pages."""

import importlib
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_core.needs import NEEDS

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = Path("/usr/bin/chromium")
in_a_browser = pytest.mark.skipif(
    not CHROMIUM.exists() or find_spec("playwright") is None,
    reason=f"no browser: there is no {CHROMIUM}, or playwright is not installed",
)


@pytest.fixture(scope="module")
def tools() -> Iterator[dict[str, ModuleType]]:
    """The site's tools, which import each other by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        names = ("site_reference", "shown_pages")
        yield {name: importlib.import_module(name) for name in names}


@pytest.fixture(scope="module")
def made(tools: dict[str, ModuleType]) -> dict[str, str]:
    return tools["site_reference"].pages()


def _settings() -> dict[str, Any]:
    """mkdocs.yml, whose icons and the like are plain words."""
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))


def _pages(navigation: Any) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    else:
        inner = navigation.values() if isinstance(navigation, dict) else navigation
        for one in inner:
            yield from _pages(one)


def test_every_page_stands_once_in_the_navigation(made: dict[str, str]) -> None:
    written = [
        path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")
    ]

    assert sorted(_pages(_settings()["nav"])) == sorted([*written, *made])


def test_nothing_of_the_site_is_asked_of_a_third_party() -> None:
    settings = _settings()

    assert settings["theme"]["font"] is False
    assert "offline" in settings["plugins"]
    assert "://" not in str([settings["extra"], settings["extra_css"], settings["nav"]])


@pytest.mark.parametrize(
    "name", ["rubric-synth", "rubric-judge", "rubric-train", "rubric-eval"]
)
def test_every_command_is_there_with_its_options(
    name: str, made: dict[str, str], tools: dict[str, ModuleType]
) -> None:
    page = made[f"reference/commands/{name}.md"]
    app = importlib.import_module(tools["site_reference"].COMMANDS[name]).app
    commands = [command for command in app if not command.startswith("-")]

    assert re.findall(rf"^## {name} ([\w-]+)$", page, re.MULTILINE) == commands
    if name == "rubric-judge":
        assert re.search(
            r"^\* `--epsilon FLOAT`: .*\n.*default: 0\.05", page, re.MULTILINE
        )
        assert (
            "\n$ rubric-judge lint dataset/train.jsonl --json findings.json\n" in page
        )


@pytest.mark.parametrize("name", ["judge", "synth", "train"])
def test_every_key_has_a_default_and_a_reason(name: str, made: dict[str, str]) -> None:
    page = made[f"reference/configuration/{name}.md"]
    rows = [
        re.split(r"(?<!\\)\|", line)
        for line in page.splitlines()
        if line.startswith("| `")
    ]

    assert len(rows) > 30
    assert [row for row in rows if not all(cell.strip() for cell in row[1:-1])] == []


def test_a_key_is_shown_with_its_bounds_and_its_unit(made: dict[str, str]) -> None:
    judge, train = (
        made[f"reference/configuration/{name}.md"] for name in ("judge", "train")
    )

    assert (
        "| `regex_timeout_s` | `0.25` | number, > 0, ≤ 60; seconds | Processor time"
        in judge
    )
    assert (
        "| `group_size` | `32` | integer, ≥ 1, ≤ 65536 | Responses per prompt" in train
    )
    assert "## `objective.importance:` with `type: tis`" in train
    assert "Prompts per step (P; the paper's B)." in train


def test_an_error_is_found_with_its_remedy(made: dict[str, str]) -> None:
    page = made["reference/errors.md"]

    assert (
        "| `no_text_layer` | run text recognition (OCR) over the scanned PDF files |"
        in page
    )
    assert (
        "| criterion ids must be unique, … occurs more than once | rename one |" in page
    )
    assert page.count("\n| ") > 300


@pytest.mark.parametrize(
    "row",
    [
        "names … stand for two things | rename the stage",
        "… holds a run | continue it with `--resume` or choose another `out`",
        "… documents with an outcome and … pending ones are not the … collected | run again",
        "its first line is one cell with … in it: separate by commas",
        (
            "; there is no folder … here either: check the name, and that the Hugging Face Hub "
            "can be reached"
        ),
    ],
    ids=["raised", "with an attribute", "of a module", "returned", "within a text"],
)
def test_a_message_is_read_off_where_it_is_said(row: str, made: dict[str, str]) -> None:
    assert f"| {row} |" in made["reference/errors.md"]


def test_every_need_of_a_value_is_found_by_its_type(made: dict[str, str]) -> None:
    page = made["reference/errors.md"]

    for kind, text in NEEDS.items():
        shown = re.sub(r"\{\w+\}", "…", text)
        assert f"| `{kind}` | {shown} |" in page


@pytest.mark.parametrize(
    "row",
    [
        (
            "| `zero_weight`: the weight is 0: the judge is asked and nothing is awarded | "
            "give it a weight or leave the criterion out |"
        ),
        "| … holds a run already | continue it with `--resume`, or choose another out |",
        "| there can be no folder …: … | choose another `out` |",
        "| `unreadable` | see that this user may read the files |",
    ],
    ids=["lint", "rehearsal", "its remedy has a name", "by reason"],
)
def test_what_is_found_has_its_remedy_beside_it(row: str, made: dict[str, str]) -> None:
    assert row in made["reference/errors.md"].splitlines()


# --- in a browser ---------------------------------------------------------------------------------


def _tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools" / name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@in_a_browser
def test_a_picture_is_taken_of_a_page(tmp_path: Path) -> None:
    task = Task(
        question="What does an FFT compute?",
        grounding=Grounding("The FFT computes the discrete Fourier transform."),
        rubric=Rubric(
            criteria=[Criterion(id="what", weight=2.0, description="It says what.")]
        ),
        reference_answer="It computes the discrete Fourier transform.",
    )
    (tmp_path / "tasks").mkdir()
    write_tasks(tmp_path / "tasks/test.jsonl", [task])

    done = _tool(
        "pictures.py", tmp_path, "--only", "label", "--out", tmp_path / "pictures"
    )

    assert done.returncode == 0, done.stderr
    png = (tmp_path / "pictures/label.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    assert (width, 600 < height <= 1440) == (2000, True)
    assert 20_000 < len(png) <= 150_000


@pytest.mark.slow
@in_a_browser
def test_each_fault_of_a_page_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        "<!doctype html><title>A page</title><p style='color: #999'>pale</p>"
        "<div onclick='1' style='width: 2000px'>wide</div><a href='#'>a</a><img src='x:y'>"
        "<script>console.log('said'); fetch('http://127.0.0.1:9/').catch(() => 1)</script>",
        encoding="utf-8",
    )
    (tmp_path / "well.html").write_text(
        "<!doctype html><html lang='en'><title>A page</title><p>dark <a href='#a'>b</a> "
        "<a href='#c'>d</a></p></html>",
        encoding="utf-8",
    )

    done = _tool("check_pages.py", tmp_path / "page.html", tmp_path / "well.html")

    assert done.returncode == 1
    # On a busy machine the first paint is late.
    lines = [
        line for line in done.stdout.splitlines() if "first paint after" not in line
    ]
    assert {line for line in lines if line.startswith("well.html")} <= {
        "well.html: well"
    }
    for fault in (
        "console: said",
        "request to elsewhere: http://127.0.0.1:9/",
        "contrast 2.85: p “pale”",
        "keyboard: div “wide” is out of reach",
        "no alternative text",
        "2008 px wide in a window of 1280",
        "no language",
    ):
        assert f"page.html, 1280 px, light: {fault}" in done.stdout


@pytest.mark.slow
@in_a_browser
def test_the_calculator_reads_what_plan_prints(tools: dict[str, ModuleType]) -> None:
    written = (ROOT / "docs/how_to/estimate_the_cost.md").read_text("utf-8")
    (form,) = re.findall(r"<form.*</form>", written, re.DOTALL)
    call = "from rubric_train_openrlhf.cli import main; main()"
    plan = [
        sys.executable,
        "-c",
        call,
        "plan",
        "configs/train/paper_llama31_8b_8gpu.yaml",
    ]
    printed = subprocess.run(
        plan, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    with tools["shown_pages"].browser() as chromium:
        page = chromium.new_page()
        page.set_content(f"<!doctype html>{form}")
        page.add_script_tag(path=ROOT / "docs/assets/cost.js")
        at_first = page.inner_text("#said")
        page.fill("#plan", printed)
        pasted = page.inner_text("#said")
        page.fill("#plan", "nothing")
        nothing = page.inner_text("#said")

    # 500 · (31.2 · 0.05 + 2.0 · 0.40) dollars; 500 · 524 / 3600 · 8 GPU hours at 2.50.
    assert pasted == at_first
    assert pasted == (
        "1,024,000 judge calls, of a provider $1,180"
        " · 582 GPU hours on the first kind of GPU: $1,456"
    )
    assert "paste what" in nothing
