"""The policy's updates: OpenRLHF's, in a fixed order, with figures that mean what they say.

OpenRLHF shuffles responses between updates, weighs means that are normalised already, reports the
gradient of the last update alone, and divides by zero where every response of a pass is masked.
"""

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from openrlhf.trainer.ray import ppo_actor
from torch import Tensor

from rubric_train_openrlhf.cluster.sampling.policy_run import read_policy_run
from rubric_train_openrlhf.cluster.training import trained, weight_transfer
from rubric_train_openrlhf.objective import ObjectiveBatch, ObjectiveConfig, policy_loss

_MEASURED = (
    "ratio_mean",
    "dual_clip_frac",
    "is_weight_mean",
    "is_weight_bounded_frac",
)
"""Figures that OpenRLHF's loss does not report, by our formulas: keys of `PolicyLoss.metrics`."""
_OF_TOKENS = ("kl", "clip_frac", *_MEASURED)
_SUMMED = ("tokens", "responses", *_OF_TOKENS, "dropped", "loss", "gap")
"""Sums over the passes of an update, which has its `grad_norm` too when it ends."""

FIGURES = "rubric/"
"""Stands before the names of our figures in OpenRLHF's status."""

_NO_TOKEN = 1e-9
"""Weight of a pass without a valid token, which OpenRLHF divides by."""


class MeasuredLoss(torch.nn.Module):
    """OpenRLHF's loss, which keeps sums over the tokens of its last pass."""

    def __init__(self, loss: Any, objective: ObjectiveConfig) -> None:
        """Wrap the loss, which is that of an objective."""
        super().__init__()
        self._loss = loss
        self._objective = objective.model_copy(update={"kl_coef": 0.0})
        self.sums = dict.fromkeys(_MEASURED, 0.0)
        """Sums of ratios and weights, and of the tokens that a bound changes."""
        self.gap = 0.0
        """Sum of |log π − log π_old| over the tokens."""

    def forward(
        self,
        log_probs: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        **others: Any,
    ) -> tuple[Tensor | None, ...]:
        """Compute the loss as OpenRLHF does, and look at its ratios and weights."""
        mask_BT = others["action_mask"].bool()
        tokens = int(mask_BT.sum())
        self.sums = dict.fromkeys(_MEASURED, 0.0)
        self.gap = 0.0
        if tokens:
            gap_BT = log_probs.detach().double() - old_log_probs.double()
            self.gap = float(gap_BT[mask_BT].abs().sum())
            old_BT = old_log_probs.double()
            is_corrected = self._objective.importance.reads_old_logprobs
            batch = ObjectiveBatch(
                gen_logprobs_BT=others["rollout_log_probs"].double()
                if is_corrected
                else old_BT,
                # The same for all tokens of a response.
                advantages_B=(advantages * mask_BT).double().sum(dim=-1)
                / mask_BT.sum(dim=-1).clamp(min=1),
                mask_BT=mask_BT,
                old_logprobs_BT=old_BT if is_corrected else None,
            )
            loss = policy_loss(
                log_probs.detach().double(), batch, config=self._objective
            )
            self.sums = {name: float(loss.metrics[name]) * tokens for name in _MEASURED}
        return self._loss(log_probs, old_log_probs, advantages, **others)


class RubricLearner(ppo_actor.ActorPPOTrainer):
    """Makes the updates of a step in the process of one rank."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        """Build OpenRLHF's trainer and measure its loss."""
        super().__init__(*parts, **named)
        objective = read_policy_run().objective
        self.actor_loss_fn = MeasuredLoss(self.actor_loss_fn, objective)
        self._by_token = objective.aggregation != "sequence"
        self.trained: list[trained.TrainedSample] = []
        """The responses of the last step, in the order of its passes."""
        self._windows: list[dict[str, float]] = []
        self._kl_BT: Tensor | None = None

    def ppo_train(self, kl_ctl: float) -> dict[str, float]:
        """Make the updates of a step.

        Returns:
            OpenRLHF's status, and ours under names that begin with `FIGURES`: means over the
            updates, each of them a mean over its tokens.
        """
        self._windows = []
        self.trained = []
        lr = float(self.actor_scheduler.get_last_lr()[0])
        with _replaced(
            DataLoader=partial(_in_order, ppo_actor.DataLoader),
            iter_grad_accum_global_norm=partial(
                self._with_tokens, ppo_actor.iter_grad_accum_global_norm
            ),
            aggregate_loss=partial(
                ppo_actor.aggregate_loss, token_level_loss=self._by_token
            ),
            compute_approx_kl=partial(self._keep_kl, ppo_actor.compute_approx_kl),
        ):
            status = super().ppo_train(kl_ctl)
        figures = {**self._figures(), "lr": lr}
        return {
            **status,
            **{f"{FIGURES}{name}": value for name, value in figures.items()},
        }

    def training_step(
        self,
        experience: Any,
        kl_ctl: float,
        step: int,
        loss_batch_info: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Make one pass, and an update if it is the last of one."""
        self._kl_BT = None
        self.trained += trained.trained_samples(experience)
        result: dict[str, Any] = super().training_step(
            experience, kl_ctl, step, loss_batch_info
        )
        passes = max(int(self.strategy.accumulated_gradient), 1)
        self._record(experience, result, kl_ctl=kl_ctl, passes=passes)
        if (step + 1) % passes == 0:
            self._windows[-1]["grad_norm"] = float(result["metrics"]["actor_grad_norm"])
        return _countable(result)

    def broadcast_to_vllm(  # pyright: ignore[reportIncompatibleMethodOverride]  # tells something
        self, *, rejoin: bool = False
    ) -> bool:
        """Send the policy's weights to the engines.

        Args:
            rejoin: open a new group first, as one of them was started again.

        Returns:
            Whether every engine has them; False where one died over it.
        """
        engines = self.vllm_engines
        transfer = weight_transfer.WeightTransfer(self.vllm_engines)
        # OpenRLHF's loop calls engines that may die.
        self.vllm_engines = transfer.engines
        with _replaced(ray=transfer), contextlib.ExitStack() as after:
            after.callback(setattr, self, "vllm_engines", engines)
            if rejoin and not self.use_cuda_ipc and torch.distributed.get_rank() == 0:
                self._model_update_group = None
                backend = self.strategy.args.vllm.sync_backend
                transfer.attempt(partial(self._init_vllm_sync_group, backend))
            transfer.group = getattr(self, "_model_update_group", None)
            self._model_update_group = transfer
            super().broadcast_to_vllm()
            well = transfer.ends_well()
            self._model_update_group = transfer.group
        return well

    def _record(
        self, experience: Any, result: dict[str, Any], *, kl_ctl: float, passes: int
    ) -> None:
        if not self._windows or "grad_norm" in self._windows[-1]:
            self._windows.append(dict.fromkeys(_SUMMED, 0.0))
        window = self._windows[-1]
        metrics = result["metrics"]
        mask_BT = experience.action_mask.bool()
        tokens = float(mask_BT.sum())
        kl_loss = float(metrics["kl"]) * kl_ctl if self.args.algo.kl.use_loss else 0.0
        window["tokens"] += tokens
        window["responses"] += float(mask_BT.any(dim=-1).sum())
        window["loss"] += (float(metrics["policy_loss"]) + kl_loss) / passes
        if tokens:
            window["clip_frac"] += float(metrics["ppo_clip_ratio"]) * tokens
            for name, value in self.actor_loss_fn.sums.items():
                window[name] += value
            window["gap"] += self.actor_loss_fn.gap
            window["dropped"] += self._dropped(metrics, mask_BT)
            if self._kl_BT is not None:
                window["kl"] += float(self._kl_BT[mask_BT].double().sum())

    def _dropped(self, metrics: dict[str, Any], mask_BT: Tensor) -> float:
        """How many tokens, or responses, the importance correction left out."""
        if "is_filter_ratio" not in metrics:
            return 0.0
        frac = float(metrics["is_filter_ratio"])
        if self.args.algo.advantage.is_correction_level == "token":
            return frac * float(mask_BT.sum())
        # A masked response has no ratio, and OpenRLHF counts it among those out of the band.
        return frac * len(mask_BT) - float((~mask_BT.any(dim=-1)).sum())

    def _figures(self) -> dict[str, float]:
        """Means over updates, of all ranks together; the same on each."""
        if not self._windows:
            return {"updates": 0.0}
        names = (*_SUMMED, "grad_norm")
        sums = [[window[name] for name in names] for window in self._windows]
        sums_UK = torch.tensor(sums, dtype=torch.float64)
        # A mean over ranks: OpenRLHF scales the loss of a rank by their number.
        means_UK = self.strategy.all_reduce(sums_UK, op="mean")
        by_name = dict(zip(names, means_UK.T, strict=True))
        tokens_U = by_name["tokens"].clamp(min=_NO_TOKEN)
        figures_U = {name: by_name[name] for name in ("loss", "grad_norm")}
        figures_U |= {name: by_name[name] / tokens_U for name in _OF_TOKENS}
        if (level := self.args.algo.advantage.is_correction_level) != "off":
            units_U = by_name["responses"] if level == "seq" else tokens_U
            figures_U["dropped_frac"] = by_name["dropped"] / units_U
        figures = {name: float(values_U.mean()) for name, values_U in figures_U.items()}
        figures["first_gap"] = float((by_name["gap"] / tokens_U)[0])
        return {**figures, "updates": float(len(self._windows))}

    def _with_tokens(
        self, windows: Callable[..., Iterable[tuple[Any, dict[str, Any]]]], *parts: Any
    ) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Leave out updates without a valid response; what they would divide by is zero."""
        for one_pass, info in windows(*parts):
            if float(info["batch_num_tokens"]) > 0:
                yield one_pass, info
            else:
                self.trained += trained.trained_samples(one_pass)

    def _keep_kl(
        self, divergence: Callable[..., Tensor], *tensors: Any, **options: Any
    ) -> Tensor:
        kl_BT = divergence(*tensors, **options)
        self._kl_BT = kl_BT.detach()
        return kl_BT


@contextlib.contextmanager
def _replaced(**names: object) -> Generator[None]:
    """Put our own in the place of what the loop of OpenRLHF calls, for one step."""
    inside = ppo_actor.__dict__
    before = {name: inside[name] for name in names}
    inside.update(names)
    try:
        yield
    finally:
        inside.update(before)


def _in_order(loader: Callable[..., Any], *parts: Any, **options: Any) -> Any:
    """Load responses as they were laid out: an update takes a share of prompts, groups whole."""
    return loader(*parts, **{**options, "shuffle": False})


def _countable(result: dict[str, Any]) -> dict[str, Any]:
    """Keep 0/0 out of OpenRLHF's own means."""
    if result["num_action_tokens"]:
        return result
    zeros = {
        name: torch.zeros_like(value)
        for name, value in result["metrics"].items()
        if isinstance(value, Tensor) and result["weights"][name] == "token"
    }
    return {
        **result,
        "metrics": result["metrics"] | zeros,
        "num_action_tokens": _NO_TOKEN,
    }
