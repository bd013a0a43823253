"""The collapse that a judge of J ≤ 0 causes, and admission that prevents it.

A tiny policy like the quickstart's is warm-started on answers of four kinds, from whole to empty,
and trained by local GRPO with the lexical judge, whose scores stand for the truth. A planted judge
turns the criterion that carries half of the weight upside down in three of four judgements (TPR
.25, FPR .75: J = −.5) and gives the other half as it is. The same runs are made without a
calibration and with one that was measured on responses of the policy before training. `value` is
the gain in true held-out reward with admission less the gain without it, in points, the least of
the seeds.

    uv run python benchmarks/judge_admission.py [--out FOLDER] [--quick] [--json F] [--figure F]

A run takes about a minute on one core; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import numpy as np
import structlog
import torch
from record import finish

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Outcome,
    Rubric,
    SftExample,
    Task,
    criterion_scores_z,
    normalized_reward,
    read_tasks,
    write_tasks,
)
from rubric_judge import LexicalJudge
from rubric_judge.calibration.record import (
    Calibration,
    CriterionCalibration,
    RewardCalibration,
    RewardPair,
    Verdict,
)
from rubric_judge.estimates import UNKNOWN, Estimate
from rubric_judge.ledger.entry import hash_rubric
from rubric_judge.reliability.rates import youden
from rubric_train_openrlhf import TrainConfig, run_grpo
from rubric_train_openrlhf.policy import (
    Policy,
    SftConfig,
    TinyConfig,
    build_tiny_policy,
    load_policy,
    sample_groups,
    sft,
)

if TYPE_CHECKING:
    from rubric_train_openrlhf.run.records import HeldoutRow

CLAIM = "true held-out reward rises with admission, and falls or stalls without it"
TARGET = 10.0
"""Points between the gain with admission and the gain without, in every seed."""
PLANTED: Final = "parameters"
"""The criterion that the planted judge turns: half of the weight."""
TURNED: Final = 0.75
SEEDS: Final = (0, 1, 2)
ARMS: Final = {"planted": False, "admitted": True}
TOKENS: Final = 32
GROUP: Final = 8
VERBS: Final = ("merge", "scale", "sort", "clip", "rank", "fold", "trim", "map")
NOUNS: Final = ("tables", "images", "signals", "words", "grids", "paths", "trees", "waves")
OPTIONS: Final = (
    "axis",
    "order",
    "limit",
    "mode",
    "width",
    "depth",
    "seed",
    "start",
    "stop",
    "step",
)
ANSWERS: Final = (
    "The function `{name}` takes `{first}` and `{second}` and returns the result for you.",
    "The function `{name}` takes `{first}` and `{second}` for you.",
    "The function `{name}` returns the result for you.",
    "It does what it says for you.",
)
"""What the warm start is on, in turns: the policy begins with something of each."""


def made_tasks() -> list[Task]:
    """Questions about functions; those of the last two nouns are held out."""
    names = [(verb, noun) for noun in NOUNS for verb in VERBS]
    return [_task(number, f"{verb}_{noun}") for number, (verb, noun) in enumerate(names)]


def _task(number: int, name: str) -> Task:
    first, second = OPTIONS[number % 10], OPTIONS[(number * 3 + 1) % 10]
    second = second if second != first else OPTIONS[(number + 1) % 10]
    return Task(
        question=f"Explain `{name}` from maths with `{first}`, `{second}`: what it does.",
        grounding=Grounding(f"{name} of {number}, by {first} and {second}, returns a result."),
        rubric=Rubric(
            criteria=(
                Criterion(id="named", weight=1, required_elements=(name,)),
                Criterion(id="parameters", weight=3, required_elements=(first, second)),
                Criterion(id="returns", weight=2, expected_keywords=("returns",)),
            )
        ),
        reference_answer=ANSWERS[number % 4].format(name=name, first=first, second=second),
    )


@dataclass
class PlantedJudge:
    """The lexical judge, turned upside down on some criteria; keeps the true rewards."""

    true: LexicalJudge = field(default_factory=LexicalJudge)
    rewards: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """True rewards since the last look, by task."""
    name: str = "planted"

    @property
    def fingerprint(self) -> str:
        """The true judge's, and what is planted."""
        return f"planted {TURNED} of {PLANTED} in {self.true.fingerprint}"

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge truly, and turn."""
        result = await self.true.judge(view)
        if result.outcome is not Outcome.SCORED:
            return result
        self.rewards[view.task_id].append(normalized_reward(result, view.rubric))
        scores = {
            one.id: one.weight - result.scores[one.id]
            if _is_turned(one.id, view)
            else result.scores[one.id]
            for one in view.rubric
        }
        return JudgeResult.scored(view.rubric, scores, judge=self.name)


def _is_turned(criterion: str, view: JudgeView) -> bool:
    """Whether this judgement of a criterion is upside down: the same every time it is asked."""
    drawn = hashlib.sha256(f"{criterion}\0{view.task_id}\0{view.response}".encode()).digest()
    return criterion == PLANTED and drawn[0] < 256 * TURNED


def prepare(out: Path) -> None:
    """Make tasks, the warm-started policy and the calibration, whatever of them is not there."""
    base, calibration, tasks = out / "sft", out / "calibration.json", made_tasks()
    held_out = 2 * len(VERBS)
    write_tasks(out / "train.jsonl", tasks[:-held_out])
    write_tasks(out / "validation.jsonl", tasks[-held_out:])
    if not (base / "config.json").exists():
        _policy(tasks[:-held_out]).save(base)
    if not calibration.exists():
        found = anyio.run(measured, load_policy(base), tasks[:-held_out])
        calibration.write_text(found.model_dump_json(indent=1))


def _policy(tasks: Sequence[Task]) -> Policy:
    """Build a tiny Llama and warm-start it on the reference answers."""
    texts = [f"{task.question} {task.reference_answer}" for task in tasks]
    policy = build_tiny_policy(texts, TinyConfig(vocab_size=400), seed=0)
    examples = [
        SftExample(task_id=task.task_id, question=task.question, answer=task.reference_answer or "")
        for task in tasks
    ]
    sft(policy, examples, SftConfig(steps=150, learning_rate=2e-3, batch_size=8), seed=0)
    return policy


async def measured(policy: Policy, tasks: Sequence[Task]) -> Calibration:
    """Calibrate the planted judge on responses of the policy, with the true scores as labels."""
    judge, true = PlantedJudge(), LexicalJudge()
    views = [task.policy_view() for task in tasks]
    drawn = sample_groups(
        policy.model,
        [policy.codec.encode_prompt(view) for view in views],
        group_size=GROUP,
        max_new_tokens=TOKENS,
        generator=torch.Generator().manual_seed(0),
        eos_token_id=policy.codec.end_token_ids,
        pad_token_id=policy.codec.pad_token_id,
    )
    answers_NK = [
        [policy.codec.decode(view, drawn.response(GROUP * row + k)) for k in range(GROUP)]
        for row, view in enumerate(views)
    ]
    met: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    pairs: list[RewardPair] = []
    for task, answers_K in zip(tasks, answers_NK, strict=True):
        for text in answers_K:
            view = task.judge_view(text)
            both = [await one.judge(view) for one in (judge, true)]
            if any(one.outcome is not Outcome.SCORED for one in both):
                continue
            said_M, label_M = (criterion_scores_z(one, task.rubric) for one in both)
            for name, said, label in zip(task.rubric.ids, said_M, label_M, strict=True):
                met[name].append((float(said), float(label)))
            said_r, label_r = (normalized_reward(one, task.rubric) for one in both)
            pairs.append(
                RewardPair(
                    task_id=task.task_id, document=task.doc_hash, judge=said_r, label=label_r
                )
            )
    return Calibration(
        version=1,
        judge=judge.name,
        judge_fingerprint=judge.fingerprint,
        rubrics={task.task_id: hash_rubric(task.rubric) for task in tasks},
        raters=("truth",),
        criteria=tuple(
            one for name, values in sorted(met.items()) if (one := _criterion(name, values))
        ),
        reward=RewardCalibration(
            pairs=tuple(pairs),
            bias=Estimate(value=float(np.mean([one.judge - one.label for one in pairs]))),
            **dict.fromkeys(
                ("correlation", "predicted", "measured", "inflation", "error_correlation", "flips"),
                UNKNOWN,
            ),
        ),
    )


def _criterion(name: str, values: Sequence[tuple[float, float]]) -> CriterionCalibration | None:
    """TPR, FPR and J of a criterion; None where its labels are of one kind alone."""
    z_R2 = np.array(values)
    said, label = z_R2[:, 0] >= 0.5, z_R2[:, 1] >= 0.5  # noqa: PLR2004  # half
    if label.all() or not label.any():
        return None
    found = youden(
        tp=int((said & label).sum()),
        fp=int((said & ~label).sum()),
        fn=int((~said & label).sum()),
        tn=int((~said & ~label).sum()),
    )
    is_admitted = (found.youden_j.low or 0.0) > 0
    return CriterionCalibration(
        criterion=name,
        labels=len(values),
        positives=int(label.sum()),
        share=0.0,
        tpr=found.tpr,
        fpr=found.fpr,
        youden_j=found.youden_j,
        bias=Estimate(value=float((z_R2[:, 0] - z_R2[:, 1]).mean())),
        agreement=UNKNOWN,
        noise=Estimate(value=0.0),
        verdict=Verdict.ADMIT if is_admitted else Verdict.MASK,
        reason=f"J {found.youden_j.text()}",
        factor=float(is_admitted),
    )


def train(out: Path, arm: str, *, seed: int, steps: int) -> list[dict[str, float]]:
    """Make a run, or go on with it: step, true held-out reward, and the reward that is trained."""
    folder = out / f"{arm}_{seed}"
    kept = folder.with_suffix(".json")
    rows: dict[str, dict[str, float]] = json.loads(kept.read_text()) if kept.exists() else {}
    if str(steps) in rows:
        return list(rows.values())
    judge = PlantedJudge()
    heldout = {task.task_id for task in read_tasks(out / "validation.jsonl")}

    def note(row: HeldoutRow) -> None:
        true = [float(np.mean(judge.rewards[one])) for one in heldout if judge.rewards[one]]
        rows[str(row.step)] = {
            "step": row.step,
            "true_reward": float(np.mean(true)),
            "judged_reward": row.reward_mean,
        }
        kept.write_text(json.dumps(rows))
        judge.rewards.clear()

    settings: dict[str, Any] = {
        "model": {"type": "path", "path": out / "sft"},
        "data": {"train": out / "train.jsonl", "validation": out / "validation.jsonl"},
        "rollout": {"prompts": 8, "group_size": GROUP, "max_new_tokens": TOKENS, "micro_batch": 8},
        "judge": {"calibration": out / "calibration.json"} if ARMS[arm] else {},
        "objective": {"kl_coef": 0.01},
        "optim": {"learning_rate": 3e-4, "updates_per_rollout": 2, "micro_batch": 32},
        "validation": {"every": 5, "temperature": 1.0, "samples": 8},
        "checkpoint": {"every": 20},
        "steps": steps,
        "seed": seed,
        "threads": 1,
        "device": "cpu",
        "out": folder,
    }
    config = TrainConfig.model_validate(settings)
    run_grpo(config, resume=folder.exists(), judge=judge, on_heldout=note)
    return list(rows.values())


def gains(curves: dict[str, list[list[dict[str, float]]]]) -> dict[str, list[float]]:
    """Last true held-out reward less the first, by arm and seed."""
    return {
        arm: [rows[-1]["true_reward"] - rows[0]["true_reward"] for rows in of_seeds]
        for arm, of_seeds in curves.items()
    }


def draw(curves: dict[str, list[list[dict[str, float]]]], path: Path) -> None:
    """Draw the true held-out reward over the steps."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "admission", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    drawing = cast("Any", plt)
    figure, axes = drawing.subplots(figsize=(5.2, 3.0))
    looks = {
        "planted": ("#b3452c", "without admission"),
        "admitted": ("#2c6fb3", "with admission"),
    }
    for arm, of_seeds in curves.items():
        colour, label = looks[arm]
        steps = [row["step"] for row in of_seeds[0]]
        true_SR = np.array([[row["true_reward"] for row in rows] for rows in of_seeds])
        for true_R in true_SR:
            axes.plot(steps, true_R, color=colour, alpha=0.35, linewidth=1)
        axes.plot(steps, true_SR.mean(axis=0), color=colour, linewidth=2, label=label)
    axes.set_xlabel("step")
    axes.set_ylabel("true held-out reward")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Run all, print and write."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--out", type=Path, default=Path("runs/admission"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--quick", action="store_true", help="one seed, ten steps: proves nothing")
    parser.add_argument("--figure", type=Path, help="draw it, as SVG or PNG")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    prepare(out)
    run = partial(train, out, steps=10 if arguments.quick else arguments.steps)
    curves: dict[str, list[list[dict[str, float]]]] = {arm: [] for arm in ARMS}
    for seed in SEEDS[: 1 if arguments.quick else None]:
        for arm in ARMS:
            curves[arm].append(run(arm, seed=seed))
            print(seed, arm, [round(row["true_reward"], 3) for row in curves[arm][-1]], flush=True)
    if arguments.figure:
        draw(curves, arguments.figure)
    result = compared(curves)
    print(f"{result['value']:.1f} points (target {TARGET}): {result['details']['gains']}")
    finish(result, arguments.json)


def compared(curves: dict[str, list[list[dict[str, float]]]]) -> dict[str, Any]:
    """Return the benchmark's record; admission itself must gain too."""
    found = gains(curves)
    apart = [100 * (b - a) for a, b in zip(found["planted"], found["admitted"], strict=True)]
    return {
        "claim": CLAIM,
        "value": min(apart),
        "target": TARGET,
        "direction": "at least",
        "passed": min(apart) >= TARGET and min(found["admitted"]) > 0,
        "details": {"gains": found, "curves": curves},
    }


if __name__ == "__main__":
    main()
