"""What is asked of every model, checked and built as a whole before anybody is asked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Final

from rubric_core import ConfigError, Decoding, PolicyView
from rubric_eval.errors import BenchmarkDataError
from rubric_eval.records import EvalRun, QuestionRow, Questions
from rubric_eval.records.run import check_models, check_plan, now
from rubric_eval.transfer.building import Built, build
from rubric_eval.transfer.suites import SUITES, Benchmark, SuiteName

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rubric_eval.records import ModelEntry

_VERSIONED: Final = ("rubric-core", "rubric-eval", "lm-eval", "math-verify")


@dataclass(frozen=True)
class ItemQuestion:
    """An item of a benchmark as it is asked; an `answers.Question`."""

    task_id: str
    prompt: str

    @property
    def doc_hash(self) -> str:
        """Each item is a document of its own."""
        return self.task_id

    def policy_view(self) -> PolicyView:
        """Return what the model may see: the prompt, without the target."""
        return PolicyView(task_id=self.task_id, question=self.prompt)


@dataclass(frozen=True, kw_only=True)
class TransferPlan:
    """Benchmarks, with every prompt, and how they are asked.

    Raises:
        ConfigError: something that is no plan, such as a seed that is there twice.
    """

    suite: SuiteName
    built: tuple[Built, ...]
    decoding: Decoding
    """Tokens and stops are each benchmark's own."""
    seeds: tuple[int, ...] = (0,)
    max_unavailable_frac: float = 0.05

    def __post_init__(self) -> None:
        """Check."""
        check_plan(seeds=self.seeds, max_unavailable_frac=self.max_unavailable_frac)

    @property
    def answers(self) -> int:
        """Answers of each model."""
        return len(self.seeds) * sum(len(built.ids) for built in self.built)

    def manifest(self, models: Sequence[ModelEntry]) -> EvalRun:
        """Return what run.json says of this plan alone.

        Raises:
            ConfigError: no model, or two with one name.
        """
        check_models(models)
        templates = {built.benchmark.task: built.template for built in self.built}
        canonical = json.dumps(sorted(templates.items()), separators=(",", ":"))
        return EvalRun(
            kind="transfer",
            started=now(),
            models=tuple(models),
            questions={built.benchmark.task: _questions(built) for built in self.built},
            decoding=self.decoding,
            seeds=self.seeds,
            template=hashlib.sha256(canonical.encode()).hexdigest(),
            suite=self.suite,
            templates=templates,
            max_tokens={built.benchmark.task: built.decoding.max_tokens for built in self.built},
            stops={built.benchmark.task: tuple(built.decoding.stop) for built in self.built},
            versions={name: metadata.version(name) for name in _VERSIONED},
        )

    def question_rows(self) -> list[QuestionRow]:
        """Return every prompt once: a question of GPQA Diamond is one of Main too."""
        rows = {
            (item.item_id, prompt): QuestionRow(
                task_id=item.item_id, doc_hash=item.item_id, question=prompt, field=item.group
            )
            for built in self.built
            for item, prompt in zip(built.items, built.prompts, strict=True)
        }
        return list(rows.values())


def plan_transfer(  # noqa: PLR0913  # what a command has as flags
    *,
    suite: SuiteName = SuiteName.PAPER,
    benchmarks: Sequence[str] = (),
    data: str | Path | None = None,
    decoding: Decoding | None = None,
    max_tokens: int | None = None,
    limit: int | None = None,
    seeds: tuple[int, ...] = (0,),
    max_unavailable_frac: float = 0.05,
) -> TransferPlan:
    """Build the benchmarks of a suite.

    Args:
        suite: "paper" or "stock".
        benchmarks: some of them, by data ("gsm8k") or task ("rubric_gsm8k"); all when left out.
        data: a folder of local copies, "small", or None for the Hub.
        decoding: temperature, top_p and top_k; greedy when left out.
        max_tokens: tokens of an answer, in place of each benchmark's own.
        limit: only so many items of each, to try something out.
        seeds: each gives every item an answer of its own.
        max_unavailable_frac: see `run_transfer`.

    Raises:
        ConfigError: an unknown benchmark, or a value that fits nothing.
        BenchmarkDataError: data is missing or not well formed.
        MissingExtraError: lm-eval is not installed.
    """
    decoding = decoding or Decoding()
    chosen = _chosen(suite, benchmarks)
    if max_tokens is not None and max_tokens < 1:
        raise ConfigError(f"max-tokens {max_tokens} must be at least 1", location="max-tokens")
    try:
        built = build(chosen, data=data, decoding=decoding, max_tokens=max_tokens, limit=limit)
    except BenchmarkDataError as error:
        names = " ".join(one.data for one in chosen)
        raise BenchmarkDataError(
            f"{error}. To leave a benchmark out, name the others: --benchmarks, of {names}"
        ) from error
    return TransferPlan(
        suite=suite,
        built=tuple(built),
        decoding=decoding,
        seeds=seeds,
        max_unavailable_frac=max_unavailable_frac,
    )


def _chosen(suite: SuiteName, names: Sequence[str]) -> tuple[Benchmark, ...]:
    known = SUITES[suite]
    unknown = sorted(set(names) - {name for one in known for name in (one.data, one.task)})
    if unknown:
        raise ConfigError(
            f"{unknown[0]!r} is no benchmark of suite {suite.value!r}: take some of "
            f"{', '.join(one.data for one in known)}",
            location="benchmarks",
        )
    return tuple(one for one in known if not names or {one.data, one.task} & set(names))


def _questions(built: Built) -> Questions:
    return Questions(source=built.source, sha256=built.sha256, count=len(built.ids))
