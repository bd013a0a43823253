"""`rubric-judge attack`: what a judge gives to texts that deserve nothing more."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rubric_core import JudgeResult, Outcome, Task, read_tasks
from rubric_core.files import replacing
from rubric_core.traces.views import joined_results
from rubric_judge.cli.app import app, flag_error, make_folder, write_report
from rubric_judge.cli.judging import (
    Batch,
    Judged,
    Judging,
    judge_batches,
    read_judge,
)
from rubric_judge.ui.console import command, progress

if TYPE_CHECKING:
    from rubric_judge.quality.attack import AttackPlan
    from rubric_judge.quality.attack.families import Builder
    from rubric_judge.quality.labels.written import KnownAnswers
    from rubric_judge.ui.page.links import Leads


_VIEWER = "cases.html"
_CONTROL_JUDGEMENTS = 3
"""A bound is the highest of so many judgements, so that a judge's noise is no over-credit."""


def attack(  # noqa: PLR0913  # each is an option of the command
    tasks: Path | None = None,
    *,
    judge: Path,
    out: Path,
    suite: command.EachPath = (),
    families: command.Names = (),
    limit: command.Positive | None = None,
    epsilon: command.Share = 0.05,
    ledger: Path | None = None,
    workers: command.Positive = 32,
    traces: command.Flag = False,
    reveal: command.Flag = False,
    verbose: command.Flag = False,
) -> int:
    """Attack a judge, and report how often it gives more than a text deserves.

    An attack deserves nothing, or at most what the judge gives to the weak or the reference answer
    that it is built on. Over-credit is a reward above that bound.

    Example: rubric-judge attack --judge claims.yaml --out attacked

    Example: rubric-judge attack test.jsonl --judge llm.yaml --suite my_attacks --out attacked

    Args:
        tasks: Tasks, JSON Lines (or Parquet); those with a reference answer meet every family. Left
            out: six tasks that ship with the package. Tasks whose criteria judge traces are
            attacked by what tools return and are called with.
        judge: The judge's configuration, YAML.
        out: Folder for attack.json, attack.md, cases.jsonl and a figure.
        suite: A folder with attacks of your own, beside the package's; once or more.
        families: Only these families; the report names them all.
        limit: Most cases of a family, drawn at random.
        epsilon: Smallest excess that counts, in reward; at least twice the noise that
            `rubric-judge reliability` measures.
        ledger: A ledger to look judgements up in and to record them in, so that a command that was
            stopped goes on where it was.
        workers: Judge workers; each holds up to four responses.
        traces: Attack three tasks of traces that ship with the package, in place of the six.
        reveal: Write the attacking texts into cases.jsonl, and cases.html, a private page of them
            with passages and rubrics, to which the names in attack.html lead.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when no case at all could be judged, or the ledger could not be written.
    """
    from rubric_judge.quality.attack import over_credit, plan_attacks
    from rubric_judge.quality.attack.report import draw_figures

    command.configure_log(verbose=verbose)
    with command.working(app):
        with progress.current().phase("reading tasks, making the attacks"):
            asked = read_judge(judge, workers=workers)
            targets = _targets(tasks, asked, traces=traces)
            known = _written(targets, tasks)
            plan = plan_attacks(
                targets, _chosen(suite, families), written=known, limit=limit
            )
            make_folder(out)
        views = [view for control in plan.controls for view in control.views.views]
        honest = Batch("honest answers", views, range(_CONTROL_JUDGEMENTS))
        views = [view for case in plan.cases for view in case.views.views]
        attacks = Batch("attacks", views)
        judged = judge_batches(asked.pool, (honest, attacks), ledger=ledger)
        name = asked.name()
        *controls_RN, results = _joined(plan, judged)
        report = over_credit(plan, controls_RN, results, judge=name, epsilon=epsilon)
        _write_cases(plan, results, out / "cases.jsonl", reveal=reveal)
        leads = None
        more = ["cases.jsonl"]
        if reveal:
            leads = _write_viewer(plan, controls_RN[0], results, out)
            more.append(_VIEWER)
        draw = partial(draw_figures, report)
        written = write_report(out, "attack", report, draw, *more, leads=leads)
    command.print_tables(report.tables(), footer=f"written: {written}")
    lost = all(result.outcome is Outcome.UNAVAILABLE for result in results)
    return command.FAILED if lost or judged.unwritten else 0


def _written(targets: Sequence[Task], tasks: Path | None) -> KnownAnswers:
    """Find the answers that were written to be right, or false; those of no task are said."""
    from rubric_judge.quality.labels.written import WrittenAnswers, warnings_of

    known = WrittenAnswers(tasks and tasks.parent).to(targets)
    for warning in warnings_of(strange=known.strange, copied=known.copied):
        command.say_on_stderr(warning)
    return known


def _targets(tasks: Path | None, asked: Judging, *, traces: bool) -> list[Task]:
    """Return the tasks to attack, without what the judge cannot judge of traces, which is said."""
    from rubric_judge.judges.capabilities import excerpt_refusal
    from rubric_judge.quality.attack import (
        default_tasks,
        default_trace_tasks,
        judgeable,
    )

    if tasks and traces:
        raise flag_error(
            "traces",
            ": its tasks ship with the package: leave TASKS out; of those, the ones whose criteria "
            "judge traces are attacked by the same families",
        )
    if tasks:
        targets = list(read_tasks(tasks))
    else:
        targets = default_trace_tasks() if traces else default_tasks()
    if not any(task.rubric.judges_traces for task in targets):
        return targets
    judge = asked.make()
    kept, notes = judgeable(targets, lambda view: excerpt_refusal(judge, view))
    for note in notes:
        command.say_on_stderr(note)
    return kept


def _joined(plan: AttackPlan, judged: Judged) -> list[list[JudgeResult]]:
    """Return the judgements of the controls, for each replicate, and last those of the cases."""
    controls_RN, (results,) = judged.batches
    controls = [control.views for control in plan.controls]
    cases = [case.views for case in plan.cases]
    honest = [joined_results(controls, each) for each in controls_RN]
    return [*honest, joined_results(cases, results)]


def _chosen(suites: Sequence[Path], names: Sequence[str]) -> Mapping[str, Builder]:
    from rubric_judge.quality.attack import FAMILIES, TRACE_FAMILIES, read_suite

    families: dict[str, Builder] = {**FAMILIES, **TRACE_FAMILIES}
    for folder in suites:
        suite = read_suite(folder)
        taken_names = families.keys() & suite.families.keys()
        if taken_names:
            problem = (
                f"another suite has the family {min(taken_names)!r} already: "
                "rename the folder"
            )
            raise flag_error("suite", f" {folder}: {problem}")
        families.update(suite.families)
        if suite.skipped:
            print(
                f"{folder}: {len(suite.skipped)} files hold no attacks", file=sys.stderr
            )
    if unknown := [name for name in names if name not in families]:
        raise flag_error(
            "families",
            f": {unknown[0]!r} is no family; use some of {', '.join(families)}",
        )
    return {name: families[name] for name in names} if names else families


def _write_viewer(
    plan: AttackPlan,
    controls: Sequence[JudgeResult],
    results: Sequence[JudgeResult],
    out: Path,
) -> Leads:
    """Write the page of the cases; return the ways that lead there."""
    from rubric_judge.quality.view.page import write_page
    from rubric_judge.quality.view.studies import attack_leads, attack_samples

    source, samples = attack_samples(plan, controls, results)
    write_page(
        samples, [source], out / _VIEWER, title="Attacks on a judge", parts="Family"
    )
    return attack_leads(_VIEWER, samples)


def _write_cases(
    plan: AttackPlan, results: Sequence[JudgeResult], path: Path, *, reveal: bool
) -> None:
    from rubric_core import normalized_reward  # loads numpy

    with replacing(path) as file:
        for case, result in zip(plan.cases, results, strict=True):
            scored = result.outcome is Outcome.SCORED
            row: dict[str, object] = {
                "id": case.id,
                "deserves": case.attack.base,
                "outcome": result.outcome.value,
                "reason": result.reason.value if result.reason else None,
                "reward": normalized_reward(result, case.view.rubric)
                if scored
                else None,
            }
            if reveal:
                row |= {"response": case.shown, "passage": case.attack.passage}
            file.write(f"{json.dumps(row)}\n".encode())
