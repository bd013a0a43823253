"""The objective of the policy update as pure torch functions.

Read in this order: `ratio` (r_t and GSPO's s_i; TIS, ICEPOP, Seq-Mask-TIS), `surrogate` (clip, dual
clip; k3), `aggregate` (means that micro-batches add up to), `loss` (all of it together), `schedule`
(AdamW and warm-up). `variants` holds the settings, and what packages may add kinds of.
Axes: B responses (prompt-major), T response tokens, right-padded.

Names load at their first use: a configuration is read without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rubric_train_openrlhf.objective.aggregate import (
        UpdateSize,
        sequence_mean,
        token_mean,
        update_size,
    )
    from rubric_train_openrlhf.objective.loss import (
        METRIC_NAMES,
        ObjectiveBatch,
        PolicyLoss,
        policy_loss,
    )
    from rubric_train_openrlhf.objective.ratio import (
        LOG_RATIO_BOUND,
        icepop_weights,
        importance_ratio,
        sequence_masked_weights,
        sequence_ratio,
        sequence_token_ratio,
        token_ratio,
        truncated_weights,
    )
    from rubric_train_openrlhf.objective.schedule import adamw, warmup
    from rubric_train_openrlhf.objective.surrogate import (
        Clips,
        Surrogate,
        bounded_divergence,
        clipped_surrogate,
        k3,
    )
    from rubric_train_openrlhf.objective.variants import (
        K2,
        K3,
        Clipped,
        Divergence,
        IcePop,
        Importance,
        ImportanceCorrection,
        NoImportance,
        ObjectiveConfig,
        OptimizerConfig,
        SeqMaskTruncated,
        SurrogateLoss,
        Truncated,
        importance_weights,
    )

_NAMES_OF: Final = {
    "aggregate": "UpdateSize sequence_mean token_mean update_size",
    "loss": "METRIC_NAMES ObjectiveBatch PolicyLoss policy_loss",
    "ratio": (
        "LOG_RATIO_BOUND icepop_weights importance_ratio sequence_masked_weights "
        "sequence_ratio sequence_token_ratio token_ratio truncated_weights"
    ),
    "schedule": "adamw warmup",
    "surrogate": "Clips Surrogate bounded_divergence clipped_surrogate k3",
    "variants": (
        "Clipped Divergence IcePop Importance ImportanceCorrection K2 K3 "
        "NoImportance SeqMaskTruncated SurrogateLoss Truncated importance_weights"
        " ObjectiveConfig OptimizerConfig"
    ),
}
_MODULE_OF: Final = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [
    "K2",
    "K3",
    "LOG_RATIO_BOUND",
    "METRIC_NAMES",
    "Clipped",
    "Clips",
    "Divergence",
    "IcePop",
    "Importance",
    "ImportanceCorrection",
    "NoImportance",
    "ObjectiveBatch",
    "ObjectiveConfig",
    "OptimizerConfig",
    "PolicyLoss",
    "SeqMaskTruncated",
    "Surrogate",
    "SurrogateLoss",
    "Truncated",
    "UpdateSize",
    "adamw",
    "bounded_divergence",
    "clipped_surrogate",
    "icepop_weights",
    "importance_ratio",
    "importance_weights",
    "k3",
    "policy_loss",
    "sequence_masked_weights",
    "sequence_mean",
    "sequence_ratio",
    "sequence_token_ratio",
    "token_mean",
    "token_ratio",
    "truncated_weights",
    "update_size",
    "warmup",
]


def __getattr__(name: str) -> object:
    """Load the module of a public name when it is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
