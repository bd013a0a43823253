"""What self-distillation earns beside GRPO and SFT on the quickstart's tasks, at equal CPU time.

SmolLM2-135M-Instruct, warm-started as in the quickstart, goes on from one start by

- grpo: rewards of the judge of claims, eight answers to a question;
- self_distillation: its own answers, three to a question, read by the start that is shown the
  rubric;
- sft: reference answers,

open-book (with the section that a search finds) and closed-book, at the same constant learning
rate. Each makes whole steps until one more, as long as those before it on average, would take it
past `--budget`, in CPU-seconds of the process: of all that its steps do, judging included, without
loading and saving. All answer the same test questions at temperature 1, and so does the start,
beside controls without a model; the start that is shown what a teacher is answers validation
questions. `value` is the mean difference in reward of self-distillation less GRPO over the seeds,
open-book where that is trained, in points.

    uv run python benchmarks/self_distillation.py [--budget 150] [--seeds 3] [--arms ARM ...]
        [--trained open closed] [--out FOLDER] [--quickstart FOLDER] [--pieces NAME ...]
        [--quick] [--json PATH]

Every piece leaves a file in `--out`, and the same command goes on where it was stopped; `--pieces`
makes some of them, such as `open_grpo_0_150s`, and no table. `--quickstart` takes tasks and start
from what `examples/quickstart.py` has left there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeAlias

import anyio
import structlog
import torch
from record import finish
from rich.console import Console
from rich.table import Table

from rubric_core import Task, read_tasks
from rubric_eval import (
    Comparison,
    Difference,
    Heldout,
    Interval,
    compare,
    judge_heldout,
)
from rubric_judge import ClaimJudge, JudgePool
from rubric_judge.quality.wrong_answers import fixed_template
from rubric_judge.ui.console.progress import Progress
from rubric_synth import SynthConfig, collect, synthesise
from rubric_synth.stats import controls
from rubric_train_openrlhf import TrainConfig, run_grpo
from rubric_train_openrlhf.config.sections import SmolLM2Model
from rubric_train_openrlhf.local.teaching import teacher_view
from rubric_train_openrlhf.policy import (
    Policy,
    SftConfig,
    load_policy,
    sample_groups,
    sft,
)

CLAIM = (
    "on SmolLM2 and the quickstart's tasks, self-distillation earns as much as GRPO for the same"
    " CPU time"
)
TARGET = 0.0
SOURCES: Final = ("python:numpy", "python:scipy", "python:networkx")
BOOKS: Final = ("open", "closed")
ARMS: Final = ("self_distillation", "grpo", "sft")
TOKENS: Final = 64
"""Longest answer, in training and of a test question."""
QUESTIONS: Final = 24
RATE: Final = 6e-5
BUDGET_S: Final = 150.0
"""CPU-seconds of training of an arm."""
GROUPS: Final = {"self_distillation": (2, 3), "grpo": (2, 8)}
"""Prompts of a step, and responses to each."""
UPDATES: Final = {"self_distillation": 2, "grpo": 2, "sft": 1}
"""Optimiser updates of a step."""
ENDLESS: Final = 100_000
"""Steps of a schedule whose first hundred are at one learning rate."""
SHOWN: Final = "rubric"
SHOWINGS: Final = ("passage", "rubric", "passage_and_rubric")
WARM: Final = SftConfig(
    steps=20,
    learning_rate=2e-4,
    batch_size=4,
    max_prompt_tokens=2048,
    max_answer_tokens=120,
)


class Clock:
    """CPU time of the steps of a run, without loading and saving."""

    def __init__(self) -> None:
        """Begin without a step."""
        self.steps_s: list[float] = []
        self._began_s: float | None = None

    def begin(self) -> None:
        """Begin the first step."""
        self._began_s = time.process_time()

    def look(self, snapshot: Any) -> None:
        """Begin the first step where the outermost phase of the run is training."""
        if snapshot.name == "training" and self._began_s is None:
            self.begin()

    def end_step(self) -> None:
        """Take the time of a step, and begin the next one."""
        assert self._began_s is not None  # noqa: S101  # a step has begun
        now_s = time.process_time()
        self.steps_s.append(now_s - self._began_s)
        self._began_s = now_s

    def rest(self) -> None:
        """Count nothing until the next step begins."""
        self._began_s = None


class _BudgetSpentError(Exception):
    """The next step would take longer than what is left."""


def further_steps(steps_s: Sequence[float], budget_s: float) -> int:
    """Return how many whole steps fit, each as long as those so far on average; at first one."""
    if not steps_s:
        return 1
    left_s = budget_s - sum(steps_s)
    return max(0, int(left_s // fmean(steps_s)))


class Bench:
    """Tasks, start, and the pieces that are there."""

    def __init__(
        self, out: Path, quickstart: Path | None, *, budget_s: float, quick: bool
    ) -> None:
        """Find or make the tasks and the start."""
        self.out = out
        self.budget_s = budget_s
        out.mkdir(parents=True, exist_ok=True)
        found = quickstart or out
        if not (found / "tasks").exists():
            collect(SOURCES, out / "documents")
            config = SynthConfig.model_validate({"context": "bm25:1"})
            synthesise(out / "documents", out / "tasks", config=config)
        self.tasks = found / "tasks"
        self.start = found / "sft"
        self.pool = JudgePool(ClaimJudge())
        questions = 2 if quick else QUESTIONS
        self.test = spread(self.read("test"), questions)
        self.validation = spread(self.read("validation"), questions)
        if not self.start.exists():
            policy = load_policy(SmolLM2Model().folder())
            examples = [
                one for task in self.read("train") if (one := task.sft_example())
            ]
            warm = WARM.model_copy(update={"steps": 1}) if quick else WARM
            sft(policy, examples, warm, seed=0)
            policy.save(self.start)

    def read(self, split: str) -> list[Task]:
        """Read the tasks of a split."""
        return list(read_tasks(self.tasks / f"{split}.jsonl"))

    def file_of(self, book: str, split: str) -> Path:
        """Return the tasks of a split as a policy of this kind is asked them."""
        if book == "open":
            return self.tasks / f"{split}.jsonl"
        path = self.out / f"closed_{split}.jsonl"
        if not path.exists():
            lines = (self.tasks / f"{split}.jsonl").read_text("utf-8").splitlines()
            rows = [json.loads(line) for line in lines]
            text = "".join(
                json.dumps({k: v for k, v in row.items() if k != "context"}) + "\n"
                for row in rows
            )
            path.write_text(text, encoding="utf-8")
        return path

    def name(self, book: str, arm: str, seed: int) -> str:
        """Name the piece of an arm, which depends on the budget, or of the start."""
        budget = "" if arm == "start" else f"_{self.budget_s:g}s"
        return f"{book}_{arm}_{seed}{budget}"

    def piece(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a piece, made where its file is not there."""
        path = self.out / f"{name}.json"
        if not path.exists():
            before_s = time.process_time()
            made = make()
            made["all_cpu_s"] = round(time.process_time() - before_s, 1)
            path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
            mean = made["judged"]["rewards_N"]
            print(name, f"{100 * fmean(mean):.1f} %", made.get("cpu_s"), flush=True)
        return json.loads(path.read_text("utf-8"))

    def judged(
        self,
        policy: Policy,
        tasks: Sequence[Task],
        *,
        book: str,
        seed: int,
        shown: str = "",
    ) -> dict[str, Any]:
        """Sample an answer to each question, and have it judged."""
        asked = [
            task if book == "open" else task.model_copy(update={"context": None})
            for task in tasks
        ]
        views: list[Any] = [
            teacher_view(task, shown=shown) if shown else task.policy_view()  # type: ignore[arg-type]
            for task in asked
        ]
        rollouts = sample_groups(
            policy.model,
            [policy.codec.encode_prompt(view) for view in views],
            group_size=1,
            max_new_tokens=TOKENS,
            temperature=1.0,
            generator=torch.Generator().manual_seed(seed),
            eos_token_id=policy.codec.end_token_ids,
            pad_token_id=policy.codec.pad_token_id,
        )
        texts = [
            [policy.codec.decode(task.policy_view(), rollouts.response(row))]
            for row, task in enumerate(asked)
        ]
        return {
            "judged": self.score(tasks, texts),
            "answers": [text for (text,) in texts],
            "tokens": [len(rollouts.response(row)) for row in range(len(asked))],
        }

    def score(self, tasks: Sequence[Task], texts: list[list[str]]) -> dict[str, Any]:
        """Judge answers by the judge of the quickstart."""
        return anyio.run(judge_heldout, self.pool, tasks, texts).model_dump(mode="json")

    def started(self, book: str, seed: int) -> dict[str, Any]:
        """The start, as it is."""
        return self.asked(load_policy(self.start), book, seed=seed)

    def shown(self, shown: str) -> dict[str, Any]:
        """The start that is shown what a teacher is, closed-book, on validation questions."""
        policy = load_policy(self.start)
        return self.judged(policy, self.validation, book="closed", seed=0, shown=shown)

    def trained(self, book: str, arm: str, seed: int) -> dict[str, Any]:
        """Train by one arm, and answer the test questions."""
        clock = Clock()
        if arm == "sft":
            policy, rows = self._supervised(book, clock, seed=seed)
        else:
            policy, rows = self._by_run(book, arm, clock, seed=seed)
        asked = self.asked(policy, book, seed=seed)
        return {
            "cpu_s": round(sum(clock.steps_s), 1),
            "updates": len(clock.steps_s) * UPDATES[arm],
            "steps_s": [round(step_s, 2) for step_s in clock.steps_s],
            "steps": rows,
            **asked,
        }

    def asked(self, policy: Policy, book: str, *, seed: int) -> dict[str, Any]:
        """Ask the test questions, and one that was trained open-book without a context too."""
        answered = self.judged(policy, self.test, book=book, seed=seed)
        if book == "open":
            bare = self.judged(policy, self.test, book="closed", seed=seed)
            answered |= {"bare": bare["judged"], "bare_answers": bare["answers"]}
        return answered

    def _supervised(
        self, book: str, clock: Clock, *, seed: int
    ) -> tuple[Policy, list[float]]:
        policy = load_policy(self.start)
        tasks = read_tasks(self.file_of(book, "train"))
        examples = [one for task in tasks if (one := task.sft_example())]
        config = WARM.model_copy(update={"steps": ENDLESS, "learning_rate": RATE})
        losses: list[float] = []

        def on_step(step: Any) -> None:
            clock.end_step()
            losses.append(step.loss)
            if not further_steps(clock.steps_s, self.budget_s):
                raise _BudgetSpentError

        clock.begin()
        with contextlib.suppress(_BudgetSpentError):
            # Other examples than those of the warm start, whose seed is 0.
            sft(policy, examples, config, seed=100 + seed, on_step=on_step)
        return policy, losses

    def _by_run(
        self, book: str, arm: str, clock: Clock, *, seed: int
    ) -> tuple[Policy, list[float]]:
        folder = self.out / f"run_{book}_{arm}_{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        method = {"type": arm, **({} if arm == "grpo" else {"shown": SHOWN})}
        config = TrainConfig.model_validate(
            {
                "model": {"type": "path", "path": self.start},
                "method": method,
                "data": {"train": self.file_of(book, "train")},
                "rollout": {
                    "prompts": GROUPS[arm][0],
                    "group_size": GROUPS[arm][1],
                    "max_new_tokens": TOKENS,
                    "micro_batch": 4,
                },
                "optim": {
                    "learning_rate": RATE,
                    "weight_decay": 0.0,
                    "betas": [0.9, 0.99],
                    "warmup_steps": 0,
                    "updates_per_rollout": UPDATES[arm],
                },
                "checkpoint": {"every": 100, "keep": 1},
                "steps": 1,
                "seed": seed,
                "device": "cpu",
                "out": folder,
                **({"objective": {"kl_coef": 0.0}} if arm == "grpo" else {}),
            }
        )
        figures: list[float] = []

        def on_step(row: Any) -> None:
            clock.end_step()
            figures.append(row.reward_mean if arm == "grpo" else row.divergence)

        while further := further_steps(clock.steps_s, self.budget_s):
            steps = len(clock.steps_s) + further
            with Progress.silent() as progress, progress.watched(clock.look):
                run_grpo(
                    config.model_copy(update={"steps": steps}),
                    resume=steps > further,
                    on_step=on_step,
                    on_distilled=on_step,
                    progress=progress,
                )
            clock.rest()
        policy = load_policy(folder / "checkpoints" / "best")
        shutil.rmtree(folder / "checkpoints")
        return policy, figures

    def control(self, name: str) -> dict[str, Any]:
        """Answers that no model wrote, no longer than those of the policies."""
        codec = load_policy(self.start).codec
        usual = controls.usual_terms(self.read("train"))
        writers: dict[str, Callable[[Task], str]] = {
            "fixed_template": lambda task: fixed_template(task.question),
            "learned_template": lambda task: controls.learned_template(
                task.question, usual
            ),
            "reference": lambda task: task.reference_answer or "",
            **controls.of_context(),
        }
        texts = [
            [
                codec.decode(
                    task.policy_view(), codec.encode_text(writers[name](task))[:TOKENS]
                )
            ]
            for task in self.test
        ]
        return {"judged": self.score(self.test, texts)}


CONTROLS: Final = (
    "fixed_template",
    "learned_template",
    *controls.OF_CONTEXT,
    "reference",
)


def spread(tasks: Sequence[Task], count: int) -> list[Task]:
    """Take so many tasks from all over the list, which is in the order of the documents."""
    count = min(count, len(tasks))
    return [tasks[number * len(tasks) // count] for number in range(count)]


def pieces(
    bench: Bench, arms: Sequence[str], books: Sequence[str], seeds: int
) -> dict[str, Callable[[], dict[str, Any]]]:
    """Name all pieces, in the order in which they are made."""
    made: dict[str, Callable[[], dict[str, Any]]] = {}
    for name in CONTROLS:
        made[f"control_{name}"] = lambda name=name: bench.control(name)
    for book in books:
        for seed in range(seeds):
            made[f"{book}_start_{seed}"] = lambda book=book, seed=seed: bench.started(
                book, seed
            )
            for arm in arms:
                name = bench.name(book, arm, seed)
                made[name] = lambda book=book, arm=arm, seed=seed: bench.trained(
                    book, arm, seed
                )
    for shown in SHOWINGS:
        made[f"shown_{shown}"] = lambda shown=shown: bench.shown(shown)
    return made


Pair: TypeAlias = tuple[str, str]
LABELS: Final = {
    "start": "SFT, where all begin",
    "self_distillation": "self-distillation",
    "grpo": "GRPO",
    "sft": "SFT, longer",
}


def over_seeds(made: Sequence[dict[str, Any]], asked: str) -> Heldout:
    """Put runs of several seeds together: each question's mean over them."""
    first = Heldout.model_validate(made[0][asked])
    rewards_SN = [one[asked]["rewards_N"] for one in made]
    means = tuple(fmean(rewards) for rewards in zip(*rewards_SN, strict=True))
    return first.model_copy(update={"rewards_N": means, "samples": len(made)})


def told(
    bench: Bench,
    found: dict[str, dict[str, Any]],
    arms: Sequence[str],
    books: Sequence[str],
    seeds: int,
) -> dict[str, Any]:
    """Print the tables and return the record."""
    details: dict[str, Any] = {
        "budget_s": bench.budget_s,
        "seeds": seeds,
        "shown": {},
        "tables": {},
    }
    for shown in SHOWINGS:
        reward = Heldout.model_validate(found[f"shown_{shown}"]["judged"])
        details["shown"][shown] = with_interval(reward.interval())
    print("start, shown what a teacher is, validation questions:", details["shown"])
    differences: list[Difference] = []
    for book in books:
        by_arm = {
            arm: [found[bench.name(book, arm, seed)] for seed in range(seeds)]
            for arm in ("start", *arms)
        }
        titles = {"judged": f"trained and asked {book}-book"}
        if book == "open":
            titles["bare"] = "trained open-book, asked closed-book"
        for asked, title in titles.items():
            comparison = compared(found, by_arm, asked)
            details["tables"][title] = table_of(comparison, by_arm, asked, title)
            differences.append(comparison.difference("self_distillation", "grpo"))
    first = differences[0]
    value = 100 * first.mean
    print(f"{value:+.1f} ({first.in_percent()}) points (target {TARGET})")
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at least",
        "passed": value >= TARGET,
        "details": details,
    }


def compared(
    found: dict[str, dict[str, Any]],
    by_arm: dict[str, list[dict[str, Any]]],
    asked: str,
) -> Comparison:
    """Compare the arms over the seeds, each with the others and with the controls."""
    stages = {arm: over_seeds(made, asked) for arm, made in by_arm.items()}
    others = {
        name: Heldout.model_validate(found[f"control_{name}"]["judged"])
        for name in CONTROLS
    }
    rivals = [name for name in CONTROLS if name != "reference"]
    mine = [arm for arm in by_arm if arm != "self_distillation"]
    pairs = [("self_distillation", other) for other in (*mine, *rivals)]
    pairs += [(arm, "start") for arm in mine if arm != "start"]
    return compare(stages, controls=others, labels=LABELS, differences=pairs)


def of_seeds(
    by_arm: dict[str, list[dict[str, Any]]], asked: str, pairs: Sequence[Pair]
) -> dict[Pair, list[Difference]]:
    """Compare the arms within each seed."""
    seeds = range(len(by_arm["start"]))
    comparisons = [
        compare(
            {arm: over_seeds([made[seed]], asked) for arm, made in by_arm.items()},
            differences=pairs,
        )
        for seed in seeds
    ]
    return {pair: [one.difference(*pair) for one in comparisons] for pair in pairs}


def table_of(
    comparison: Comparison,
    by_arm: dict[str, list[dict[str, Any]]],
    asked: str,
    title: str,
) -> dict[str, Any]:
    """Print a table, and return its figures."""
    by_seed = {
        arm: [fmean(one[asked]["rewards_N"]) for one in made]
        for arm, made in by_arm.items()
    }
    spent = {
        arm: [
            {name: one[name] for name in ("cpu_s", "updates")}
            for one in made
            if "cpu_s" in one
        ]
        for arm, made in by_arm.items()
    }
    rows = {**comparison.stages, **comparison.controls}
    table = Table(title, "reward", "by seed", "CPU-s of training", "updates")
    for name, row in rows.items():
        seeds = ", ".join(f"{100 * mean:.1f}" for mean in by_seed.get(name, ()))
        cpu_s = ", ".join(f"{one['cpu_s']:.0f}" for one in spent.get(name, ()))
        updates = ", ".join(f"{one['updates']}" for one in spent.get(name, ()))
        table.add_row(row.label, with_interval(row), seeds, cpu_s, updates)
    console = Console(width=140)
    console.print(table)
    pairs = [
        (one.a, one.b)
        for one in comparison.differences
        if one.a in by_arm and one.b in by_arm
    ]
    in_seeds = of_seeds(by_arm, asked, pairs)
    differences: dict[str, list[str]] = {}
    compared = Table("difference", "seeds together", "by seed")
    for one in comparison.differences:
        name = f"{one.a} - {one.b}"
        together, *by = map(in_points, [one, *in_seeds.get((one.a, one.b), ())])
        differences[name] = [together, *by]
        compared.add_row(name, together, ", ".join(by))
    console.print(compared)
    return {
        "rewards": {name: with_interval(row) for name, row in rows.items()},
        "by_seed": by_seed,
        "spent": spent,
        "differences": differences,
    }


def with_interval(reward: Interval) -> str:
    """Give a mean in per cent."""
    return f"{100 * reward.mean:.1f} ({reward.in_percent()})"


def in_points(difference: Difference) -> str:
    """Give a difference with its interval."""
    return f"{100 * difference.mean:+.1f} ({difference.in_percent()})"


def main() -> None:
    """Make the pieces, print the tables, and end with the record."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--budget", type=float, default=BUDGET_S, help="CPU-seconds of an arm"
    )
    parser.add_argument("--out", type=Path, help="keep the pieces here")
    parser.add_argument(
        "--quickstart", type=Path, help="folder that examples/quickstart.py has left"
    )
    parser.add_argument("--pieces", nargs="+", help="only these, and no table")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--trained", nargs="+", choices=BOOKS, default=BOOKS)
    parser.add_argument(
        "--quick", action="store_true", help="one step, two questions: proves nothing"
    )
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        record = recorded(options, options.out or Path(temporary))
    if record is None:
        return
    finish(record, options.json)


def recorded(options: argparse.Namespace, out: Path) -> dict[str, Any] | None:
    """Make the pieces that are asked for; return the record where they are all."""
    seeds = 1 if options.quick else options.seeds
    budget_s = 0.0 if options.quick else options.budget
    bench = Bench(out, options.quickstart, budget_s=budget_s, quick=options.quick)
    makers = pieces(bench, options.arms, options.trained, seeds)
    found = {name: bench.piece(name, makers[name]) for name in options.pieces or makers}
    if options.pieces:
        return None
    return told(bench, found, options.arms, options.trained, seeds)


if __name__ == "__main__":
    main()
