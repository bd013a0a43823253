"""The objective of the policy update as pure torch functions.

Read in this order: `ratio` (r_t and GSPO's s_i), `surrogate` (clip, dual clip), `kl` (k3),
`importance` (TIS, ICEPOP, Seq-Mask-TIS), `aggregate` (means that micro-batches add up to),
`loss` (all of it together), `schedule` (AdamW and warm-up). `config` holds the settings.
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
    from rubric_train_openrlhf.objective.config import (
        IcePop,
        Importance,
        NoImportance,
        ObjectiveConfig,
        OptimizerConfig,
        SeqMaskTruncated,
        Truncated,
    )
    from rubric_train_openrlhf.objective.importance import (
        icepop_weights,
        importance_ratio,
        importance_weights,
        sequence_masked_weights,
        truncated_weights,
    )
    from rubric_train_openrlhf.objective.kl import k3
    from rubric_train_openrlhf.objective.loss import (
        METRIC_NAMES,
        ObjectiveBatch,
        PolicyLoss,
        policy_loss,
    )
    from rubric_train_openrlhf.objective.ratio import (
        LOG_RATIO_BOUND,
        sequence_ratio,
        sequence_token_ratio,
        token_ratio,
    )
    from rubric_train_openrlhf.objective.schedule import adamw, warmup
    from rubric_train_openrlhf.objective.surrogate import Surrogate, clipped_surrogate

_MODULE_OF: Final = {
    "LOG_RATIO_BOUND": "ratio",
    "METRIC_NAMES": "loss",
    "IcePop": "config",
    "Importance": "config",
    "NoImportance": "config",
    "ObjectiveBatch": "loss",
    "ObjectiveConfig": "config",
    "OptimizerConfig": "config",
    "PolicyLoss": "loss",
    "SeqMaskTruncated": "config",
    "Surrogate": "surrogate",
    "Truncated": "config",
    "UpdateSize": "aggregate",
    "adamw": "schedule",
    "clipped_surrogate": "surrogate",
    "icepop_weights": "importance",
    "importance_ratio": "importance",
    "importance_weights": "importance",
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
    "LOG_RATIO_BOUND",
    "METRIC_NAMES",
    "IcePop",
    "Importance",
    "NoImportance",
    "ObjectiveBatch",
    "ObjectiveConfig",
    "OptimizerConfig",
    "PolicyLoss",
    "SeqMaskTruncated",
    "Surrogate",
    "Truncated",
    "UpdateSize",
    "adamw",
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
