"""Documents in, a better policy out: the whole pipeline on two cores, with no model at hand.

numpy's and scipy's own documentation becomes questions with hidden passages and weighted rubrics; a
Llama of about a million parameters is pre-trained on the training documents, warm-started on their
reference answers (SFT) and trained by GRPO on a judge's scores; all three stages then answer the
same test questions, from documents that no training question used.

    uv run python examples/quickstart.py --out runs/q [--seed N] [--fast]
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import structlog
import torch
from cyclopts import App, Parameter
from rich.console import Console
from rich.markdown import Markdown
from transformers.utils.logging import disable_progress_bar

from rubric_core import SftExample, Task, read_tasks
from rubric_eval import (
    Comparison,
    Heldout,
    best_temperature,
    blind_pairing,
    compare,
    judge_heldout,
)
from rubric_judge import JudgePool, LexicalJudge
from rubric_judge.console.progress import Progress, current
from rubric_synth import collect, read_collected, synthesise
from rubric_synth.stats.controls import fixed_template
from rubric_train_openrlhf import TrainConfig, load_config, run_grpo, write_report
from rubric_train_openrlhf.policy import (
    Policy,
    PretrainConfig,
    SftConfig,
    TinyConfig,
    build_tiny_policy,
    load_policy,
    pretrain,
    sample_groups,
    sft,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_train_openrlhf.policy import SupervisedStep

PRESET = Path(__file__).parents[1] / "configs" / "train" / "quickstart.yaml"
SOURCES = ("python:numpy", "python:scipy")
TEMPERATURE = 0.8
COOLER_TEMPERATURES = (0.8, 0.7, 0.6, 0.5, 0.4)
CLAIM = (
    "A model of this size learns which behaviours the rubrics reward, such as naming, listing and "
    "ordering, and not the subject: the document-blind rows, the same answers filled with another "
    "question's names and judged there, keep most of the reward."
)
LABELS = {
    "base": "Base: pre-trained",
    "sft": "SFT: warm-started",
    "grpo": "GRPO: rewarded",
    "fixed_template": "fixed template, names filled in",
    "reference": "reference answers",
    "sft_cooled": "SFT at its best temperature",
    "sft_greedy": "SFT, greedy",
    "base_blind": "Base, document-blind",
    "sft_blind": "SFT, document-blind",
    "grpo_cooled": "GRPO at its best temperature",
    "grpo_greedy": "GRPO, greedy",
    "grpo_blind": "GRPO, document-blind",
}
DIFFERENCES = (
    ("sft", "base"),
    ("grpo", "sft"),
    ("grpo", "sft_cooled"),
    ("grpo_cooled", "sft_cooled"),
    ("grpo_greedy", "sft_greedy"),
    ("grpo_blind", "sft_blind"),
    ("grpo", "fixed_template"),
)
console = Console()


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    pretrain_steps: int
    sft_steps: int
    grpo_steps: int
    prompts: int
    group_size: int
    questions: int
    samples: int


FULL = Scale(200, 300, 60, prompts=8, group_size=12, questions=120, samples=4)
FAST = Scale(40, 60, 4, prompts=4, group_size=6, questions=20, samples=2)


def main(
    *,
    out: Path = Path("runs/quickstart"),
    seed: int = 0,
    fast: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run the pipeline and prove what was learned.

    Args:
        out: Folder for everything: data, policies, run folder, summary.json and report.html.
        seed: Of everything random.
        fast: Walk the same path in a minute or two; its rewards claim nothing.
    """
    start = time.monotonic()
    scale = FAST if fast else FULL
    keep_older(out)
    quieten()
    with Progress.of("quickstart", at_once=True):
        train, validation, test = documents_to_tasks(out)
        policies = {"base": pretrained(out / "documents", train, scale, seed=seed)}
        policies["base"].save(out / "base")
        policies["sft"] = warm_started(out / "base", train, scale, seed=seed)
        policies["sft"].save(out / "sft")
        policies["grpo"] = rewarded(out, scale, seed=seed)
        held_out = (spread(validation, scale.questions // 2), spread(test, scale.questions))
        proof = Proof(*held_out, samples=scale.samples, seed=seed)
        comparison = proof.compare(policies)
    finish(out, comparison, wall_s=time.monotonic() - start)


def keep_older(out: Path) -> None:
    """Move what an earlier run left at the same place aside."""
    if not out.exists():
        return
    number = 1
    while (aside := out.with_name(f"{out.name}-older-{number}")).exists():
        number += 1
    out.rename(aside)
    console.print(f"{out} was there already: moved to {aside}")


def quieten() -> None:
    """Leave the screen to the progress bars, and the second core to others."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    disable_progress_bar()
    torch.set_num_threads(1)  # the same figures on any number of cores; these matrices are small


def documents_to_tasks(out: Path) -> list[list[Task]]:
    """Collect documents, write rubrics, split by document."""
    with current().phase("reading documentation", unit="documents") as phase:
        collected = collect(SOURCES, out / "documents", on_progress=lambda _: phase.advance())
    with current().phase("writing rubrics", total=collected.documents) as phase:
        dataset = synthesise(collected.out, out / "tasks", on_document=lambda _: phase.advance())
    console.print(
        f"{collected.documents} documents gave {dataset.tasks}, left out: {dataset.rejected}"
    )
    return [
        list(read_tasks(out / "tasks" / f"{split}.jsonl"))
        for split in ("train", "validation", "test")
    ]


def spread(tasks: Sequence[Task], count: int) -> Sequence[Task]:
    """Take so many tasks from all over the list, which is in the order of the documents."""
    count = min(count, len(tasks))
    return [tasks[number * len(tasks) // count] for number in range(count)]


def pretrained(documents: Path, tasks: Sequence[Task], scale: Scale, *, seed: int) -> Policy:
    """Build a tiny Llama and let it read the training questions' documents, and no others."""
    hashes = {task.doc_hash for task in tasks}
    texts = [one.text for one in read_collected(documents) if one.doc_hash in hashes]
    answers = [f"{task.question}\n{task.reference_answer}" for task in tasks]
    policy = build_tiny_policy(texts + answers, TinyConfig(), seed=seed)
    config = PretrainConfig(steps=scale.pretrain_steps)
    with current().phase("pre-training", total=config.steps, unit="steps") as phase:

        def note(step: SupervisedStep) -> None:
            phase.advance(note=f"loss {step.loss:.3f}")

        pretrain(policy, texts, config, seed=seed, progress=note)
    return policy


def warm_started(base: Path, tasks: Sequence[Task], scale: Scale, *, seed: int) -> Policy:
    """Train on the reference answers of the training questions."""
    policy = load_policy(base)
    examples = [
        SftExample(task_id=task.task_id, question=task.question, answer=task.reference_answer)
        for task in tasks
        if task.reference_answer
    ]
    config = SftConfig(steps=scale.sft_steps, max_prompt_tokens=160, max_answer_tokens=96)
    with current().phase("warm start (SFT)", total=config.steps, unit="steps") as phase:

        def note(step: SupervisedStep) -> None:
            phase.advance(note=f"loss {step.loss:.3f}")

        sft(policy, examples, config, seed=seed, on_step=note)
    return policy


def rewarded(out: Path, scale: Scale, *, seed: int) -> Policy:
    """Train on the judge's scores; the best checkpoint by held-out reward is the result."""
    preset = load_config(PRESET).model_dump()
    config = TrainConfig.model_validate(
        preset
        | {
            "model": {"type": "path", "path": out / "sft"},
            "sft": None,
            "data": {
                "train": out / "tasks" / "train.jsonl",
                "validation": out / "tasks" / "validation.jsonl",
            },
            "rollout": preset["rollout"]
            | {"prompts": scale.prompts, "group_size": scale.group_size},
            "steps": scale.grpo_steps,
            "seed": seed,
            "out": out,
        }
    )
    run_grpo(config, progress=current())
    return load_policy(out / "checkpoints" / "best")


class Proof:
    """One judge and one set of questions for all; the test split is touched here only."""

    def __init__(
        self, validation: Sequence[Task], test: Sequence[Task], *, samples: int, seed: int
    ) -> None:
        """Take the questions."""
        self._validation, self._test = validation, test
        self._samples, self._seed = samples, seed
        self._pool = JudgePool(LexicalJudge())

    def compare(self, policies: dict[str, Policy]) -> Comparison:
        """Judge the three stages, and the controls that say what their gain means."""
        stages: dict[str, Heldout] = {}
        controls = {
            "fixed_template": self._judge(
                self._test, [[fixed_template(task.question)] for task in self._test]
            ),
            "reference": self._judge(
                self._test, [[task.reference_answer or ""] for task in self._test]
            ),
        }
        others = [self._test[index] for index in blind_pairing(self._test, seed=self._seed)]
        with current().phase("held-out questions", total=7) as phase:
            for name, policy in policies.items():
                answers = self._answers(policy, self._test, TEMPERATURE)
                stages[name] = self._judge(self._test, answers.read_as(self._test))
                # The same answers, filled with another question's names and judged there.
                controls[f"{name}_blind"] = self._judge(others, answers.read_as(others))
                phase.advance(note=f"{name}: reward {stages[name].mean:.3f}")
            for name in ("sft", "grpo"):
                cooled = self._best_temperature(policies[name])
                controls[f"{name}_cooled"] = self._sampled(policies[name], self._test, cooled)
                phase.advance(note=f"{name}: best temperature {cooled}")
                controls[f"{name}_greedy"] = self._sampled(policies[name], self._test, 0.0)
                phase.advance()
        return compare(
            stages, controls=controls, labels=LABELS, differences=DIFFERENCES, claim=CLAIM
        )

    def _judge(self, tasks: Sequence[Task], responses_NK: list[list[str]]) -> Heldout:
        return anyio.run(judge_heldout, self._pool, tasks, responses_NK)

    def _answers(self, policy: Policy, tasks: Sequence[Task], temperature: float) -> Answers:
        samples = self._samples if temperature > 0 else 1
        return Answers(policy, tasks, samples=samples, temperature=temperature, seed=self._seed)

    def _sampled(self, policy: Policy, tasks: Sequence[Task], temperature: float) -> Heldout:
        return self._judge(tasks, self._answers(policy, tasks, temperature).read_as(tasks))

    def _best_temperature(self, policy: Policy) -> float:
        return best_temperature(
            {one: self._sampled(policy, self._validation, one) for one in COOLER_TEMPERATURES},
            test_task_ids=[task.task_id for task in self._test],
        )


class Answers:
    """K responses of a policy to each of N questions, as tokens."""

    _AT_ONCE = 24

    def __init__(
        self, policy: Policy, tasks: Sequence[Task], *, samples: int, temperature: float, seed: int
    ) -> None:
        """Sample them; the policy is given its view of each task and nothing else."""
        self._codec = policy.codec
        self._tokens_NK: list[list[tuple[int, ...]]] = []
        generator = torch.Generator().manual_seed(seed)
        for first in range(0, len(tasks), self._AT_ONCE):
            views = [task.policy_view() for task in tasks[first : first + self._AT_ONCE]]
            rollouts = sample_groups(
                policy.model,
                [policy.codec.encode_prompt(view) for view in views],
                group_size=samples,
                max_new_tokens=96,
                temperature=temperature,
                generator=generator,
                eos_token_id=policy.codec.end_token_ids,
                pad_token_id=policy.codec.pad_token_id,
            )
            rows = [rollouts.response(row) for row in range(len(views) * samples)]
            self._tokens_NK += [rows[i : i + samples] for i in range(0, len(rows), samples)]

    def read_as(self, tasks: Sequence[Task]) -> list[list[str]]:
        """Turn tokens into text, slots filled with the names of these tasks' questions."""
        return [
            [self._codec.decode(task.policy_view(), tokens) for tokens in tokens_K]
            for task, tokens_K in zip(tasks, self._tokens_NK, strict=True)
        ]


def finish(out: Path, comparison: Comparison, *, wall_s: float) -> None:
    """Write what was proved beside the run, and show it."""
    (out / "comparison.json").write_text(
        json.dumps(comparison.to_json(), indent=1), encoding="utf-8"
    )
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    shown = comparison.to_json()
    summary |= {name: shown[name] for name in ("heldout", "differences", "claim")}
    summary |= {"pipeline_wall_s": round(wall_s, 1)}
    (out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    report = write_report(out)
    console.print(Markdown(comparison.markdown()))
    console.print(f"{wall_s:.0f} s; figures in {out / 'summary.json'}, pictures in {report}")


if __name__ == "__main__":
    app = App(help="Documents in, a better policy out, on two cores.")
    app.default(main)
    app()
