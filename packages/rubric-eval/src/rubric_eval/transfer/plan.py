"""Plans of transfer evaluations, built as a whole before any model is asked, and their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from rubric_core import Decoding, ScoresChoices
from rubric_core.files import text_sha256
from rubric_core.strict_json import canonical_json
from rubric_eval.answers.collecting import ItemQuestion, check_weights, stream_answers
from rubric_eval.errors import (
    BenchmarkDataError,
    EvalConfigError,
    Failures,
    TransferAbortError,
)
from rubric_eval.records import files, inputs, joining
from rubric_eval.records.files import AnswerRow, QuestionRow
from rubric_eval.records.run import EvalPlan, EvalRun, ModelEntry, Questions
from rubric_eval.responders.opening import OpenModel
from rubric_eval.transfer.building import Built, build, scored_items
from rubric_eval.transfer.suites import SUITES, Benchmark, SuiteName
from rubric_eval.transfer.table import TransferTable, has_items, transfer_table

OnProgress = Callable[[str, str, int], object]
"""Callback for every answer, with model, benchmark, and the number of answers there will be."""


async def run_transfer(
    out: Path,
    plan: TransferPlan,
    models: Sequence[OpenModel],
    *,
    on_progress: OnProgress = lambda _model, _benchmark, _n: None,
) -> TransferTable:
    """Have models answer the same benchmarks, score all alike, and write the table.

    Answers that the folder already holds, from a stopped run or a run with other models, are not
    generated again; they are scored anew.

    Args:
        out: folder of the evaluation, a new one or one of the same benchmarks.
        plan: the benchmarks and how they are asked.
        models: models, each closed after its answers, and all of them at the end in any case.
        on_progress: called after every answer.

    Returns:
        The paper's Table 2, also in transfer.json.

    Raises:
        FolderLockError: another evaluation is running in the folder.
        EvalFolderError: the folder holds an evaluation of something else.
        TransferAbortError: a model left more of a benchmark's items without an answer than allowed;
            its answers are kept, and there is no table.
        ConfigError, ResponderError, EvalWriteError, OSError: a part of the evaluation failed.
    """
    folder = inputs.EvalFolder(out)
    async with joining.closing(*(model.aclose for model in models)):
        manifest = plan.manifest([model.entry for model in models])
        _refuse_unable(plan, models)
        with folder.locked():
            run = joining.joined(folder, manifest)
            for model in models:
                check_weights(folder, model)
            with joining.recorded_run(folder, run, table=folder.transfer):
                files.write_rows(folder.questions, plan.question_rows())
                for model in models:
                    async with model:  # closed, as the next model may need its memory
                        await _evaluate(folder, plan, model, on_progress)
                # A model that an earlier run began but did not finish is left out; its answers
                # stay.
                done = [
                    entry
                    for entry in run.models
                    if has_items(folder, run, model=entry.name)
                ]
                ended = joining.finished(run, models=tuple(done))
                table = transfer_table(folder, ended)
                files.write_json(folder.transfer, table)
                files.write_finished_run(folder, ended)
    return table


def _refuse_unable(plan: TransferPlan, models: Sequence[OpenModel]) -> None:
    """Refuse models that cannot say how likely a choice is, before any model is asked."""
    choosing = [built.benchmark.task for built in plan.built if built.choices]
    if not choosing:
        return
    for model in models:
        responder = model.responder
        if not isinstance(responder, ScoresChoices) or not responder.scores_choices:
            raise EvalConfigError(
                f"{model.name} ({model.entry.spec}) does not say how likely an answer is, as "
                f"{choosing[0]} asks: give a folder, hf:DIR or policy:DIR, or take --suite "
                "paper",
                location="models",
            )


async def _evaluate(
    folder: inputs.EvalFolder,
    plan: TransferPlan,
    model: OpenModel,
    on_progress: OnProgress,
) -> None:
    """Get all answers before any is scored: a model that fails at the end has no scores."""
    answered: list[tuple[Built, dict[int, dict[str, AnswerRow]]]] = []
    for built in plan.built:
        by_seed: dict[int, dict[str, AnswerRow]] = {seed: {} for seed in plan.seeds}
        total = len(built.ids) * len(plan.seeds)
        questions = [
            ItemQuestion(item_id, prompt, built.choices)
            for item_id, prompt in zip(built.ids, built.prompts, strict=True)
        ]
        stream = stream_answers(
            model, questions, folder=folder, decoding=built.decoding, seeds=plan.seeds
        )
        async with aclosing(stream):
            async for seed, row in stream:
                by_seed[seed][row.task_id] = row
                on_progress(model.name, built.benchmark.task, total)
        rows = [row for by_item in by_seed.values() for row in by_item.values()]
        _refuse_unanswered(model.name, built, rows, plan.max_unavailable_frac)
        answered.append((built, by_seed))
    for built, by_seed in answered:
        for seed, by_item in by_seed.items():
            items = scored_items(built, by_item)
            files.write_rows(
                folder.items(built.benchmark.task, model.name, seed), items
            )


def _refuse_unanswered(
    model: str, built: Built, rows: Sequence[AnswerRow], allowed: float
) -> None:
    """Check each model and benchmark alone: answers of others must not hide its failures."""
    failed = Failures()
    for row in rows:
        if row.text is None:
            failed.add(str(row.reason), row.detail)
    if failed.exceed(allowed, of=len(rows)):
        saved = len(rows) - failed.total
        raise TransferAbortError(
            f"{model} gave no answer to {failed.total} of {len(rows)} items of "
            f"{built.benchmark.task}: {failed}. At most {100 * allowed:g} % "
            "(--max-unavailable-frac), and never all, may lack one. See to the model. Nothing is "
            f"lost: {saved} of these answers, and all others that came, are kept; the same command "
            "goes on from there",
            unavailable_frac=failed.share(len(rows)),
            reasons=failed.by_reason,
        )


@dataclass(frozen=True, kw_only=True)
class TransferPlan(EvalPlan):
    """Benchmarks with every prompt, and how they are decoded; each has its own limit and stops.

    Raises:
        ConfigError: the plan is not valid, for example a seed occurs twice.
    """

    suite: SuiteName
    built: tuple[Built, ...]

    def manifest(self, models: Sequence[ModelEntry]) -> EvalRun:
        """Return the manifest, run.json, of this plan alone.

        Raises:
            ConfigError: there is no model, or two models have one name.
        """
        questions: dict[str, Questions] = {}
        templates: dict[str, str] = {}
        max_tokens: dict[str, int] = {}
        stops: dict[str, tuple[str, ...]] = {}
        for built in self.built:
            name = built.benchmark.task
            questions[name] = Questions(
                source=built.source, sha256=built.sha256, count=len(built.ids)
            )
            templates[name] = built.template
            max_tokens[name] = built.decoding.max_tokens
            stops[name] = tuple(built.decoding.stop)
        return self.run_of(
            models,
            packages=("rubric-core", "rubric-eval", "lm-eval", "math-verify"),
            kind="transfer",
            questions=questions,
            template=text_sha256(canonical_json(sorted(templates.items()))),
            suite=self.suite,
            templates=templates,
            max_tokens=max_tokens,
            stops=stops,
        )

    def question_rows(self) -> list[QuestionRow]:
        """Return every prompt once: questions of GPQA Diamond are in GPQA Main too."""
        rows = {
            (item.item_id, prompt): QuestionRow(
                task_id=item.item_id,
                doc_hash=item.item_id,
                question=prompt,
                field=item.group,
            )
            for built in self.built
            for item, prompt in zip(built.items, built.prompts, strict=True)
        }
        return list(rows.values())


def plan_transfer(  # noqa: PLR0913  # the flags of a command
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
        suite: "paper", "likelihood" or "stock".
        benchmarks: some of its benchmarks, by data ("gsm8k") or task ("rubric_gsm8k"); all by
            default.
        data: folder of local copies, "small", or None for the Hub.
        decoding: temperature, top_p and top_k; greedy by default.
        max_tokens: tokens of an answer, at least 1, in place of each benchmark's own.
        limit: number of items of each benchmark, for a trial.
        seeds: seeds, each of which gives every item an answer of its own.
        max_unavailable_frac: see `run_transfer`.

    Raises:
        ConfigError: a benchmark is unknown, or a value does not fit the suite.
        BenchmarkDataError: data is missing or not well formed.
        MissingExtraError: lm-eval is not installed.
    """
    decoding = decoding or Decoding()
    chosen = _chosen(suite, benchmarks)
    if suite is SuiteName.LIKELIHOOD and (
        decoding != Decoding() or max_tokens or len(seeds) > 1
    ):
        raise EvalConfigError(
            f"suite {suite.value!r} compares how likely the choices are, and draws nothing: "
            "leave temperature, top-p, top-k, max-tokens and further seeds out",
            location="suite",
        )
    try:
        built = build(
            chosen, data=data, decoding=decoding, max_tokens=max_tokens, limit=limit
        )
    except BenchmarkDataError as error:
        names = " ".join(benchmark.data for benchmark in chosen)
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
    known_names = {benchmark.data for benchmark in known}
    known_names.update(benchmark.task for benchmark in known)
    unknown = sorted(set(names) - known_names)
    if unknown:
        names = ", ".join(benchmark.data for benchmark in known)
        raise EvalConfigError(
            f"{unknown[0]!r} is no benchmark of suite {suite.value!r}: take some of {names}",
            location="benchmarks",
        )
    return tuple(
        benchmark
        for benchmark in known
        if not names or {benchmark.data, benchmark.task} & set(names)
    )
