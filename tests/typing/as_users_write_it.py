"""Not run, only type-checked: what a user may write, and which types come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_type

from rubric_core import (
    Criterion,
    Decoding,
    DocumentAnalysis,
    Grounding,
    GroupRewards,
    OnUnavailable,
    Rubric,
    Split,
    Std,
    Task,
    group_advantages,
    group_rewards,
    split_of,
)
from rubric_judge import JudgeConfig, JudgePool, LexicalJudge, ModelConfig
from rubric_synth import LLMConfig

if TYPE_CHECKING:
    from rubric_core import JudgeResult


def lists_make_schemas() -> Task:
    criterion = Criterion(
        id="cost",
        weight=3,
        required_elements=["O(n log n)"],
        expected_keywords=["transform"],
        expected_concepts=[],
    )
    assert_type(criterion.required_elements, Sequence[str])
    return Task(
        question="What does an FFT compute?",
        grounding=Grounding("The FFT computes the discrete Fourier transform."),
        rubric=Rubric(criteria=[criterion]),
        document_analysis=DocumentAnalysis(concepts=["transform"]),
    )


def tuples_do_too() -> Rubric:
    return Rubric(
        criteria=(Criterion(id="cost", weight=3, required_elements=("O(n log n)",)),)
    )


def lists_make_configurations() -> None:
    Decoding(stop=["\n"])
    JudgeConfig(model="m", api_base=["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"])
    LLMConfig(model=ModelConfig(model="m"), task_types=["open", "quantitative"])


async def results_become_rewards(task: Task, responses: list[str]) -> None:
    results = await JudgePool(LexicalJudge()).judge_all(
        [task.judge_view(r) for r in responses]
    )
    policy: OnUnavailable = "mask"
    std: Std = "leave_one_out"
    rewards = group_rewards(
        [results, results], [task.rubric, task.rubric], on_unavailable=policy
    )
    assert_type(rewards, GroupRewards)
    group_advantages(rewards.rewards_PG, valid_PG=rewards.valid_PG, std=std)
    group_advantages([[0.0, 1.0]], valid_PG=[[True, True]])


def what_runs_is_accepted(
    results: list[list[JudgeResult]], rubrics: tuple[Rubric, ...]
) -> None:
    group_rewards(results, rubrics)
    assert_type(split_of("0" * 64), Split)
