from rubric_train_openrlhf.objective.loss import METRIC_NAMES as METRIC_NAMES
from rubric_train_openrlhf.objective.loss import ObjectiveBatch as ObjectiveBatch
from rubric_train_openrlhf.objective.loss import PolicyLoss as PolicyLoss
from rubric_train_openrlhf.objective.loss import UpdateSize as UpdateSize
from rubric_train_openrlhf.objective.loss import (
    importance_weights as importance_weights,
)
from rubric_train_openrlhf.objective.loss import policy_loss as policy_loss
from rubric_train_openrlhf.objective.loss import sequence_mean as sequence_mean
from rubric_train_openrlhf.objective.loss import token_mean as token_mean
from rubric_train_openrlhf.objective.loss import update_size as update_size
from rubric_train_openrlhf.objective.ratio import LOG_RATIO_BOUND as LOG_RATIO_BOUND
from rubric_train_openrlhf.objective.ratio import icepop_weights as icepop_weights
from rubric_train_openrlhf.objective.ratio import importance_ratio as importance_ratio
from rubric_train_openrlhf.objective.ratio import (
    sequence_masked_weights as sequence_masked_weights,
)
from rubric_train_openrlhf.objective.ratio import sequence_ratio as sequence_ratio
from rubric_train_openrlhf.objective.ratio import (
    sequence_token_ratio as sequence_token_ratio,
)
from rubric_train_openrlhf.objective.ratio import token_ratio as token_ratio
from rubric_train_openrlhf.objective.ratio import truncated_weights as truncated_weights
from rubric_train_openrlhf.objective.schedule import adamw as adamw
from rubric_train_openrlhf.objective.schedule import warmup as warmup
from rubric_train_openrlhf.objective.surrogate import Clips as Clips
from rubric_train_openrlhf.objective.surrogate import Surrogate as Surrogate
from rubric_train_openrlhf.objective.surrogate import (
    bounded_divergence as bounded_divergence,
)
from rubric_train_openrlhf.objective.surrogate import (
    clipped_surrogate as clipped_surrogate,
)
from rubric_train_openrlhf.objective.surrogate import k3 as k3
from rubric_train_openrlhf.objective.variants import K2 as K2
from rubric_train_openrlhf.objective.variants import K3 as K3
from rubric_train_openrlhf.objective.variants import Clipped as Clipped
from rubric_train_openrlhf.objective.variants import Divergence as Divergence
from rubric_train_openrlhf.objective.variants import IcePop as IcePop
from rubric_train_openrlhf.objective.variants import Importance as Importance
from rubric_train_openrlhf.objective.variants import (
    ImportanceCorrection as ImportanceCorrection,
)
from rubric_train_openrlhf.objective.variants import NoImportance as NoImportance
from rubric_train_openrlhf.objective.variants import ObjectiveConfig as ObjectiveConfig
from rubric_train_openrlhf.objective.variants import OptimizerConfig as OptimizerConfig
from rubric_train_openrlhf.objective.variants import (
    SeqMaskTruncated as SeqMaskTruncated,
)
from rubric_train_openrlhf.objective.variants import SurrogateLoss as SurrogateLoss
from rubric_train_openrlhf.objective.variants import Truncated as Truncated
