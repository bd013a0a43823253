"""What the README and the pages of docs show, runs; what they name, is there."""

import asyncio
import importlib
import json
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Reason,
    Rubric,
    Task,
    read_tasks,
    write_tasks,
)
from rubric_synth import CriterionDraft, Draft, collect, read_collected, synthesise
from rubric_train_openrlhf.config.train import load_config, parse_config
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_policy

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/**/*.md")),
]
PACKAGES = sorted(path.name for path in (ROOT / "packages").iterdir())
PACKAGE_PAGES = [ROOT / "packages" / package / "README.md" for package in PACKAGES]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
RUN = re.compile(r"^uv run (?:python )?(\S+\.py)", re.MULTILINE)
RECIPE = re.compile(r"^uv run just (\S+)", re.MULTILINE)
COMMAND = re.compile(r"^(rubric-\w+) ([\w-]+)", re.MULTILINE)
LOCAL_PACKAGE = re.compile(r"\./(packages/[\w-]+)")
TITLE = (
    "Rubric-Grounded Reinforcement Learning: Structured Judge Rewards for Generalizable Reasoning "
    "in Language Models"
)
CLI_MODULES = {
    "rubric-eval": "rubric_eval.cli",
    "rubric-judge": "rubric_judge.cli",
    "rubric-synth": "rubric_synth.cli.commands",
    "rubric-train": "rubric_train_openrlhf.cli",
}
# Pages whose Python is run, here or in a `test_*_page.py`; any other page with Python fails.
RUN_PAGES = {
    "README.md",
    "docs/answer.md",
    "docs/data.md",
    "docs/adapters.md",
    "docs/eval.md",
    "docs/overview.md",
    "docs/eval/statistics.md",
    "docs/formats.md",
    "docs/judge.md",
    "docs/judge/llm.md",
    "docs/judge/claims.md",
    "docs/judge/hybrid.md",
    "docs/judge/cascade.md",
    "docs/judge/pool.md",
    "docs/judge/granularity.md",
    "docs/judge/probability.md",
    "docs/judge/ledger.md",
    "docs/judge/serve.md",
    "docs/judge/testing.md",
    "docs/how_to/per_criterion_advantages.md",
    "docs/how_to/export.md",
    "docs/judge/traces.md",
    "docs/how_to/spreadsheet.md",
    "docs/synth.md",
    "docs/synth/context.md",
    "docs/synth/llm.md",
    "docs/train.md",
    "docs/train/variants.md",
    "docs/tutorials/trl.md",
}
MADE = "reference/"
READ_AS = {"python", "bash", "yaml", "toml", "bibtex", "text", "json"}


class Block(NamedTuple):
    language: str
    code: str


def _blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(page.read_text("utf-8"))]


def _code(page: Path, language: str) -> list[str]:
    return [block.code for block in _blocks(page) if block.language == language]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a reader of the pages has it: a dataset, and a run with two checkpoints."""
    folder = tmp_path_factory.mktemp("workplace")
    collected = collect(["python:scipy.interpolate"], folder / "documents")
    synthesise(collected.out, folder / "dataset")
    checkpoints = folder / "runs" / "mine" / "checkpoints"
    policy = build_tiny_policy(
        [task.question for task in read_tasks(folder / "dataset" / "train.jsonl")],
        TinyConfig(hidden_size=32, intermediate_size=32, layers=1, heads=2, kv_heads=2),
        seed=0,
    )
    for name in ("step_000000", "best"):
        policy.save(checkpoints / name)
    return folder


def test_the_example_prints_what_the_page_shows(printed: Callable[[str], str]) -> None:
    (code,) = _code(ROOT / "docs/overview.md", "python")
    (shown,) = _code(ROOT / "docs/overview.md", "text")

    assert printed(code) == shown


@pytest.mark.parametrize("package", PACKAGES)
def test_the_example_of_a_package_runs_and_prints_what_it_says(
    package: str, printed: Callable[[str], str]
) -> None:
    (code,) = _code(ROOT / "packages" / package / "README.md", "python")

    shown = printed(code).splitlines()

    promised = re.findall(r"^print\(.*\)  # > (.+)$", code, re.MULTILINE)
    assert shown
    assert [line for line in promised if line not in shown] == []


# --- docs/judge.md: a judge of your own -----------------------------------------------------------


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The page's package, installed as a wheel's metadata says it; its folder goes on the path."""
    (module,) = _code(ROOT / "docs/judge.md", "python")
    (toml,) = _code(ROOT / "docs/judge.md", "toml")
    project = tomllib.loads(toml)["project"]
    (tmp_path / "required_words.py").write_text(module, encoding="utf-8")
    metadata = tmp_path / f"required_words-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (
            f"[{group}]",
            *(f"{name} = {target}" for name, target in points.items()),
        )
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def _score(folder: Path, *, judge: str) -> subprocess.CompletedProcess[str]:
    """Judge one response on the command line with the configuration given."""
    rubric = Rubric(
        criteria=(
            Criterion(
                id="words", weight=3, required_elements=("Fourier", "signal", "inverse")
            ),
            Criterion(id="none", weight=1),
        )
    )
    task = Task(
        question="What is an FFT?", grounding=Grounding("A passage."), rubric=rubric
    )
    write_tasks(folder / "tasks.jsonl", [task])
    row = {"task_id": task.task_id, "response": "The FOURIER transform of a signal."}
    (folder / "responses.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (folder / "judge.yaml").write_text(judge, encoding="utf-8")
    call = "from rubric_judge.cli import main; main()"
    files = "score tasks.jsonl responses.jsonl --judge judge.yaml --out judged.jsonl"
    return subprocess.run(
        [sys.executable, "-c", call, *files.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_judge_written_from_the_page_scores_on_the_command_line(plugin: Path) -> None:
    (configuration,) = _code(ROOT / "docs/judge.md", "yaml")

    done = _score(plugin, judge=configuration)

    assert done.returncode == 0, done.stderr
    row = json.loads((plugin / "judged.jsonl").read_text("utf-8"))
    assert row["result"]["scores"] == {"words": 2.0, "none": 0.0}
    assert row["result"]["judge"] == "required-words/1"
    assert row["reward"] == 0.5


def test_a_judge_written_from_the_page_refuses_an_option_that_it_lacks(
    plugin: Path,
) -> None:
    (configuration,) = _code(ROOT / "docs/judge.md", "yaml")

    done = _score(plugin, judge=configuration.replace("case_sensitive", "casing"))

    assert done.returncode != 0
    assert "no option ['casing']" in " ".join(done.stderr.split())


# --- docs/train.md: scale, and rewards for TRL ----------------------------------------------------


def test_the_scale_for_tiny_models_is_that_of_the_tiny_preset() -> None:
    section, _ = _code(ROOT / "docs/train.md", "yaml")
    shown = yaml.safe_load(section)
    needed = {
        "model": {"type": "path", "path": "m"},
        "data": {"train": "t"},
        "out": "o",
    }

    config = parse_config(needed | shown)
    preset = load_config(ROOT / "configs/train/tiny.yaml")

    assert config.steps == preset.steps
    for name in ("rollout", "optim"):
        ours, theirs = getattr(config, name), getattr(preset, name)
        assert {key: getattr(theirs, key) for key in shown[name]} == {
            key: getattr(ours, key) for key in shown[name]
        }


class _Unreachable:
    name = "unreachable"

    async def judge(self, view: JudgeView) -> JudgeResult:
        del view
        return JudgeResult.unavailable(Reason.TIMEOUT, judge=self.name)


@pytest.fixture
def trl(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's Python defines, run where the dataset is."""
    monkeypatch.chdir(workplace)
    names: dict[str, Any] = {}
    for code in _code(ROOT / "docs/train.md", "python"):
        exec(code, names)  # noqa: S102 - the page's own code is the thing under test
    return names


def _called_as_trl_does(
    names: dict[str, Any], completions: list[Any]
) -> list[float | None]:
    rows = names["rows"][: len(completions)]
    return asyncio.run(
        names["reward"](
            prompts=[row["prompt"] for row in rows],
            completions=completions,
            completion_ids=[[0]] * len(rows),
            task_id=[row["task_id"] for row in rows],
            trainer_state=None,
        )
    )


def test_the_reward_for_trl_pays_a_reference_answer_and_no_empty_one(
    trl: dict[str, Any],
) -> None:
    first, second, *_ = trl["tasks"].values()

    text = _called_as_trl_does(trl, [first.reference_answer, ""])
    chat = _called_as_trl_does(
        trl,
        [
            [{"role": "assistant", "content": first.reference_answer}],
            [{"role": "assistant", "content": second.reference_answer}],
        ],
    )

    assert text[0] is not None
    assert text[0] >= 0.7
    assert text[1] == 0.0
    assert chat[0] == text[0]


def test_the_reward_for_trl_is_none_where_there_is_no_judgement(
    trl: dict[str, Any],
) -> None:
    trl["pool"] = type(trl["pool"])(_Unreachable())

    assert _called_as_trl_does(trl, ["An answer.", "Another."]) == [None, None]


def test_the_rows_for_trl_hold_no_passage_and_no_rubric(trl: dict[str, Any]) -> None:
    assert {frozenset(row) for row in trl["rows"]} == {frozenset({"prompt", "task_id"})}


# --- docs/synth.md, docs/eval.md ------------------------------------------------------------------


def _criterion(word: str) -> CriterionDraft:
    return CriterionDraft(
        id=word,
        weight=2,
        name=word,
        description=f"Says that the {word} is part of the loop.",
        scoring_guide="All or nothing.",
        verification_method="sentences: any",
        required_elements=(word,),
        expected_keywords=(word,),
    )


def test_a_synthesiser_written_from_the_page_makes_tasks(
    tmp_path: Path, printed: Callable[[str], str]
) -> None:
    (code,) = _code(ROOT / "docs/synth.md", "python")
    words = ("pump", "pressure", "valve", "filter", "vessel")
    answer = (
        "The pump raises the pressure of the water in the loop, and the valve lets some of it out. "
        "The filter then cleans what is left, before it all flows back into the vessel."
    )
    draft = Draft(
        question="How does the loop keep its water clean?",
        passage="A passage about the loop.",
        criteria=tuple(map(_criterion, words)),
        reference_answer=answer,
    )
    model = f"async def complete(prompt):\n    return {draft.model_dump_json()!r}\n"
    (tmp_path / "my_model.py").write_text(model, encoding="utf-8")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "loop.md").write_text(
        f"# The loop\n\n{answer} {answer}\n", "utf-8"
    )

    shown = printed(f"{code}\nprint(sum(report.tasks.values()))")

    assert shown.splitlines()[-1] == "1"


STYLES = {
    "numpydoc": "Parameters\n----------\nsignal : list\n    The samples that are read.",
    "google": "Args:\n    signal (list): The samples that are read.",
    "sphinx": ":param signal: The samples that are read.\n:type signal: list",
}


@pytest.mark.parametrize("style", STYLES)
def test_parameters_are_read_from_every_docstring_style_that_the_page_names(
    style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = "Smooth a signal by a running mean, so that its slow part is left. " * 4
    docstring = f"{summary}\n\n{STYLES[style]}\n"
    (tmp_path / f"in_{style}.py").write_text(
        f"def smooth(signal):\n    {docstring!r}\n", "utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)

    collected = collect([f"python:in_{style}"], tmp_path / "documents")

    (document,) = read_collected(collected.out)
    assert (
        "## Parameters\n\n- `signal` [list]: The samples that are read."
        in document.text
    )


def test_the_evaluation_of_a_policy_folder_runs(
    workplace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (code,) = _code(ROOT / "docs/eval.md", "python")
    (tmp_path / "page.py").write_text(code, "utf-8")
    monkeypatch.chdir(workplace)

    # In this process, which has imported torch; a warning is an error here too.
    runpy.run_path(str(tmp_path / "page.py"), run_name="__main__")

    printed, errors = capsys.readouterr()
    assert errors == ""
    assert "mean=" in printed
    # The tiny policy earns nothing twice; few documents, so a wide interval.
    assert re.match(
        r"mean=0\.0 ci_low=-0\.\d+ ci_high=0\.\d+ n=\d", printed.splitlines()[-1]
    )


# --- every page -----------------------------------------------------------------------------------


def test_every_page_with_python_is_run() -> None:
    assert {_name(page) for page in PAGES if _code(page, "python")} == RUN_PAGES


@pytest.mark.parametrize("page", [*PAGES, *PACKAGE_PAGES], ids=_name)
def test_every_block_of_a_page_can_be_read(page: Path) -> None:
    for language, code in _blocks(page):
        assert language in READ_AS
        if language == "bash":
            subprocess.run(["bash", "-n"], input=code, text=True, check=True)
        elif language == "yaml":
            assert yaml.safe_load(code)
        elif language == "toml":
            assert tomllib.loads(code)


@pytest.mark.parametrize("page", [*PAGES, *PACKAGE_PAGES], ids=_name)
def test_everything_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    shell = "\n".join(_code(page, "bash"))
    recipes = (ROOT / "justfile").read_text("utf-8")

    # Pages of reference/ are made with the site, whose strict build looks at the links to them.
    links = [
        name
        for name in LINK.findall(text)
        if not name.removeprefix("../").startswith(MADE)
    ]
    missing = [name for name in links if not (page.parent / name).exists()]
    missing += [name for name in RUN.findall(shell) if not (ROOT / name).exists()]
    missing += [
        name for name in LOCAL_PACKAGE.findall(shell) if not (ROOT / name).exists()
    ]
    missing += [
        name
        for name in RECIPE.findall(shell)
        if not re.search(rf"^{name}( |:)", recipes, re.MULTILINE)
    ]
    missing += [
        f"{program} {command}"
        for program, command in COMMAND.findall(shell)
        if command not in _commands(program)
    ]

    assert missing == []


def _commands(program: str) -> set[str]:
    """The subcommands of one of our programs."""
    return set(importlib.import_module(CLI_MODULES[program]).app)


def test_the_numbered_examples_are_all_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")

    numbered = sorted((ROOT / "examples").glob("[0-9]*.py"))
    assert [one.name for one in numbered if f"examples/{one.name}" not in readme] == []


def test_the_paper_is_named_where_its_equations_are_and_in_the_readme() -> None:
    (entry,) = _code(ROOT / "docs/equations.md", "bibtex")

    assert TITLE in " ".join(entry.split())
    for name in ("README.md", "docs/equations.md"):
        prose = BLOCK.sub("", (ROOT / name).read_text("utf-8"))
        assert TITLE in " ".join(prose.split())
