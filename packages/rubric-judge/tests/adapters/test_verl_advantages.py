"""The estimators for verl: in its own registry, data protocol, queue and trainers."""

import asyncio
import importlib
import sys
import zlib
from functools import partial
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    MissingExtraError,
    Reason,
    Rubric,
    SchemaError,
    Task,
    write_tasks,
)
from rubric_core.reward.advantage import group_advantages
from rubric_core.reward.attribution import decoupled_advantages
from rubric_judge.adapters import advantages, verl_advantages
from rubric_judge.adapters.verl import compute_score
from rubric_judge.quality.criteria.record import JudgementRecord
from rubric_judge.testing import ScriptedJudge

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
        verl_advantages._STACK.hook(type("Other", (), {}), "step", lambda one: one)


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
    from omegaconf import OmegaConf

    # Each of its actors asks for a CPU.
    ray.init(num_cpus=8, include_dashboard=False, ignore_reinit_error=True)
    storage = {"SimpleStorage": {"num_data_storage_units": 1}}
    tq.init(OmegaConf.create({"backend": storage}))
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
    # As verl's agent loop does, a rollout at a time.
    for _, numbers in groupby(
        range(len(keys)), lambda row: keys[row].rsplit("_", 1)[0]
    ):
        rows = list(numbers)
        queue.kv_batch_put(
            keys=[keys[row] for row in rows],
            partition_id="train",
            fields=list_of_dict_to_tensordict([fields[row] for row in rows]),
            tags=[tags[row] for row in rows],
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


# --- two steps of training: all of verl but its engines, which need a GPU -------------------------


class Characters:
    """A tokenizer of one character a token; 0 ends a response."""

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:  # noqa: FBT001, FBT002
        del skip_special_tokens
        return "".join(chr(32 + int(token)) for token in ids if int(token))


def by_letters(view: JudgeView) -> JudgeResult | dict[str, float]:
    """Each criterion is met by the letter that its id ends with; one answer in nine is lost."""
    if zlib.crc32(view.response.encode()) % 9 == 0:
        return JudgeResult.unavailable(Reason.TIMEOUT)
    return {
        one.id: one.weight * min(view.response.count(one.id[-1]), 2) / 2
        for one in view.rubric
    }


def judged_by_verl(manager: Any, responses: Any, tasks: list[Task]) -> list[str]:
    """Have verl's reward manager judge samples, and return what its batch carries of them."""
    import torch
    from tensordict import TensorDict
    from verl import DataProto

    def sample(row: int) -> Any:
        columns = {
            "data_source": "rubric",
            "reward_model": {"ground_truth": tasks[row].task_id},
            "extra_info": {"index": row},
        }
        arrays = {}
        for name, value in columns.items():
            arrays[name] = np.empty(1, dtype=object)
            arrays[name][0] = value
        tokens = responses[row : row + 1]
        tensors = {
            "prompts": torch.zeros(1, 2).long(),
            "responses": tokens,
            "attention_mask": torch.ones(1, 2 + tokens.shape[1]).long(),
        }
        return DataProto(
            batch=TensorDict(tensors, batch_size=1), non_tensor_batch=arrays
        )

    async def batch() -> list[Any]:
        manager.loop = asyncio.get_running_loop()
        samples = [sample(row) for row in range(len(responses))]
        return await asyncio.gather(*map(manager.run_single, samples))

    infos = [one["reward_extra_info"] for one in asyncio.run(batch())]
    return [str(info[advantages.KEY]) for info in infos]


@pytest.mark.stacks
@pytest.mark.parametrize("kind", ["rubric_decoupled", "rubric_group"])
def test_two_steps_train_on_our_advantages_under_rubrics_of_unlike_length(
    kind: str, tmp_path: Path
) -> None:
    pytest.importorskip("verl")
    import torch
    from omegaconf import OmegaConf
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
    from verl.trainer.ppo import core_algos, ray_trainer

    verl_advantages.register()
    tasks = [
        Task(
            question=f"Question {number}?",
            grounding=Grounding(f"Passage {number}."),
            rubric=Rubric(
                criteria=[
                    Criterion(
                        id=f"q{number}.{letter}",
                        weight=1.0 + place,
                    )
                    for place, letter in enumerate(letters)
                ]
            ),
        )
        for number, letters in enumerate(["A", "BC", "DEF"])
    ]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    reward = partial(
        compute_score,
        judge=ScriptedJudge(by_letters),
        tasks=str(tmp_path / "tasks.jsonl"),
        log_judgements=True,
    )
    settings = OmegaConf.create({"reward": {}})
    manager = NaiveRewardManager(settings, Characters(), reward)
    torch.manual_seed(1)
    model = small_llama()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    rows = [task for task in tasks for _ in range(4)]
    prompts = torch.tensor([[33 + tasks.index(task), 1] for task in rows])

    moved: list[float] = []
    for _ in range(2):
        with torch.no_grad():
            tokens = model.generate(
                prompts, do_sample=True, min_new_tokens=24, max_new_tokens=24
            )
        responses = tokens[:, 2:]
        records = judged_by_verl(manager, responses, rows)
        keys = [task.task_id for task in rows]
        batch = data_proto(records, keys, np.ones(responses.shape, dtype=bool))
        data = ray_trainer.compute_advantage(batch, kind, config=config(kind)).batch
        logits = model(tokens).logits[:, 1:-1]
        chosen = torch.gather(logits.log_softmax(-1), 2, responses[..., None])[..., 0]
        loss, _ = core_algos.get_policy_loss_fn("vanilla")(
            old_log_prob=chosen.detach(),
            log_prob=chosen,
            advantages=data["advantages"],
            response_mask=data["response_mask"],
            config=actor_config(),
        )
        optimizer.zero_grad()
        loss.backward()
        before = chosen.detach().clone()
        optimizer.step()
        with torch.no_grad():
            logits = model(tokens).logits[:, 1:-1]
            after = torch.gather(logits.log_softmax(-1), 2, responses[..., None])[
                ..., 0
            ]

        wanted = expected(records, keys, kind)
        np.testing.assert_allclose(data["advantages"][:, 0], wanted, rtol=0, atol=1e-6)
        assert any(wanted)
        moved.append(float((data["advantages"] * (after - before)).mean()))
    assert min(moved) > 0  # what was better has become more likely


def small_llama() -> Any:
    import transformers

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=48, num_attention_heads=2, **sizes)
    )


def actor_config() -> Any:
    workers = pytest.importorskip("verl.workers.config")
    return workers.ActorConfig(
        strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=12
    )
