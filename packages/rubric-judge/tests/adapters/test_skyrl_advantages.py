"""The estimators for SkyRL: on the interface of skyrl 0.3.0, and in it where it is installed.

The doubles have the registry of `skyrl/backends/skyrl_train/utils/ppo_utils.py`, and of
`RayPPOTrainer` in `skyrl/train/trainer.py` the two methods that are wrapped, as in the wheel and in
snapshot a956457.
"""

import sys
import threading
import zlib
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from rubric_core import ConfigError, MissingExtraError, SchemaError
from rubric_core.reward.advantage import group_advantages
from rubric_core.reward.attribution import decoupled_advantages
from rubric_judge.adapters import advantages, skyrl, skyrl_advantages
from rubric_judge.quality.criteria.record import JudgementRecord

torch = pytest.importorskip("torch")
UTILS = "skyrl.backends.skyrl_train.utils.ppo_utils"
TRAINER = "skyrl.train.trainer"
TASKS, GROUP, LENGTH = 3, 4, 3


class Registry:
    """`AdvantageEstimatorRegistry` without Ray."""

    _functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def register(cls, name: str, func: Callable[..., Any]) -> None:
        if name in cls._functions:
            raise ValueError(f"advantage estimator '{name}' already registered")
        cls._functions[name] = func

    @classmethod
    def list_available(cls) -> list[str]:
        return list(cls._functions)

    @classmethod
    def get(cls, name: str) -> Callable[..., Any]:
        return cls._functions[name]


class Batch(dict[str, Any]):
    """A `TrainingInputBatch`: tensors, and metadata beside them."""

    metadata: dict[str, Any]


class RayPPOTrainer:
    """The two methods, as far as they handle rows, keys and padding."""

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg

    def convert_to_training_input(self, generator_output: Any, uids: list[str]) -> Any:
        pad = 1
        rewards = torch.tensor(generator_output["rewards"])
        mask = torch.tensor(generator_output["loss_masks"])
        batch = Batch(
            rewards=torch.cat([rewards, rewards[:pad]]),
            response_mask=torch.cat([mask, mask[:pad]]),
        )
        batch.metadata = {
            "uids": [*uids, *(f"pad{i}" for i in range(pad))],
            "pad_size": pad,
        }
        if (last := generator_output.get("is_last_step")) is not None:
            batch.metadata["is_last_step"] = [*last, *(True for _ in range(pad))]
        return batch

    def compute_advantages_and_returns(self, data: Any) -> Any:
        algorithm = self.cfg.trainer.algorithm
        estimate = Registry.get(algorithm.advantage_estimator)
        common = {
            "values": None,
            "config": algorithm,
            "gamma": 1.0,
            "lambd": 1.0,
            "grpo_norm_by_std": algorithm.grpo_norm_by_std,
        }
        mask = data["response_mask"]
        if self.cfg.generator.step_wise_trajectories:
            last = torch.tensor(data.metadata["is_last_step"])
            index = np.array(data.metadata["uids"])
            values, _ = estimate(
                token_level_rewards=data["rewards"][last],
                response_mask=torch.ones_like(mask[last], dtype=torch.float),
                index=index[last.numpy()],
                **common,
            )
            of_row = torch.cat([torch.tensor([False]), last[:-1]]).int().cumsum(dim=0)
            data["advantages"] = values[of_row] * mask
        else:
            data["advantages"], _ = estimate(
                token_level_rewards=data["rewards"],
                response_mask=mask,
                index=data.metadata["uids"],
                **common,
            )
        data["returns"] = data["advantages"].clone()
        return data


def config(estimator: str, **changed: Any) -> Any:
    algorithm = SimpleNamespace(
        advantage_estimator=estimator,
        grpo_norm_by_std=changed.get("grpo_norm_by_std", True),
        use_kl_in_reward=changed.get("use_kl_in_reward", False),
        zero_variance_filter=changed.get("zero_variance_filter", False),
        dynamic_sampling=SimpleNamespace(type=changed.get("sampling")),
    )
    generator = SimpleNamespace(
        step_wise_trajectories=changed.get("step_wise", False),
        zero_reward_on_non_stop=changed.get("zero_reward_on_non_stop", False),
    )
    return SimpleNamespace(
        trainer=SimpleNamespace(algorithm=algorithm), generator=generator
    )


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> type[RayPPOTrainer]:
    """The interface in the place of the stack; returns a fresh trainer."""
    monkeypatch.setattr(Registry, "_functions", {})
    monkeypatch.setattr(skyrl, "leaves_out", threading.Event())
    trainer = type("RayPPOTrainer", (), dict(vars(RayPPOTrainer)))
    for name, values in (
        (UTILS, {"AdvantageEstimatorRegistry": Registry}),
        (TRAINER, {"RayPPOTrainer": trainer}),
    ):
        module = ModuleType(name)
        vars(module).update(values)
        for place in range(1, name.count(".") + 1):
            parent = ".".join(name.split(".")[:place])
            monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
        monkeypatch.setitem(sys.modules, name, module)
    return trainer


def z_of(criterion: str, response: int) -> float:
    return zlib.crc32(f"{criterion}{response}".encode()) % 3 / 2


def episodes(*, steps: int = 1, **dropped: bool) -> tuple[dict[str, Any], list[str]]:
    """What a generator gives for three prompts of 1, 2 and 3 criteria; one judgement is lost."""
    output: dict[str, Any] = {
        "rewards": [],
        "loss_masks": [],
        "response_ids": [],
        "env_metrics": [],
        "is_last_step": [],
    }
    uids: list[str] = []
    for task in range(TASKS):
        shares = {f"q{task}.{j}": 1 / (task + 1) for j in range(task + 1)}
        for response in range(GROUP):
            lost = (task, response) == (1, 2)
            z = {} if lost else {name: z_of(name, response) for name in shares}
            record = JudgementRecord.model_validate(
                {
                    "task_id": f"t{task}",
                    "outcome": "unavailable" if lost else "scored",
                    "shares": shares,
                    "z": z,
                }
            )
            for step in range(steps):
                is_last = step == steps - 1
                metrics = {
                    "rubric/score": 0.5,
                    advantages.KEY: record.model_dump_json(),
                }
                uids.append(f"uid{task}")
                output["rewards"].append([0.0] * LENGTH)
                output["loss_masks"].append([1] * LENGTH)
                output["response_ids"].append([1] * LENGTH)
                output["env_metrics"].append(metrics if is_last else {})
                output["is_last_step"].append(is_last)
    if steps == 1:
        del output["is_last_step"]
    for name in dropped:
        del output[name]
    return output, uids


def expected(kind: str, *, divides: bool = True) -> list[float]:
    z_PGM = np.full((TASKS, GROUP, TASKS), np.nan)
    weights_PM = np.zeros((TASKS, TASKS))
    valid_PG = np.ones((TASKS, GROUP), dtype=bool)
    valid_PG[1, 2] = False
    for task in range(TASKS):
        weights_PM[task, : task + 1] = 1 / (task + 1)
        for response in range(GROUP):
            z_PGM[task, response, : task + 1] = [
                z_of(f"q{task}.{j}", response) for j in range(task + 1)
            ]
    if kind == "rubric_decoupled":
        return (
            decoupled_advantages(z_PGM, weights_PM, valid_PG=valid_PG).ravel().tolist()
        )
    rewards_PG = (np.nan_to_num(z_PGM) * weights_PM[:, None, :]).sum(axis=2)
    std = "sample" if divides else "none"
    return group_advantages(rewards_PG, std=std, valid_PG=valid_PG).ravel().tolist()


@pytest.mark.parametrize("kind", ["rubric_decoupled", "rubric_group"])
@pytest.mark.parametrize("steps", [1, 2])
def test_the_trainer_computes_our_advantages_of_rows_padding_and_steps(
    kind: str, steps: int, stack: type[RayPPOTrainer]
) -> None:
    skyrl_advantages.register()
    trainer = stack(config(kind, step_wise=steps > 1))
    output, uids = episodes(steps=steps)

    batch = trainer.convert_to_training_input(output, uids)
    data = trainer.compute_advantages_and_returns(batch)

    found = data["advantages"].numpy()
    wanted = np.repeat(expected(kind), steps)[:, None] * np.ones(LENGTH)
    np.testing.assert_allclose(found[:-1], wanted, rtol=0, atol=1e-6)
    assert (found[-1] == 0).all()  # padding
    assert set(data.metadata) <= {"uids", "pad_size", "is_last_step"}


def test_the_switch_of_division_is_skyrls_own(stack: type[RayPPOTrainer]) -> None:
    skyrl_advantages.register()
    trainer = stack(config("rubric_group", grpo_norm_by_std=False))

    data = trainer.compute_advantages_and_returns(
        trainer.convert_to_training_input(*episodes())
    )

    wanted = expected("rubric_group", divides=False)
    np.testing.assert_allclose(data["advantages"][:-1, 0], wanted, atol=1e-6)


def test_other_estimators_are_left_alone_and_registering_again_is_nothing_new(
    stack: type[RayPPOTrainer],
) -> None:
    Registry.register("grpo", lambda **given: (given["token_level_rewards"], None))
    skyrl_advantages.register()
    hooked = stack.compute_advantages_and_returns
    skyrl_advantages.register()
    trainer = stack(config("grpo"))
    output, uids = episodes(env_metrics=True)

    data = trainer.compute_advantages_and_returns(
        trainer.convert_to_training_input(output, uids)
    )

    assert stack.compute_advantages_and_returns is hooked
    assert data["advantages"].equal(data["rewards"])


def grpo(
    token_level_rewards: Any, response_mask: Any, index: Any, **_: object
) -> tuple[Any, Any]:
    """`compute_grpo_outcome_advantage` of `ppo_utils.py`, with what it does to a group of one."""
    scores_N = token_level_rewards.sum(dim=-1)
    found = torch.zeros_like(scores_N)
    for key in set(index):
        rows = [row for row, other in enumerate(index) if other == key]
        of_group = scores_N[rows]
        alone = len(rows) == 1
        mean, std = (0.0, 1.0) if alone else (of_group.mean(), of_group.std())
        found[rows] = (of_group - mean) / (std + 1e-6)
    return found.unsqueeze(-1) * response_mask, found.unsqueeze(-1) * response_mask


def told(
    outcomes: list[list[float | None]], *, steps: int = 1
) -> tuple[dict[str, Any], list[str]]:
    """What a generator gives for groups of rewards; None where there is no judgement."""
    output: dict[str, Any] = {
        name: []
        for name in (
            "rewards",
            "loss_masks",
            "response_ids",
            "env_metrics",
            "is_last_step",
        )
    }
    uids: list[str] = []
    for group, rewards in enumerate(outcomes):
        for reward in rewards:
            for step in range(steps):
                is_last = step == steps - 1
                output["rewards"].append(
                    [0.0] * (LENGTH - 1) + [(reward or 0.0) * is_last]
                )
                output["loss_masks"].append([1] * LENGTH)
                output["response_ids"].append([1] * LENGTH)
                flag = {skyrl.LEFT_OUT: float(reward is None)}
                output["env_metrics"].append(flag if is_last else {})
                output["is_last_step"].append(is_last)
                uids.append(f"uid{group}")
    if steps == 1:
        del output["is_last_step"]
    return output, uids


@pytest.mark.parametrize("steps", [1, 2])
def test_skyrls_own_estimator_never_sees_what_nobody_judged(
    steps: int, stack: type[RayPPOTrainer]
) -> None:
    Registry.register("grpo", grpo)
    skyrl_advantages.register()
    skyrl.leaves_out.set()  # as an environment does
    trainer = stack(config("grpo", step_wise=steps > 1))
    output, uids = told([[1.0, None, 0.5, 0.0], [1.0, None], [0.5, 1.0]], steps=steps)

    data = trainer.compute_advantages_and_returns(
        trainer.convert_to_training_input(output, list(uids))
    )

    half = 0.5 / (np.std([0.5, 1.0], ddof=1) + 1e-6) / 2
    judged = [1 / (0.5 + 1e-6) / 2, 0, 0, -1 / (0.5 + 1e-6) / 2]
    wanted = np.repeat([*judged, 0, 0, -half, half], steps)[:, None] * np.ones(LENGTH)
    rows = len(uids)
    np.testing.assert_allclose(data["advantages"].numpy()[:rows], wanted, atol=1e-6)
    assert data.metadata["uids"][:rows] == uids
    assert (data["response_mask"] == 1).all()


def test_without_a_lost_judgement_skyrls_own_numbers_stand(
    stack: type[RayPPOTrainer],
) -> None:
    Registry.register("grpo", grpo)
    output, uids = told([[1.0, 0.5, 0.5], [0.0], [1.0]])
    trainer = stack(config("grpo"))
    plain = trainer.compute_advantages_and_returns(
        trainer.convert_to_training_input(output, list(uids))
    )
    skyrl_advantages.register()
    skyrl.leaves_out.set()

    hooked = trainer.compute_advantages_and_returns(
        trainer.convert_to_training_input(output, list(uids))
    )

    assert hooked["advantages"].equal(plain["advantages"])


@pytest.mark.parametrize("kind", ["rubric_decoupled", "grpo"])
def test_rows_that_come_without_their_metrics_are_refused(
    kind: str, stack: type[RayPPOTrainer]
) -> None:
    skyrl_advantages.register()
    skyrl.leaves_out.set()
    for sampling in ("filter", "replace"):
        trainer = stack(config(kind, sampling=sampling))
        with pytest.raises(ConfigError, match=rf"type={sampling}: .*set it to null"):
            trainer.convert_to_training_input(*episodes())
    with pytest.raises(ConfigError, match=r"generator\.batched=false"):
        stack(config(kind)).convert_to_training_input(*episodes(env_metrics=True))
    output, uids = episodes()
    output["env_metrics"].pop()
    with pytest.raises(SchemaError, match=r"12 rows and the metrics of 11: .*one"):
        stack(config(kind)).convert_to_training_input(output, uids)


def test_what_cannot_work_in_skyrl_says_what_to_set(stack: type[RayPPOTrainer]) -> None:
    skyrl_advantages.register()
    kind = "rubric_decoupled"

    output, uids = episodes()
    output["env_metrics"] = [{"rubric/score": 0.5} for _ in uids]
    with pytest.raises(SchemaError, match=r"row 0: .*log_judgements=True"):
        stack(config(kind)).convert_to_training_input(output, uids)
    for setting in (
        "use_kl_in_reward",
        "zero_reward_on_non_stop",
        "zero_variance_filter",
    ):
        trainer = stack(config(kind, **{setting: True}))
        batch = trainer.convert_to_training_input(*episodes())
        with pytest.raises(ConfigError, match=rf"{setting} .* set it to false"):
            trainer.compute_advantages_and_returns(batch)
    with pytest.raises(
        ConfigError, match=r"SkyRL called .*register\(\) in the process"
    ):
        Registry.get(kind)(
            token_level_rewards=None, response_mask=None, index=[], values=None
        )


def test_a_filter_of_equal_rewards_goes_with_advantages_of_rewards(
    stack: type[RayPPOTrainer],
) -> None:
    skyrl_advantages.register()
    trainer = stack(config("rubric_group", zero_variance_filter=True))
    batch = trainer.convert_to_training_input(*episodes())

    assert trainer.compute_advantages_and_returns(batch)["advantages"].any()


def test_another_release_and_another_trainer_are_refused(
    stack: type[RayPPOTrainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advantages, "version", lambda _: "0.4.0")
    with pytest.raises(ConfigError, match=r"skyrl 0\.4\.0: .* skyrl 0\.3"):
        skyrl_advantages.register()
    monkeypatch.setattr(advantages, "version", lambda _: "0.3.1")
    del stack.convert_to_training_input
    with pytest.raises(ConfigError, match=r"no convert_to_training_input.*SkyRL 0\.3"):
        skyrl_advantages.register()


def test_without_skyrl_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skyrl", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'skyrl==0\.3"):
        skyrl_advantages.register()


def wheel_batch(output: dict[str, Any], uids: list[str], padding: int) -> Any:
    """A batch of the wheel, as its conversion makes it, which needs a tokenizer and workers."""
    batches = pytest.importorskip("skyrl.backends.skyrl_train.training_batch")
    batch = batches.TrainingInputBatch(
        {
            "rewards": torch.tensor(output["rewards"]),
            "response_mask": torch.tensor(output["loss_masks"]),
            "loss_mask": torch.tensor(output["loss_masks"]),
            "values": None,
        }
    )
    batch.metadata = {"uids": uids, "avg_response_length": 3.0}
    return batches.pad_training_input_batch(batch, padding)


def wheel_trainer(kind: str) -> tuple[Any, Any]:
    """The class of the wheel's trainer, and what its methods read of an instance."""
    module = pytest.importorskip(TRAINER)
    skyrl_advantages.register()
    settings = config(kind)
    settings.trainer.algorithm.gamma = settings.trainer.algorithm.lambd = 1.0
    return module.RayPPOTrainer, SimpleNamespace(cfg=settings, all_metrics={})


@pytest.mark.stacks
@pytest.mark.skipif(sys.version_info < (3, 12), reason="skyrl 0.3.0 fails to import")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["grpo", "rloo", "maxrl", "reinforce++"])
def test_the_wheels_own_estimators_never_see_what_nobody_judged(kind: str) -> None:
    owner, trainer = wheel_trainer(kind)
    rows, uids = told([[1.0, None, 0.5, 0.0], [1.0, None]])
    compares = (
        kind != "reinforce++"
    )  # it normalises over the batch, in which padding is
    judged = [0, 2, 3] if compares else [0, 2, 3, 4]

    def trained(kept: list[int], padding: int) -> Any:
        output = {name: [rows[name][row] for row in kept] for name in rows}
        keys = [uids[row] for row in kept]

        def converted(_: Any, given: Any, keys: list[str]) -> Any:
            return wheel_batch(given, keys, padding)

        skyrl.leaves_out.set()
        batch = skyrl_advantages._keeping(converted)(trainer, output, keys)
        return owner.compute_advantages_and_returns(trainer, batch)

    found = trained(list(range(len(uids))), 2 * compares)
    wanted = trained(judged, 0)

    torch.testing.assert_close(found["advantages"][judged], wanted["advantages"])
    others = [row for row in range(len(uids)) if row not in judged]
    assert (found["advantages"][others] == 0).all()
    assert (found["response_mask"][: len(uids)] == 1).all()


@pytest.mark.stacks
@pytest.mark.skipif(sys.version_info < (3, 12), reason="skyrl 0.3.0 fails to import")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["rubric_decoupled", "rubric_group"])
def test_the_trainer_of_the_wheel_computes_our_advantages(kind: str) -> None:
    owner, trainer = wheel_trainer(kind)
    output, uids = episodes()

    def converted(_: Any, generator_output: Any, uids: list[str]) -> Any:
        return wheel_batch(generator_output, uids, 2)

    batch = skyrl_advantages._keeping(converted)(trainer, output, uids)
    data = owner.compute_advantages_and_returns(trainer, batch)

    found = data["advantages"].numpy()
    wanted = np.array(expected(kind))[:, None] * np.ones(LENGTH)
    np.testing.assert_allclose(found[:-2], wanted, rtol=0, atol=1e-6)
    assert (found[-2:] == 0).all()
