"""What `rubric-synth plan` says beforehand is held against what a run took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_judge import JudgeConfig, ModelConfig
from rubric_judge.models.litellm_client import known_prices
from rubric_judge.models.model_config import Prices
from rubric_judge.testing import FakeEndpoint
from rubric_synth import LLMConfig, QualityConfig, SynthConfig, collect, synthesise
from rubric_synth.cli import main
from rubric_synth.run.pipeline.estimate import estimate
from rubric_synth.testing import generated_documents, scripted_reply

if TYPE_CHECKING:
    from pathlib import Path

_PRICES = Prices(prompt_usd_per_mtok=1.0, completion_usd_per_mtok=4.0)


@pytest.fixture
def collected(tmp_path: Path) -> Path:
    texts = tmp_path / "texts"
    texts.mkdir()
    for number, document in enumerate(generated_documents(6)):
        (texts / f"{number}.md").write_text(document.text)
    collect([texts], tmp_path / "collected")
    return tmp_path / "collected"


def test_a_run_takes_what_was_estimated(collected: Path, tmp_path: Path) -> None:
    with FakeEndpoint(scripted_reply) as endpoint:
        model = ModelConfig(
            model="fake", transport="direct", api_base=endpoint.url, prices=_PRICES
        )
        config = SynthConfig(
            synthesiser=LLMConfig(model=model, questions_per_document=2)
        )
        planned = {stage.stage: stage for stage in estimate(collected, config).stages}
        assert not endpoint.calls
        report = synthesise(collected, tmp_path / "dataset", config=config)
        used: dict[str, list[int]] = {}
        for call in endpoint.calls:
            name = (
                call.body.get("response_format", {})
                .get("json_schema", {})
                .get("name", "")
            )
            tokens = sum(len(message["content"]) for message in call.messages) // 4
            used.setdefault(name, []).append(tokens)
    names = {"AnalysisReply": "analyse", "SynthesisReply": "synthesise"}
    names["EnrichmentReply"] = "enrich"
    for name, stage in names.items():
        calls = len(used[name])
        assert calls <= planned[stage].calls
        assert calls == planned[stage].calls or stage == "enrich"
        each = planned[stage].prompt_tokens / planned[stage].calls
        assert each == pytest.approx(
            sum(used[name]) / calls, rel=0.02 if stage == "analyse" else 0.35
        )
    assert report.usage.cost_usd <= sum(
        stage.cost_usd or 0 for stage in planned.values()
    )


def test_what_is_not_known_is_no_figure(collected: Path) -> None:
    model = ModelConfig(
        model="fake", transport="direct", api_base="http://127.0.0.1:9/v1"
    )
    judge = JudgeConfig(model="openai/gpt-4.1-mini")
    config = SynthConfig(
        synthesiser=LLMConfig(model=model, questions_per_document=2),
        quality=QualityConfig(judge=judge, corruptions=("half", "terms")),
    )
    found = estimate(collected, config)
    by_stage = {stage.stage: stage for stage in found.stages}
    assert by_stage["analyse"].cost_usd is None
    assert by_stage["quality"].calls == found.documents * 2 * 5
    assert by_stage["quality"].cost_usd is not None
    assert found.cost_usd is None
    each = judge.model_copy(update={"granularity": "criterion"})
    apart = config.model_copy(update={"quality": QualityConfig(judge=each)})
    assert estimate(collected, apart).stages[-1].calls == found.documents * 2 * 4 * 8
    threes = judge.model_copy(update={"granularity": 3})
    parts = config.model_copy(update={"quality": QualityConfig(judge=threes)})
    assert estimate(collected, parts).stages[-1].calls == found.documents * 2 * 4 * 3


def test_prices_are_the_configured_ones_or_those_of_litellm() -> None:
    known = known_prices(ModelConfig(model="openai/gpt-4.1-mini"))
    assert known is not None
    assert known.completion_usd_per_mtok > known.prompt_usd_per_mtok > 0
    assert (
        known_prices(ModelConfig(model="openai/gpt-4.1-mini", prices=_PRICES))
        == _PRICES
    )
    assert known_prices(ModelConfig(model="openai/no-such-model")) is None


def _said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *map(str, words)])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_command(
    collected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no model is asked" in _said(capsys, collected)
    config = tmp_path / "synth.yaml"
    config.write_text("synthesiser: {type: llm, model: {model: openai/gpt-4.1-mini}}\n")
    said = _said(capsys, collected, "--config", config, "--max-cost-usd", 0.001)
    assert "6 documents: at most 30 calls" in said
    assert "max_cost_usd 0.001 reaches for some 0 of 6 documents" in said
    said = _said(capsys, collected, "--config", config, "--limit", 2)
    assert "2 documents: at most 10 calls" in said
