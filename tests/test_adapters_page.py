"""The page on other stacks holds the files that `test_adapter_examples.py` runs."""

import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge import adapters
from rubric_judge.adapters import scoring

PAGE = Path(__file__).resolve().parents[1] / "docs/adapters.md"
TEXT = PAGE.read_text("utf-8")
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = {title: PYTHON.findall(body) for title, body in SECTION.findall(TEXT)}
ADVANTAGES = PAGE.parent / "how_to/per_criterion_advantages.md"
EXAMPLES = PAGE.parents[1] / "examples/adapters"
SHARED = (
    "rows",
    "scoring",
    "outages",
    "ties",
    "beside",
    "answers",
    "options",
    "rubric_files",
    "unclosed",
    "advantages",
)
"""Modules that adapters are made of."""
OF_A_STACK = (
    "trl_tokens",
    "trl_advantages",
    "verl_advantages",
    "skyrl_advantages",
)
"""Further modules of a stack that has one of its own."""


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """The one task of the data set in the folder that the page's code runs in."""
    task = Task(
        question="Which loss is minimised?",
        grounding=Grounding("The model minimises the cross entropy of the labels."),
        rubric=Rubric(
            criteria=(
                Criterion(id="loss", weight=2.0, required_elements=("cross entropy",)),
            )
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


@pytest.mark.parametrize("title", [title for title in BLOCKS if title != "Rows"])
def test_a_section_holds_the_whole_file_of_its_stack(title: str) -> None:
    stack = title.lower().replace("-", "_").replace(" ", "_")
    file = EXAMPLES / f"with_{stack}.py"

    assert BLOCKS[title][0] == file.read_text("utf-8"), (
        f"copy {file.name} into the page"
    )


def test_the_rows_hold_no_passage_and_no_rubric(task: Task) -> None:
    assert defined("Rows")["rows"] == [
        {"prompt": task.question, "task_id": task.task_id}
    ]


def test_a_reward_may_wrap_that_of_trl(
    task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    (_, wrapper) = BLOCKS["TRL"]
    row = {"prompt": task.question, "task_id": task.task_id}

    exec(  # noqa: S102
        wrapper.replace("An answer", "It is the cross entropy"), {"rows": lambda: [row]}
    )

    assert capsys.readouterr().out == "[0.5]\n"


def test_the_table_holds_every_option() -> None:
    before, _, _ = TEXT.partition("\n## ")
    shown = re.findall(r"^\| `(\w+)` \|", before, re.MULTILINE)

    assert sorted(shown) == sorted(get_type_hints(scoring.MaskingOptions))


def test_every_adapter_has_its_section_and_its_row_in_the_table() -> None:
    modules = {path.stem for path in Path(adapters.__path__[0]).glob("[a-z]*.py")}
    stacks = modules - {*SHARED, *OF_A_STACK}

    anchors = re.findall(r"^\| \[.+?\]\(#(.+?)\)[\w, ]* \|", TEXT, re.MULTILINE)
    titles = [title.lower().replace(" ", "-") for title in BLOCKS]

    assert {anchor.replace("-", "_") for anchor in anchors} == stacks
    assert set(anchors) <= set(titles)
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        f"with_{stack}" for stack in stacks
    }


def advantages_of(title: str) -> dict[str, Any]:
    """Run the Python of a section of the page on advantages, and return what it defines."""
    names: dict[str, Any] = {"__name__": "a_page"}
    sections = dict(SECTION.findall(ADVANTAGES.read_text("utf-8")))
    for code in PYTHON.findall(sections[title]):
        exec(code, names)  # noqa: S102
    return names


@pytest.mark.usefixtures("task")
def test_the_lines_for_slime_make_its_two_functions() -> None:
    names = advantages_of("slime and miles")

    assert {"reward", "post_process"} <= names.keys()


def test_the_example_of_advantages_prints_what_the_page_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    advantages_of("In code of your own")

    shown = ADVANTAGES.read_text("utf-8").rsplit("```text\n", 1)[1]
    assert shown == f"{capsys.readouterr().out}```\n"


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("task")
def test_the_lines_for_trl_make_its_trainer() -> None:
    trl = pytest.importorskip("trl")

    assert issubclass(advantages_of("TRL")["RubricGRPOTrainer"], trl.GRPOTrainer)
