"""Every kind of page that a command writes or serves, made from a small real run.

For the pictures of the docs (`tools/pictures.py`) and for the checks of pages
(`tools/check_pages.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

from rubric_core import read_tasks, write_tasks

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM: Final = Path("/usr/bin/chromium")
STAGES: Final = {"base": "base", "sft": "sft", "grpo": "checkpoints/best"}
QUESTIONS: Final = 40
RESPONSES: Final = 12


@contextmanager
def browser() -> Generator[Browser]:
    """Start Debian's Chromium; a container's root has no sandbox to start one in."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=arguments
        )
        yield found
        found.close()


@contextmanager
def shown(kind: str, run: Path) -> Generator[str]:
    """Make a page of this kind, and give its address while it is there.

    Args:
        kind: a key of `PAGES`, or `label`.
        run: folder that `examples/quickstart.py` wrote.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "label":
            with _labelling(run, folder) as address:
                yield address
        else:
            yield PAGES[kind](run.resolve(), folder).as_uri()


def _training(run: Path, folder: Path) -> Path:
    copy = shutil.copytree(run, folder / "quickstart", symlinks=True)
    settings = copy / "config.resolved.yaml"  # no path of the machine is on a picture
    settings.write_text(
        settings.read_text("utf-8").replace(f"{run.parent}/", "runs/"), "utf-8"
    )
    _command("rubric-train", "report", copy)
    return copy / "report.html"


def _statistics(run: Path, folder: Path) -> Path:
    copy = shutil.copytree(run / "tasks", folder / "tasks")
    _command("rubric-synth", "stats", copy)
    return copy / "stats.html"


def _evaluation(run: Path, folder: Path) -> Path:
    models = [
        f"{name}=policy:{run / at}"
        for name, at in STAGES.items()
        if (run / at).exists()
    ]
    asked = [
        "--tasks",
        run / "tasks/test.jsonl",
        "--limit",
        f"{QUESTIONS}",
        "--max-tokens",
        "96",
    ]
    out = folder / "evaluation"
    _command(
        "rubric-eval",
        "heldout",
        *models,
        *asked,
        "--judge",
        _judge(folder),
        "--out",
        out,
    )
    _command("rubric-eval", "report", out)
    return out / "report.html"


def _reliability(run: Path, folder: Path) -> Path:
    answered = _answered(run, folder)
    out = folder / "reliability"
    _command(
        "rubric-judge",
        "reliability",
        *answered,
        "--judge",
        _judge(folder),
        "--out",
        out,
    )
    return _page_in(out)


def _viewer(run: Path, folder: Path) -> Path:
    tasks, answers = _answered(run, folder)
    out = folder / "judged.jsonl"
    _command(
        "rubric-judge", "score", tasks, answers, "--judge", _judge(folder), "--out", out
    )
    _command("rubric-judge", "view", out)
    return folder / "judged.jsonl.html"


def _attack(run: Path, folder: Path) -> Path:
    del run
    out = folder / "attack"
    _command("rubric-judge", "attack", "--judge", _judge(folder), "--out", out)
    return _page_in(out)


PAGES: Final[Mapping[str, Callable[[Path, Path], Path]]] = {
    "training": _training,
    "statistics": _statistics,
    "evaluation": _evaluation,
    "reliability": _reliability,
    "attack": _attack,
    "viewer": _viewer,
}


@contextmanager
def _labelling(run: Path, folder: Path) -> Generator[str]:
    options = ["--out", folder / "labels.jsonl", "--rater", "Anna", "--port", "0"]
    command = [_program("rubric-judge"), "label", *_answered(run, folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = next(line for line in process.stdout or () if "http://" in line)
            yield said.split()[-1]
        finally:
            process.kill()


def _answered(run: Path, folder: Path) -> tuple[Path, Path]:
    """Some test tasks, and their reference answers as responses."""
    tasks = [*islice(read_tasks(run / "tasks/test.jsonl"), RESPONSES)]
    write_tasks(folder / "tasks.jsonl", tasks)
    rows = [
        {"task_id": task.task_id, "response": task.reference_answer} for task in tasks
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "answers.jsonl").write_text(lines, encoding="utf-8")
    return folder / "tasks.jsonl", folder / "answers.jsonl"


def _judge(folder: Path) -> Path:
    path = folder / "judge.yaml"
    path.write_text("type: claims\n", encoding="utf-8")
    return path


def _page_in(folder: Path) -> Path:
    (page,) = folder.glob("*.html")
    return page


def _command(name: str, *arguments: str | Path) -> None:
    subprocess.run([_program(name), *arguments], check=True, stdout=subprocess.DEVNULL)


def _program(name: str) -> Path:
    return Path(sys.executable).with_name(name)
