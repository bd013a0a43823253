"""What the page on other stacks shows, runs: with the stack where it is installed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge import adapters

PAGE = Path(__file__).resolve().parents[1] / "docs/adapters.md"
TEXT = PAGE.read_text("utf-8")
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = {title: PYTHON.findall(body) for title, body in SECTION.findall(TEXT)}
# Sections whose Python needs the stack itself; the others only make what the stack is given.
NEEDED = {
    "NeMo-RL": "nemo_rl",
    "NeMo-Gym": "nemo_gym",
    "SkyRL": "skyrl_gym",
    "OpenEnv": "openenv",
    "inspect_ai": "inspect_ai",
}
ANSWER = "It is the cross entropy."


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """The one task of the data set in the folder that the page's code runs in."""
    task = Task(
        question="Which loss is minimised?",
        grounding=Grounding("The model minimises the cross entropy of the labels."),
        rubric=Rubric(
            criteria=(Criterion(id="loss", weight=2.0, required_elements=("cross entropy",)),)
        ),
    )
    (tmp_path / "dataset").mkdir()
    for name in ("train", "test"):
        write_tasks(tmp_path / "dataset" / f"{name}.jsonl", [task])
    (tmp_path / "judge.yaml").write_text("type: lexical\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return task


def defined(title: str) -> dict[str, Any]:
    """Run the Python of a section and return what it defines."""
    names: dict[str, Any] = {"__name__": "a_page"}
    for code in BLOCKS[title]:
        exec(code, names)  # noqa: S102  # the page's own code is the thing under test
    return names


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize("title", [title for title, blocks in BLOCKS.items() if blocks])
def test_the_python_of_a_section_runs(title: str) -> None:
    stack = NEEDED.get(title)
    if stack is None or importlib.util.find_spec(stack) is not None:
        assert len(defined(title)) > 1
    else:
        with pytest.raises(ImportError, match=stack):
            defined(title)


def test_the_rows_hold_no_passage_and_no_rubric(task: Task) -> None:
    assert defined("Rows")["rows"] == [{"task_id": task.task_id, "question": task.question}]


def test_the_reward_for_trl_pays(task: Task) -> None:
    reward = defined("TRL")["reward"]
    batch = {"prompts": ["?", "?"], "completions": [ANSWER, ""], "completion_ids": [[0], [0]]}

    assert asyncio.run(reward(**batch, task_id=[task.task_id] * 2)) == [1.0, 0.0]


def test_the_reward_for_openrlhf_pays(task: Task) -> None:
    reward = defined("OpenRLHF")["reward_func"]

    assert reward([f"?{ANSWER}</s>"], ["?"], [task.task_id])["rewards"].tolist() == [1.0]


def test_the_settings_for_verl_are_those_of_the_reward(task: Task) -> None:
    settings = dict(
        line.split("=", 1) for line in re.findall(r"^\+?(reward\.\S+=\S+)$", TEXT, re.MULTILINE)
    )
    prefix = "reward.custom_reward_function."
    scheme, _, module = settings[f"{prefix}path"].partition("pkg://")
    reward = getattr(importlib.import_module(module), settings[f"{prefix}name"])
    given = {
        name.removeprefix(f"{prefix}reward_kwargs."): value
        for name, value in settings.items()
        if ".reward_kwargs." in name
    }

    score = asyncio.run(reward("rubric", ANSWER, task.task_id, {}, **given))

    assert scheme == ""
    assert score["score"] == 1.0
    assert {"workers", "on_unavailable"} <= set(inspect.signature(reward).parameters)


def test_every_adapter_has_its_section_and_its_row_in_the_table() -> None:
    modules = {path.stem for path in Path(adapters.__path__[0]).glob("[a-z]*.py")}
    stacks = modules - {"rows", "scoring", "stacks"}

    anchors = re.findall(r"^\| \[.+?\]\(#(.+?)\) \|", TEXT, re.MULTILINE)
    titles = [title.lower().replace(" ", "-") for title in BLOCKS]

    assert {anchor.replace("-", "_") for anchor in anchors} == stacks
    assert set(anchors) <= set(titles)
