"""One of several processes that make the same updates: `one_rank.py CASES RANK RANKS PORT`.

Started by test_ranks.py. Each process takes its rank's part of the responses, as OpenRLHF's group
of actors hands them out, and rank 0 writes what the updates did.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rubric_train_openrlhf.cluster import cpu
from rubric_train_openrlhf.cluster.command.flags import command_words, grpo_flags
from rubric_train_openrlhf.cluster.command.refusals import check_command
from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.settings import run_file
from rubric_train_openrlhf.cluster.training.trained import Shares
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.config.train import load_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_train_openrlhf.config.train import TrainConfig


class OfThisRank:
    """OpenRLHF's group of actors, of which this process is one.

    Every process makes all passes without gradients, which it can as well as another.
    """

    def __init__(self, actor: Any, *, rank: int, ranks: int) -> None:
        self.actor, self._rank, self._ranks = actor, rank, ranks

    def async_run_method(self, method_name: str, **options: Any) -> list[Any]:
        return [getattr(self.actor, method_name)(**options)]

    def async_run_method_batch(
        self, method_name: str, **lists: Sequence[Any]
    ) -> list[list[Any]]:
        n = len(next(iter(lists.values())))
        first, last = 0, n
        if method_name == "append":
            size = -(-n // self._ranks)
            first, last = self._rank * size, min((self._rank + 1) * size, n)
        return [self.actor.execute_batch(method_name, lists, first, last)]


def run_case(
    case: dict[str, Any], *, place: tuple[int, int, str, int]
) -> dict[str, Any]:
    """Make the updates of one step; `place` is that of OpenRLHF's actors."""
    from openrlhf.utils import get_strategy

    from rubric_train_openrlhf.cluster.training.policy_actor import (
        RubricPolicyActor,
        RubricReferenceActor,
    )

    config = load_config(case["config"])
    args = check_command(command_words(grpo_flags(config))).args
    PolicyRun.of(config, namespace="test").write(run_file())
    frozen, policy = RubricReferenceActor(*place), RubricPolicyActor(*place)
    frozen.init_model_from_pretrained(get_strategy(args), case["reference"])
    policy.init_model_from_pretrained(get_strategy(args), case["model"], max_steps=1)
    maker = _maker(config, case, policy=policy, frozen=frozen, place=place)
    made = maker.make_step(1, case["groups"])
    OfThisRank(policy, rank=place[1], ranks=place[0]).async_run_method_batch(
        "append", experience=made.batches
    )
    status = policy.fit(kl_ctl=config.objective.kl_coef)
    states = DeepSpeedStates(config.out)
    return {
        "state": policy.save_state(str(states.path(1)), {"step": 1}),
        "figures": {
            k.removeprefix("rubric/"): v for k, v in status.items() if "rubric/" in k
        },
        "trained": [
            (one.digest.hex(), one.tokens, one.advantage) for one in policy.trained()
        ],
        "weights": _weights(policy),
    }


def _maker(
    config: TrainConfig, case: dict[str, Any], *, policy: Any, frozen: Any, place: Any
) -> Any:
    from rubric_train_openrlhf.cluster.training.experience import RubricExperienceMaker

    credit = SimpleNamespace(
        advantages_PG=case["advantages_PG"],
        valid_PG=case["valid_PG"],
        shaped_PG=np.zeros_like(case["advantages_PG"]),
    )
    groups = [
        OfThisRank(actor, rank=place[1], ranks=place[0]) for actor in (policy, frozen)
    ]
    return RubricExperienceMaker(
        *(groups[0], None, None, groups[1], None, policy.strategy),
        SimpleNamespace(pad_token_id=0),
        coordinator=SimpleNamespace(credit=lambda *_: credit),
        shares=Shares(updates=config.optim.updates_per_rollout, ranks=place[0]),
        ratio_to_sampler=config.objective.importance.type == "none",
        precision=config.precision,
    )


def _weights(policy: Any) -> dict[str, torch.Tensor]:
    import deepspeed

    weights: dict[str, torch.Tensor] = {}
    for name, parameter in policy.actor.model.module.named_parameters():
        with deepspeed.zero.GatheredParameters(
            [parameter], enabled=hasattr(parameter, "ds_id")
        ):
            weights[name] = parameter.detach().float().clone()
    return weights


def main() -> None:
    folder, rank, ranks, port = Path(sys.argv[1]), *map(int, sys.argv[2:])
    cpu.install()
    from openrlhf.trainer.ppo_utils import experience_maker

    experience_maker.ray = SimpleNamespace(get=lambda x: x, put=lambda x: x)
    cases = torch.load(folder / "cases.pt", weights_only=False)
    done: dict[str, Any] = {}
    for name, case in cases.items():
        done[name] = run_case(case, place=(ranks, rank, "127.0.0.1", port))
        print("done", name, flush=True)  # noqa: T201  # into the log of the test
    torch.save(done, folder / f"rank_{rank}.pt")


if __name__ == "__main__":
    main()
