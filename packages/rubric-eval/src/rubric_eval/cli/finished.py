"""`rubric-eval compare`, `report` and `hacking`: what finished evaluations say."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from rubric_core import ConfigError
from rubric_core.configuration import validated
from rubric_eval.cli.app import TABLES, app, percent, print_edited
from rubric_judge.ui.console import command
from rubric_judge.ui.console.outputs import require_writable

if TYPE_CHECKING:
    from rubric_eval.comparison import EvalComparison, ModelScore, PairedResult
    from rubric_eval.hacking.results import HackingPanel


def compare(  # noqa: PLR0913  # each is an option of the command
    *folders: Path,
    pair: tuple[str, ...] = (),
    correction: Literal["holm", "bh", "none"] = "holm",
    family: Literal["benchmarks", "all"] = "benchmarks",
    confidence: float = 0.95,
    power: float = 0.8,
    resamples: int = 9999,
    seed: int = 0,
    out: Path | None = None,
    accept_edited: bool = False,
) -> int:
    """Compare models on the same questions: paired, corrected for several benchmarks.

    Rewards are tested by a bootstrap and sign flips of documents, accuracies by McNemar's exact
    test, or over several seeds by flipping signs. What does not match, such as other questions or
    another judge, is refused.

    Example: rubric-eval compare evals/heldout evals/transfer --pair grpo:sft

    Args:
        folders: Finished evaluations, held-out or transfer.
        pair: Two models, A:B, to take A − B of; give it several times for several pairs. Left out:
            each model minus the first and minus the one before.
        correction: Holm keeps the chance of any false finding below 1 − confidence, bh
            (Benjamini and Hochberg) the share of false ones among the findings.
        family: Tests that are corrected together: those of a pair on all benchmarks, or all.
        confidence: Of the intervals.
        power: Chance with which the detectable difference would be found, 0.5 or more.
        resamples: Bootstrap draws.
        seed: Of the draws.
        out: File for the comparison; left out, comparison.json in the first folder.
        accept_edited: Go on where files are not as their evaluation left them, or contradict each
            other, and say so in all that is written.

    Returns:
        Exit status.
    """
    from rubric_eval.comparison import CompareSettings, compare_folders

    values = {
        "pairs": [_pair(names) for names in pair],
        "correction": correction,
        "family": family,
        "confidence": confidence,
        "power": power,
        "resamples": resamples,
        "seed": seed,
    }
    settings = validated(CompareSettings, values, source="the options")
    with command.working(app) as progress, progress.phase("comparing"):
        comparison, place = compare_folders(
            folders, settings, out=out, accept_edited=accept_edited
        )
    for part in (_print_scores, _print_differences, _print_rest):
        part(comparison)
    print_edited(comparison.edited)
    command.console().print(f"written: {place}", soft_wrap=True)
    return 0


def _pair(names: str) -> tuple[str, ...]:
    """Read A:B; a name holds no colon."""
    both = tuple(names.split(":"))
    if len(both) != 2 or not all(both):  # noqa: PLR2004  # a pair
        raise ConfigError(
            f"--pair {names!r} is no pair: give two models as A:B", location="pair"
        )
    return both


def _print_rest(comparison: EvalComparison) -> None:
    stdout = command.console()
    for average in comparison.averages:
        suite = f" of suite {average.suite}" if average.suite else ""
        stdout.print(
            f"average over {average.n} benchmarks{suite}: {average.a} − {average.b} "
            f"{100 * average.mean:+.1f} points, {average.in_percent(sign='+')}"
        )
    for note in comparison.notes:
        stdout.print(f"note: {note}", soft_wrap=True)


def _print_scores(comparison: EvalComparison) -> None:
    level = f"{100 * comparison.settings.confidence:g} % interval"
    # Columns without information would only make the others narrow.
    is_guessed = any(score.chance is not None for score in comparison.scores)
    is_clustered = any(score.clusters != score.n for score in comparison.scores)
    more = ("chance",) * is_guessed + ("n",) + ("documents",) * is_clustered
    rows: list[list[str]] = []
    for model_score in comparison.scores:
        cells = [
            _column(model_score),
            model_score.model,
            percent(model_score.mean),
            model_score.in_percent(),
        ]
        if is_guessed:
            chance = model_score.chance
            cells.append("" if chance is None else percent(chance))
        cells.append(str(model_score.n))
        if is_clustered:
            is_own = model_score.clusters == model_score.n
            cells.append("" if is_own else str(model_score.clusters))
        rows.append(cells)
    command.print_rows(("benchmark", "model", "mean", level, *more), rows, "Scores")


def _print_differences(comparison: EvalComparison) -> None:
    correction = comparison.settings.correction
    by_pair: dict[tuple[str, str], list[PairedResult]] = {}
    for difference in comparison.differences:
        by_pair.setdefault((difference.a, difference.b), []).append(difference)
    for (a, b), differences in by_pair.items():
        rows = [
            (
                _column(difference),
                difference,
                difference.in_percent(sign="+"),
                _p(difference.p),
                _decided(difference),
            )
            for difference in differences
        ]
        command.print_figures(
            TABLES["differences"], rows, pair=f"{a} − {b}", correction=correction
        )
    level = 100 * (1 - comparison.settings.confidence)
    command.console().print(f"* significant at {level:g} %, correction {correction}")


def _decided(difference: PairedResult) -> str:
    """Return the corrected p, with a star where it is significant."""
    mark = " *" if difference.is_significant else "  "
    return _p(difference.p_adjusted) + mark


def _column(result: ModelScore | PairedResult) -> str:
    """Return the benchmark, and the judge if it has one."""
    if result.judge is None:
        return result.benchmark
    return f"{result.benchmark}, {result.judge}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"  # noqa: PLR2004  # digits shown


def report(  # noqa: PLR0913  # each is an option of the command
    *folders: Path,
    out: Path | None = None,
    figures: Path | None = None,
    training: Path | None = None,
    reliability: Path | None = None,
    tasks: Path | None = None,
    reveal_grounding: bool = False,
    accept_edited: bool = False,
) -> int:
    """Write report.html, one page that needs no network, and tables as Markdown, LaTeX and JSON.

    Example: rubric-eval report evals/heldout evals/transfer --training runs/q

    Args:
        folders: A finished held-out evaluation, a finished transfer evaluation, or one of each.
        out: Folder for report.html and tables/; the first evaluation's own when left out.
        figures: Folder for the figures of a paper as PNG and PDF: both tables as bars, the judge
            comparison, the curves, and all differences. Needs rubric-eval[plots].
        training: Run folder of a trainer, for the curves of reward and zero reward.
        reliability: What `rubric-judge reliability` wrote, for the trust in the judge.
        tasks: Tasks that were asked, for their passages and rubrics; needs --reveal-grounding.
        reveal_grounding: Show what only the judge's side may see: the judge's reasons, which may
            quote the passage, and passages and rubrics of --tasks.
        accept_edited: Go on where files are not as their evaluation left them, or contradict each
            other, and say so in all that is written.

    Returns:
        Exit status.
    """
    from rubric_eval.findings.reading import ReportSources
    from rubric_eval.report.page import write_report

    sources = ReportSources(
        folders=folders,
        training=training,
        reliability=reliability,
        tasks=tasks,
        is_revealed=reveal_grounding,
        accepts_edited=accept_edited,
    )
    with command.working(app) as progress, progress.phase("writing the report"):
        written = write_report(sources, out, figures=figures)
    print_edited(written.edited)
    for what in written.notes:
        print(f"note: {what}")
    print(f"written: {written.page}")
    print(f"written: {len(written.tables)} files in {written.tables[0].parent}")
    if figures is not None:
        print(f"written: {len(written.pictures)} pictures in {figures}")
    return 0


def hacking(  # noqa: PLR0913  # each is an option of the command
    folder: Path,
    *,
    judge: str | None = None,
    second: str | None = None,
    second_judge: Path | None = None,
    sample: command.Positive = 100,
    tasks: Path | None = None,
    baseline: str | None = None,
    out: Path | None = None,
    workers: command.Positive = 32,
    accept_edited: bool = False,
    verbose: bool = False,
) -> int:
    """Look for signs that a policy learned the judge: length, hedging, echoes, a second judge.

    Example: rubric-eval hacking evals/heldout --tasks dataset/test.jsonl --second-judge other.yaml

    Args:
        folder: A finished held-out evaluation.
        judge: Judge whose reward is looked into; left out, the evaluation's first.
        second: Another judge of the evaluation, to see whether it finds the same gain; left out,
            the evaluation's second, if it has one.
        second_judge: Configuration (YAML) of a judge that the evaluation does not have; it judges
            a sample of the questions. Needs --tasks.
        sample: Questions in that sample.
        tasks: Tasks that were evaluated, for echoes of their criteria.
        baseline: Model that the others are set against; left out, the first.
        out: File for the panel; left out, hacking.json in FOLDER.
        workers: Judge workers.
        accept_edited: Go on where files were edited, and say so in all that is written.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 0 whether there are warnings or not.
    """
    from rubric_eval.hacking.evaluation import NewJudge, look_for_hacking

    command.configure_log(verbose=verbose)
    _check_second_judge(second_judge, tasks, second)
    if out is not None:
        inputs = (tasks, second_judge)
        require_writable(out, flag="--out", inputs=inputs, makes_folders=True)
    with command.working(app) as progress, progress.phase("looking for signs"):

        def tell(by: str, model: str, total: int) -> None:
            progress.count(f"{by} judges {model}", total=total)

        look = partial(
            look_for_hacking,
            folder,
            judge=judge,
            second=second,
            baseline=baseline,
            tasks=tasks,
            new_judge=second_judge and NewJudge(second_judge, sample, workers, tell),
            out=out,
            accept_edited=accept_edited,
        )
        panel, written = anyio.run(look)
    _print_panel(panel, written)
    return 0


def _check_second_judge(
    second_judge: Path | None, tasks: Path | None, second: str | None
) -> None:
    if second_judge is not None and (tasks is None or second is not None):
        needed = "--tasks" if tasks is None else "no --second beside it"
        raise ConfigError(f"--second-judge needs {needed}", location="second-judge")


def _print_panel(panel: HackingPanel, place: Path) -> None:
    stdout = command.console()
    command.print_figures(
        TABLES["hacking"], zip(panel.models), judge=panel.settings.judge
    )
    for divergence in panel.divergences:
        stdout.print(
            f"{divergence.a} − {divergence.b}: {100 * divergence.first.mean:+.1f} "
            f"points by {panel.settings.judge}, "
            f"{100 * divergence.second.mean:+.1f} by {panel.settings.second}, "
            f"over {divergence.n} questions"
        )
    stdout.print(panel.conclusion, soft_wrap=True)
    for warning in panel.warnings:
        stdout.print(f"warning: {warning}", soft_wrap=True)
    for note in panel.notes:
        stdout.print(f"note: {note}", soft_wrap=True)
    print_edited(panel.edited)
    stdout.print(f"written: {place}", soft_wrap=True)
