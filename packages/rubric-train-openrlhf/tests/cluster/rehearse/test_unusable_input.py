"""Files and folders that no run can use: each is named with what to do, and none is a crash."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from rubric_train_openrlhf.cluster.rehearse.checking import Request, Status
from rubric_train_openrlhf.cluster.rehearse.rehearsal import rehearse
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.cluster.rehearse.checking import Finding, Report

CheckOnly: TypeAlias = "Callable[..., Report]"
Production: TypeAlias = Any
"""What the fixture of this name gives."""


def failures(report: Report) -> dict[str, Finding]:
    """The first failure of each check; a check that crashed would say so."""
    assert not any(
        "the check itself ended" in found.detail for found in report.findings
    )
    return {found.check: found for found in reversed(report.failures)}


@pytest.fixture
def with_model(production: Production, tmp_path: Path) -> Callable[..., Production]:
    """The same run on a copy of its model with a file of other content, or without it."""

    def change(name: str, content: str | None) -> Production:
        folder = tmp_path / "models" / "Llama-3-changed"
        shutil.copytree(production.values["model"]["path"], folder)
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(content)
        return production.having(model={"type": "path", "path": str(folder)})

    return change


@pytest.mark.parametrize("content", ["{nope", "[]", '{"model_type": "nonsense"}', ""])
def test_a_config_json_that_is_none(
    with_model: Callable[..., Production], check_only: CheckOnly, content: str
) -> None:
    report = check_only(with_model("config.json", content))
    problem = failures(report)["model"]
    assert problem.where == "model.path"
    assert "config.json' is not one that transformers" in problem.detail
    assert "\n" not in problem.detail
    assert next(report.of("memory")).status is Status.UNCHECKED


@pytest.mark.parametrize("content", ["{nope", "{}", "[]"])
def test_an_index_of_weights_that_is_none(
    with_model: Callable[..., Production], check_only: CheckOnly, content: str
) -> None:
    report = check_only(with_model("model.safetensors.index.json", content))
    problem = failures(report)["model"]
    assert "model.safetensors.index.json' is not one" in problem.detail


def test_a_tokenizer_that_is_none(
    with_model: Callable[..., Production], check_only: CheckOnly
) -> None:
    problem = failures(check_only(with_model("tokenizer.json", "{nope")))["tokenizer"]
    assert problem.where == "model.path"
    assert problem.remedy


def test_weights_without_their_tokenizer(
    production: Production, check_only: CheckOnly
) -> None:
    """Weights that are here lack theirs on the cluster too; a folder elsewhere may have them."""
    folder = production.folder / "Llama-3-bare"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(f"{production.values['model']['path']}/{name}", folder / name)
    bare = production.having(model={"type": "path", "path": str(folder)})
    assert "tokenizer" in failures(check_only(bare))
    (folder / "model.safetensors").unlink()
    assert "tokenizer" not in failures(check_only(bare))


@pytest.mark.parametrize("template", ["{% for m in %}", "{{ raise_exception('no') }}"])
def test_a_chat_template_that_renders_nothing(
    with_model: Callable[..., Production], check_only: CheckOnly, template: str
) -> None:
    report = check_only(with_model("chat_template.jinja", template))
    problem = failures(report)["tokenizer"]
    assert "chat template" in problem.detail
    assert "repair chat_template" in problem.detail


def test_no_chat_template(
    with_model: Callable[..., Production], check_only: CheckOnly
) -> None:
    report = check_only(with_model("chat_template.jinja", None))
    (said,) = (
        found for found in report.of("tokenizer") if found.status is Status.WARNING
    )
    assert "has no chat template" in said.detail


def test_a_model_that_is_a_file(production: Production, check_only: CheckOnly) -> None:
    file = production.values["data"]["train"]
    problem = failures(
        check_only(production.having(model={"type": "path", "path": file}))
    )["model"]
    assert "is a file" in problem.detail


def test_heads_that_an_engine_cannot_split(
    production: Production, check_only: CheckOnly
) -> None:
    cluster = {"max_len": 1024, "engines": {"tensor_parallel": 8}}
    problem = failures(check_only(production.having(cluster=cluster)))["model"]
    assert problem.where == "cluster.engines.tensor_parallel"
    assert "tensor_parallel=8 does not divide the 2 attention heads" in problem.detail


def test_tasks_that_are_a_folder(production: Production, check_only: CheckOnly) -> None:
    folder = str(production.folder)
    found = failures(check_only(production.having(data={"train": folder})))
    assert "is a folder" in found["training tasks"].detail


def test_fewer_tasks_than_prompts(
    production: Production, check_only: CheckOnly
) -> None:
    report = check_only(production)
    assert report.passed
    (said,) = report.of("tasks of a step")
    assert said.status is Status.WARNING
    assert said.where == "rollout.prompts"
    assert "rollout.prompts=64 is more than the 8 tasks" in said.detail


def test_a_row_that_stands_twice(production: Production, check_only: CheckOnly) -> None:
    twice = production.with_train([*production.rows(), production.rows()[0]])
    details = [found.detail for found in check_only(twice).of("training tasks")]
    assert any(
        "1 rows are tasks that stand there already" in detail for detail in details
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("train.jsonl", "is a file"),
        ("train.jsonl/under", "is a file"),
        ("x" * 300, "File name too long"),
    ],
)
def test_an_output_folder_that_cannot_be(
    production: Production, check_only: CheckOnly, name: str, words: str
) -> None:
    out = str(production.folder / name)
    problem = failures(check_only(production.having(out=out)))["output folder"]
    assert problem.where == "out"
    assert words in problem.detail
    assert problem.remedy == "choose another `out`"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"deadline_s": float("nan")}, "--deadline-s nan is no time to wait"),
        ({"deadline_s": -5.0}, "--deadline-s -5 is no time to wait"),
        ({"folder": "train.jsonl"}, "is a file; --out names a folder"),
        ({"folder": "train.jsonl/under"}, "cannot be made or cleared: Not a directory"),
    ],
)
def test_a_rehearsal_that_cannot_be(
    production: Production, changes: dict[str, Any], words: str
) -> None:
    request = Request(
        production.folder / "p.yaml", production.values, production.folder / "r"
    )
    if "folder" in changes:
        changes = {"folder": production.folder / changes["folder"]}
    with pytest.raises(TrainConfigError, match=words):
        rehearse(replace(request, run=False, **changes))


@pytest.mark.parametrize(
    ("sections", "where"),
    [
        ({"steps": -1}, "steps"),
        ({"rollout": {"group_sise": 8}}, "rollout.group_sise"),
        ({"stepz": 1}, "stepz"),
        ({"cluster": [1]}, "cluster"),
        ({"cluster": {"gpus_per_node": 0}}, "cluster.gpus_per_node"),
    ],
)
def test_a_mistake_is_placed_by_its_key(
    production: Production, check_only: CheckOnly, sections: dict[str, Any], where: str
) -> None:
    """Not by the name of the file, which has a dot in it too."""
    wrong = replace(production, values={**production.values, **sections})
    assert failures(check_only(wrong))["configuration"].where == where


@pytest.mark.openrlhf
def test_an_indivisible_warm_start_is_placed(
    production: Production, check_only: CheckOnly
) -> None:
    sft = {"steps": 10, "batch_size": 9, "learning_rate": 1e-5}
    assert (
        failures(check_only(production.having(sft=sft)))["flags"].where
        == "sft.batch_size"
    )


def test_a_judge_without_its_key(production: Production, check_only: CheckOnly) -> None:
    spec = {"type": "llm", "model": "openai/x", "api_key_env": "RUBRIC_NO_SUCH_KEY"}
    found = failures(
        check_only(production.having(judge={"spec": spec}), judge="config")
    )
    for check in ("judge reachable", "judge's contract"):
        assert found[check].where == "judge.spec"
        assert "RUBRIC_NO_SUCH_KEY" in found[check].detail


def test_no_row_of_a_report_quotes_a_task(
    production: Production, check_only: CheckOnly
) -> None:
    rows = production.rows()
    rows[0]["criteria"][0]["weight"] = "heavy"
    rows[1]["question"] = rows[1]["passage"]
    report = check_only(production.with_train(rows))
    assert not report.passed
    told = json.loads(report.to_json())
    for row in rows:
        assert row["passage"] not in json.dumps(told, ensure_ascii=False)
