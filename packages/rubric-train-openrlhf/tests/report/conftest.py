"""A run folder as a training run leaves it: numbers that drift as they do, text that is made up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
import yaml

from rubric_core import Criterion, JudgeResult, Reason, Rubric
from rubric_train_openrlhf.run.records import (
    HeldoutRow,
    JudgementRow,
    MetricsRow,
    RolloutRow,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pydantic import BaseModel

CRITERIA = {
    "purpose_named": 2.0,
    "purpose_terms": 3.0,
    "parameters_named": 3.0,
    "parameters_described": 2.0,
    "returns": 3.0,
    "caveat": 2.0,
    "structure": 1.0,
}
RUBRIC = Rubric(
    criteria=tuple(
        Criterion(id=name, weight=weight, description="RUBRIC-TEXT-CANARY")
        for name, weight in CRITERIA.items()
    )
)
SHARES = {name: weight / RUBRIC.total_weight for name, weight in CRITERIA.items()}
_FUNCTIONS = (
    "convolve2d",
    "lstsq",
    "welch",
    "interp1d",
    "medfilt",
    "solve_ivp",
    "fftshift",
    "svd",
)
_CEILING = dict(zip(CRITERIA, (0.98, 0.3, 0.93, 0.24, 0.4, 0.3, 0.9), strict=True))
_FLOOR = dict(zip(CRITERIA, (0.8, 0.12, 0.7, 0.08, 0.24, 0.16, 0.7), strict=True))


@dataclass(frozen=True)
class RunShape:
    """How much of a run there is."""

    steps: int = 40
    prompts: int = 6
    group: int = 6
    heldout_every: int = 5


def _progress(step: int, steps: int) -> float:
    return 1 - float(np.exp(-3 * step / max(steps, 1)))


def _criterion_means(
    step: int, steps: int, rng: np.random.Generator
) -> dict[str, float]:
    done = _progress(step, steps)
    return {
        name: float(
            np.clip(
                _FLOOR[name]
                + done * (_CEILING[name] - _FLOOR[name])
                + rng.normal(0, 0.02),
                0,
                1,
            )
        )
        for name in CRITERIA
    }


def _metrics(step: int, shape: RunShape, rng: np.random.Generator) -> MetricsRow:
    done = _progress(step, shape.steps)
    criteria = _criterion_means(step, shape.steps, rng)
    reward = sum(SHARES[name] * z for name, z in criteria.items())
    zero = 0.14 * (1 - done) + 0.01
    generate_s, update_s = 1.1 + 0.2 * rng.random(), 1.4 + 0.2 * rng.random()
    return MetricsRow(
        step=step,
        reward_mean=reward,
        reward_std=0.13 - 0.03 * done,
        zero_reward_frac=zero,
        zero_reward_by_reason={
            "scored": 0.6 * zero,
            "not_json": 0.3 * zero,
            "score_out_of_range": 0.1 * zero,
        },
        invalid_frac=0.4 * zero,
        unavailable_frac=float(rng.choice([0, 0, 0, 0.01])),
        criteria=criteria,
        m_eff_mean=RUBRIC.effective_criteria,
        degenerate_group_frac=0.02 * float(rng.random()),
        advantage_abs_mean=0.78,
        loss=-0.01 * float(rng.random()),
        kl=0.6 * done + 0.02 * float(rng.random()),
        clip_frac=0.01 * float(rng.random()),
        ratio_mean=1 + 0.002 * float(rng.normal()),
        entropy=3.3 - done + 0.05 * float(rng.normal()),
        grad_norm=0.9 + 0.2 * float(rng.random()),
        lr=5e-4 * min(1.0, step / 13),
        response_tokens_mean=66 + 10 * done + float(rng.normal()),
        response_tokens_max=96,
        truncated_frac=0.06 * (1 - done),
        generated_tokens=6700,
        tokens_per_s=5700 + 200 * float(rng.normal()),
        generate_s=generate_s,
        judge_s=0.08,
        judge_wait_s=0.01 + 0.02 * float(rng.random()),
        update_s=update_s,
        step_s=generate_s + update_s + 0.2,
        resampled_prompts=0,
    )


def _heldout(step: int, shape: RunShape, rng: np.random.Generator) -> HeldoutRow:
    criteria = _criterion_means(step, shape.steps, rng)
    reward = sum(SHARES[name] * z for name, z in criteria.items()) - 0.01
    return HeldoutRow(
        step=step,
        reward_mean=reward,
        reward_std=0.11,
        zero_reward_frac=0.13 * (1 - _progress(step, shape.steps)),
        n=96,
        criteria=criteria,
        response_tokens_mean=66 + 9 * _progress(step, shape.steps),
        eval_s=4.0,
        best=False,
    )


def _response(name: str, rng: np.random.Generator) -> str:
    tail = rng.choice(
        [
            "It returns the output array with the same shape as the input.",
            "Note that the result is not normalised, so the caller must divide it by the length.",
            "It takes the input array, the axis along which it is computed, and an optional mode.",
        ],
        size=2,
        replace=False,
    )
    return f"`{name}` computes the discrete transform of its first argument. {' '.join(tail)}"


def _step_rows(
    step: int, shape: RunShape, rng: np.random.Generator
) -> tuple[list[RolloutRow], list[JudgementRow]]:
    rollouts: list[RolloutRow] = []
    judgements: list[JudgementRow] = []
    means = _criterion_means(step, shape.steps, rng)
    for p in range(shape.prompts):
        name = _FUNCTIONS[(step + p) % len(_FUNCTIONS)]
        z_G = [
            {
                key: float(np.clip(rng.normal(mean, 0.25), 0, 1).round(2))
                for key, mean in means.items()
            }
            for _ in range(shape.group)
        ]
        rewards_G = np.array(
            [sum(SHARES[key] * z for key, z in row.items()) for row in z_G]
        )
        center = {key: float(np.mean([row[key] for row in z_G])) for key in CRITERIA}
        for g, z in enumerate(z_G):
            parts = {
                key: float(
                    SHARES[key]
                    * (z[key] - center[key])
                    / (rewards_G.std(ddof=1) + 1e-8)
                )
                for key in CRITERIA
            }
            row_id = f"s{step:06d}-p{p:03d}-g{g:02d}"
            failed = bool(rng.random() < 0.05)
            result = (
                JudgeResult.invalid(
                    Reason.NOT_JSON, judge="lexical", detail="reply of 12 characters"
                )
                if failed
                else JudgeResult.scored(
                    RUBRIC,
                    {key: z[key] * CRITERIA[key] for key in CRITERIA},
                    judge="lexical",
                    reasoning="purpose_named: 1 of 1 units in a well-formed sentence.",
                )
            )
            rollouts.append(
                RolloutRow(
                    id=row_id,
                    step=step,
                    task_id=f"task{p:012d}",
                    prompt=f"Explain `{name}` from scipy with `x`, `axis`, `mode`: what it does, "
                    "its parameters, what it returns and its caveats.",
                    response=_response(name, rng),
                    reward=0.0 if failed else float(rewards_G[g]),
                    advantage=sum(parts.values()),
                    tokens=int(rng.integers(40, 96)),
                    ended=bool(rng.random() < 0.95),
                    outcome=str(result.outcome),
                )
            )
            judgements.append(
                JudgementRow(
                    id=row_id,
                    step=step,
                    task_id=f"task{p:012d}",
                    result=result,
                    z={} if failed else z,
                    shares=SHARES,
                    attribution={} if failed else parts,
                )
            )
    return rollouts, judgements


def _write_lines(path: Path, rows: list[BaseModel]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(row.model_dump_json() + "\n" for row in rows), encoding="utf-8"
    )


def comparison() -> dict[str, object]:
    """What an evaluation of the run writes beside it."""

    def row(label: str, mean: float, half: float, zero: float) -> dict[str, object]:
        return {
            "label": label,
            "mean": mean,
            "ci_low": mean - half,
            "ci_high": mean + half,
            "n": 96,
            "zero_frac": zero,
            "criteria": {key: min(1.0, mean * 2 * _CEILING[key]) for key in CRITERIA},
        }

    def difference(a: str, b: str, mean: float, half: float) -> dict[str, object]:
        return {
            "a": a,
            "b": b,
            "mean": mean,
            "ci_low": mean - half,
            "ci_high": mean + half,
            "n": 96,
        }

    return {
        "judge": "lexical",
        "confidence": 0.95,
        "samples": 4,
        "heldout": {
            "base": row("Base", 0.074, 0.011, 0.31),
            "sft": row("SFT", 0.409, 0.018, 0.02),
            "grpo": row("GRPO", 0.513, 0.017, 0.0),
            "controls": {
                "sft_cooled": row(
                    "SFT at its best temperature, 0.7", 0.452, 0.018, 0.02
                ),
                "sft_greedy": row("SFT, greedy", 0.378, 0.021, 0.03),
                "grpo_greedy": row("GRPO, greedy", 0.341, 0.02, 0.05),
                "fixed_template": row("Fixed template", 0.45, 0.012, 0.0),
                "reference": row("Reference answers", 0.91, 0.01, 0.0),
                "sft_blind": row(
                    "SFT, judged against another document", 0.384, 0.017, 0.02
                ),
                "grpo_blind": row(
                    "GRPO, judged against another document", 0.47, 0.016, 0.0
                ),
            },
        },
        "differences": [
            difference("sft", "base", 0.335, 0.018),
            difference("grpo", "sft", 0.105, 0.017),
            difference("grpo", "sft_cooled", 0.061, 0.016),
            difference("grpo", "fixed_template", 0.063, 0.02),
            difference("grpo", "reference", -0.397, 0.019),
        ],
        "result": "GRPO 51.3 % against SFT 40.9 %: +10.5 points (8.8 to 12.2) on 96 unseen "
        "questions; strongest control, SFT at its best temperature, 0.7: 45.2 %.",
        "claim": "A model of this size learns which behaviours the rubric rewards, not the "
        "subject: most of its reward survives judging against another document.",
    }


@pytest.fixture(name="comparison")
def comparison_fixture() -> dict[str, object]:
    return comparison()


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run folder of a given shape."""

    def make(
        shape: RunShape | None = None, *, name: str = "grpo-demo", **fields: int
    ) -> Path:
        return write_run(tmp_path / name, shape or RunShape(**fields))

    return make


def write_run(path: Path, shape: RunShape) -> Path:
    """Write a finished run of a given shape."""
    rng = np.random.default_rng(0)
    metrics = [_metrics(step, shape, rng) for step in range(1, shape.steps + 1)]
    passes = [*range(0, shape.steps, shape.heldout_every), shape.steps]
    heldout = [_heldout(step, shape, rng) for step in passes]
    _write_lines(path / "metrics.jsonl", list(metrics))
    _write_lines(path / "heldout.jsonl", list(heldout))
    for step in range(1, shape.steps + 1):
        rollouts, judgements = _step_rows(step, shape, rng)
        _write_lines(path / "rollouts" / f"step_{step:06d}.jsonl", list(rollouts))
        _write_lines(path / "judgements" / f"step_{step:06d}.jsonl", list(judgements))
    config = {
        "backend": "local",
        "model": {"type": "tiny", "documents": "documents.jsonl"},
        "steps": shape.steps,
        "seed": 0,
        "rollout": {
            "prompts": shape.prompts,
            "group_size": shape.group,
            "max_new_tokens": 96,
        },
        "judge": {"spec": {"type": "lexical"}},
        "objective": {"clip_low": 0.2, "clip_high": 0.2, "kl_coef": 0.005},
        "optim": {"updates_per_rollout": 2, "learning_rate": 5e-4},
    }
    (path / "config.resolved.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (path / "environment.json").write_text(
        '{"python": "3.11.7", "cpus": 2}\n', encoding="utf-8"
    )
    best = max(heldout, key=lambda row: row.reward_mean)
    summary = {
        "status": "finished",
        "steps": shape.steps,
        "best_step": best.step,
        "wall_s": 347.2,
        "best_heldout_reward": best.reward_mean,
        "heldout": {"base": {"mean": 0.074}},
    }
    (path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return path
