from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
import yaml

from rubric_core import find_trainer, write_tasks
from rubric_train_openrlhf.backend import LocalBackend
from rubric_train_openrlhf.config.sections import PathModel, TinyModel
from rubric_train_openrlhf.config.train import dump_config, parse_config
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.local.plan import (
    _ALLOCATED,
    _cache_bytes,
    _shape,
    _update_bytes,
    describe_plan,
    parameter_count,
)
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    TinyConfig,
    build_tiny_llama,
    load_policy,
    pack_responses,
    response_logprobs,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_core import Task
    from rubric_train_openrlhf.config.train import TrainConfig


def test_a_plan_states_the_configuration_the_work_and_the_memory(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config()

    plan = describe_plan(config)

    assert describe_plan(config, full=True).startswith(dump_config(config))
    assert plan.startswith("each of 4 steps:")
    assert (
        "4 prompts × 4 responses = 16, at most 384 tokens in all, 2 prompts at a time"
        in plan
    )
    assert "2 × 8 responses, each in 2 passes of at most 4" in plan
    assert "8 optimiser updates in all" in plan
    assert (
        "3 held-out passes, the first before step 1: 4 questions × 1 responses = 4"
        in plan
    )
    assert not config.out.exists()


def test_a_plan_counts_the_copies_that_bfloat16_makes_of_the_weights(
    make_config: Callable[..., TrainConfig],
) -> None:
    assert "bfloat16 copies" in describe_plan(
        make_config(precision="bfloat16"), full=True
    )
    assert "bfloat16 copies" not in describe_plan(make_config(), full=True)


def test_parameters_are_counted_without_reading_weights(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    path = make_config().model
    assert isinstance(path, PathModel)

    assert parameter_count(path) == load_policy(path.path).model.num_parameters()
    tiny = TinyModel(documents=tmp_path)
    assert (
        parameter_count(tiny)
        == build_tiny_llama(tiny.architecture, seed=0).num_parameters()
    )
    assert parameter_count(PathModel(path=tmp_path)) is None


def test_the_memory_of_an_update_is_that_which_autograd_keeps() -> None:
    shape = TinyConfig(
        hidden_size=96, intermediate_size=256, layers=3, heads=6, kv_heads=2
    )
    model = build_tiny_llama(shape, seed=0)
    prompts = [EncodedPrompt(tuple(range(first, first + 60))) for first in (3, 100)]
    batch = pack_responses(
        [prompt for prompt in prompts for _ in range(4)], [tuple(range(7, 39))] * 8
    )
    weights = {one.untyped_storage().data_ptr() for one in model.parameters()}

    def counted(**options: bool) -> int:
        kept: dict[int, int] = {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            kept[tensor.untyped_storage().data_ptr()] = (
                tensor.untyped_storage().nbytes()
            )
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            response_logprobs(model, batch, **options)
        return sum(size for place, size in kept.items() if place not in weights)

    config = parse_config(
        {
            "model": {
                "type": "tiny",
                "documents": "d",
                "architecture": shape.model_dump(),
            },
            "data": {"train": "t"},
            "rollout": {"prompts": 2, "group_size": 4, "max_new_tokens": 32},
            "optim": {"micro_batch": 8},
            "steps": 1,
            "out": "o",
        }
    )
    sizes = _shape(config.model)
    assert sizes is not None
    head = 4 * shape.vocab_size * shape.hidden_size
    once, each = (
        _update_bytes(config, sizes, 60, way) / _ALLOCATED - head
        for way in ("grouped", "each")
    )
    assert once == pytest.approx(counted(), rel=0.1)
    assert each == pytest.approx(counted(share_prompts=False), rel=0.1)
    assert once < 0.6 * each
    cache = (
        2 * shape.layers * 2 * 16 * 4 * 8 * 4 * (60 + 32)
    )  # micro_batch of 8 prompts × 4
    assert _cache_bytes(config, sizes, 60) == cache + 4 * sizes.parameters
    assert (
        _cache_bytes(config.model_copy(update={"device": "cuda"}), sizes, 60) == cache
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "prompts are read once a pass, in one row with all responses to them"),
        (
            {"optim": {"share_prompts": False}},
            "prompts are read once for each response",
        ),
        ({"optim": {"micro_batch": 1}}, "prompts are read once for each response"),
        (
            {"precision": "bfloat16"},
            "prompts are read once a pass, and their keys and values",
        ),
        (
            {"precision": "bfloat16", "optim": {"gradient_checkpointing": True}},
            "prompts are read once for each response",
        ),
    ],
)
def test_a_plan_says_how_often_prompts_are_read(
    changes: dict[str, Any], told: str, make_config: Callable[..., TrainConfig]
) -> None:
    assert told in describe_plan(make_config(**changes))


def test_a_plan_says_where_a_window_is_too_narrow(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    kept = {
        "model_type": "mistral",
        "sliding_window": 16,
        "vocab_size": 90,
        "hidden_size": 32,
    }
    kept |= {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    for window, told in (
        (16, "may be longer than the model's sliding_window"),
        (4096, "one row"),
    ):
        (tmp_path / "config.json").write_text(
            json.dumps({**kept, "sliding_window": window})
        )
        assert told in describe_plan(make_config(model={"path": tmp_path}))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    assert "once a pass where the architecture allows" in describe_plan(
        make_config(model={"path": tmp_path})
    )


def test_the_paper_preset_says_that_its_model_is_not_there_yet(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    config = make_config(model={"path": tmp_path / "later"})

    assert "there is no model at model.path yet" in describe_plan(config)


def test_a_plan_refuses_an_empty_validation_file_as_a_run_does(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    (tmp_path / "empty.jsonl").touch()
    config = make_config(data={"validation": tmp_path / "empty.jsonl"})

    told = r"\(data\.validation\) holds no task.*more doc.*leave `validation` out$"
    for refuses in (describe_plan, run_grpo):
        with pytest.raises(TrainConfigError, match=told):
            refuses(config)


def test_a_plan_refuses_documents_and_answers_that_a_run_refuses(
    make_config: Callable[..., TrainConfig], tasks: tuple[Task, ...], tmp_path: Path
) -> None:
    documents = tmp_path / "documents.jsonl"
    documents.write_text(
        '{"doc_hash": "of-no-task", "text": "Two arrays are summed."}\n'
    )
    write_tasks(
        tmp_path / "bare.jsonl",
        [task.model_copy(update={"reference_answer": None}) for task in tasks],
    )
    foreign = make_config(model={"type": "tiny", "documents": documents})
    bare = {"data": {"train": tmp_path / "bare.jsonl"}, "sft": {"learning_rate": 1e-3}}

    for refuses in (describe_plan, run_grpo):
        with pytest.raises(TrainConfigError, match="none of the 1 documents"):
            refuses(foreign)
        with pytest.raises(
            TrainConfigError, match=r"no task of .* has a reference_answer"
        ):
            refuses(make_config(**bare))


def test_a_plan_warns_of_a_long_warm_up_and_of_validation_tasks_that_are_trained_on(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(steps=14, rollout={"micro_batch": 8})
    plan = describe_plan(config)
    assert "warning" not in plan
    assert "in all, 4 prompts at a time" in plan

    shared = config.data.model_copy(update={"validation": config.data.train})
    config = config.model_copy(update={"steps": 13, "data": shared})
    warm_up, validation = (
        line
        for line in describe_plan(config).splitlines()
        if line.startswith("warning: ")
    )
    assert warm_up.endswith("the run ends before the learning rate is reached")
    assert "data.validation: 12 of 12 validation tasks are training tasks" in validation


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"type": "llm", "model": "m", "litellm_config": "nope.yaml"}, "nope.yaml"),
        (
            {"type": "llm", "model": "m", "litellm_config": "router.yaml"},
            "'router_setings'",
        ),
        (
            {
                "type": "cascade",
                "judges": [{"type": "lexical"}] * 2,
                "uncertainty": "margin",
                "calibration": "nocasc.json",
            },
            "nocasc.json",
        ),
    ],
    ids=["file", "router", "cascade"],
)
def test_a_plan_says_why_the_judge_cannot_be_made(
    make_config: Callable[..., TrainConfig],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    spec: dict[str, Any],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    deployment = "{model_name: m, litellm_params: {model: openai/m}}"
    (tmp_path / "router.yaml").write_text(
        f"model_list: [{deployment}]\nrouter_setings: {{}}\n"
    )

    last = describe_plan(make_config(judge={"spec": spec})).splitlines()[-1]

    assert last.startswith(
        "judge: cannot be made here, and a run does not start without it: "
    )
    assert named in last


def test_a_plan_names_the_files_that_are_not_there_yet(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    config = make_config()
    assert "not there yet" not in describe_plan(config)

    train, documents = tmp_path / "none.jsonl", tmp_path / "documents.jsonl"
    config = config.model_copy(
        update={
            "data": config.data.model_copy(update={"train": train}),
            "model": TinyModel(documents=documents),
        }
    )

    assert describe_plan(config).splitlines()[-2:] == [
        f"not there yet: {train} (data.train)",
        f"not there yet: {documents} (model.documents)",
    ]


def test_the_backend_is_found_by_name_and_runs_a_mapping(
    make_config: Callable[..., TrainConfig],
) -> None:
    values = yaml.safe_load(dump_config(make_config(steps=1)))
    backend = find_trainer("local")
    assert isinstance(backend, LocalBackend)

    assert backend.plan(values) == describe_plan(parse_config(values), full=True)
    folder = backend.run(values)

    assert (folder / "metrics.jsonl").exists()
    assert (folder / "report.html").exists()
