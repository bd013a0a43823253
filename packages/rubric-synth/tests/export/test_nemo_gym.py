"""An environment for NeMo Gym: what it reads, and that its fixtures tell the truth."""

import asyncio
import dataclasses
import importlib.metadata
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rubric_judge import JudgeConfig, load_judge
from rubric_judge.adapters.scoring import RubricScorer, Submission
from rubric_judge.quality.fixtures.checking import check_fixtures
from rubric_synth.export import nemo_gym, run
from rubric_synth.export.card_figures import Figures
from rubric_synth.export.environment import Environment

Write = Callable[..., Path]


def environment_of(dataset: Path) -> Environment:
    """A dataset that is made an environment, its fixtures judged."""
    targets = run.chosen_targets(["nemo-gym"])
    made = run.read_environment(dataset, name="my-docs", judge=None, targets=targets)
    tasks = {task.task_id: task for task in made.tasks}
    judge = load_judge(made.judge_spec)
    report = asyncio.run(check_fixtures(made.fixtures, tasks, judge))
    return dataclasses.replace(made, figures=Figures(judge.name, report))


def cases_of(out: Path) -> list[dict[str, Any]]:
    file = out / "resources_servers/my_docs/tests/verifier_cases.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.fixture
def out(write_dataset: Write, tmp_path: Path) -> Path:
    out = tmp_path / "my-docs"
    run.write_environment(environment_of(write_dataset()), out)
    return out


def test_the_manifest_mirrors_the_configuration_and_names_no_test_split(
    out: Path,
) -> None:
    """As `gym env validate` demands."""
    folder = out / "environments/my_docs"
    manifest = yaml.safe_load((folder / "manifest.yaml").read_text("utf-8"))
    config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    server = config["my_docs_resources_server"]["resources_servers"]["my_docs"]

    listed = [{**entry, "license": "TBD"} for entry in manifest["datasets"]]
    assert server["datasets"] == listed
    assert [entry["type"] for entry in listed] == ["train", "validation"]
    assert all((out / entry["jsonl_fpath"]).is_file() for entry in listed)
    assert (out / config["config_paths"][0]).is_file()
    agent = config["my_docs_agent"]["responses_api_agents"]["simple_agent"]
    assert agent["resources_server"]["name"] == "my_docs_resources_server"
    assert manifest["determinism"] == "seeded"
    assert (folder / "data" / "test.jsonl").is_file()


def test_a_row_is_a_question_and_the_id_of_its_task(out: Path) -> None:
    for split in ("train", "validation", "test"):
        rows = (out / f"environments/my_docs/data/{split}.jsonl").read_text("utf-8")
        asked = (out / f"my_docs/policy/{split}.jsonl").read_text("utf-8")
        for line, policy_line in zip(
            rows.splitlines(), asked.splitlines(), strict=True
        ):
            row = json.loads(line)
            view = json.loads(policy_line)
            message = {"role": "user", "content": view["prompt"]}
            assert row == {
                "responses_create_params": {"input": [message]},
                "task_id": view["task_id"],
            }


def test_each_case_expects_what_the_server_gives(out: Path) -> None:
    cases = cases_of(out)
    counts = Counter(case["kind"] for case in cases)
    scorer = RubricScorer(
        judge=out / "my_docs/judge/judge.yaml", tasks=out / "my_docs/judge/tasks.jsonl"
    )
    judged = [case for case in cases if case["kind"] != "malformed"]

    judgements = scorer.judge_from_thread(
        [
            Submission(
                row=case["request"],
                response=case["request"]["response"]["output"],
                prompt=case["request"]["responses_create_params"]["input"],
            )
            for case in judged
        ]
    )

    scorer.close()
    assert [judgement.reward for judgement in judgements] == [
        case["expected_reward"] for case in judged
    ]
    assert counts["full_reward"] == 6
    assert counts["zero_reward"] >= 12
    assert counts["determinism"] >= 6
    (malformed,) = (case for case in cases if case["kind"] == "malformed")
    assert malformed["expected_error"] == "response"
    assert "response" not in malformed["request"]


def test_a_model_as_a_judge_promises_no_determinism(
    write_dataset: Write, tmp_path: Path
) -> None:
    program = environment_of(write_dataset())
    model = dataclasses.replace(program, judge_spec=JudgeConfig(model="openai/gpt"))

    run.write_environment(model, tmp_path / "my-docs")

    manifest = tmp_path / "my-docs/environments/my_docs/manifest.yaml"
    assert yaml.safe_load(manifest.read_text("utf-8"))["determinism"] == "unknown"
    kinds = {case["kind"] for case in cases_of(tmp_path / "my-docs")}
    assert kinds == {"full_reward", "zero_reward", "malformed"}


def test_without_fixtures_none_is_promised(
    write_dataset: Write, tmp_path: Path
) -> None:
    bare = dataclasses.replace(environment_of(write_dataset()), figures=None)

    run.write_environment(bare, tmp_path / "my-docs")

    server = tmp_path / "my-docs/resources_servers/my_docs"
    assert not (server / "tests").exists()
    assert "VERIFIER_FIXTURE" not in (server / "app.py").read_text("utf-8")


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_gyms_own_runner_passes(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By nemo-gym 0.7.0, where it is installed: it asks for Python 3.13."""
    validation = pytest.importorskip("nemo_gym.environment.validation")
    fixtures = pytest.importorskip("nemo_gym.verifier_fixture")
    monkeypatch.chdir(out)
    report = validation.validate_environment(out / "environments/my_docs/manifest.yaml")
    path = out / "resources_servers/my_docs/app.py"
    spec = importlib.util.spec_from_file_location("app", path)
    assert spec is not None
    assert spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "app", app)
    spec.loader.exec_module(app)

    results = asyncio.run(
        fixtures.exercise_verifier_fixture(
            app.VERIFIER_FIXTURE, reward_range=(0.0, 1.0), determinism="seeded"
        )
    )

    assert not report.warnings
    assert [entry.rows for entry in report.datasets] == [2, 2]
    assert len(results) == len(cases_of(out))
    assert (
        nemo_gym.TARGET.stack == f"nemo-gym=={importlib.metadata.version('nemo-gym')}"
    )
