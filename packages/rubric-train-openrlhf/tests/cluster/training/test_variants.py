"""Every variant of the method through OpenRLHF's real trainer: two steps of each on a CPU.

Starting the stack takes most of a run, so each run has several variants that do not touch each
other. That the arithmetic of an update is the local backend's is shown in `equality/`, for
responses in a band too, which differ from tokens in a band in nothing else.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rubric_core import (
    Criterion,
    Grounding,
    Rubric,
    Task,
    group_advantages,
    length_penalty,
    truncation_penalty,
    write_tasks,
)
from rubric_train_openrlhf.cluster.launching.launch import launch
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.randomness import PromptOrder
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from conftest import RealInput
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.run.records import MetricsRow

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]

STEPS, PROMPTS, GROUP, UPDATES = 2, 4, 4, 2
MAX_NEW_TOKENS = 32
BUFFER_TOKENS = 16
ALPHA_STOP = 0.5


@dataclass(frozen=True)
class Variant:
    """A run that ended well, and what it left."""

    config: TrainConfig
    folder: RunFolder

    @property
    def metrics(self) -> list[MetricsRow]:
        return self.folder.read_metrics()

    def rollouts(self, step: int) -> list[RolloutRow]:
        lines = (
            (self.folder.rollouts / f"step_{step:06d}.jsonl").read_text().splitlines()
        )
        return [RolloutRow.model_validate_json(line) for line in lines]

    def judgements(self, step: int) -> list[JudgementRow]:
        lines = (
            (self.folder.judgements / f"step_{step:06d}.jsonl").read_text().splitlines()
        )
        return [JudgementRow.model_validate_json(line) for line in lines]

    @property
    def driver_log(self) -> str:
        return (ClusterPaths(self.config.out).logs / "driver.log").read_text()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("variants")


@pytest.fixture(scope="module")
def model(real_input: RealInput, place: Path) -> Path:
    """The warm-started policy, made less sure of itself: answers of many rewards and lengths."""
    policy = load_policy(real_input.folder / "model")
    network: Any = policy.model
    with torch.no_grad():
        network.model.norm.weight.mul_(0.7)
    policy.save(place / "model")
    return place / "model"


@pytest.fixture(scope="module")
def untied(model: Path, place: Path) -> Path:
    """The same policy with weights of its own in the output layer."""
    policy = load_policy(model)
    network: Any = policy.model
    network.config.tie_word_embeddings = False
    network.lm_head.weight = torch.nn.Parameter(network.lm_head.weight.detach().clone())
    policy.save(place / "untied")
    return place / "untied"


def run(real_input: RealInput, model: Path, out: Path, **changes: Any) -> Variant:
    """Two steps of two updates; bfloat16, in which engine and policy compute differently.

    The updates are small, so that a penalty does not end all answers, and so is the clip.
    """
    changes["objective"] = {"clip_low": 0.01, "clip_high": 0.01, **changes["objective"]}
    config = real_input.config(
        out,
        **{
            "steps": STEPS,
            "model": {"type": "path", "path": model},
            "precision": "bfloat16",
            "rollout": {
                "prompts": PROMPTS,
                "group_size": GROUP,
                "max_new_tokens": MAX_NEW_TOKENS,
            },
            "optim": {
                "updates_per_rollout": UPDATES,
                "learning_rate": 5e-4,
                "warmup_steps": 0,
            },
            "validation": {"every": STEPS},
            "checkpoint": {"every": STEPS},
            **changes,
        },
    )
    launch(config)
    return Variant(config, RunFolder(config.out))


def shaped(variant: Variant, rows: list[RolloutRow]) -> npt.NDArray[np.float64]:
    """Rewards of P groups of G with the penalties of the configuration."""
    shaping = variant.config.shaping
    rewards_PG = np.array([row.reward for row in rows], dtype=float).reshape(-1, GROUP)
    if shaping.alpha_stop is not None:
        ended_PG = np.array([row.ended for row in rows]).reshape(-1, GROUP)
        rewards_PG = truncation_penalty(
            rewards_PG, ended_PG, alpha_stop=shaping.alpha_stop
        )
    if shaping.length_penalty is not None:
        lengths_PG = np.array([row.tokens for row in rows]).reshape(-1, GROUP)
        buffer = shaping.length_penalty.buffer_tokens
        rewards_PG = rewards_PG + length_penalty(
            lengths_PG, max_length=MAX_NEW_TOKENS, buffer=buffer
        )
    return rewards_PG


def advantages(rows: list[RolloutRow]) -> npt.NDArray[np.float64]:
    return np.array([row.advantage for row in rows]).reshape(-1, GROUP)


def check(variant: Variant) -> None:
    """What holds of every run, whatever its variant."""
    metrics = variant.metrics
    assert [row.step for row in metrics] == [1, 2]
    assert variant.folder.read_summary().status == "finished"
    for row in metrics:
        assert row.cluster is not None
        assert row.cluster.updates == UPDATES
        assert all(
            math.isfinite(x) for x in (row.loss, row.kl, row.grad_norm, row.ratio_mean)
        )
        assert row.grad_norm > 0
        rollouts, judgements = variant.rollouts(row.step), variant.judgements(row.step)
        assert len(rollouts) == variant.config.rollout.prompts * GROUP
        expected_PG = group_advantages(shaped(variant, rollouts))
        assert np.abs(expected_PG).max() > 0.1
        np.testing.assert_allclose(advantages(rollouts), expected_PG, rtol=0, atol=1e-6)
        for rollout, judgement in zip(rollouts, judgements, strict=True):
            assert judgement.id == rollout.id
            assert sum(judgement.attribution.values()) == pytest.approx(
                rollout.advantage, abs=1e-6
            )
    # The second update of a step is made by a policy that the first one has moved.
    assert any(row.clip_frac > 0 for row in metrics)
    assert any(row.ratio_mean != 1 for row in metrics)
    first, last = (weights(variant, step) for step in (0, STEPS))
    assert first.keys() == last.keys()
    assert any(not torch.equal(first[name], last[name]) for name in first)


def weights(variant: Variant, step: int) -> dict[str, torch.Tensor]:
    policy = load_policy(variant.folder.checkpoints / f"step_{step:06d}")
    return {
        name: parameter.detach() for name, parameter in policy.model.named_parameters()
    }


def flat_task(number: int) -> Task:
    """A question whose every answer is worth 0: its group never has a spread."""
    return Task(
        question=f"Explain `nothing_{number}`.",
        grounding=Grounding(text=f"Of number {number} nothing is known."),
        rubric=Rubric(
            criteria=(
                Criterion(id="never", weight=1, required_elements=("Ωμέγα ἄλφα",)),
            )
        ),
    )


def word_task(thing: str) -> Task:
    """A question that each answer of a real model is likely to earn something else for."""
    words = ("is", "of", "the")
    return Task(
        question=f"Explain {thing} in one sentence.",
        grounding=Grounding(text=f"Of {thing} nothing is known."),
        rubric=Rubric(
            criteria=tuple(
                Criterion(id=word, weight=1, verification_method=rf"regex: \b{word}\b")
                for word in words
            )
        ),
    )


@pytest.fixture(scope="module")
def gspo(real_input: RealInput, smollm2_folder: Path, place: Path) -> Variant:
    """Ratio and mean per response, no divergence, float32, apart from the engine.

    The model is a real one: no other variant asks for so little of it.
    """
    things = ("magnets", "rain", "sleep", "tides")
    write_tasks(place / "words.jsonl", [word_task(thing) for thing in things])
    objective = {"ratio": "sequence", "aggregation": "sequence", "kl_coef": 0.0}
    return run(
        real_input,
        smollm2_folder,
        place / "gspo",
        precision="float32",
        data={"train": place / "words.jsonl"},
        rollout={"prompts": 1, "group_size": GROUP, "max_new_tokens": 16},
        optim={
            "updates_per_rollout": UPDATES,
            "micro_batch": 1,
            "learning_rate": 1e-5,
            "warmup_steps": 0,
        },
        objective=objective | {"clip_low": 3e-4, "clip_high": 4e-4},
        cluster={
            "gpus_per_node": 2,
            "colocation": "models",
            "engines": {"count": 1, "enforce_eager": True},
            "deepspeed": {"forward_micro_batch": 4},
        },
    )


def test_gspo(gspo: Variant) -> None:
    check(gspo)
    for row in gspo.metrics:
        assert row.kl == 0  # no reference was started
        assert row.clip_frac < 1
        assert row.cluster is not None
        assert row.cluster.dropped_frac is None
        assert row.cluster.sampler_gap < 1e-4  # float32 on both sides


@pytest.fixture(scope="module")
def tis(real_input: RealInput, untied: Path, place: Path) -> Variant:
    """Truncated weights, dual clip, both penalties, an output layer of its own."""
    return run(
        real_input,
        untied,
        place / "tis",
        objective={"importance": {"type": "tis", "cap": 1.0}, "dual_clip": 3.0},
        shaping={
            "length_penalty": {"buffer_tokens": BUFFER_TOKENS},
            "alpha_stop": ALPHA_STOP,
        },
    )


def test_truncated_weights_with_dual_clip(tis: Variant) -> None:
    check(tis)
    assert "dual_clip=3.0" in tis.driver_log  # what OpenRLHF says that it runs with
    for row in tis.metrics:
        assert row.kl > 0
        assert row.cluster is not None
        assert row.cluster.sampler_gap > 1e-5
        assert row.cluster.dropped_frac is not None
        assert 0 < row.cluster.dropped_frac < 1


def test_penalties_are_in_the_advantages(tis: Variant) -> None:
    """By the length and the end of each response, on top of what the judge said."""
    differences: list[float] = []
    for step in range(1, STEPS + 1):
        rows = tis.rollouts(step)
        assert max(row.tokens for row in rows) > MAX_NEW_TOKENS - BUFFER_TOKENS
        plain_PG = group_advantages(
            np.array([row.reward for row in rows]).reshape(-1, GROUP)
        )
        differences.append(float(np.abs(plain_PG - advantages(rows)).max()))
        assert any(
            abs(row.attribution.get("shaping", 0.0)) > 1e-3
            for row in tis.judgements(step)
        )
    assert max(differences) > 1e-2


def test_an_untied_head_is_trained_and_sent(tis: Variant) -> None:
    first, last = (weights(tis, step)["lm_head.weight"] for step in (0, STEPS))
    assert not torch.equal(first, last)
    assert all(
        row.cluster is not None and row.cluster.sampler_gap < 0.05
        for row in tis.metrics
    )


@pytest.fixture(scope="module")
def icepop(real_input: RealInput, model: Path, place: Path) -> Variant:
    """Weights in a band, means of responses, and groups with a spread alone."""
    tasks = [*real_input.tasks[:6], *(flat_task(number) for number in range(6))]
    write_tasks(place / "half_flat.jsonl", tasks)
    return run(
        real_input,
        model,
        place / "icepop",
        data={"train": place / "half_flat.jsonl"},
        objective={
            "importance": {"type": "icepop", "low": 0.9995, "high": 1.0005},
            "aggregation": "sequence",
        },
        shaping={"alpha_stop": ALPHA_STOP},
        dynamic_sampling={"max_resample_rounds": 12},
    )


def test_weights_in_a_band_with_means_of_responses(icepop: Variant) -> None:
    check(icepop)
    for row in icepop.metrics:
        assert row.cluster is not None
        assert row.cluster.dropped_frac is not None
        assert 0 < row.cluster.dropped_frac < 1


def test_dynamic_sampling_trains_on_groups_with_a_spread_and_counts_what_it_drew(
    icepop: Variant,
) -> None:
    prompts = ClusterPaths(icepop.config.out).train_prompts.read_text().splitlines()
    labels = [json.loads(line)["label"] for line in prompts]
    order = PromptOrder(len(labels), seed=0)
    flat = {flat_task(number).task_id for number in range(6)}
    position = 0
    for row in icepop.metrics:
        rows = icepop.rollouts(row.step)
        for rewards_G in shaped(icepop, rows):
            assert rewards_G.max() > rewards_G.min()
        drawn = PROMPTS + row.resampled_prompts
        asked = [labels[index] for index in order.take(drawn, start=position)]
        kept = [one.task_id for one in rows[::GROUP]]
        rest = iter(asked)
        assert all(task in rest for task in kept)  # in the order they were drawn
        # Every round draws what is missing, so that the last of the last round was kept.
        assert kept[-1] == asked[-1]
        assert not flat & set(kept)
        assert row.resampled_prompts >= sum(task in flat for task in asked)
        assert row.degenerate_group_frac == pytest.approx(row.resampled_prompts / drawn)
        position += drawn
    assert sum(row.resampled_prompts for row in icepop.metrics) > 0
