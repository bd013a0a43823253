"""The policy in training, and its reference: OpenRLHF's actors with the optimiser of the paper.

What OpenRLHF builds inside is replaced where it is looked up, in the process of the actor alone,
before the actor builds it: number format, groups of the optimiser, schedule and divergence.
"""

# ruff: noqa: SLF001
import contextlib
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from openrlhf.trainer.ray import launcher, ppo_actor
from openrlhf.utils import utils as openrlhf_dtypes
from openrlhf.utils.deepspeed import deepspeed as openrlhf_deepspeed

from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun, read_policy_run
from rubric_train_openrlhf.cluster.training.learner import RubricLearner
from rubric_train_openrlhf.cluster.training.trained import TrainedSample
from rubric_train_openrlhf.objective import ObjectiveConfig, bounded_divergence
from rubric_train_openrlhf.objective.schedule import StepSchedule
from rubric_train_openrlhf.policy.holding import (
    hold_in_evaluation,
    hold_rope,
    recompute_layers,
    write_rotary,
)
from rubric_train_openrlhf.policy.load import DTYPES, cast_folder
from rubric_train_openrlhf.run.writing import disk_errors, sync_files, whole_folder

_Actor: Any = ppo_actor.Actor
_PolicyActor: Any = cast(
    "Any", ppo_actor.PolicyModelActor
).__ray_metadata__.modified_class
_ReferenceActor: Any = cast(
    "Any", launcher.ReferenceModelActor
).__ray_metadata__.modified_class

_SINGLE = "fp32"
"""How DeepSpeed's flags would call float32, which OpenRLHF's do not know."""


class RubricPolicyActor(_PolicyActor):
    """One process of the policy in training."""

    def init_model_from_pretrained(
        self,
        strategy: Any,
        pretrain: str,
        max_steps: int | None = None,
        vllm_engines: Any = None,
    ) -> None:
        """Load the policy and build its optimiser.

        Args:
            strategy: OpenRLHF's, of which this process has its own copy.
            pretrain: folder of the policy.
            max_steps: optimiser updates of the whole run, which our schedule does not ask for.
            vllm_engines: the engines that get new weights.
        """
        run = read_policy_run()
        _use_precision(strategy, run)
        strategy.get_grad_norm = partial(_norm_of_update, strategy.get_grad_norm)
        openrlhf_deepspeed.get_optimizer_grouped_parameters = one_group
        openrlhf_deepspeed.get_scheduler = partial(_schedule, run=run)
        ppo_actor.compute_approx_kl = partial(divergence, objective=run.objective)
        ppo_actor.ActorPPOTrainer = RubricLearner
        ppo_actor.Actor = partial(_held_actor, run=run)
        super().init_model_from_pretrained(strategy, pretrain, max_steps, vllm_engines)

    def fit(self, kl_ctl: float = 0) -> dict[str, Any]:
        """Make the updates of one GRPO step, then move the learning rate by one step."""
        status = super().fit(kl_ctl)
        self.actor_scheduler.end_step()
        return status

    def trained(self) -> list[TrainedSample]:
        """Say which responses the last step's updates were made of, masked ones included."""
        return self.trainer.trained

    def save_state(self, path: str, client_state: dict[str, Any]) -> dict[str, int]:
        """Write what training goes on from, and wait until it is on disk; all ranks take part.

        DeepSpeed alone does it: OpenRLHF deletes older states before the new one is whole, and has
        it named as the latest while other ranks still write.

        Args:
            path: folder of the state.
            client_state: kept beside DeepSpeed's own.

        Returns:
            Bytes of the files in the folder, by name, as this process sees them.

        Raises:
            DiskWriteError: a file could not be written.
        """
        folder = Path(path)
        with disk_errors(folder):
            self.actor.model.save_checkpoint(
                str(folder.parent),
                tag=folder.name,
                client_state=client_state,
                save_latest=False,
            )
            return sync_files(folder)

    def save_policy(self, path: str) -> None:
        """Write the policy as a Hugging Face folder, which appears whole or not at all.

        Raises:
            DiskWriteError: the folder could not be written.
        """
        strategy = self.strategy
        target = Path(path)
        # Rank 0 writes; the others take part in gathering the weights.
        filled = (
            whole_folder(target)
            if strategy.is_rank_0()
            else contextlib.nullcontext(target)
        )
        config = strategy._unwrap_model(self.actor).config
        with filled as folder:
            config.use_cache = True  # for readers; training switched it off
            try:
                strategy.save_model(self.actor, self.tokenizer, str(folder))
                if strategy.is_rank_0() and (dtype := read_policy_run().saved_dtype):
                    cast_folder(folder, DTYPES[dtype])
                if strategy.is_rank_0():
                    write_rotary(strategy._unwrap_model(self.actor), folder)
            finally:
                config.use_cache = False

    def save_model(self) -> None:
        """Save nothing at the end: the last step has its checkpoint already."""

    def broadcast_to_vllm(self, *, rejoin: bool = False) -> bool:
        """Send weights to all engines; see `RubricLearner.broadcast_to_vllm`."""
        return self.trainer.broadcast_to_vllm(rejoin=rejoin)


class RubricReferenceActor(_ReferenceActor):
    """One process of the frozen reference policy."""

    def init_model_from_pretrained(self, strategy: Any, pretrain: str) -> None:
        """Load the reference in the number format of the policy."""
        run = read_policy_run()
        _use_precision(strategy, run)
        launcher.Actor = partial(_held_actor, run=run)
        super().init_model_from_pretrained(strategy, pretrain)


class HeldActor(_Actor):
    """OpenRLHF's model, which would train in training mode: with dropout and shaken routers."""

    def __init__(self, *parts: Any, longest: int, **named: Any) -> None:
        """Load the model and hold it, as the local backend does.

        Args:
            parts: OpenRLHF's.
            longest: tokens of the longest row; engines choose their rotary frequencies by it.
            named: OpenRLHF's.
        """
        super().__init__(*parts, **named)
        hold_in_evaluation(self.model)
        hold_rope(self.model, longest=longest)

    def gradient_checkpointing_enable(self, **_options: Any) -> None:
        """Recompute layers in evaluation mode, which the library's own switch does not."""
        recompute_layers(self.model)


def _held_actor(*parts: Any, run: PolicyRun, **named: Any) -> HeldActor:
    return HeldActor(*parts, longest=run.cluster.max_len, **named)


def one_group(model: Any, weight_decay: float, *_names: object) -> list[dict[str, Any]]:
    """All trained weights in one group: biases and norms decay too, as in `adamw`."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [{"params": trained, "weight_decay": weight_decay}]


def divergence(
    log_probs: torch.Tensor,
    log_probs_base: torch.Tensor,
    *_others: object,
    objective: ObjectiveConfig,
    **_options: object,
) -> torch.Tensor:
    """The configuration's estimate with its clamps; OpenRLHF's are fixed at ±10."""
    return bounded_divergence(
        log_probs.float(),
        log_probs_base.float(),
        objective.kl.of_log_ratio,
        input_clamp=objective.kl_input_clamp,
        output_clamp=objective.kl_output_clamp,
    )


def _norm_of_update(norm_of: Callable[[Any], float], model: Any) -> float:
    """Norm of the last gradient, before clipping; nan where DeepSpeed made no update of it.

    In bfloat16 it silently skips a gradient that is not finite, and keeps reporting the norm of the
    one before.
    """
    passed_over = getattr(model.model.optimizer, "overflow", False)
    return math.nan if passed_over else norm_of(model)


def _schedule(
    _name: str, optimizer: Any, *, run: PolicyRun, **_counts: object
) -> StepSchedule:
    return StepSchedule(optimizer, config=run.optim)


def _use_precision(strategy: Any, run: PolicyRun) -> None:
    """Train in float32 where asked to, for which OpenRLHF has no flag."""
    if run.precision != "float32":
        return
    strategy.param_dtype = strategy.args.ds.param_dtype = _SINGLE
    openrlhf_dtypes.convert_to_torch_dtype = _torch_dtype


def _torch_dtype(name: str) -> torch.dtype:
    return {"bf16": torch.bfloat16, "fp16": torch.float16, _SINGLE: torch.float32}[name]
