"""The same update through both backends, which every test here asks for.

Both get the same model, reference, sampled tokens, rewards and settings. OpenRLHF's side is what
runs on a cluster: our experience maker, policy and reference actors, driven in this process.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rubric_core import group_advantages
from rubric_train_openrlhf.cluster.command.flags import command_words, grpo_flags
from rubric_train_openrlhf.cluster.command.refusals import check_command
from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.settings import RUN_FILE, ClusterPaths
from rubric_train_openrlhf.cluster.training.trained import Shares
from rubric_train_openrlhf.local.update import Learner, UpdateBatch
from rubric_train_openrlhf.objective import adamw, warmup
from rubric_train_openrlhf.policy import load_policy, sample_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from conftest import RealInput
    from rubric_train_openrlhf.cluster.sampling.samples import Group
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.policy import Rollouts

REWARDS_PG = np.array([[0.0, 0.25, 0.5, 1.0], [0.75, 0.5, 0.0, 0.5]])
VALID_PG = np.array([[True, True, True, True], [True, True, False, True]])
FIGURES = ("loss", "kl", "clip_frac", "ratio_mean", "grad_norm")
MAX_NEW_TOKENS = 32
_FLATNESS = 0.5
"""Of the sampler's distribution: the warm-started one is so sure of itself that nothing varies."""
_DRIFT = 0.2
"""Of policy and reference from the sampler, in standard deviations of each tensor."""


@dataclass(frozen=True)
class Update:
    """What the updates of one step did."""

    loss: float
    kl: float
    clip_frac: float
    ratio_mean: float
    grad_norm: float
    gradients: dict[str, torch.Tensor]
    """Of the last update."""
    weights: dict[str, torch.Tensor]
    dropped_frac: float | None = None
    """Share of tokens, or of responses, out of the bounds of the importance correction."""

    def gradient_error(self, other: Update) -> float:
        """‖a − b‖ / ‖a‖ of the whole gradient."""
        return _relative(self.gradients, other.gradients)

    def worst_error(self, other: Update) -> float:
        """The largest ‖a − b‖ / ‖a‖ of any tensor, of gradients and of weights."""
        return max(
            _relative({name: a[name]}, {name: b[name]})
            for a, b in (
                (self.gradients, other.gradients),
                (self.weights, other.weights),
            )
            for name in a
        )


@dataclass(frozen=True)
class BothBackends:
    """What both backends get, and the update that each makes of it."""

    real_input: RealInput
    rollouts: Rollouts
    groups: list[Group]
    """The same responses, as OpenRLHF has them."""
    models: dict[str, Path]
    """To be updated, and the reference."""
    monkeypatch: pytest.MonkeyPatch

    def config(self, out: Path, **changes: Any) -> TrainConfig:
        """Settings of one update; keyword arguments replace keys of sections."""
        return config_of(self.real_input, out, **changes)

    def local(self, config: TrainConfig) -> Update:
        """Update in this process, as the local backend does."""
        return local_update(config, self.rollouts, **self.models)

    def cluster(self, config: TrainConfig) -> Update:
        """Update through OpenRLHF and DeepSpeed."""
        return cluster_update(
            config, self.groups, **self.models, monkeypatch=self.monkeypatch
        )


@pytest.fixture(scope="module")
def sampler(real_input: RealInput, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sampler") / "model"
    return changed_copy(real_input.folder / "model", folder, flatten)


@pytest.fixture(scope="module")
def rollouts(real_input: RealInput, sampler: Path) -> Rollouts:
    return sampled(real_input, sampler)


@pytest.fixture(scope="module")
def models(sampler: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        name: changed_copy(sampler, folder / name, partial(drift, seed=seed))
        for seed, name in enumerate(("model", "reference"), start=4)
    }


@pytest.fixture
def both(
    real_input: RealInput,
    rollouts: Rollouts,
    as_groups: Callable[[Rollouts], list[Group]],
    models: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> BothBackends:
    """Two groups of four responses, one of which is masked, and a policy to update."""
    return BothBackends(real_input, rollouts, as_groups(rollouts), models, monkeypatch)


@pytest.fixture(scope="module")
def main_update(
    real_input: RealInput,
    rollouts: Rollouts,
    models: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Update:
    """What the local backend does without any variant."""
    config = config_of(real_input, tmp_path_factory.mktemp("main") / "run")
    return local_update(config, rollouts, **models)


@pytest.fixture
def with_untied_heads(both: BothBackends, tmp_path: Path) -> BothBackends:
    """The same, of models whose output layer has weights of its own."""
    models = {
        name: changed_copy(path, tmp_path / name, untie)
        for name, path in both.models.items()
    }
    return replace(both, models=models)


def config_of(real_input: RealInput, out: Path, **changes: Any) -> TrainConfig:
    return real_input.config(
        out,
        rollout={"prompts": 2, "group_size": 4, "max_new_tokens": MAX_NEW_TOKENS},
        # A large ε keeps the first step of AdamW linear in the gradient.
        optim={
            "updates_per_rollout": 1,
            "micro_batch": 4,
            "eps": 1.0,
            "learning_rate": 1e-2,
            "max_grad_norm": 1e6,
            **changes.pop("optim", {}),
        },
        objective={"kl_coef": 0.1, **changes.pop("objective", {})},
        **changes,
    )


def changed_copy(model: Path, folder: Path, change: Callable[[Any], None]) -> Path:
    """A policy with other weights."""
    policy = load_policy(model)
    with torch.no_grad():
        change(policy.model)
    policy.save(folder)
    return folder


def flatten(network: Any) -> None:
    """Sample more freely: responses of many lengths, of which some end."""
    network.model.norm.weight.mul_(_FLATNESS)


def drift(network: Any, *, seed: int) -> None:
    """Go so far from the sampler that clips, weights and divergence act, each to be seen."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.add_(_DRIFT * parameter.std() * noise)


def untie(network: Any) -> None:
    """Give the output layer weights of its own."""
    network.config.tie_word_embeddings = False
    network.lm_head.weight = torch.nn.Parameter(network.lm_head.weight.detach().clone())


def sampled(real_input: RealInput, model: Path) -> Rollouts:
    policy = load_policy(model)
    return sample_groups(
        policy.model,
        [
            policy.codec.encode_prompt(task.policy_view())
            for task in real_input.tasks[:2]
        ],
        group_size=4,
        max_new_tokens=MAX_NEW_TOKENS,
        temperature=1.0,
        generator=torch.Generator().manual_seed(1),
        eos_token_id=policy.codec.eos_token_id,
        pad_token_id=policy.codec.pad_token_id,
    )


def local_update(
    config: TrainConfig, rollouts: Rollouts, *, model: Path, reference: Path
) -> Update:
    policy = load_policy(model).model
    frozen = None
    if config.objective.kl_coef:
        frozen = load_policy(reference).model.requires_grad_(requires_grad=False)
    optimizer = adamw(policy.parameters(), config=config.optim)
    gradients: dict[str, torch.Tensor] = {}

    def look(*_: object) -> None:
        for name, parameter in policy.named_parameters():
            assert parameter.grad is not None
            gradients[name] = parameter.grad.detach().clone()

    optimizer.register_step_pre_hook(look)
    learner = Learner(
        model=policy,
        reference=frozen,
        optimizer=optimizer,
        schedule=warmup(optimizer, config=config.optim),
        config=config,
    )
    batch = UpdateBatch(
        rollouts=rollouts,
        advantages_B=torch.from_numpy(advantages_PG().reshape(-1)),
        valid_B=torch.from_numpy(VALID_PG.reshape(-1)),
    )
    metrics = learner.update(batch, step=1)
    weights = {name: p.detach().clone() for name, p in policy.named_parameters()}
    figures = {name: getattr(metrics, name) for name in FIGURES}
    return Update(**figures, gradients=gradients, weights=weights)


def advantages_PG() -> np.ndarray[Any, np.dtype[np.float64]]:
    return group_advantages(REWARDS_PG, valid_PG=VALID_PG)


class InThisProcess:
    """OpenRLHF's group of actors with one actor, which is an ordinary object here."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def async_run_method(self, method_name: str, **options: Any) -> list[Any]:
        return [getattr(self.actor, method_name)(**options)]

    def async_run_method_batch(
        self, method_name: str, **lists: Sequence[Any]
    ) -> list[list[Any]]:
        n = len(next(iter(lists.values())))
        return [self.actor.execute_batch(method_name, lists, 0, n)]


def cluster_update(
    config: TrainConfig,
    groups: list[Group],
    *,
    model: Path,
    reference: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Update:
    args = check_command(command_words(grpo_flags(config))).args
    path = ClusterPaths(config.out).run
    PolicyRun.of(config, namespace="test").write(path)
    monkeypatch.setenv(RUN_FILE, str(path))
    from openrlhf.trainer.ppo_utils import experience_maker
    from openrlhf.utils import get_strategy

    from rubric_train_openrlhf.cluster.training.policy_actor import (
        RubricPolicyActor,
        RubricReferenceActor,
    )

    monkeypatch.setattr(
        experience_maker, "ray", SimpleNamespace(get=lambda x: x, put=lambda x: x)
    )
    place = (1, 0, "127.0.0.1", free_port())
    frozen, policy = None, RubricPolicyActor(*place)
    if config.objective.kl_coef:
        frozen = RubricReferenceActor(*place)
        frozen.init_model_from_pretrained(get_strategy(args), str(reference))
    strategy = get_strategy(args)
    policy.init_model_from_pretrained(strategy, str(model), max_steps=1)
    gradients = gradients_of(policy, strategy)
    made = maker(config, policy=policy, reference=frozen, strategy=strategy).make_step(
        1, groups
    )
    InThisProcess(policy).async_run_method_batch("append", experience=made.batches)
    status = policy.fit(kl_ctl=config.objective.kl_coef)
    weights = {name: p.detach().float().clone() for name, p in named_parameters(policy)}
    figures = {name: status[f"rubric/{name}"] for name in FIGURES}
    dropped = status.get("rubric/dropped_frac")
    return Update(**figures, gradients=gradients, weights=weights, dropped_frac=dropped)


def gradients_of(policy: Any, strategy: Any) -> dict[str, torch.Tensor]:
    """The whole gradient, taken when DeepSpeed is about to make its update."""
    from deepspeed.utils import safe_get_full_grad

    gradients: dict[str, torch.Tensor] = {}
    make_update = strategy.optimizer_step

    def look_and_make_update(*parts: Any, **options: Any) -> None:
        if policy.actor.model.is_gradient_accumulation_boundary():
            for name, parameter in named_parameters(policy):
                gradients[name] = safe_get_full_grad(parameter).detach().float().clone()
        make_update(*parts, **options)

    strategy.optimizer_step = look_and_make_update
    return gradients


def named_parameters(policy: Any) -> list[tuple[str, torch.nn.Parameter]]:
    return list(policy.actor.model.module.named_parameters())


def maker(config: TrainConfig, *, policy: Any, reference: Any, strategy: Any) -> Any:
    from rubric_train_openrlhf.cluster.training.experience import RubricExperienceMaker

    credit = SimpleNamespace(
        advantages_PG=advantages_PG(), valid_PG=VALID_PG, shaped_PG=REWARDS_PG
    )
    return RubricExperienceMaker(
        *(InThisProcess(policy), None, None),
        *(None if reference is None else InThisProcess(reference), None, strategy),
        SimpleNamespace(pad_token_id=0),
        coordinator=SimpleNamespace(credit=lambda *_: credit),
        shares=Shares(updates=config.optim.updates_per_rollout, ranks=1),
        ratio_to_sampler=config.objective.importance.type == "none",
        precision=config.precision,
    )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _relative(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    """‖a − b‖ / ‖a‖ over all tensors."""
    assert ours.keys() == theirs.keys()
    difference = sum(
        float((ours[k].double() - theirs[k].double()).square().sum()) for k in ours
    )
    size = sum(float(ours[k].double().square().sum()) for k in ours)
    return (difference / size) ** 0.5
