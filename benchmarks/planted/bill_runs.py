"""Runs of local GRPO with a strong judge, and with a cascade of groups before it; for judge_bill.

A tiny policy learns to name things. The lexical judge is the strong one; a planted cheap one reads
its verdicts through noise, as in `bill`, and is calibrated on answers of the policy that the runs
start from.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import torch
from scipy import stats

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Outcome,
    Pooling,
    Rubric,
    SftExample,
    Task,
    write_tasks,
)
from rubric_judge import (
    CascadeCalibration,
    CascadeConfig,
    GroupCascadeJudge,
    LexicalJudge,
)
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.judges.cascade.record import Threshold
from rubric_judge.quality.calibration.probabilities import (
    Pair,
    group_calibration,
    pairs_of,
)
from rubric_train_openrlhf import TrainConfig, run_grpo
from rubric_train_openrlhf.policy import (
    SftConfig,
    TinyConfig,
    build_tiny_policy,
    load_policy,
    sample_groups,
    sft,
)

SHAPE = TinyConfig(
    vocab_size=340,
    hidden_size=32,
    intermediate_size=64,
    layers=2,
    heads=2,
    kv_heads=2,
    max_positions=128,
)
TASKS = 84
TRAINED = 20
GROUP = 8


WORDS = (
    "sum",
    "array",
    "index",
    "value",
    "error",
    "shape",
    "type",
    "default",
    "copy",
    "order",
)
ASKED = 6


def make_task(number: int) -> Task:
    """Ask about a function; an answer should name six of ten things, with weights of 1 to 5."""
    rng = np.random.default_rng(number)
    asked = rng.choice(WORDS, size=ASKED, replace=False)
    said = rng.choice(WORDS, size=3, replace=False)
    return Task(
        question=f"What is fn_{number} about?",
        grounding=Grounding(f"Function {number}."),
        rubric=Rubric(
            criteria=tuple(
                Criterion(
                    id=str(word),
                    weight=float(rng.integers(1, 6)),
                    required_elements=(str(word),),
                )
                for word in asked
            )
        ),
        reference_answer=f"It is about the {said[0]}, the {said[1]}, the {said[2]}.",
    )


@dataclass
class CheapJudge:
    """The lexical judge through noise: a calibrated probability of each of its verdicts."""

    accuracy: float
    strong: LexicalJudge = field(default_factory=LexicalJudge)

    @property
    def name(self) -> str:
        """Its accuracy."""
        return f"planted {self.accuracy:.2f}"

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Read each verdict with noise that follows from response and criterion."""
        result = await self.strong.judge(view)
        if result.outcome is not Outcome.SCORED:
            return result
        mu = float(stats.norm.ppf(self.accuracy))
        scores: dict[str, float] = {}
        for criterion in view.rubric:
            met = result.scores[criterion.id] >= criterion.weight / 2
            text = f"{view.task_id} {view.response} {criterion.id}"
            digest = hashlib.sha256(text.encode()).digest()
            drawn = (int.from_bytes(digest[:8]) + 0.5) / 2**64
            reading = (mu if met else -mu) + float(stats.norm.ppf(drawn))
            scores[criterion.id] = criterion.weight / (1 + np.exp(-2 * mu * reading))
        return JudgeResult.scored(view.rubric, scores, judge=self.name)


@dataclass
class Counted:
    """A judge that counts the criteria that it is asked for, of tasks that are trained on."""

    tasks: frozenset[str]
    inner: LexicalJudge = field(default_factory=LexicalJudge)
    cells: int = 0

    @property
    def name(self) -> str:
        """The inner judge's."""
        return self.inner.name

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge, and count."""
        if view.task_id in self.tasks:
            self.cells += len(view.rubric.criteria)
        return await self.inner.judge(view)


class Work:
    """Tasks and the policy that all runs start from."""

    def __init__(self, folder: Path, *, warm: int) -> None:
        """Write the tasks, and warm-start the policy a little."""
        self.folder = folder
        self.tasks = [make_task(number) for number in range(TASKS)]
        write_tasks(folder / "train.jsonl", self.tasks[:TRAINED])
        write_tasks(folder / "validation.jsonl", self.tasks[TRAINED:])
        texts = [f"{task.question} {task.reference_answer}" for task in self.tasks]
        policy = build_tiny_policy(texts, SHAPE, seed=0)
        examples = [
            SftExample(
                task_id=task.task_id,
                question=task.question,
                answer=task.reference_answer or "",
            )
            for task in self.tasks[:TRAINED]
        ]
        settings = SftConfig(steps=warm, learning_rate=1e-2, batch_size=6)
        sft(policy, examples, settings, seed=0)
        policy.save(folder / "model")

    def config(self, out: str, *, seed: int, steps: int) -> TrainConfig:
        """Settings of a run."""
        return TrainConfig.model_validate(
            {
                "model": {"type": "path", "path": self.folder / "model"},
                "data": {
                    "train": self.folder / "train.jsonl",
                    "validation": self.folder / "validation.jsonl",
                },
                "rollout": {
                    "prompts": 8,
                    "group_size": GROUP,
                    "max_new_tokens": 24,
                    "micro_batch": 8,
                },
                "judge": {"spec": {"type": "lexical"}},
                "optim": {
                    "learning_rate": 3e-3,
                    "updates_per_rollout": 2,
                    "micro_batch": 32,
                },
                "validation": {"every": steps, "samples": 1, "temperature": 1.0},
                "checkpoint": {"every": steps},
                "steps": steps,
                "seed": seed,
                "threads": 1,
                "device": "cpu",
                "out": self.folder / out,
            }
        )

    def calibrated(
        self, cheap: CheapJudge, strong: Counted, config: CascadeConfig
    ) -> CascadeCalibration:
        """Hold the cheap judge's readings against the strong one's verdicts."""
        pairs = anyio.run(self._pairs, cheap)
        return CascadeCalibration(
            version=1,
            judges=(fingerprint(cheap), fingerprint(strong)),
            uncertainty=config.uncertainty,
            k=config.k,
            audit_frac=config.audit_frac,
            unit="response",
            risk=0.1,
            confidence=0.95,
            pooled=Threshold(n=len(pairs), risk=0, bound=0.1, escalated=1, last_risk=0),
            group=group_calibration(pairs, Pooling.of(self.tasks[:TRAINED])),
        )

    async def _pairs(self, cheap: CheapJudge) -> list[Pair]:
        policy = load_policy(self.folder / "model", device="cpu")
        views = [task.policy_view() for task in self.tasks[:TRAINED]]
        drawn = sample_groups(
            policy.model,
            [policy.codec.encode_prompt(view) for view in views],
            group_size=GROUP,
            max_new_tokens=24,
            temperature=1.0,
            generator=torch.Generator().manual_seed(0),
            eos_token_id=policy.codec.end_token_ids,
            pad_token_id=policy.codec.pad_token_id,
        )
        pairs: list[Pair] = []
        for row in range(TRAINED * GROUP):
            task = self.tasks[row // GROUP]
            text = policy.codec.decode(views[row // GROUP], drawn.response(row))
            view = task.judge_view(text)
            strong = await cheap.strong.judge(view)
            pairs += pairs_of(view, [await cheap.judge(view)], strong)
        return pairs


def held_out(
    work: Work, accuracy: float | None, *, seed: int, steps: int, target: float
) -> tuple[float, float, int]:
    """Train once; return the held-out reward before and after, and the strong judge's cells.

    A held-out answer stands alone, so that the strong judge scores it in either case; it does not
    count.
    """
    strong = Counted(frozenset(task.task_id for task in work.tasks[:TRAINED]))
    judge: Any = strong
    if accuracy is not None:
        cheap = CheapJudge(accuracy)
        config = CascadeConfig.model_validate(
            {
                "judges": [
                    {"type": "plugin", "name": "cheap"},
                    {"type": "llm", "model": "openai/m", "granularity": "criterion"},
                ],
                "uncertainty": "margin",
                "decide": "group",
                "target": target,
            }
        )
        calibration = work.calibrated(cheap, strong, config)
        judge = GroupCascadeJudge((cheap, strong), config, calibration)
    rewards: list[float] = []
    counts: list[int] = []

    def note(row: Any) -> None:
        rewards.append(float(row.reward_mean))
        counts.append(strong.cells)

    name = "strong" if accuracy is None else f"cheap_{accuracy:.2f}"
    settings = work.config(f"{name}_{seed}", seed=seed, steps=steps)
    run_grpo(settings, judge=judge, on_heldout=note)
    return rewards[0], rewards[-1], counts[-1]


def paired(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean difference of runs of one seed, and Student's 95 % interval."""
    mean = float(np.mean(differences))
    half = float(
        stats.t.ppf(0.975, len(differences) - 1) * stats.sem(np.array(differences))
    )
    return mean, mean - half, mean + half
