"""The collapse that a judge of J ≤ 0 causes, and admission that prevents it.

The quickstart's model, after SFT, is trained by local GRPO on the quickstart's tasks with the
quickstart's settings; its judge of claims stands for the truth. A planted judge turns criteria with
half of the weight upside down and gives the others as they are. The same runs are made without a
calibration and with one that was measured before training. `value` is the gain in true held-out
reward with admission less the gain without it, in points, the least of the seeds.

    uv run python benchmarks/judge_admission.py [--model tiny] [--device cuda] [--processes 2]
        [--out FOLDER] [--steps N] [--quick] [--json F] [--figure F]

A run takes some minutes on one core and 5 GB of memory. The same command goes on where it was
stopped.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import numpy as np
import structlog
import torch
from record import finish

from rubric_core import (
    JudgeResult,
    JudgeView,
    Outcome,
    Rubric,
    Task,
    criterion_scores_z,
    normalized_reward,
    read_tasks,
    write_tasks,
)
from rubric_judge import ClaimJudge
from rubric_judge.quality.calibration.record import (
    Calibration,
    CriterionCalibration,
    RewardCalibration,
    RewardPair,
    Verdict,
    labelled_rubrics,
)
from rubric_judge.quality.reliability.rates import youden
from rubric_judge.statistics.estimate import UNKNOWN, Estimate
from rubric_train_openrlhf import TrainConfig, load_config, run_grpo
from rubric_train_openrlhf.policy import Policy, load_policy, sample_groups

if TYPE_CHECKING:
    from rubric_train_openrlhf.run.records import HeldoutRow

sys.path.append(str(Path(__file__).parents[1] / "examples"))
quickstart: Any = importlib.import_module("quickstart")

CLAIM = "true held-out reward rises with admission, and falls or stalls without it"
TARGET = 2.0
"""Points between the gain with admission and the gain without, in every seed."""
PLANTED: Final = ("definition_1", "definition_3", "default_2", "condition_1")
"""The criteria that the planted judge turns: some of each usual kind, so that what is turned and
what is left ask for things of the same kinds."""
HALF: Final = (0.4, 0.6)
"""Share of a rubric's weight that they have: tasks outside of it are left out."""
SEEDS: Final = (0, 1, 2)
ARMS: Final = {"planted": False, "admitted": True}


@dataclass(frozen=True)
class Setting:
    """What all runs share."""

    out: Path
    model: str
    device: str
    steps: int

    @property
    def context(self) -> str | None:
        """What goes with a question; the tiny model has no room for it."""
        return None if self.model == "tiny" else "bm25:1"

    @property
    def start(self) -> Path:
        """The policy that GRPO starts from: what SFT on the reference answers left."""
        return self.out / "sft"

    def config(self, arm: str, *, seed: int) -> TrainConfig:
        """The quickstart's reward stage, of these tasks and with this judge."""
        preset = "quickstart_tiny" if self.model == "tiny" else "quickstart"
        settings = load_config(quickstart.PRESETS / f"{preset}.yaml").model_dump()
        every = max(1, self.steps // 2)
        settings["validation"] |= {"every": every, "questions": None, "samples": 1}
        settings["checkpoint"] |= {"every": self.steps}
        settings["judge"] = {"spec": settings["judge"]["spec"]}
        if ARMS[arm]:
            settings["judge"] |= {
                "calibration": self.out / "calibration.json",
                "uncalibrated": "mask",
            }
        settings |= {
            "model": {"type": "path", "path": self.start},
            "data": {
                name: self.out / f"{name}.jsonl" for name in ("train", "validation")
            },
            "steps": self.steps,
            "seed": seed,
            "threads": 1,
            "device": self.device,
            "out": self.out / f"{arm}_{seed}",
        }
        return TrainConfig.model_validate(settings)


@dataclass
class PlantedJudge:
    """The judge of claims, turned upside down on some criteria; keeps the true rewards."""

    true: ClaimJudge = field(default_factory=ClaimJudge)
    rewards: defaultdict[str, list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """True rewards since the last look, by task."""
    name: str = "planted"

    @property
    def fingerprint(self) -> str:
        """The true judge's, and what is planted."""
        return f"planted {PLANTED} in {self.true.fingerprint}"

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge truly, and turn."""
        result = await self.true.judge(view)
        if result.outcome is not Outcome.SCORED:
            return result
        self.rewards[view.task_id].append(normalized_reward(result, view.rubric))
        scores = {
            one.id: one.weight - result.scores[one.id]
            if one.id in PLANTED
            else result.scores[one.id]
            for one in view.rubric
        }
        return JudgeResult.scored(view.rubric, scores, judge=self.name)


def turned_share(rubric: Rubric) -> float:
    """Share of the weight that the planted judge turns."""
    return sum(one.weight for one in rubric if one.id in PLANTED) / rubric.total_weight


def prepare(setting: Setting) -> None:
    """Make tasks, the warm-started policy and the calibration, whatever of them is not there."""
    out = setting.out
    if not (out / "tasks").exists():
        quickstart.documents_to_tasks(out, context=setting.context)
    for name in ("train", "validation"):
        tasks = read_tasks(out / "tasks" / f"{name}.jsonl")
        kept = [one for one in tasks if HALF[0] <= turned_share(one.rubric) <= HALF[1]]
        if not kept:
            raise SystemExit(f"{name}: no task has {PLANTED} with half of its weight")
        share = np.mean([turned_share(one.rubric) for one in kept])
        print(
            f"{name}: {len(kept)} tasks, {share:.0%} of the weight is turned",
            flush=True,
        )
        write_tasks(out / f"{name}.jsonl", kept)
    train = list(read_tasks(out / "train.jsonl"))
    scale = (quickstart.TINY if setting.model == "tiny" else quickstart.REAL)["normal"]
    sft = quickstart.sft_for(setting.model, scale.sft, setting.context)
    scale = replace(scale, sft=sft)
    if not (out / "base").exists():
        quickstart.model_folder(setting.model, out, train, scale, seed=0)
    if not (setting.start / "config.json").exists():
        base, tasks = out / "base", out / "tasks"
        setup = quickstart.Setup(setting.model, setting.device, scale, base, tasks)
        quickstart.warm_started(setup, setting.start, train, seed=0)
    if not (out / "calibration.json").exists():
        policy = load_policy(setting.start, device=setting.device)
        found = anyio.run(measured, policy, train, setting.config("planted", seed=0))
        (out / "calibration.json").write_text(found.model_dump_json(indent=1))


async def measured(
    policy: Policy, tasks: Sequence[Task], config: TrainConfig
) -> Calibration:
    """Calibrate the planted judge, with the true scores as labels.

    On a response of the policy to each task and the reference answer, so that there are responses
    of both kinds.
    """
    judge, true = PlantedJudge(), ClaimJudge()
    texts_NK = [
        [text, task.reference_answer or ""]
        for task, text in zip(tasks, _responses(policy, tasks, config), strict=True)
    ]
    met: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    pairs: list[RewardPair] = []
    for task, texts_K in zip(tasks, texts_NK, strict=True):
        for text in texts_K:
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
                    task_id=task.task_id,
                    document=task.doc_hash,
                    judge=said_r,
                    label=label_r,
                )
            )
    return Calibration(
        version=1,
        judge=judge.name,
        judge_fingerprint=judge.fingerprint,
        rubrics=labelled_rubrics(tasks),
        raters=("truth",),
        criteria=tuple(
            one
            for name, values in sorted(met.items())
            if (one := _criterion(name, values))
        ),
        reward=RewardCalibration(
            pairs=tuple(pairs),
            bias=Estimate(
                value=float(np.mean([one.judge - one.label for one in pairs]))
            ),
            **dict.fromkeys(
                (
                    "correlation",
                    "predicted",
                    "measured",
                    "inflation",
                    "error_correlation",
                    "flips",
                ),
                UNKNOWN,
            ),
        ),
    )


def _responses(policy: Policy, tasks: Sequence[Task], config: TrainConfig) -> list[str]:
    """One response to each task, sampled as in training."""
    found: list[str] = []
    generator = torch.Generator(policy.device).manual_seed(0)
    for first in range(0, len(tasks), 64):
        views = [task.policy_view() for task in tasks[first : first + 64]]
        drawn = sample_groups(
            policy.model,
            [policy.codec.encode_prompt(view) for view in views],
            group_size=1,
            max_new_tokens=config.rollout.max_new_tokens,
            temperature=config.rollout.temperature,
            generator=generator,
            eos_token_id=policy.codec.end_token_ids,
            pad_token_id=policy.codec.pad_token_id,
        )
        found += [
            policy.codec.decode(view, drawn.response(row))
            for row, view in enumerate(views)
        ]
    return found


def _criterion(
    name: str, values: Sequence[tuple[float, float]]
) -> CriterionCalibration | None:
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


def train(setting: Setting, run: tuple[int, str]) -> list[dict[str, float]]:
    """Make a run, or go on with it: step, true held-out reward, and the reward that is trained."""
    seed, arm = run
    config = setting.config(arm, seed=seed)
    kept = config.out.with_suffix(".json")
    rows: dict[str, dict[str, float]] = (
        json.loads(kept.read_text()) if kept.exists() else {}
    )
    if str(setting.steps) in rows:
        return list(rows.values())
    quieten()
    judge = PlantedJudge()
    heldout = {task.task_id for task in read_tasks(setting.out / "validation.jsonl")}

    def note(row: HeldoutRow) -> None:
        true = [
            float(np.mean(judge.rewards[one])) for one in heldout if judge.rewards[one]
        ]
        rows[str(row.step)] = {
            "step": row.step,
            "true_reward": float(np.mean(true)),
            "judged_reward": row.reward_mean,
        }
        kept.write_text(json.dumps(rows))
        judge.rewards.clear()
        print(
            seed,
            arm,
            row.step,
            f"{np.mean(true):.3f} {row.reward_mean:.3f}",
            flush=True,
        )

    run_grpo(config, resume=config.out.exists(), judge=judge, on_heldout=note)
    return list(rows.values())


def quieten() -> None:
    """Leave the screen to the results, and the other cores to others."""
    torch.set_num_threads(1)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
    )


def gains(curves: dict[str, list[list[dict[str, float]]]]) -> dict[str, list[float]]:
    """Last true held-out reward less the first, by arm and seed."""
    return {
        arm: [rows[-1]["true_reward"] - rows[0]["true_reward"] for rows in of_seeds]
        for arm, of_seeds in curves.items()
    }


def draw(curves: dict[str, list[list[dict[str, float]]]], path: Path) -> None:
    """Draw the true held-out reward over the steps."""
    from rubric_judge.ui.page.pictures import (
        COLOURS,
        draw_grid,
        draw_legend,
        new_figure,
        save_figure,
    )

    figure, (axes,) = new_figure(5.2, 3.2)
    looks = {
        "planted": (COLOURS[1], "without admission"),
        "admitted": (COLOURS[0], "with admission"),
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
    axes.set_ylim(bottom=0)
    draw_grid(axes, "y")
    draw_legend(figure, axes)
    save_figure(figure, path.parent, path.stem, forms=[path.suffix[1:]])


def main() -> None:
    """Run all, print and write."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--out", type=Path, default=Path("runs/admission"))
    parser.add_argument("--model", choices=("tiny", "smollm2"), default="smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1, help="runs side by side")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument(
        "--quick", action="store_true", help="one seed, two steps: proves nothing"
    )
    parser.add_argument("--figure", type=Path, help="draw it, as SVG or PNG")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    quieten()
    steps = min(2, given.steps) if given.quick else given.steps
    setting = Setting(given.out.resolve(), given.model, given.device, steps)
    prepare(setting)
    runs = [(seed, arm) for seed in SEEDS[: 1 if given.quick else None] for arm in ARMS]
    if given.processes > 1:
        with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
            rows = list(pool.map(partial(train, setting), runs))
    else:
        rows = [train(setting, run) for run in runs]
    curves: dict[str, list[list[dict[str, float]]]] = {arm: [] for arm in ARMS}
    for (_, arm), one in zip(runs, rows, strict=True):
        curves[arm].append(one)
    if given.figure:
        draw(curves, given.figure)
    result = compared(curves)
    print(
        f"{result['value']:.1f} points (target {TARGET}): {result['details']['gains']}"
    )
    finish(result, given.json)


def compared(curves: dict[str, list[list[dict[str, float]]]]) -> dict[str, Any]:
    """Return the benchmark's record; admission itself must gain too."""
    found = gains(curves)
    apart = [
        100 * (b - a) for a, b in zip(found["planted"], found["admitted"], strict=True)
    ]
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
