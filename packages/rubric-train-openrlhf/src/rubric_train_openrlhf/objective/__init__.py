"""The objective of the policy update as pure torch functions.

Read in this order: `ratio` (r_t and GSPO's s_i), `surrogate` (clip, dual clip), `kl` (k3),
`importance` (TIS, ICEPOP, Seq-Mask-TIS), `aggregate` (means that micro-batches add up to),
`loss` (all of it together), `schedule` (AdamW and warm-up). `config` holds the settings, `variants`
what packages may add kinds of.
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
    from rubric_train_openrlhf.objective.config import ObjectiveConfig, OptimizerConfig
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
        SeqMaskTruncated,
        SurrogateLoss,
        Truncated,
        importance_weights,
    )

_MODULE_OF: Final = {
    "Clipped": "variants",
    "Clips": "surrogate",
    "Divergence": "variants",
    "IcePop": "variants",
    "Importance": "variants",
    "ImportanceCorrection": "variants",
    "K2": "variants",
    "K3": "variants",
    "LOG_RATIO_BOUND": "ratio",
    "METRIC_NAMES": "loss",
    "NoImportance": "variants",
    "ObjectiveBatch": "loss",
    "ObjectiveConfig": "config",
    "OptimizerConfig": "config",
    "PolicyLoss": "loss",
    "SeqMaskTruncated": "variants",
    "Surrogate": "surrogate",
    "SurrogateLoss": "variants",
    "Truncated": "variants",
    "UpdateSize": "aggregate",
    "adamw": "schedule",
    "bounded_divergence": "kl",
    "clipped_surrogate": "surrogate",
    "icepop_weights": "importance",
    "importance_ratio": "importance",
    "importance_weights": "variants",
    "k3": "kl",
    "policy_loss": "loss",
    "sequence_masked_weights": "importance",
    "sequence_mean": "aggregate",
    "sequence_ratio": "ratio",
    "sequence_token_ratio": "ratio",
    "token_mean": "aggregate",
    "token_ratio": "ratio",
    "truncated_weights": "importance",
    "update_size": "aggregate",
    "warmup": "schedule",
}

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
