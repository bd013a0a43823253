"""Schemas, rewards and advantages for reinforcement learning with rubric rewards.

Array names end in their axes: **P** prompts, **G** responses of one prompt, **M** criteria of one
rubric, **N** anything. `rewards_PG[p, g]` is the reward of response g to prompt p. All arrays are
float64. Every formula names its equation in a `Source:` line.

The schemas load with the package; what needs numpy loads at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from rubric_core.configuration import config_error
from rubric_core.errors import (
    ConfigError,
    FolderLockError,
    LeakError,
    MissingExtraError,
    PluginError,
    ResponderError,
    RewardError,
    RewardShapeError,
    RubricError,
    RubricFileError,
    SchemaError,
    UnavailableRewardError,
)
from rubric_core.judgement.evidence import Evidence
from rubric_core.judgement.result import Answerer, JudgeResult, Usage
from rubric_core.outcome import Outcome, Reason
from rubric_core.plugins.entry_points import Judge, JudgeFactory, TrainerBackend
from rubric_core.schema.rubric import Criterion, Grounding, Rubric
from rubric_core.schema.task import DocumentAnalysis, JudgeView, PolicyView, SftExample, Task

if TYPE_CHECKING:
    from rubric_core.data.dataset import Split, read_tasks, split_of, write_tasks
    from rubric_core.data.leak import LeakedNgrams, check_no_leak, leaked_ngrams
    from rubric_core.effective import (
        attainable_levels,
        effective_criteria,
        reward_noise_variance,
    )
    from rubric_core.plugins.entry_points import (
        find_judge,
        find_responder,
        find_trainer,
        judge_names,
        responder_names,
        trainer_names,
    )
    from rubric_core.plugins.responding import (
        Ask,
        Decoding,
        Finish,
        Reply,
        Responder,
        ResponderFactory,
        SaysPromptForm,
    )
    from rubric_core.reward.advantage import (
        Std,
        group_advantages,
        leave_one_out_baseline,
        length_penalty,
        truncation_penalty,
    )
    from rubric_core.reward.attribution import criterion_attribution, decoupled_advantages
    from rubric_core.reward.projection import (
        GroupRewards,
        OnUnavailable,
        criterion_scores_z,
        group_rewards,
        normalized_reward,
        project,
        raw_reward,
        reward_delta,
    )

_LAZY: Final = {
    "data.dataset": ("Split", "read_tasks", "split_of", "write_tasks"),
    "data.leak": ("LeakedNgrams", "check_no_leak", "leaked_ngrams"),
    "effective": ("attainable_levels", "effective_criteria", "reward_noise_variance"),
    "plugins.entry_points": (
        *("find_judge", "find_responder", "find_trainer"),
        *("judge_names", "responder_names", "trainer_names"),
    ),
    "plugins.responding": (
        *("Ask", "Decoding", "Finish", "Reply"),
        *("Responder", "ResponderFactory", "SaysPromptForm"),
    ),
    "reward.advantage": (
        *("Std", "group_advantages", "leave_one_out_baseline"),
        *("length_penalty", "truncation_penalty"),
    ),
    "reward.attribution": ("criterion_attribution", "decoupled_advantages"),
    "reward.projection": (
        *("GroupRewards", "OnUnavailable", "criterion_scores_z", "group_rewards"),
        *("normalized_reward", "project", "raw_reward", "reward_delta"),
    ),
}
_MODULE_OF: Final = {name: module for module, names in _LAZY.items() for name in names}

__version__ = "0.1.0"

__all__ = [
    "Answerer",
    "Ask",
    "ConfigError",
    "Criterion",
    "Decoding",
    "DocumentAnalysis",
    "Evidence",
    "Finish",
    "FolderLockError",
    "Grounding",
    "GroupRewards",
    "Judge",
    "JudgeFactory",
    "JudgeResult",
    "JudgeView",
    "LeakError",
    "LeakedNgrams",
    "MissingExtraError",
    "OnUnavailable",
    "Outcome",
    "PluginError",
    "PolicyView",
    "Reason",
    "Reply",
    "Responder",
    "ResponderError",
    "ResponderFactory",
    "RewardError",
    "RewardShapeError",
    "Rubric",
    "RubricError",
    "RubricFileError",
    "SaysPromptForm",
    "SchemaError",
    "SftExample",
    "Split",
    "Std",
    "Task",
    "TrainerBackend",
    "UnavailableRewardError",
    "Usage",
    "attainable_levels",
    "check_no_leak",
    "config_error",
    "criterion_attribution",
    "criterion_scores_z",
    "decoupled_advantages",
    "effective_criteria",
    "find_judge",
    "find_responder",
    "find_trainer",
    "group_advantages",
    "group_rewards",
    "judge_names",
    "leaked_ngrams",
    "leave_one_out_baseline",
    "length_penalty",
    "normalized_reward",
    "project",
    "raw_reward",
    "read_tasks",
    "responder_names",
    "reward_delta",
    "reward_noise_variance",
    "split_of",
    "trainer_names",
    "truncation_penalty",
    "write_tasks",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
