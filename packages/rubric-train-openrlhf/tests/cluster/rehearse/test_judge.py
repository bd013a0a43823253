from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from rubric_core import Outcome
from rubric_judge import HybridConfig, JudgeConfig, LexicalConfig, load_judge
from rubric_judge.capabilities import close
from rubric_train_openrlhf.cluster.rehearse.checking import JudgeChoice, Request, Subject
from rubric_train_openrlhf.cluster.rehearse.judge import chosen, judging_with
from rubric_train_openrlhf.cluster.rehearse.stand_ins import made_tasks
from rubric_train_openrlhf.config.sections import JudgingConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError

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
    with pytest.raises(TrainConfigError, match="--judge config or --judge lexical"):
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
