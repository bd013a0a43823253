from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from rubric_core import Outcome
from rubric_judge import HybridConfig, JudgeConfig, LexicalConfig, load_judge
from rubric_judge.judges.capabilities import close
from rubric_train_openrlhf.cluster.rehearse.checking import (
    JudgeChoice,
    Request,
    Status,
    Subject,
)
from rubric_train_openrlhf.cluster.rehearse.judge import (
    check_admission,
    chosen,
    judging_with,
    sampled,
)
from rubric_train_openrlhf.cluster.rehearse.stand_ins import made_tasks
from rubric_train_openrlhf.config.sections import JudgingConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = JudgeConfig(
    model="hosted_vllm/openai/gpt-oss-20b",
    api_base="http://10.0.0.1:8000/v1",
    transport="direct",
    api_key_env="NO_SUCH_KEY",
    evidence="require",
    max_tokens=99,
)


def subject(
    judge: JudgeChoice,
    spec: JudgeConfig | HybridConfig | LexicalConfig,
    *,
    on_cluster: bool = False,
) -> Subject:
    return Subject(
        Request(
            source=Path("x.yaml"),
            values={},
            folder=Path("x"),
            judge=judge,
            on_cluster=on_cluster,
        ),
        config=TrainConfig.model_construct(judge=JudgingConfig(spec=spec)),
    )


def test_who_judges() -> None:
    assert chosen(subject("auto", LexicalConfig())) == "config"
    assert chosen(subject("auto", MODEL)) == "fake"
    assert chosen(subject("auto", HybridConfig(judge=MODEL))) == "fake"
    assert chosen(subject("auto", MODEL, on_cluster=True)) == "config"
    assert chosen(subject("config", MODEL)) == "config"
    assert chosen(subject("lexical", MODEL)) == "lexical"
    with pytest.raises(TrainConfigError, match="--judge config or --judge claims"):
        chosen(subject("fake", LexicalConfig()))


@pytest.mark.parametrize("spec", [MODEL, HybridConfig(judge=MODEL)])
def test_the_stand_in_speaks_the_protocol(spec: JudgeConfig | HybridConfig) -> None:
    rehearsed = subject("fake", spec)
    task = made_tasks()[0]

    async def totals() -> list[float]:
        judge = load_judge(shown)
        results = [await judge.judge(task.judge_view(f"answer {n}")) for n in range(6)]
        await close(judge)
        assert {result.outcome for result in results} == {Outcome.SCORED}
        return [result.total or 0.0 for result in results]

    with judging_with(rehearsed) as shown:
        inner = shown.judge if isinstance(shown, HybridConfig) else shown
        assert isinstance(inner, JudgeConfig)
        assert inner.max_tokens == 99
        assert inner.api_key_env is None
        assert len(set(anyio.run(totals))) == 6
    assert any("gpt-oss-20b" in what for what in rehearsed.stand_ins)


def test_a_rehearsal_says_what_is_masked_and_whose_calibration_it_is(
    write_calibration: Callable[..., Path],
) -> None:
    rehearsed = subject("auto", LexicalConfig())
    assert check_admission(rehearsed).detail.startswith("no judge.calibration")
    rehearsed.tasks["data.train"] = made_tasks()
    factors = {"action": 0.0, "means": 1.0, "outcome": 1.0}
    for changed, status, told in (
        ({}, Status.PASSED, "1 of 3 criteria masked (action)"),
        ({"judge_fingerprint": "other"}, Status.FAILED, "it is of the judge 'other'"),
    ):
        path = write_calibration(factors, **changed)
        judging = JudgingConfig(spec=LexicalConfig(), calibration=path)
        rehearsed.config = TrainConfig.model_construct(judge=judging)
        found = check_admission(rehearsed)
        assert (found.status, told in found.detail) == (status, True)
    path.unlink()
    assert "no file at" in check_admission(rehearsed).detail


def test_where_no_calibration_can_admit_it_a_judge_by_probability_samples() -> None:
    read = JudgeConfig(
        model="openai/judge",
        api_base="http://10.0.0.1:8000/v1",
        verdict="probability",
        parameters={"top_logprobs": 5, "seed": 1},
    )
    drawn = JudgeConfig(
        model="openai/judge",
        api_base="http://10.0.0.1:8000/v1",
        parameters={"seed": 1},
    )

    assert sampled(read) == drawn
    assert sampled(HybridConfig(judge=read)) == HybridConfig(judge=drawn)
    assert sampled(MODEL) is MODEL
