"""The README's three doors: each does what it says, and brings no more than it needs."""

import asyncio
import functools
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Task, read_tasks
from rubric_judge.ui.starting import example_files, preset, write_new

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
FIRST = ROOT / "examples" / "00_score_two_answers.py"
MOST_WORDS = 700


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """What `rubric-judge init first` writes, in the folder that a door is opened in."""
    monkeypatch.chdir(tmp_path)
    judge = preset("rubric_judge", "lexical", flag="--judge")
    write_new(Path("first"), {"judge.yaml": judge, **example_files()})
    return list(read_tasks(Path("first/tasks.jsonl")))


def test_the_readme_is_short_and_shows_a_report() -> None:
    assert len(README.split()) <= MOST_WORDS
    assert "](docs/pictures/report.png)" in README.partition("\n## ")[0]


def test_the_two_commands_of_the_set_up_stay() -> None:
    (commands,) = (one for one in blocks("bash") if "quickstart" in one)

    assert [line.partition("  #")[0].rstrip() for line in commands.splitlines()] == [
        "uv run python examples/quickstart.py --out runs/q",
        "uv run pytest",
    ]


def test_what_the_readme_writes_into_a_clone_is_no_change_of_it() -> None:
    for folder in ("first/", "runs/"):
        subprocess.run(["git", "check-ignore", "--quiet", folder], cwd=ROOT, check=True)


# --- score an answer: core and judge alone --------------------------------------------------------


ALONE = """
import importlib.metadata, re, runpy, sys

kept, script = set(sys.argv[1].split(",")), sys.argv[2]
for module, owners in importlib.metadata.packages_distributions().items():
    if not kept & {re.sub("[-_.]+", "-", owner).lower() for owner in owners}:
        sys.modules[module] = None
for ours in ("rubric_eval", "rubric_sandbox", "rubric_synth", "rubric_train_openrlhf"):
    sys.modules[ours] = None
sys.argv = sys.argv[2:]
runpy.run_path(script, run_name="__main__")
"""
"""Run a script where only some distributions can be imported."""


@functools.cache
def locked_with(member: str) -> frozenset[str]:
    """The packages of uv.lock that a member brings without its extras, on any platform."""
    lock: dict[str, Any] = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
    needs: dict[str, set[str]] = {}
    for one in lock["package"]:
        needs.setdefault(one["name"], set()).update(
            n["name"] for n in one.get("dependencies", ())
        )
    found, waiting = set[str](), {member}
    while waiting:
        found |= waiting
        waiting = {need for name in waiting for need in needs[name]} - found
    return frozenset(found)


def alone(*words: str) -> str:
    """What a script of core and judge prints where nothing else is installed."""
    command = [
        sys.executable,
        "-c",
        ALONE,
        ",".join(locked_with("rubric-judge")),
        *words,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_core_and_judge_bring_neither_torch_nor_a_provider() -> None:
    brought = locked_with("rubric-judge")

    assert (
        brought & {"torch", "transformers", "litellm", "openai", "botocore", "ray"}
        == set()
    )
    assert "torch" in locked_with("rubric-train-openrlhf")
    assert len(brought) < 50


def test_the_first_example_is_what_the_readme_shows_and_prints() -> None:
    shown, _ = blocks("python")
    (printed,) = blocks("text")

    assert FIRST.read_text("utf-8").partition('\n"""\n\n')[2] == shown
    assert alone(str(FIRST)) == printed


def test_uv_is_told_to_install_the_judge_from_the_checkout() -> None:
    (header,) = re.findall(
        r"^# /// script\n(.*?)^# ///$",
        FIRST.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    told = tomllib.loads(re.sub(r"^# ", "", header, flags=re.MULTILINE))

    assert told["dependencies"] == ["rubric-judge"]
    folder = FIRST.parent / told["tool"]["uv"]["sources"]["rubric-judge"]["path"]
    assert (
        folder / "pyproject.toml"
    ).resolve() == ROOT / "packages/rubric-judge/pyproject.toml"


@pytest.mark.parametrize(
    "example", ["01_score_a_response.py", "03_judge_with_an_llm.py"]
)
def test_core_and_judge_alone_run_the_examples_that_need_no_more(example: str) -> None:
    assert "│" in alone(str(ROOT / "examples" / example))


def test_core_and_judge_alone_score_a_file(tasks: list[Task]) -> None:
    files = ("first/tasks.jsonl", "first/answers.jsonl", "--judge", "first/judge.yaml")

    Path("command.py").write_text("from rubric_judge.cli import main; main()", "utf-8")
    alone("command.py", "score", *files, "--out", "judged.jsonl")

    rows = [
        json.loads(line)
        for line in Path("judged.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(rows) == 2 * len(tasks)
    assert {row["result"]["outcome"] for row in rows} == {"scored"}


# --- a reward in a trainer ------------------------------------------------------------------------


def reward_of_the_readme(model: str = "") -> dict[str, Any]:
    """What the lines define; without TRL, up to the trainer."""
    _, lines = blocks("python")
    if not model:
        lines = lines.replace("Dataset.from_list(", "list(")
        lines = re.sub(
            r"^(from (datasets|trl) |brief = |GRPOTrainer\().*$",
            "",
            lines,
            flags=re.MULTILINE,
        )
    names: dict[str, Any] = {}
    exec(re.sub('Qwen/[^"]+', model, lines), names)  # noqa: S102 - the page's own code
    return names


def test_the_reward_for_trl_pays_reference_answers(tasks: list[Task]) -> None:
    names = reward_of_the_readme()

    rewards = asyncio.run(
        names["reward"](
            prompts=[row["prompt"] for row in names["rows"]] * 2,
            completions=[task.reference_answer for task in tasks] + [""] * len(tasks),
            task_id=[row["task_id"] for row in names["rows"]] * 2,
        )
    )

    assert min(rewards[: len(tasks)]) > 0.5
    assert set(rewards[len(tasks) :]) == {0.0}


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_trl_trains_a_step_by_the_lines_of_the_readme(
    tasks: list[Task],
    make_chat_model: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trl = pytest.importorskip("trl")
    small = {
        "max_steps": 1, "num_generations": 4, "per_device_train_batch_size": 4,
        "max_completion_length": 8, "logging_steps": 1, "report_to": "none", "bf16": False,
        "use_cpu": True,
    }  # fmt: skip
    real, trainers = trl.GRPOTrainer, list[Any]()

    def trainer(*given: Any, **named: Any) -> Any:
        trainers.append(real(*given, **named))
        return trainers[0]

    monkeypatch.setattr(trl, "GRPOTrainer", trainer)
    monkeypatch.setattr(trl, "GRPOConfig", partial(trl.GRPOConfig, **small))

    reward_of_the_readme(str(make_chat_model(512)))

    (step, *_) = trainers[0].state.log_history
    assert trainers[0].args.chat_template_kwargs == {"enable_thinking": False}
    assert len(trainers[0].train_dataset) == len(tasks)
    assert step["rubric/unavailable"] == 0.0
    assert step["rubric/score"] == step["rewards/rubric_reward/mean"]


def test_the_settings_for_verl_are_those_of_the_whole_file() -> None:
    (command,) = (one for one in blocks("bash") if "verl" in one and "$PWD" in one)
    example = (ROOT / "examples/adapters/with_verl.py").read_text("utf-8")
    settings = shlex.split(command.partition("…")[2].replace("\\\n", " "))

    shown = dict(one.partition("=")[::2] for one in settings)
    reward = "reward.custom_reward_function"
    assert f'REWARD = "{reward}"' in example
    for name, value in shown.items():
        written = name.replace(reward, "{REWARD}")
        assert f"{written}=" in example
        assert value.startswith("$PWD/first/") or f"{written}={value}" in example
    assert len(shown) == 6
