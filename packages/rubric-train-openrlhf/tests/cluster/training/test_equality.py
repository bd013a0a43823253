"""One update through OpenRLHF and DeepSpeed against the same update of the local backend.

Both get the same model, reference, sampled tokens, rewards and settings. OpenRLHF's side is what
runs on a cluster: our experience maker, policy and reference actors, driven in this process.
"""

# ruff: noqa: ANN401
from __future__ import annotations

import math
import socket
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rubric_core import group_advantages
from rubric_train_openrlhf.cluster.command_check import check_command
from rubric_train_openrlhf.cluster.flags import command_words, grpo_flags
from rubric_train_openrlhf.cluster.paths import ClusterPaths
from rubric_train_openrlhf.cluster.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.rows import check_update
from rubric_train_openrlhf.cluster.settings import RUN_FILE
from rubric_train_openrlhf.cluster.shares import Shares
from rubric_train_openrlhf.errors import NonFiniteUpdateError
from rubric_train_openrlhf.local.update import Learner, UpdateBatch
from rubric_train_openrlhf.objective import adamw, warmup
from rubric_train_openrlhf.policy import load_policy, sample_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from conftest import RealInput
    from rubric_train_openrlhf.cluster.groups import Group
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.policy import Rollouts

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # OpenRLHF pins the memory of its batches whether or not there is a GPU.
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set:UserWarning"),
]

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
        [policy.codec.encode_prompt(task.policy_view()) for task in real_input.tasks[:2]],
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
        objective=config.objective,
        optim=config.optim,
        temperature=1.0,
        autocast=config.precision == "bfloat16",
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

    def async_run_method_batch(self, method_name: str, **lists: Sequence[Any]) -> list[list[Any]]:
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
    PolicyRun.of(config, namespace="test", resumed=False).write(path)
    monkeypatch.setenv(RUN_FILE, str(path))
    from openrlhf.trainer.ppo_utils import experience_maker
    from openrlhf.utils import get_strategy

    from rubric_train_openrlhf.cluster.policy_actor import RubricPolicyActor, RubricReferenceActor

    monkeypatch.setattr(experience_maker, "ray", SimpleNamespace(get=lambda x: x, put=lambda x: x))
    place = (1, 0, "127.0.0.1", free_port())
    frozen, policy = None, RubricPolicyActor(*place)
    if config.objective.kl_coef:
        frozen = RubricReferenceActor(*place)
        frozen.init_model_from_pretrained(get_strategy(args), str(reference))
    strategy = get_strategy(args)
    policy.init_model_from_pretrained(strategy, str(model), max_steps=1)
    gradients = gradients_of(policy, strategy)
    made = maker(config, policy=policy, reference=frozen, strategy=strategy).make_step(1, groups)
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
    from rubric_train_openrlhf.cluster.experience import RubricExperienceMaker

    credit = SimpleNamespace(advantages_PG=advantages_PG(), valid_PG=VALID_PG, shaped_PG=REWARDS_PG)
    return RubricExperienceMaker(
        *(InThisProcess(policy), None, None),
        *(None if reference is None else InThisProcess(reference), None, strategy),
        SimpleNamespace(pad_token_id=0),
        judge_side=SimpleNamespace(credit=lambda *_: credit),
        shares=Shares(updates=config.optim.updates_per_rollout, ranks=1),
        ratio_to_sampler=config.objective.importance.type == "none",
    )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def relative(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    """‖a − b‖ / ‖a‖ over all tensors."""
    assert ours.keys() == theirs.keys()
    difference = sum(float((ours[k].double() - theirs[k].double()).square().sum()) for k in ours)
    size = sum(float(ours[k].double().square().sum()) for k in ours)
    return (difference / size) ** 0.5


def worst_relative(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    return max(relative({k: ours[k]}, {k: theirs[k]}) for k in ours)


VARIANTS: dict[str, dict[str, Any]] = {
    "main": {},
    "sequence ratio": {
        "objective": {
            "ratio": "sequence",
            "aggregation": "sequence",
            "clip_low": 0.05,
            "clip_high": 0.01,
        }
    },
    "sequence mean": {"objective": {"aggregation": "sequence"}},
    "truncated weights": {"objective": {"importance": {"type": "tis", "cap": 1.0}}},
    "weights in a band": {"objective": {"importance": {"type": "icepop", "low": 0.9, "high": 1.1}}},
    "responses in a band": {
        "objective": {"importance": {"type": "seq_mask_tis", "low": 0.95, "high": 1.01}}
    },
    "dual clip": {"objective": {"dual_clip": 1.25}},
    "no divergence": {"objective": {"kl_coef": 0.0}},
    "two updates": {
        # So far that the second update meets the clip.
        "optim": {"updates_per_rollout": 2, "learning_rate": 0.3},
        "objective": {"importance": {"type": "tis", "cap": 1.0}, "aggregation": "sequence"},
    },
}


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


@dataclass(frozen=True)
class Given:
    """What both backends get."""

    real_input: RealInput
    rollouts: Rollouts
    groups: list[Group]
    """The same responses, as OpenRLHF has them."""
    models: dict[str, Path]
    """To be updated, and the reference."""


@pytest.fixture(scope="module")
def given(
    real_input: RealInput,
    rollouts: Rollouts,
    as_groups: Callable[[Rollouts], list[Group]],
    models: dict[str, Path],
) -> Given:
    return Given(real_input, rollouts, as_groups(rollouts), models)


@pytest.fixture(scope="module")
def main_update(given: Given, tmp_path_factory: pytest.TempPathFactory) -> Update:
    """What the local backend does without any variant."""
    config = config_of(given.real_input, tmp_path_factory.mktemp("main") / "run")
    return local_update(config, given.rollouts, **given.models)


@pytest.mark.parametrize("name", VARIANTS)
def test_one_update_in_float32_is_that_of_the_local_backend(
    name: str,
    given: Given,
    main_update: Update,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = config_of(given.real_input, tmp_path / "run", **VARIANTS[name])
    ours = local_update(config, given.rollouts, **given.models)
    theirs = cluster_update(config, given.groups, **given.models, monkeypatch=monkeypatch)
    assert_same(ours, theirs)
    # A variant that does nothing on these responses would be equal for no reason.
    difference = relative(main_update.gradients, ours.gradients)
    assert difference == 0 if name == "main" else difference > 0.1
    if config.objective.importance.type == "none":
        assert theirs.dropped_frac is None
    else:
        assert theirs.dropped_frac is not None
        assert 0 < theirs.dropped_frac < 1


def test_one_update_of_an_untied_head_is_that_of_the_local_backend(
    given: Given,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = {
        name: changed_copy(path, tmp_path / name, untie) for name, path in given.models.items()
    }
    config = config_of(given.real_input, tmp_path / "run")
    ours = local_update(config, given.rollouts, **models)
    theirs = cluster_update(config, given.groups, **models, monkeypatch=monkeypatch)
    assert_same(ours, theirs)
    assert ours.gradients["lm_head.weight"].norm() > 0


def assert_same(ours: Update, theirs: Update) -> None:
    assert abs(ours.loss) > 1e-3
    for name in FIGURES:
        assert getattr(theirs, name) == pytest.approx(getattr(ours, name), rel=1e-4), name
    assert worst_relative(ours.gradients, theirs.gradients) <= 1e-4
    assert worst_relative(ours.weights, theirs.weights) <= 1e-4


def test_bfloat16_makes_a_difference_that_is_known(
    given: Given,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Any,
) -> None:
    """Half precision: weights that are rounded (OpenRLHF), or compute that is (local)."""
    single = config_of(given.real_input, tmp_path / "single")
    half = config_of(given.real_input, tmp_path / "half", precision="bfloat16")
    exact = local_update(single, given.rollouts, **given.models)
    local = local_update(half, given.rollouts, **given.models)
    cluster = cluster_update(half, given.groups, **given.models, monkeypatch=monkeypatch)
    of_local = relative(exact.gradients, local.gradients)
    of_cluster = relative(exact.gradients, cluster.gradients)
    record_property("gradient_error_local_bf16", of_local)
    record_property("gradient_error_openrlhf_bf16", of_cluster)
    assert 1e-4 < of_local < 0.2
    assert 1e-4 < of_cluster < 0.2


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
def test_an_update_that_deepspeed_passes_over_is_told_by_its_norm(
    given: Given,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gradient overflows under a loss that is finite; the run must stop, not go on."""
    from rubric_train_openrlhf.cluster.learner import RubricLearner

    make_pass = RubricLearner.training_step

    def overflow(learner: Any, *parts: Any, **named: Any) -> Any:
        weight = next(learner.actor.model.module.parameters())
        hook = weight.register_hook(lambda gradient: gradient * math.inf)
        try:
            return make_pass(learner, *parts, **named)
        finally:
            hook.remove()

    monkeypatch.setattr(RubricLearner, "training_step", overflow)
    config = config_of(given.real_input, tmp_path / "run", precision="bfloat16")
    update = cluster_update(config, given.groups, **given.models, monkeypatch=monkeypatch)
    assert math.isfinite(update.loss)
    with pytest.raises(NonFiniteUpdateError, match="grad_norm"):
        check_update({"loss": update.loss, "grad_norm": update.grad_norm}, step=1)
