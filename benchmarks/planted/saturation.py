"""Tiny policies under rubrics of which a planted share is met always or never."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from planted.warm_start import write_start

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Rubric,
    Task,
    criterion_scores_z,
)
from rubric_core.arrays import FloatArray
from rubric_core.reward.estimators import GroupAdvantages, JudgedGroups
from rubric_core.reward.weighting import contrast_factors, moved_shares
from rubric_judge import LexicalJudge
from rubric_train_openrlhf import run_grpo
from rubric_train_openrlhf.config.sections import RubricWeightsConfig
from rubric_train_openrlhf.config.train import parse_config
from rubric_train_openrlhf.run.records import HeldoutRow

DEAD: Final = (0, 2, 6, 18)
"""Weight of a task's dead criteria beside 6 of live ones, by the task's number."""
MET: Final = 0.35
"""Share of the warm start's answers that meet a live criterion."""
RATE: Final = 5e-4
EPS: Final = 1.0
SCALED_RATES: Final = {"sample": 0.05, "none": 0.3}
"""Learning rates over `EPS`, by divisor: the gradient of raw rewards is a sixth."""


def make_task(number: int) -> Task:
    """A question about a function that does not exist; 0 to three quarters of its rubric is dead.

    Half of the dead weight is met by every answer, half by none, as saturated criteria and those
    out of a policy's reach are.
    """
    name, one, two = f"fn_{number}", f"left_{number}", f"right_{number}"
    live = [
        Criterion(id="first", weight=3, required_elements=(one,)),
        Criterion(id="second", weight=1, required_elements=(two,)),
        Criterion(id="returns", weight=2, required_elements=("returns",)),
    ]
    half = DEAD[number % len(DEAD)] / 2
    dead = [Criterion(id=name, weight=half) for name in ("always", "never") if half]
    return Task(
        question=f"Explain `{name}` with `{one}`, `{two}`: what it does.",
        grounding=Grounding(text=f"The sum, number {number}, of two arrays."),
        rubric=Rubric(criteria=(*live, *dead)),
        reference_answer=f"The function {name} returns the sum of {one} and {two} for you.",
    )


def _answer(number: int, draw: np.random.Generator) -> str:
    """An answer that meets each live criterion now and then."""
    one, two = f"left_{number}", f"right_{number}"
    takes = [word for word in (one, two) if draw.random() < MET]
    text = f"The function fn_{number} takes {' and '.join(takes) or 'nothing'}."
    return f"{text} It returns the sum." if draw.random() < MET else text


@dataclass
class SaturatedJudge:
    """The lexical judge, with what is planted dead met always or never."""

    name: str = "saturated"
    true: LexicalJudge = field(default_factory=LexicalJudge)

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge the live criteria, and give the dead ones what they always get."""
        live = [one for one in view.rubric if one.id not in {"always", "never"}]
        rubric = Rubric(criteria=tuple(live))
        result = await self.true.judge(
            JudgeView(
                task_id=view.task_id,
                question=view.question,
                grounding=view.grounding,
                response=view.response,
                rubric=rubric,
            )
        )
        z_M = criterion_scores_z(result, rubric)
        met = dict(zip(rubric.ids, z_M.tolist(), strict=True)) | {"always": 1.0}
        scores = {one.id: one.weight * met.get(one.id, 0.0) for one in view.rubric}
        return JudgeResult.scored(view.rubric, scores, judge=self.name)


class MatchedAdvantages(GroupAdvantages):
    """Advantages by the rubric's own weights, with the size that those by contrast would have.

    One factor a step: the ratio of the root mean squares over all of its responses.
    """

    estimator: str = "matched"

    def advantages(self, groups: JudgedGroups) -> FloatArray:
        """Return the group's advantages, scaled."""
        return self._factor(groups) * super().advantages(groups)

    def attribution(self, groups: JudgedGroups) -> FloatArray | None:
        """Return their split, scaled."""
        parts_PGM = super().attribution(groups)
        return None if parts_PGM is None else self._factor(groups) * parts_PGM

    def _factor(self, groups: JudgedGroups) -> float:
        bounds = RubricWeightsConfig(by="contrast")
        factors_PM = contrast_factors(
            groups.z_PGM,
            groups.weights_PM,
            least=bounds.least,
            most=bounds.most,
            valid_PG=groups.valid_PG,
        )
        moved_PM = moved_shares(groups.weights_PM, factors_PM)
        rewards_PG = np.nansum(moved_PM[:, None, :] * groups.z_PGM, axis=2)
        wanted = super().advantages(
            JudgedGroups(rewards_PG, groups.valid_PG, groups.z_PGM, moved_PM)
        )
        own = float(np.square(super().advantages(groups)).sum())
        return float(np.square(wanted).sum() / own) ** 0.5 if own else 1.0


def make_start(folder: Path) -> None:
    """Write the tasks and a policy that was warm-started on answers that lack something."""
    write_start(folder, make_task, _answer)


@dataclass(frozen=True)
class Arm:
    """How a run differs from others."""

    std: str
    """Divisor of the group's centred rewards."""
    weights: str
    """"fixed", "adaptive", "matched" (fixed, with the size of advantages that the adaptive ones
    have), or "twice" (fixed, at twice the learning rate)."""
    scales: bool = False
    """Whether steps grow with the gradient: an ε above all of its moments makes of AdamW a
    gradient descent with momentum; as it is, it divides by the gradient's own size."""

    def settings(self) -> dict[str, Any]:
        """Return its keys of the configuration."""
        rate = SCALED_RATES[self.std] if self.scales else RATE
        found: dict[str, Any] = {
            "advantage": {"estimator": "group", "std": self.std},
            "optim": {
                "learning_rate": rate * (2 if self.weights == "twice" else 1),
                "eps": EPS if self.scales else 1e-8,
                "micro_batch": 64,
                "warmup_steps": 3,
                "weight_decay": 0.0,
            },
        }
        if self.weights == "adaptive":
            found["rubric_weights"] = {"by": "contrast"}
        return found


def heldout_curve(
    out: Path, start: Path, arm: Arm, *, seed: int, steps: int, every: int
) -> list[tuple[int, float]]:
    """Train a tiny policy by 16 × 4 responses a step; return step and held-out reward.

    Args:
        out: run folder.
        start: folder of `make_start`.
        arm: what is compared.
        seed: of the run.
        steps: of the run.
        every: steps between held-out passes.
    """
    values: dict[str, Any] = {
        "model": {"type": "path", "path": start / "model"},
        "data": {
            "train": start / "train.jsonl",
            "validation": start / "validation.jsonl",
        },
        "rollout": {
            "prompts": 16,
            "group_size": 4,
            "max_new_tokens": 40,
            "micro_batch": 16,
        },
        "validation": {"every": every, "samples": 8, "temperature": 1.0},
        "checkpoint": {"every": 1000},
        **arm.settings(),
        "judge": {"spec": {"type": "lexical"}},
        "steps": steps,
        "seed": seed,
        "threads": 1,
        "device": "cpu",
        "out": out,
    }
    config = parse_config(values)
    if arm.weights == "matched":
        matched = MatchedAdvantages.model_validate({"std": arm.std})
        config = config.model_copy(update={"advantage": matched})
    curve: list[tuple[int, float]] = []

    def note(row: HeldoutRow) -> None:
        curve.append((row.step, row.reward_mean))

    run_grpo(config, judge=SaturatedJudge(), on_heldout=note)
    return curve
