"""The shipped presets make workers, and those with a ceiling know what calls cost."""

from pathlib import Path

import anyio
import pytest

from rubric_judge import HybridConfig
from rubric_synth import SynthConfig, load_config
from rubric_synth.config import LLMConfig
from rubric_synth.run.engines.worker import WorkerSpec

FOLDER = Path(__file__).resolve().parents[3] / "configs" / "synth"
BY_MODEL = {
    path.stem: config
    for path in sorted(FOLDER.glob("*.yaml"))
    if isinstance((config := load_config(path)).synthesiser, LLMConfig)
}


@pytest.mark.parametrize("name", BY_MODEL)
def test_a_preset_makes_a_worker_where_its_keys_are_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "not-a-real-key")
    judge = BY_MODEL[name].quality.judge
    if isinstance(judge, HybridConfig) and judge.python_tests:
        pytest.importorskip("rubric_sandbox")

    async def build() -> None:
        await WorkerSpec(BY_MODEL[name]).build().aclose()

    anyio.run(build)


@pytest.mark.parametrize("name", BY_MODEL)
def test_a_hosted_model_has_a_ceiling_of_cost(name: str) -> None:
    config: SynthConfig = BY_MODEL[name]
    assert isinstance(config.synthesiser, LLMConfig)
    model = config.synthesiser.model

    is_hosted = model.api_base is None and model.litellm_config is None
    assert (config.max_cost_usd is not None) == is_hosted
