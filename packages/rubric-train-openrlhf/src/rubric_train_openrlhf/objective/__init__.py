"""The objective of the policy update as pure torch functions.

Read in this order: `ratio` (r_t and GSPO's s_i), `surrogate` (clip, dual clip), `kl` (k3),
`importance` (TIS, ICEPOP, Seq-Mask-TIS), `aggregate` (means that micro-batches add up to),
`loss` (all of it together), `schedule` (AdamW and warm-up). `config` holds the settings.
Axes: B responses (prompt-major), T response tokens, right-padded.
"""

from __future__ import annotations

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
