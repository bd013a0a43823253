"""The commands of an evaluation on a model behind vLLM, on its folder, and on another model."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rubric_core import Task, write_tasks
from rubric_eval.answers.store import read_answers
from rubric_eval.records.files import ItemRow, read_rows
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.responders.opening import open_model
from rubric_eval.responders.spec import OTHER, SAME, TEXT, parse_model
from rubric_judge.testing import FakeCall, FakeEndpoint
from rubric_judge.testing.vllm import VLLMServer

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]

MODELS = ("served", "folder", "other")
"""One model twice, behind the server and from its folder, and one of other weights."""


def _plain(text: str | None) -> str:
    """What is left without characters of which an answer holds only some bytes."""
    return re.sub("[^!-~]", "", text or "")


def _share(call: FakeCall) -> float:
    """A reward that depends on question and answer, and is another for every other answer."""
    return crc32(_plain(call.messages[-1]["content"]).encode()) / 2**32


@pytest.fixture(scope="module")
def other_model(make_chat_model: Callable[..., Path], positions: int) -> Path:
    return make_chat_model(positions, seed=1, spread=4.0)


@pytest.fixture
def judge() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(_share) as endpoint:
        yield endpoint


def _awarded(judge: FakeEndpoint, question: str, answer: str) -> float:
    """What the judge said to an answer; equal answers to one question are judged once."""
    texts = {_plain(call.messages[-1]["content"]): _share(call) for call in judge.calls}
    (share,) = {
        share
        for text, share in texts.items()
        if _plain(question) in text and answer in text
    }
    return share


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_one_model_is_no_better_than_itself_wherever_it_runs(  # noqa: PLR0917  # fixtures
    vllm: VLLMServer,
    short_model: Path,
    other_model: Path,
    judge: FakeEndpoint,
    command: Callable[..., None],
    make_task: Callable[..., Task],
    tmp_path: Path,
) -> None:
    tasks = [make_task(number, document=number // 2) for number in range(12)]
    write_tasks(tmp_path / "test.jsonl", tasks)
    judge_file = tmp_path / "judge.yaml"
    judge_file.write_text(
        f"type: llm\nmodel: openai/fake\napi_base: {judge.url}\ntransport: direct\n",
        "utf-8",
    )
    models = (
        f"served=server:{vllm.url}#{vllm.name}",
        f"folder=hf:{short_model}",
        f"other=hf:{other_model}",
    )
    held, moved = EvalFolder(tmp_path / "held"), EvalFolder(tmp_path / "moved")
    asked = (
        "--tasks",
        tmp_path / "test.jsonl",
        "--judge",
        judge_file,
        "--max-tokens",
        24,
    )
    command("heldout", *models, *asked, "--out", held.root)
    some = (
        "--data",
        "small",
        "--benchmarks",
        "gsm8k",
        "math",
        "--limit",
        6,
        "--max-tokens",
        24,
    )
    command("transfer", *models, *some, "--out", moved.root)
    command("compare", held.root, moved.root)
    command("report", held.root, moved.root)

    answers = {
        name: {
            row.task_id: _plain(row.text) for row in read_answers(held.answers(name, 0))
        }
        for name in MODELS
    }
    assert answers["served"] == answers["folder"]
    assert all(
        answers["served"][task.task_id] != answers["other"][task.task_id]
        for task in tasks
    )
    rewards = {
        name: [
            _awarded(judge, task.question, answers[name][task.task_id])
            for task in tasks
        ]
        for name in MODELS
    }
    means = {
        name: sum(rewards_N) / len(rewards_N) for name, rewards_N in rewards.items()
    }
    table = {row["model"]: row for row in _json(held.heldout)["rows"]}
    assert {name: row["mean"] for name, row in table.items()} == pytest.approx(means)
    assert [row["truncated_frac"] for row in table.values()] == [1.0] * 3

    items = {
        name: [
            (_plain(row.response), row.correct, row.is_truncated, row.tokens)
            for benchmark in ("rubric_gsm8k", "rubric_math")
            for row in read_rows(moved.items(benchmark, name, 0), ItemRow)
        ]
        for name in MODELS
    }
    assert len(items["served"]) == 12
    assert items["served"] == items["folder"]
    assert items["served"] != items["other"]

    found = _json(held.comparison)["differences"]
    differences = {(one["a"], one["b"], one["benchmark"]): one for one in found}
    for benchmark in ("heldout", "rubric_gsm8k", "rubric_math"):
        same = differences["folder", "served", benchmark]
        assert (same["mean"], same["p"], same["is_significant"]) == (0.0, 1.0, False)
    other = differences["other", "served", "heldout"]
    assert other["mean"] == pytest.approx(means["other"] - means["served"])
    assert other["n"] == 12

    shown = _json(held.tables / "table1_heldout.json")["rows"]
    assert {row["name"]: row["cells"][0]["value"] for row in shown} == pytest.approx(
        means
    )
    assert "Transfer to benchmarks" in held.report.read_text("utf-8")
    assert held.answered_by("served").exists()


@pytest.mark.anyio
async def test_weights_are_known_by_what_they_make_of_a_text(
    vllm: VLLMServer, short_model: Path, other_model: Path
) -> None:
    """The server's figures are those that the weights of its folder give without it."""
    async with await open_model(
        parse_model(f"m=server:{vllm.url}#{vllm.name}")
    ) as model:
        weights = model.weights
    assert weights is not None
    for folder, is_same in ((short_model, True), (other_model, False)):
        ids_T = AutoTokenizer.from_pretrained(folder)(
            TEXT, return_tensors="pt"
        ).input_ids
        with torch.no_grad():
            logits_TV = AutoModelForCausalLM.from_pretrained(folder)(ids_T).logits[
                0, :-1
            ]
        logprobs_T = logits_TV.log_softmax(-1).gather(-1, ids_T[0, 1:, None])[:, 0]
        found = weights.model_copy(update={"logprobs_T": tuple(logprobs_T.tolist())})
        difference = weights.difference(found)
        assert difference is not None
        assert difference < SAME / 10 if is_same else difference > OTHER
