"""The estimators for verl: in its own registry, data protocol, queue and trainers."""

import importlib
import sys
import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rubric_core import ConfigError, MissingExtraError, SchemaError
from rubric_core.reward.advantage import group_advantages
from rubric_core.reward.attribution import decoupled_advantages
from rubric_judge.adapters import advantages, verl_advantages
from rubric_judge.quality.criteria.record import JudgementRecord

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
]
LENGTH = 3


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[str], list[str], np.ndarray[Any, Any]]:
    """Records, keys of prompts in any order, and the mask of tokens, of groups of 4."""
    rows: list[tuple[str, str]] = []
    for prompt in range(3):
        count = draw(st.integers(1, 3))
        weights = [draw(st.sampled_from([1.0, 3.0])) for _ in range(count)]
        shares = {f"q{prompt}.{j}": w / sum(weights) for j, w in enumerate(weights)}
        for _ in range(4):
            outcome = draw(st.sampled_from(["scored", "scored", "unavailable"]))
            z = {name: draw(st.sampled_from([0.0, 0.5, 1.0])) for name in shares}
            record = JudgementRecord.model_validate(
                {
                    "task_id": f"t{prompt}",
                    "outcome": outcome,
                    "shares": shares,
                    "z": z if outcome == "scored" else {},
                }
            )
            rows.append((record.model_dump_json(), f"uid-{prompt}"))
    rows = draw(st.permutations(rows))
    lengths = [draw(st.integers(1, LENGTH)) for _ in rows]
    mask = np.arange(LENGTH)[None, :] < np.array(lengths)[:, None]
    return [text for text, _ in rows], [key for _, key in rows], mask


def expected(records: list[str], keys: list[str], kind: str) -> list[float]:
    """The core's own functions, on groups in the order of their keys."""
    parsed = [JudgementRecord.model_validate_json(text) for text in records]
    prompts = sorted(set(keys))
    places = [[i for i, key in enumerate(keys) if key == one] for one in prompts]
    z_PGM = np.full((len(prompts), 4, 3), np.nan)
    weights_PM = np.zeros((len(prompts), 3))
    valid_PG = np.zeros((len(prompts), 4), dtype=bool)
    for p, rows in enumerate(places):
        for g, row in enumerate(rows):
            shares = parsed[row].shares
            weights_PM[p, : len(shares)] = list(shares.values())
            if parsed[row].outcome == "scored":
                z_PGM[p, g, : len(shares)] = [parsed[row].z[c] for c in shares]
                valid_PG[p, g] = True
    if kind == "rubric_decoupled":
        values_PG = decoupled_advantages(z_PGM, weights_PM, valid_PG=valid_PG)
    else:
        rewards_PG = (np.nan_to_num(z_PGM) * weights_PM[:, None, :]).sum(axis=2)
        values_PG = group_advantages(rewards_PG, valid_PG=valid_PG)
    values = [0.0] * len(keys)
    for p, rows in enumerate(places):
        for g, row in enumerate(rows):
            values[row] = float(values_PG[p, g])
    return values


def config(estimator: str, **settings: Any) -> Any:
    omegaconf = pytest.importorskip("omegaconf")
    return omegaconf.OmegaConf.create(
        {
            "adv_estimator": estimator,
            "norm_adv_by_std_in_grpo": True,
            "use_kl_in_reward": False,
            "gamma": 1.0,
            "lam": 1.0,
            **settings,
        }
    )


def data_proto(records: list[str] | None, keys: list[str], mask: Any) -> Any:
    """A batch as the older trainers hold it at the step of the advantages."""
    import torch
    from tensordict import TensorDict
    from verl import DataProto

    tokens = torch.tensor(mask)
    columns = {"uid": np.array(keys, dtype=object)}
    if records is not None:
        columns[advantages.KEY] = np.array(records)
    return DataProto(
        batch=TensorDict(
            {
                "token_level_rewards": torch.rand(tokens.shape),
                "response_mask": tokens.long(),
            },
            batch_size=len(keys),
        ),
        non_tensor_batch=columns,
    )


@pytest.mark.stacks
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(step=steps(), kind=st.sampled_from(["rubric_decoupled", "rubric_group"]))
def test_the_step_of_verl_has_our_advantages(
    step: tuple[list[str], list[str], Any], kind: str
) -> None:
    pytest.importorskip("verl")
    from verl.trainer.ppo import ray_trainer

    verl_advantages.register()
    records, keys, mask = step

    data = ray_trainer.compute_advantage(
        data_proto(records, keys, mask), adv_estimator=kind, config=config(kind)
    )

    wanted = np.array(expected(records, keys, kind))[:, None] * mask
    found = data.batch["advantages"].numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    # Exact zeros where there is nothing to learn, and where no judgement was.
    assert (found[wanted == 0] == 0).all()
    assert data.batch["returns"].equal(data.batch["advantages"])


@pytest.mark.stacks
def test_verls_own_estimators_are_left_as_they_are() -> None:
    pytest.importorskip("verl")
    from verl.trainer.ppo import core_algos, ray_trainer

    before = core_algos.ADV_ESTIMATOR_REGISTRY["grpo"]
    verl_advantages.register()
    verl_advantages.register()
    mask = np.ones((4, LENGTH), dtype=bool)
    batch = data_proto(None, ["a", "a", "b", "b"], mask)

    own = ray_trainer.compute_advantage(batch, adv_estimator="grpo")
    plain, _ = core_algos.compute_grpo_outcome_advantage(
        batch.batch["token_level_rewards"].clone(),
        batch.batch["response_mask"],
        batch.non_tensor_batch["uid"],
    )

    assert own.batch["advantages"].equal(plain)
    assert core_algos.ADV_ESTIMATOR_REGISTRY["grpo"] is before
    assert {
        "rubric_decoupled",
        "rubric_group",
    } <= core_algos.ADV_ESTIMATOR_REGISTRY.keys()


@pytest.mark.stacks
def test_what_cannot_work_in_verl_says_what_to_set() -> None:
    pytest.importorskip("verl")
    import torch
    from verl.trainer.ppo import core_algos, ray_trainer

    verl_advantages.register()
    record = JudgementRecord.model_validate(
        {"task_id": "t", "outcome": "scored", "shares": {"a": 1.0}, "z": {"a": 1.0}}
    ).model_dump_json()
    mask = np.ones((2, LENGTH), dtype=bool)
    kind = "rubric_decoupled"

    with pytest.raises(
        SchemaError, match=r"row 0: .*reward_kwargs.log_judgements=true"
    ):
        ray_trainer.compute_advantage(
            data_proto(None, ["a", "a"], mask), kind, config=config(kind)
        )
    with pytest.raises(ConfigError, match=r"use_kl_in_reward .*use_kl_loss=true"):
        ray_trainer.compute_advantage(
            data_proto([record] * 2, ["a", "a"], mask),
            kind,
            config=config(kind, use_kl_in_reward=True),
        )
    with pytest.raises(
        ConfigError, match=r"external_lib=rubric_judge.adapters.verl_adv"
    ):
        core_algos.get_adv_estimator_fn(kind)(
            token_level_rewards=torch.zeros(2, LENGTH),
            response_mask=torch.ones(2, LENGTH),
            index=np.array(["a", "a"]),
        )


@pytest.mark.stacks
def test_another_release_of_verl_is_refused_by_both_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("verl")
    monkeypatch.setattr(advantages, "version", lambda _: "0.10.0")

    with pytest.raises(ConfigError, match=r"verl 0\.10\.0: .* verl 0\.9"):
        verl_advantages.register()


def test_a_trainer_without_the_step_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Other has no step: .* verl 0\.9.*pip inst"):
        verl_advantages._wrap(type("Other", (), {}), "step", lambda one: one)


def test_without_verl_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verl", None)
    monkeypatch.delitem(sys.modules, "verl.trainer.ppo.core_algos", raising=False)

    with pytest.raises(MissingExtraError, match=r"pip install 'verl==0\.9"):
        verl_advantages.register()


# --- the trainer of `main_ppo`: its rows are in TransferQueue, an extra of verl -------------------


def digest(text: str) -> float:
    return zlib.crc32(text.encode()) % 3 / 2


@pytest.fixture
def queue() -> Any:
    """verl's own queue in a small Ray of this test."""
    tq = pytest.importorskip("transfer_queue")
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, ignore_reinit_error=True)
    tq.init()
    yield tq
    tq.close()
    ray.shutdown()


@pytest.mark.stacks
@pytest.mark.parametrize("kind", ["rubric_decoupled", "rubric_group"])
def test_the_trainer_of_main_ppo_computes_our_advantages(queue: Any, kind: str) -> None:
    import torch
    from transfer_queue import KVBatchMeta

    base = importlib.import_module("verl.trainer.ppo.v1.trainer_base")
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    verl_advantages.register()
    keys: list[str] = []
    fields: list[dict[str, Any]] = []
    tags: list[dict[str, Any]] = []
    records: list[str] = []
    uids: list[str] = []
    for prompt in range(3):
        shares = {f"q{prompt}.{j}": 1 / (prompt + 1) for j in range(prompt + 1)}
        for session in range(4):
            z = {name: digest(f"{name}{session}") for name in shares}
            lost = (prompt, session) == (1, 2)
            records.append(
                JudgementRecord.model_validate(
                    {
                        "task_id": f"t{prompt}",
                        "outcome": "unavailable" if lost else "scored",
                        "shares": shares,
                        "z": {} if lost else z,
                    }
                ).model_dump_json()
            )
            length = 1 + session
            # The last session has two parts, as a loop of an agent with a summary in between.
            for part in range(2 if session == 3 else 1):
                keys.append(f"uid{prompt}_{session}_{part}")
                uids.append(f"uid{prompt}")
                tags.append({"status": "success"})
                fields.append(
                    {
                        "uid": f"uid{prompt}",
                        "response_mask": torch.ones(length, dtype=torch.int64),
                        "rm_scores": torch.zeros(length),
                        "rollout_log_probs": torch.zeros(length),
                        "old_log_probs": torch.zeros(length),
                        "ref_log_prob": torch.zeros(length),
                        "values": torch.zeros(length),
                        "extra_fields": {
                            "reward_extra_info": {
                                "score": 0.5,
                                advantages.KEY: records[-1],
                            }
                        },
                    }
                )
    keys.append("padding_0_0")
    tags.append({"status": "success", "is_padding": True})
    fields.append(
        {**fields[0], "uid": "padding", "response_mask": torch.zeros(1).long()}
    )
    queue.kv_batch_put(
        keys=keys,
        partition_id="train",
        fields=list_of_dict_to_tensordict(fields),
        tags=tags,
    )
    batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags)
    trainer = SimpleNamespace(
        config=SimpleNamespace(
            algorithm=config(kind),
            actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(n=4)),
        )
    )

    base.PPOTrainer._compute_advantage(trainer, batch, metrics={})

    rows = queue.kv_batch_get(
        keys=keys, partition_id="train", select_fields=["advantages"]
    )
    found = [row.tolist() for row in rows["advantages"].unbind()]
    by_session = dict(
        zip(
            [f"uid{p}_{s}" for p in range(3) for s in range(4)],
            expected(records, [f"uid{p}" for p in range(3) for _ in range(4)], kind),
            strict=True,
        )
    )
    for key, values, field in zip(keys[:-1], found, fields, strict=False):
        wanted = [by_session[key.rsplit("_", 1)[0]]] * len(field["response_mask"])
        np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-6)
    assert found[-1] == [0.0]
    assert any(value for row in found for value in row)
