"""Sizes against published or hand-computed figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from rubric_train_openrlhf.cluster.planning.sizing import (
    ASSUMPTIONS,
    GB,
    GPUS,
    Gpu,
    decode_tokens_per_s,
    engine_room,
    host_memory,
    judge_load,
    memory,
    planned_gpus,
    policy_state,
    step_time,
)
from rubric_train_openrlhf.config.train import TrainConfig, load_config
from rubric_train_openrlhf.errors import PolicyLoadError
from rubric_train_openrlhf.policy.shape import KNOWN_SHAPES, model_shape

if TYPE_CHECKING:
    from collections.abc import Callable

PRESET = Path(__file__).parents[5] / "configs" / "train" / "paper_llama31_8b_8gpu.yaml"
PAGE = Path(__file__).parents[5] / "docs" / "train" / "openrlhf.md"
LLAMA = KNOWN_SHAPES["Llama-3.1-8B"]
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
}


def test_published_sizes() -> None:
    """The model cards' counts; 128 KiB = 2 · 32 layers · 8 heads · 128 · 2 bytes."""
    assert LLAMA.parameters == 8_030_261_248
    assert KNOWN_SHAPES["Llama-3.1-70B"].parameters == 70_553_706_496
    assert KNOWN_SHAPES["Llama-3.2-1B"].parameters == 1_235_814_400
    assert KNOWN_SHAPES["Llama-3.2-3B"].parameters == 3_212_749_824
    assert KNOWN_SHAPES["Qwen2.5-1.5B"].parameters == 1_543_714_304
    assert LLAMA.kv_bytes_per_token() == 128 * 1024


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SMALL, tie_word_embeddings=False),
        LlamaConfig(**SMALL, tie_word_embeddings=True),
        Qwen2Config(**SMALL, tie_word_embeddings=True),
        Qwen3Config(**SMALL, head_dim=24, tie_word_embeddings=False),
    ],
    ids=["llama", "llama, tied", "qwen2", "qwen3"],
)
def test_counts_are_those_of_the_model_that_transformers_builds(
    config: LlamaConfig | Qwen2Config | Qwen3Config, tmp_path: Path
) -> None:
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    shape = model_shape(tmp_path)
    assert shape is not None
    assert shape.parameters == model.num_parameters()


def test_a_model_that_is_not_here_goes_by_its_name(tmp_path: Path) -> None:
    assert model_shape(tmp_path / "Llama-3.1-8B-Instruct") == LLAMA
    assert model_shape(tmp_path / "another") is None


def test_other_families_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mixtral"}))
    assert model_shape(tmp_path) is None


@pytest.mark.parametrize("text", ["{", '{"model_type": "llama"}', "[]"])
def test_a_broken_config_json_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(PolicyLoadError, match=r"config\.json"):
        model_shape(tmp_path)


@pytest.mark.parametrize(
    ("stage", "weights", "gradients", "optimiser", "reference"),
    [
        # Bytes per weight on each of 8 GPUs: arXiv 1910.02054, figure 1, plus float32 sums.
        (1, 2, 2 + 4, 12 / 8, 2),
        (2, 2, 4 / 8, 12 / 8, 2),
        (3, 2 / 8, 4 / 8, 12 / 8, 2 / 8),
    ],
)
def test_zero_stages(
    make_config: Callable[..., TrainConfig],
    stage: int,
    weights: float,
    gradients: float,
    optimiser: float,
    reference: float,
) -> None:
    config = make_config(cluster={"deepspeed": {"zero_stage": stage}})
    state = policy_state(config, LLAMA)
    per_weight = [size / LLAMA.parameters for size in state]
    assert per_weight == pytest.approx([weights, gradients, optimiser, reference])


def test_what_is_moved_off_a_gpu_is_on_its_machine(
    make_config: Callable[..., TrainConfig],
) -> None:
    cluster = {
        "deepspeed": {
            "zero_stage": 3,
            "offload_optimizer": True,
            "offload_reference": True,
        }
    }
    config = make_config(cluster=cluster)
    state = policy_state(config, LLAMA)
    assert (state.optimiser, state.reference) == (0.0, 0.0)
    # 12 optimiser, 2 reference, 4 gradients while engines sample, 8 sleeping engines of 2.
    assert host_memory(config, LLAMA) == pytest.approx(
        (12 + 2 + 4 + 16) * LLAMA.parameters
    )


def test_single_precision_needs_no_master_weights(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(
        precision="float32",
        cluster={"gpus_per_node": 1, "deepspeed": {"attention": "sdpa"}},
    )
    state = policy_state(config, LLAMA)
    assert [size / LLAMA.parameters for size in state] == [4, 4, 8, 4]


def test_logits_of_a_large_vocabulary_count(
    make_config: Callable[..., TrainConfig],
) -> None:
    """16 × 4096 tokens × 128,256 × 10 bytes: the largest part by far, and the micro-batch's."""
    parts = memory(make_config(), LLAMA, GPUS[0])["training"]
    assert parts["logits"] == 16 * 4096 * 128_256 * 10
    assert parts["logits"] > 80 * GB


def test_checkpointing_keeps_one_input_a_layer(
    make_config: Callable[..., TrainConfig],
) -> None:
    optim = {"micro_batch": 1, "gradient_checkpointing": True}
    parts = memory(make_config(optim=optim), LLAMA, GPUS[0])["training"]
    layer = 2 * (8 * 4096 + 4 * 14336)
    assert parts["activations"] == 4096 * (2 * 32 * 4096 + layer)
    without = memory(make_config(optim={"micro_batch": 1}), LLAMA, GPUS[0])["training"]
    assert without["activations"] == 4096 * 32 * layer


def test_the_cache_bounds_what_an_engine_samples(
    make_config: Callable[..., TrainConfig],
) -> None:
    room = engine_room(make_config(), LLAMA, GPUS[0])
    held = 0.6 * 80 * GB - 2 * LLAMA.parameters - 3 * GB
    assert room.cache == pytest.approx(held)
    assert room.sequences == int(held / (128 * 1024 * (256 + 0.4 * 3072)))
    few = make_config(cluster={"engines": {"max_sequences": 16}})
    assert engine_room(few, LLAMA, GPUS[0]).sequences == 16


def test_an_engine_that_does_not_fit_samples_nothing(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(cluster={"engines": {"memory_frac": 0.1}})
    assert engine_room(config, LLAMA, GPUS[0]).sequences == 0
    assert decode_tokens_per_s(config, LLAMA, GPUS[0]) == 0
    assert step_time(config, LLAMA, GPUS[0]).total == float("inf")


def test_decoding_one_response_reads_all_weights_per_token(
    make_config: Callable[..., TrainConfig],
) -> None:
    """A bandwidth of all weights in a second, 60 % of it used: 0.6 tokens a second."""
    config = make_config(cluster={"engines": {"max_sequences": 1}})
    gpu = Gpu("slow", 80 * GB, 2.0 * LLAMA.parameters, 1e18)
    assert decode_tokens_per_s(config, LLAMA, gpu) == pytest.approx(0.6, rel=0.01)


def test_updates_take_six_operations_a_weight_and_token(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(rollout={"max_new_tokens": 1000})
    tokens = 2048 * (256 + 400) * 1.4
    time = step_time(config, LLAMA, GPUS[0])
    assert time.updates == pytest.approx(
        6 * LLAMA.parameters * tokens / (8 * 989e12 * 0.35)
    )
    assert time.scoring == pytest.approx(
        4 * LLAMA.parameters * tokens / (8 * 989e12 * 0.4)
    )


def test_a_judge_that_is_a_program_has_no_servers(
    make_config: Callable[..., TrainConfig],
) -> None:
    assert judge_load(make_config(), GPUS[0]) is None
    assert step_time(make_config(), LLAMA, GPUS[0]).judging is None


def _judged(
    prompt: str = "shared_prefix", servers: int = 1, micro_batch: int = 4
) -> dict[str, Any]:
    bases = [f"http://judge{number}:8000/v1" for number in range(servers)]
    spec = {"type": "llm", "model": "openai/gpt-oss-20b", "transport": "direct"}
    return {
        "spec": spec | {"api_base": bases, "prompt": prompt},
        "micro_batch": micro_batch,
    }


def test_a_shared_prefix_is_read_once_a_group(
    make_config: Callable[..., TrainConfig],
) -> None:
    load = judge_load(make_config(judge=_judged()), GPUS[0])
    assert load is not None
    shared, own = 50_000 / 4 + 1500, 0.4 * 3072
    assert load.sent_tokens == pytest.approx(2048 * (shared + own))
    assert load.read_tokens == pytest.approx(64 * shared + 2048 * own)
    paper = judge_load(make_config(judge=_judged("paper")), GPUS[0])
    assert paper is not None
    assert paper.read_tokens == pytest.approx(64 * 12_500 + 2048 * (own + 1500))


@pytest.mark.parametrize(
    ("changes", "calls", "written"),
    [
        ({"granularity": "criterion"}, 8, 8 * 400 + 600),
        ({"granularity": 3}, 3, 3 * 400 + 600),
        ({"granularity": 8}, 1, 1000),
        ({"verdict": "probability"}, 8, 8),
    ],
)
def test_a_rubric_in_parts_takes_a_call_for_each(
    make_config: Callable[..., TrainConfig],
    changes: dict[str, Any],
    calls: int,
    written: float,
) -> None:
    judge = _judged()
    judge["spec"] |= changes
    config = make_config(judge=judge | {"calibration": "calibration.json"})

    load = judge_load(config, GPUS[0])

    assert load is not None
    assert load.calls == 2048 * calls
    own = 0.4 * 3072
    sent = calls * (12_500 + own) + 1500
    assert load.sent_tokens == pytest.approx(2048 * sent)
    assert load.read_tokens == pytest.approx(64 * 12_500 + 2048 * (own + 1500))
    assert load.written_tokens == pytest.approx(2048 * written)


def test_servers_and_calls_at_a_time_make_judging_shorter(
    make_config: Callable[..., TrainConfig],
) -> None:
    seconds = {}
    for servers, micro_batch in ((1, 4), (4, 4), (4, 16)):
        load = judge_load(
            make_config(judge=_judged(servers=servers, micro_batch=micro_batch)),
            GPUS[0],
        )
        assert load is not None
        seconds[servers, micro_batch] = load.seconds
    assert seconds[1, 4] > seconds[4, 4] > seconds[4, 16]


def test_judging_hides_behind_sampling_or_the_other_way_round(
    make_config: Callable[..., TrainConfig],
) -> None:
    time = step_time(make_config(judge=_judged()), LLAMA, GPUS[0])
    assert time.judging is not None
    rest = time.scoring + time.updates + time.sync
    assert time.total == pytest.approx(max(time.sampling, time.judging) + rest)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_the_preset_fits(gpu: Gpu) -> None:
    """With a tenth of the memory to spare in every phase, and a judge that is no bottleneck."""
    config = load_config(PRESET)
    shape = model_shape(config.model.path)  # type: ignore[union-attr]  # the preset's is a path
    assert shape == LLAMA
    phases = memory(config, shape, gpu)
    assert list(phases) == ["sampling", "scoring", "training"]
    for parts in phases.values():
        assert 0 < sum(parts.values()) < 0.9 * gpu.memory
    time = step_time(config, shape, gpu)
    assert time.judging is not None
    assert time.judging < time.scoring + time.updates
    assert time.total < 600


def test_one_gpu_of_24_gb_holds_a_model_of_1_5_billion_weights() -> None:
    """With a tenth to spare in every phase, and room for all responses at once."""
    config = load_config(PRESET.with_name("one_gpu_1_5b.yaml"))
    shape = model_shape(config.model.path)  # type: ignore[union-attr]  # the preset's is a path
    assert shape == KNOWN_SHAPES["Qwen2.5-1.5B"]
    gpu = planned_gpus(config.cluster.run_gpus)[0]
    assert gpu.memory == 24 * GB
    for parts in memory(config, shape, gpu).values():
        assert 0 < sum(parts.values()) < 0.9 * gpu.memory
    assert engine_room(config, shape, gpu).sequences == config.batch_size
    on_gpu = config.cluster.deepspeed.model_copy(update={"offload_optimizer": False})
    cluster = config.cluster.model_copy(update={"deepspeed": on_gpu})
    larger = memory(config.model_copy(update={"cluster": cluster}), shape, gpu)
    assert sum(larger["training"].values()) > gpu.memory


_OFFLOADED = [
    "--cluster.deepspeed.offload_optimizer",
    "true",
    "--cluster.engines.memory_frac",
]
_REFERENCE = ["--cluster.deepspeed.offload_reference", "true"]


def test_the_paper_preset_says_what_its_state_takes_in_one_process() -> None:
    """Float32 weights, gradients and moments, and the reference in 16 bits."""
    gib = (4 + 4 + 8 + 2) * LLAMA.parameters / 2**30
    text = PRESET.with_name("paper.yaml").read_text(encoding="utf-8")
    assert f"{gib:.1f} GiB" in text


@pytest.mark.parametrize(
    ("gpu", "count", "overrides"),
    [
        (GPUS[0], 4, []),
        (GPUS[1], 2, []),
        (GPUS[0], 2, [*_OFFLOADED, "0.6"]),
        (GPUS[1], 1, [*_OFFLOADED, "0.6"]),
        (GPUS[0], 1, [*_OFFLOADED, "0.5", *_REFERENCE, "--optim.micro_batch", "1"]),
    ],
)
def test_the_documented_gpus_hold_the_papers_run(
    gpu: Gpu, count: int, overrides: list[str]
) -> None:
    layout = [
        "--cluster.judge_gpus_per_node",
        "0",
        "--cluster.gpus_per_node",
        str(count),
    ]
    config = load_config(PRESET, overrides=[*layout, *overrides])
    phases, time = memory(config, LLAMA, gpu), step_time(config, LLAMA, gpu)
    totals = {phase: sum(parts.values()) for phase, parts in phases.items()}
    assert max(totals.values()) < 0.9 * gpu.memory
    numbers = [
        totals["sampling"] / GB,
        totals["training"] / GB,
        host_memory(config, LLAMA) / GB,
    ]
    numbers.append(time.sampling + time.scoring + time.updates)
    row = " | ".join(f"{number:.0f}" for number in numbers)
    page = PAGE.with_name("openrlhf_sizes.md").read_text(encoding="utf-8")
    (line,) = (one for one in page.splitlines() if one.endswith(f"| {row} |"))
    assert line.startswith(f"| {count} × {gpu.name} |")


@pytest.mark.parametrize(
    ("judge_gpus", "servers", "row"),
    [
        (4, 4, "| 4 | 4 on the same machine | {} | {} | {} | {} |"),
        (0, 1, "| 8 | 1 on another | {} | {} | {} | {} |"),
        (0, 8, "| 8 | 8 on another | {} | {} | {} | {} |"),
    ],
)
def test_the_documented_layouts(judge_gpus: int, servers: int, row: str) -> None:
    bases = [f"http://judge{number}:8000/v1" for number in range(servers)]
    overrides = ["--cluster.judge_gpus_per_node", str(judge_gpus)]
    overrides += ["--judge.spec.api_base", f"[{', '.join(bases)}]"]
    config = load_config(PRESET, overrides=overrides)
    time = step_time(config, LLAMA, GPUS[0])
    assert time.judging is not None
    seconds = (time.sampling, time.judging, time.scoring + time.updates, time.total)
    page = PAGE.read_text(encoding="utf-8")
    assert row.format(*(f"{number:.0f}" for number in seconds)) in page


def test_every_guess_says_where_it_is_from() -> None:
    assert len(ASSUMPTIONS) > 15
    for guess in ASSUMPTIONS.values():
        assert guess["meaning"]
        assert guess["source"]
        assert guess["value"] > 0
