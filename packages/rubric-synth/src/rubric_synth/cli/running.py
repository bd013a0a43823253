"""`rubric-synth collect | run`: documents, and the dataset that is made of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Literal, NoReturn

import rubric_synth
from rubric_core.errors import RubricError
from rubric_judge.errors import JudgeSetupError
from rubric_judge.ui.console.command import Positive, Terminated, typed_command, working
from rubric_judge.ui.console.progress import Phase, Steps
from rubric_synth.cli import console
from rubric_synth.errors import UnfinishedError

_STATUS = {"cost": 3, "unpriced": 5, "unavailable": 4}
_BY_SIGNAL = 128
"""Difference of the status of a command that a signal ended and the signal's number."""
_STEPS = {
    "reading": ("reading", "documents"),
    "comparing": ("looking for duplicates", ""),
    "writing": ("writing the documents", ""),
}
"""Name of each step of `collect`, and the noun for what it counts."""


@console.app.command(name="collect")
def collect_command(
    *sources: str,
    out: Path,
    config: Path | None = None,
) -> None:
    """Read sources into a folder of distinct, cleaned documents.

    A source is one of:

    - a folder of the files below, with its subfolders, or one such file;

    - text (.txt), Markdown (.md), HTML and PDF files, reStructuredText (.rst), LaTeX (.tex),
      notebooks (.ipynb), Word (.docx), OpenDocument, EPUB and Org files: one document each;

    - JSONL, JSON and Parquet files: one document for each record;

    - hf:PATH or hf:PATH:SPLIT: a data set that `datasets.load_dataset` opens;

    - python:PACKAGE: the documentation of an installed package.

    Collecting into the same folder again keeps the documents that the sources still give, and
    adds the new ones after them.

    Args:
        sources: Folders, files, hf:PATH[:SPLIT] and python:PACKAGE, any number of them.
        out: Folder to write, outside all sources.
        config: YAML file; its `collect` part is used.
    """
    settings = (
        rubric_synth.load_config(config) if config else rubric_synth.SynthConfig()
    )
    _tell_of_the_network(sources)
    with working(console.app) as progress, Steps(progress) as steps:
        show = partial(_show, steps)
        report = rubric_synth.collect(
            sources, out, config=settings.collect, on_progress=show
        )
    _print_reasons(out, report.rejected, settings)
    if len(report.by_source) > 1:
        rows = (
            (
                name,
                str(counts["documents"]),
                str(sum(counts.values()) - counts["documents"]),
            )
            for name, counts in report.by_source.items()
        )
        console.print_table(
            "Sources",
            ("source",),
            ("documents", "left out"),
            rows,
        )
    if report.stayed or report.gone:
        console.print_line(
            f"{report.stayed} documents stayed, {report.documents - report.stayed} are new, "
            f"{report.gone} are no longer in the sources"
        )
    console.print_line(f"{report.documents} documents in {report.out}")
    if warning := few_collected(report):
        console.warn(warning)


def _tell_of_the_network(sources: Sequence[str]) -> None:
    """Say, before it happens, that the library asks the network, which may take long."""
    for source in sources:
        path = source.removeprefix("hf:")
        places = (path, path.rpartition(":")[0] or path)
        if path != source and not any(Path(place).exists() for place in places):
            console.warn(
                f"{source} is no folder here: asking the Hugging Face Hub, which takes "
                "minutes where it does not answer; with HF_HUB_OFFLINE=1 only what was "
                "downloaded is read"
            )


def _show(steps: Steps, at: rubric_synth.CollectProgress) -> None:
    name, unit = _STEPS[at.step]
    phase = steps.to(name, unit=unit)
    if unit:
        phase.done = at.read
        phase.note = f"{at.left_out:,} left out"


@console.app.command
def run(  # noqa: PLR0913 - what to replace of the configuration
    collected: Path,
    *,
    out: Path,
    config: Path | None = None,
    limit: Positive | None = None,
    max_cost_usd: float | None = None,
    engine: Literal["local", "ray"] | None = None,
    context: str | None = None,
) -> None:
    """Turn a collected folder into a dataset: train, validation and test tasks.

    Goes on where an earlier run into the same folder ended, however it ended: what was answered is
    not asked again. Ends with status 3 where the ceiling on costs is reached, 4 where a model or
    judge does not answer, at the start or for any document, 5 where prices are missing, 130 after
    Ctrl-C, 143 after SIGTERM; what is done is written each time, and the same command goes on.

    Args:
        collected: Folder written by `collect`.
        out: Dataset folder to write.
        config: YAML file.
        limit: Work on the first so many documents only.
        max_cost_usd: Stop before a call that is expected to take the cost of all runs above this,
            going by the mean of the dearest stage so far; needs known prices.
        engine: Where to work, in place of the configuration's.
        context: What the policy may look up beside each question, in place of the configuration's:
            bm25:2 is the two best sections of the collected documents by BM25.
    """
    settings = (
        rubric_synth.load_config(config) if config else rubric_synth.SynthConfig()
    )
    settings = _overridden(
        settings, max_cost_usd=max_cost_usd, engine=engine, context=context
    )
    options = {"--config": config, "--limit": limit}
    options |= {
        "--max-cost-usd": max_cost_usd,
        "--engine": engine,
        "--context": context,
    }
    words = ["run", str(collected), "--out", str(out)]
    for option, value in options.items():
        if value is not None:
            words += [option, str(value)]
    go_on = f"go on with: {typed_command('rubric-synth', words)}"
    try:
        with (
            working(console.app) as progress,
            progress.phase("making tasks", unit="documents") as phase,
        ):
            report = rubric_synth.synthesise(
                collected,
                out,
                config=settings,
                limit=limit,
                on_progress=_shown_by(phase),
            )
    except UnfinishedError as error:
        if error.cause in {"interrupted", "unavailable"}:
            error.add_note(go_on)
        status = _STATUS.get(error.cause)
        if not status:
            status = _BY_SIGNAL + (error.signal or SIGINT)
        _stop(error, status)
    except JudgeSetupError as error:
        _stop(error, _STATUS["unavailable"])
    except (KeyboardInterrupt, Terminated) as stop:
        number = (
            SIGTERM if isinstance(stop, Terminated) or SIGTERM in stop.args else SIGINT
        )
        _stop(RubricError(f"stopped immediately; {go_on}"), _BY_SIGNAL + number)
    _print_run(report, settings)


def _print_run(
    report: rubric_synth.SynthReport, settings: rubric_synth.SynthConfig
) -> None:
    _print_reasons(report.out, report.rejected, settings)
    console.print_counts("Tasks", report.tasks)
    console.print_fallbacks(report.usage)
    accepted_of = f"{report.accepted_documents} of {report.documents}"
    console.print_line(f"{accepted_of} documents, in {report.out}")
    if sum(report.tasks.values()) and settings.synthesiser.type == "extractive":
        console.print_line(
            "no language model wrote these tasks: they ask for what "
            f"{accepted_of} documents state in plain sentences. Read some before "
            f"training: rubric-synth show {report.out} --limit 10. A model makes more "
            "tasks and asks better questions, above all of papers: synthesiser.type llm"
        )
    usage = report.usage
    if usage.attempts:
        console.print_line(
            f"{usage.calls} calls over all runs: {usage.prompt_tokens} tokens read, "
            f"{usage.completion_tokens} written, {usage.cost}"
        )
    if shortfall := _fatal_shortfall(report):
        console.fail(shortfall)
    for warning in _warnings(report):
        console.warn(warning)


def _print_reasons(
    folder: Path,
    counts: Mapping[str, int],
    config: rubric_synth.SynthConfig,
) -> None:
    """Print the reasons for leaving out, each with what to do about it, unless there are none."""
    from rubric_synth.remedies import what_to_do

    reasons = {
        reason: (what_to_do(reason, config), count) for reason, count in counts.items()
    }
    console.print_left_out(folder, reasons)


def _overridden(
    settings: rubric_synth.SynthConfig, **options: object
) -> rubric_synth.SynthConfig:
    from rubric_core.configuration import validated

    overrides = {name: value for name, value in options.items() if value is not None}
    values = settings.model_dump() | overrides
    return validated(type(settings), values, source="the command line")


def _stop(error: RubricError, status: int) -> NoReturn:
    notes: list[str] = getattr(error, "__notes__", [])
    message = "; ".join([str(error), *notes])
    console.fail(message, status=status)


def _shown_by(phase: Phase) -> Callable[[rubric_synth.Progress], None]:
    """Return a function that shows the progress, the cost and the rejections of a run."""

    def show(now: rubric_synth.Progress) -> None:
        if phase.total is None:
            phase.start_at(now.done)
        phase.done = now.done
        phase.total = now.total
        phase.note = _figures(now)

    return show


def _figures(now: rubric_synth.Progress) -> str:
    figures: list[str] = []
    if now.done == now.total:
        figures.append("writing the dataset")
    if now.calls_in_flight:
        figures.append(f"{now.calls_in_flight} in flight")
    if now.cost_usd:
        figures.append(f"{now.cost_usd:.2f} USD")
    if now.left_out:
        figures.append(f"{now.left_out} left out")
    return ", ".join(figures)


def _fatal_shortfall(report: rubric_synth.SynthReport) -> str:
    """Say why nothing can be trained on a dataset and what to do; "" where something can."""
    if report.tasks["train"]:
        return ""
    total = sum(report.tasks.values())
    done = report.documents - report.pending_documents
    if total:
        return (
            f"no task for training: all {total} fell into validation and test, which "
            f"documents do by their hash; {_too_few(report)}"
        )
    if not report.documents:
        return "no task was accepted: there was no document; collect more sources"
    if not done:
        return f"no task was accepted: none of {report.documents} documents is finished yet"
    if report.pending_documents:
        return (
            f"no task was accepted out of {done} documents worked on, of "
            f"{report.documents} collected: {_WHY}"
        )
    return f"no task was accepted out of {done} documents: {_WHY}"


def _too_few(report: rubric_synth.SynthReport) -> str:
    return (
        f"{report.accepted_documents} of {report.documents} documents gave tasks, too few "
        "to fill every split: collect more"
    )


_WHY = "the table `Left out` says for which reasons, and what to do"
"""Behind a sentence on documents that were left out."""


def few_accepted(report: rubric_synth.SynthReport) -> str:
    """Warn, in one line, where most documents gave no task; "" where most did."""
    done = report.documents - report.pending_documents
    return _few(report.accepted_documents, done, "gave no task")


def few_collected(report: rubric_synth.CollectReport) -> str:
    """Warn, in one line, where most documents were left out; "" where most were kept."""
    total = report.documents + sum(report.rejected.values())
    return _few(report.documents, total, "were left out")


def _few(count: int, of: int, what: str) -> str:
    left_out = of - count
    is_most = left_out > of // 2
    return f"{left_out} of {of} documents {what}: {_WHY}" if is_most else ""


def _warnings(report: rubric_synth.SynthReport) -> Iterator[str]:
    """Warn, in one line each, of what a dataset lacks."""
    if report.gone_documents:
        yield (
            f"{report.gone_documents} documents of an earlier run into this folder are "
            "not in this collection, and their tasks are gone: run that collection into "
            "it again to get them back, from what work/ keeps, and give each collection "
            "an --out of its own"
        )
    few = few_accepted(report)
    if few:
        yield few
    pending = f"{report.pending_documents} documents are pending"
    if report.pending_documents and report.unanswered_documents:
        yield (
            f"{pending}, {report.unanswered_documents} of them without an answer from a "
            "model or judge: another run goes on with them"
        )
    elif report.pending_documents:
        yield f"{pending}: another run goes on with them"
    empty = [split for split in ("validation", "test") if not report.tasks[split]]
    if empty:
        has = "has" if len(empty) == 1 else "have"
        yield (
            f"{' and '.join(empty)} {has} no task, which documents get by their hash; "
            f"{_too_few(report)}"
        )
