"""The updates of a step: OpenRLHF's own loop, loss and model, beside those of `local`.

DeepSpeed is left out: gradients are added up and stepped here as it would.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.settings import RUN_FILE
from rubric_train_openrlhf.cluster.training.trained import Shares, update_order
from rubric_train_openrlhf.local.update import Learner, UpdateBatch
from rubric_train_openrlhf.objective import METRIC_NAMES, adamw, warmup
from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    Rollouts,
    TinyConfig,
    build_tiny_llama,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

pytestmark = [pytest.mark.openrlhf, pytest.mark.usefixtures("group_of_one")]

SHAPE = TinyConfig(
    vocab_size=300,
    hidden_size=32,
    intermediate_size=64,
    layers=2,
    heads=2,
    kv_heads=2,
    max_positions=64,
)
CLOSE = 1e-4


class PlainStrategy:
    """Adds up gradients and steps as DeepSpeed does, on one process."""

    ring_attn_group = None

    def __init__(self, args: SimpleNamespace, *, passes: int, model: Any) -> None:
        self.args = args
        self.accumulated_gradient = passes
        self.model = model
        self.norm = 0.0
        self.steps = 0
        self._passes_done = 0

    def backward(self, loss: torch.Tensor, _model: object, _optimizer: object) -> None:
        (loss / self.accumulated_gradient).backward()

    def optimizer_step(
        self,
        optimizer: torch.optim.Optimizer,
        _model: object,
        _schedule: object,
        **_: object,
    ) -> None:
        self._passes_done += 1
        if self._passes_done % self.accumulated_gradient:
            return
        self.norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        self.steps += 1

    def get_grad_norm(self, _model: object) -> float:
        return self.norm

    def all_reduce(self, data: Any, op: str = "mean") -> Any:
        del op
        return data

    def is_rank_0(self) -> bool:
        return True


def make_rollouts(*, groups: int, size: int, model: Any, seed: int = 0) -> Rollouts:
    """Random responses, with the log-probabilities of a policy that is not quite the model."""
    rng = np.random.default_rng(seed)
    prompts = tuple(
        EncodedPrompt(tuple(int(x) for x in rng.integers(5, 300, rng.integers(3, 8))))
        for _ in range(groups)
    )
    rows = groups * size
    lengths_B = rng.integers(1, 9, rows)
    width = int(lengths_B.max())
    tokens_BT = torch.from_numpy(rng.integers(5, 300, (rows, width)))
    mask_BT = torch.arange(width)[None] < torch.from_numpy(lengths_B)[:, None]
    logprobs_BT = torch.zeros(rows, width)
    with torch.no_grad():
        for row in range(rows):
            prompt = torch.tensor(prompts[row // size].token_ids)
            sequence = torch.cat([prompt, tokens_BT[row, : lengths_B[row]]])
            logits = model(sequence[None]).logits[0, len(prompt) - 1 : -1].float()
            drawn = logits.log_softmax(-1).gather(1, sequence[len(prompt) :, None])[
                :, 0
            ]
            noise = torch.from_numpy(rng.normal(0, 0.15, len(drawn))).float()
            logprobs_BT[row, : lengths_B[row]] = drawn + noise
    return Rollouts(
        prompts=prompts,
        tokens_BT=tokens_BT * mask_BT,
        logprobs_BT=logprobs_BT,
        mask_BT=mask_BT,
        ended_B=torch.ones(rows, dtype=torch.bool),
    )


def experiences(
    rollouts: Rollouts,
    advantages_B: Sequence[float],
    valid_B: Sequence[bool],
    *,
    reference: Any,
    policy: Any = None,
) -> list[Any]:
    """The same responses as OpenRLHF holds them; the ratio is to the policy's own, if it is given.

    Otherwise it is to the sampler's, as without a correction.
    """
    from openrlhf.trainer.ppo_utils.experience import Experience

    made: list[Any] = []
    for row, (advantage, valid) in enumerate(zip(advantages_B, valid_B, strict=True)):
        prompt = torch.tensor(rollouts.prompt_of(row).token_ids)
        response = torch.tensor(rollouts.response(row))
        sequence = torch.cat([prompt, response])
        mask = torch.zeros(1, len(sequence) - 1, dtype=torch.long)
        old = torch.zeros(1, len(sequence) - 1)
        old[0, len(prompt) - 1 :] = rollouts.logprobs_BT[row, : len(response)]
        mask[0, len(prompt) - 1 :] = int(valid)
        base = logprobs_of(reference, sequence)
        before = old if policy is None else logprobs_of(policy, sequence)
        made.append(
            Experience(
                sequences=sequence[None],
                attention_mask=torch.ones(1, len(sequence), dtype=torch.long),
                action_mask=mask,
                action_log_probs=before * mask,
                rollout_log_probs=old,
                base_action_log_probs=base,
                advantages=advantage * mask.float(),
                returns=advantage * mask.float(),
                rewards=torch.zeros(1),
                response_length=torch.tensor([len(response)]),
                truncated=torch.tensor([False]),
                total_length=torch.tensor([float(len(sequence))]),
                labels=[f"row {row}"],
                prompts=[""],
                images=[None],
                mm_train_inputs=[None],
            )
        )
    return made


def logprobs_of(model: Any, sequence: torch.Tensor) -> torch.Tensor:
    """Of every token but the first, [1, L − 1]."""
    with torch.no_grad():
        logits = model(sequence[None]).logits[0, :-1].float().log_softmax(-1)
    return logits.gather(1, sequence[1:, None])[:, 0][None]


CORRECTIONS = {
    "none": ("off", "mask", [0.5, 5.0]),
    "tis": ("token", "clip", [0.0, 1.05]),
    "icepop": ("token", "mask", [0.9, 1.1]),
}


def arguments(config: TrainConfig) -> SimpleNamespace:
    space, objective = SimpleNamespace, config.objective
    level, mode, band = CORRECTIONS[objective.importance.type]
    return space(
        train=space(
            max_epochs=1,
            dynamic_batch_enable=False,
            colocate_all=True,
            async_enable=False,
        ),
        actor=space(
            eps_clip_low_high=(objective.clip_low, objective.clip_high),
            dual_clip=objective.dual_clip,
            loss_agg_mode="token-mean"
            if objective.aggregation == "token"
            else "seq-mean-token-mean",
            policy_loss_type="ppo",
            aux_loss_coef=0.0,
            entropy_coef=None,
        ),
        algo=space(
            kl=space(
                use_loss=True,
                init_coef=objective.kl_coef,
                estimator="k3",
                unbiased_gradient=False,
            ),
            advantage=space(
                is_correction_level=level,
                is_correction_mode=mode,
                is_correction_gating="ratio",
                is_correction_threshold=band,
            ),
        ),
        ds=space(packing_samples=False, tensor_parallel_size=1),
        vllm=space(sync_backend="gloo"),
    )


class BothSides:
    """One model, one batch, and the updates of both backends."""

    def __init__(self, config: TrainConfig, folder: Path) -> None:
        self.config = config
        self.reference = build_tiny_llama(SHAPE, seed=1)
        self.start = build_tiny_llama(SHAPE, seed=0)
        self.start.save_pretrained(folder / "model")
        self._path = str(folder / "model")
        self.rollouts = make_rollouts(groups=4, size=4, model=self.start)

    def local(
        self, advantages_B: Sequence[float], valid_B: Sequence[bool]
    ) -> tuple[Any, Any]:
        model = build_tiny_llama(SHAPE, seed=0)
        optimizer = adamw(model.parameters(), config=self.config.optim)
        learner = Learner(
            model=model,
            reference=self.reference,
            optimizer=optimizer,
            schedule=warmup(optimizer, config=self.config.optim),
            config=self.config,
        )
        batch = UpdateBatch(
            rollouts=self.rollouts,
            advantages_B=torch.tensor(advantages_B, dtype=torch.float64),
            valid_B=torch.tensor(valid_B),
        )
        return learner.update(batch, step=1), model

    def openrlhf(
        self, advantages_B: Sequence[float], valid_B: Sequence[bool]
    ) -> tuple[dict[str, float], Any, PlainStrategy]:
        from functools import partial

        from openrlhf.models import Actor
        from openrlhf.trainer.ray import ppo_actor

        from rubric_train_openrlhf.cluster.training.learner import RubricLearner
        from rubric_train_openrlhf.cluster.training.policy_actor import divergence

        actor = Actor(
            self._path, attn_implementation="eager", param_dtype="bf16"
        ).float()
        actor.model.load_state_dict(self.start.state_dict())
        optimizer = adamw(actor.model.parameters(), config=self.config.optim)
        optim = self.config.optim
        updates = optim.updates_per_rollout
        passes = len(valid_B) // updates // optim.micro_batch
        strategy = PlainStrategy(
            arguments(self.config), passes=passes, model=actor.model
        )
        before = ppo_actor.compute_approx_kl
        ppo_actor.compute_approx_kl = partial(
            divergence, objective=self.config.objective
        )
        try:
            learner = RubricLearner(
                strategy,
                actor,
                None,
                optimizer,
                warmup(optimizer, config=optim),
                micro_train_batch_size=optim.micro_batch,
                dataloader_pin_memory=False,
            )
            is_corrected = self.config.objective.importance.type != "none"
            made = experiences(
                self.rollouts,
                advantages_B,
                valid_B,
                reference=self.reference,
                policy=self.start if is_corrected else None,
            )
            for row in update_order(len(made), Shares(updates=updates, ranks=1)):
                learner.replay_buffer.append(made[row])
            status = learner.ppo_train(self.config.objective.kl_coef)
        finally:
            ppo_actor.compute_approx_kl = before
        return status, actor.model, strategy


ADVANTAGES = [float(x) for x in np.random.default_rng(5).normal(0, 1, 16)]
ALL = [True] * 16


@pytest.fixture
def both(
    make_config: Callable[..., TrainConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., BothSides]:
    def make(**objective: Any) -> BothSides:
        config = make_config(
            rollout={"prompts": 4, "group_size": 4, "max_new_tokens": 16},
            # By the default eps, AdamW makes whole steps of what rounding leaves of a gradient.
            optim={
                "updates_per_rollout": 2,
                "micro_batch": 2,
                "learning_rate": 1e-3,
                "eps": 1e-6,
            },
            objective={"kl_coef": 0.05, **objective},
            cluster={
                "gpus_per_node": 1,
                "device": "cpu",
                "max_len": 64,
                "deepspeed": {"forward_micro_batch": 4},
            },
            device="cpu",
            precision="float32",
        )
        PolicyRun.of(config, namespace="n").write(tmp_path / "run.json")
        monkeypatch.setenv(RUN_FILE, str(tmp_path / "run.json"))
        return BothSides(config, tmp_path)

    return make


def compare(
    sides: BothSides, valid_B: Sequence[bool]
) -> tuple[dict[str, float], PlainStrategy, int]:
    """Both backends make the same updates and say the same of them."""
    ours, local_model = sides.local(ADVANTAGES, valid_B)
    status, model, strategy = sides.openrlhf(ADVANTAGES, valid_B)
    for name in (*METRIC_NAMES, "loss", "grad_norm", "lr"):
        assert status[f"rubric/{name}"] == pytest.approx(
            getattr(ours, name), rel=CLOSE, abs=1e-7
        )
    theirs = dict(model.named_parameters())
    moved = 0
    for name, parameter in local_model.named_parameters():
        assert torch.allclose(parameter, theirs[name], rtol=CLOSE, atol=1e-6), name
        moved += not torch.equal(parameter, dict(sides.start.named_parameters())[name])
    return status, strategy, moved


@pytest.mark.parametrize("aggregation", ["token", "sequence"])
def test_two_updates_are_those_of_the_local_backend(
    both: Callable[..., BothSides], aggregation: str
) -> None:
    status, strategy, moved = compare(both(aggregation=aggregation), ALL)
    assert strategy.steps == 2
    assert status["rubric/updates"] == 2.0
    assert status["rubric/clip_frac"] > 0
    assert moved > 10


def test_both_backends_say_how_many_tokens_the_dual_clip_bounds(
    both: Callable[..., BothSides],
) -> None:
    status, _, _ = compare(both(dual_clip=1.1), ALL)
    assert 0 < status["rubric/dual_clip_frac"] < 0.5
    assert status["rubric/is_weight_mean"] == 1.0
    assert status["rubric/is_weight_bounded_frac"] == 0.0


@pytest.mark.parametrize(
    "importance",
    [{"type": "tis", "cap": 1.05}, {"type": "icepop", "low": 0.9, "high": 1.1}],
)
def test_both_backends_say_what_the_correction_weighs_and_bounds(
    both: Callable[..., BothSides], importance: dict[str, object]
) -> None:
    valid_B = [*ALL]
    for row in (2, 3, 5, 11):
        valid_B[row] = False
    status, _, _ = compare(both(importance=importance), valid_B)
    assert 0.1 < status["rubric/is_weight_bounded_frac"] < 0.9
    assert 0.2 < status["rubric/is_weight_mean"] < 1.0
    assert status["rubric/dual_clip_frac"] == 0.0
    assert status["rubric/dropped_frac"] == pytest.approx(
        status["rubric/is_weight_bounded_frac"]
    )


def test_masked_responses_are_in_no_figure_even_where_a_whole_pass_is(
    both: Callable[..., BothSides],
) -> None:
    valid_B = [*ALL]
    for row in (2, 3, 5, 11):  # rows 2 and 3 are a pass of their own
        valid_B[row] = False
    status, strategy, _ = compare(both(), valid_B)
    assert strategy.steps == 2
    assert all(np.isfinite(value) for value in status.values())


def test_an_update_without_a_valid_response_is_not_made(
    both: Callable[..., BothSides],
) -> None:
    valid_B = [False] * 8 + [True] * 8
    status, strategy, _ = compare(both(), valid_B)
    assert strategy.steps == 1
    assert status["rubric/updates"] == 1.0
