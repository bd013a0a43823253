"""A run learns from the probabilities that its responses were drawn with, or stops."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
import transformers
from structlog.testing import capture_logs
from transformers import AutoTokenizer

from rubric_train_openrlhf.errors import PolicyMismatchError, ResumeError
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.policy import sampling
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_judge.testing import ScriptedJudge
    from rubric_train_openrlhf.config.train import TrainConfig

    MakeConfig = Callable[..., TrainConfig]

NOISY: dict[str, dict[str, Any]] = {
    "opt": {"word_embed_proj_dim": 32, "ffn_dim": 64, "layerdrop": 0.3},
    "biogpt": {"layerdrop": 0.3},
    "phimoe": {"num_local_experts": 4, "router_jitter_noise": 0.3, "input_jitter_noise": 0.3},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "router_jitter_noise": 0.5},
    "lfm2": {
        "layer_types": ["conv", "full_attention"], "block_ff_dim": 64, "block_multiple_of": 8,
    },
}  # fmt: skip
LONG = {
    "rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "factor": 8.0,
    "rope_theta": 10000.0, "original_max_position_embeddings": 40,
}  # fmt: skip


@pytest.fixture
def make_model(workspace: Any, tmp_path: Path) -> Callable[..., Path]:
    """A folder with a random model of a kind, and the tokenizer of the workspace."""

    def make(kind: str, **given: Any) -> Path:
        tokenizer: Any = AutoTokenizer.from_pretrained(workspace.model)
        if "rope" in given:
            is_new = hasattr(transformers.LlamaConfig(), "rope_parameters")
            given["rope_parameters" if is_new else "rope_scaling"] = given.pop("rope")
        shape = {
            "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        }  # fmt: skip
        config = transformers.AutoConfig.for_model(kind, **(shape | given))
        torch.manual_seed(0)
        model: Any = transformers.AutoModelForCausalLM.from_config(config).float()
        with torch.no_grad():
            for one in model.parameters():
                if one.dim() > 1:
                    one.normal_(0, 0.2)
        model.save_pretrained(tmp_path / "model")
        tokenizer.save_pretrained(tmp_path / "model")
        return tmp_path / "model"

    return make


def one_step(
    make_config: MakeConfig, model: Path | None = None, **changes: Any
) -> TrainConfig:
    named = {} if model is None else {"model": {"path": model}}
    optim = {
        "learning_rate": 1e-6,
        "updates_per_rollout": 1,
        **changes.pop("optim", {}),
    }
    return make_config(
        steps=1, data={"validation": None}, optim=optim, **named, **changes
    )


@pytest.mark.parametrize("kind", NOISY)
@pytest.mark.parametrize("is_recomputed", [False, True])
def test_the_ratio_is_one_and_the_divergence_zero(
    kind: str,
    is_recomputed: bool,  # noqa: FBT001
    make_config: MakeConfig,
    make_model: Callable[..., Path],
    spread_judge: ScriptedJudge,
) -> None:
    optim = {"gradient_checkpointing": is_recomputed}
    config = one_step(make_config, make_model(kind, **NOISY[kind]), optim=optim)
    run_grpo(config, judge=spread_judge)

    (row,) = RunFolder(config.out).read_metrics()
    assert (row.ratio_mean, row.clip_frac) == (pytest.approx(1.0, abs=1e-4), 0.0)
    assert row.kl < 1e-6


@pytest.mark.parametrize("new_tokens", [4, 60])
def test_a_rope_that_follows_the_length_is_held_for_a_run(
    new_tokens: int,
    make_config: MakeConfig,
    make_model: Callable[..., Path],
    spread_judge: ScriptedJudge,
) -> None:
    model = make_model("llama", rope=LONG)
    rollout = {"max_new_tokens": new_tokens}
    config = one_step(make_config, model, rollout=rollout)
    run_grpo(config, judge=spread_judge)

    (row,) = RunFolder(config.out).read_metrics()
    assert (row.ratio_mean, row.clip_frac) == (pytest.approx(1.0, abs=1e-4), 0.0)
    saved = json.loads(
        (config.out / "checkpoints" / "step_000001" / "rotary.json").read_text()
    )
    assert new_tokens < saved["max_length"] < new_tokens + 60


def shaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the sampler draw from another distribution than it is asked to."""
    theirs = sampling.LiveRows.scores
    monkeypatch.setattr(
        sampling.LiveRows,
        "scores",
        lambda rows, temperature: theirs(rows, 1.5 * temperature),
    )


def test_a_sampler_of_another_policy_stops_the_run_before_its_first_update(
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shaken(monkeypatch)
    config = make_config(steps=1, data={"validation": None})
    with pytest.raises(
        PolicyMismatchError, match=r"step 1: LlamaForCausalLM.*the sampler"
    ):
        run_grpo(config, judge=spread_judge)

    assert list(RunFolder(config.out).read_metrics()) == []


def test_a_run_may_be_told_to_go_on(
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shaken(monkeypatch)
    config = make_config(steps=1, data={"validation": None}, on_mismatch="warn")
    with capture_logs() as logs:
        run_grpo(config, judge=spread_judge)

    assert [log["source"] for log in logs if log["event"] == "train.policies_differ"]
    assert len(list(RunFolder(config.out).read_metrics())) == 1


def test_a_resumed_run_is_looked_at_too(
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"data": {"validation": None}, "checkpoint": {"every": 1}}
    run_grpo(make_config(steps=1, **settings), judge=spread_judge)
    shaken(monkeypatch)
    with pytest.raises(PolicyMismatchError, match="step 2"):
        run_grpo(make_config(steps=2, **settings), judge=spread_judge, resume=True)


def test_responses_of_later_shares_are_looked_at(
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[int] = []
    scores = sampling.LiveRows.scores

    def last_part(rows: Any, temperature: float) -> torch.Tensor:
        return scores(rows, temperature * (1.5 if len(drawn) > 1 else 1.0))

    made = sampling.LiveRows.__init__

    def counted(*parts: Any, **named: Any) -> None:
        drawn.append(1)
        made(*parts, **named)

    monkeypatch.setattr(sampling.LiveRows, "__init__", counted)
    monkeypatch.setattr(sampling.LiveRows, "scores", last_part)
    with pytest.raises(PolicyMismatchError):
        run_grpo(make_config(steps=1, data={"validation": None}), judge=spread_judge)


def test_prompts_are_recorded_and_a_run_goes_on_with_them_alone(
    make_config: MakeConfig, spread_judge: ScriptedJudge
) -> None:
    settings = {"data": {"validation": None}, "checkpoint": {"every": 1}}
    config = make_config(steps=1, **settings)
    run_grpo(config, judge=spread_judge)
    kept = config.out / "environment.json"
    environment = json.loads(kept.read_text())
    assert environment["prompting"]["prompt_date"] == "2026-01-01"
    assert len(environment["prompting"]["tokenizer_sha256"]) == 64

    environment["prompting"]["tokenizer_sha256"] = "another"
    kept.write_text(json.dumps(environment))
    with pytest.raises(ResumeError, match="another tokenizer"):
        run_grpo(make_config(steps=2, **settings), judge=spread_judge, resume=True)
