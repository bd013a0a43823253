"""`rubric-judge rejudge`: stored responses under another judge or another rubric."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rubric_core import ConfigError, JudgeResult, JudgeView, Outcome, read_tasks
from rubric_judge.cli import judging
from rubric_judge.cli.app import app, flag_error
from rubric_judge.cli.thoughts import HowThoughts
from rubric_judge.quality.responses import JudgedResponse, reward_of, write_judgements
from rubric_judge.ui.console import command
from rubric_judge.ui.console.outputs import require_writable
from rubric_judge.ui.page.tables import or_dash

if TYPE_CHECKING:
    from rubric_judge.quality.rejudge import Comparison, Matched, StoredResponse


_NAMED = 3


def rejudge(  # noqa: PLR0913  # the flags of a command
    source: Path,
    tasks: Path,
    *,
    judge: Path,
    out: Path,
    only: Literal["all", "invalid", "unavailable"] = "all",
    before: Path | None = None,
    tasks_before: Path | None = None,
    of: str | None = None,
    ledger: Path | None = None,
    replicate: command.Count = 0,
    thoughts: HowThoughts = "cut",
    workers: command.Positive = 32,
    verbose: command.Flag = False,
) -> int:
    """Judge stored responses again, by another judge or under another rubric, and compare.

    Example: rubric-judge rejudge runs/mine test.jsonl --judge strict.yaml --out rejudged.jsonl

    Args:
        source: A ledger; a training run's folder, or one file of its rollouts; or a file of
            responses.
        tasks: To judge under; found by id or, where rubrics are new, by passage and question.
        judge: The judge's configuration, YAML.
        out: File to write: one judgement for each response, with the one from before beside it.
        only: Only responses whose judgement from before was invalid, or unavailable.
        before: The judgement file of a SOURCE that is a file of responses.
        tasks_before: The tasks that the responses were written for, if SOURCE only knows their ids
            and TASKS has other rubrics for them.
        of: Whose judgements of a ledger to compare with: how its name or fingerprint begins.
        ledger: Looked up and recorded in, so that a command that was stopped goes on.
        replicate: Ask for this repetition of judgements that the ledger already holds.
        thoughts: How thoughts are told from answers, where whole completions are stored.
        workers: Judge workers; each holds up to four responses.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when no response could be judged, or the ledger could not be written.
    """
    from rubric_judge.quality.rejudge import compare, read_stored

    command.configure_log(verbose=verbose)
    require_writable(
        out, flag="--out", inputs=(source, tasks, judge, before, tasks_before, ledger)
    )
    with command.working(app) as progress:
        with progress.phase("reading responses and tasks"):
            stored = read_stored(source, judged=before, judge=of, thoughts=thoughts)
            matched = _matched(_chosen(stored, only=only), tasks, before=tasks_before)
            views = [
                task.judge_view(stored_response.answer)
                for stored_response, task in matched.pairs
            ]
            asked = judging.read_judge(judge, workers=workers)
        batch = judging.Batch("judging again", views, (replicate,))
        done = judging.judge_batches(asked.pool, [batch], ledger=ledger)
        rows = zip(matched.pairs, views, done.batches[0][0], strict=True)
        judged = [
            _judged(response, view, result) for (response, _), view, result in rows
        ]
        write_judgements(out, judged)
    _report(
        matched,
        compare([stored.before for stored, _ in matched.pairs], judged),
        judged,
        out=out,
    )
    judging.say_suspect(
        done.statistics,
        has_ledger=ledger is not None,
        again=f"--only invalid --replicate {replicate + 1}",
    )
    _say_how_to_join(matched, out, source, before)
    return done.status(judged)


def _say_how_to_join(
    matched: Matched, out: Path, source: Path, before: Path | None
) -> None:
    """Say which field of a row tells whose judgement it is, among those from before."""
    if any(
        response.id for response, _ in matched.pairs
    ):  # of a ledger, or of a run's rollouts
        said = f"`origin.id` of a row is the id of the response in {source}"
    elif before is None:
        said = f"`line` of a row is the line of the response in {source}"
    else:
        said = f"a row takes the place of the row with the same `line` in {before}"
    command.console().print(f"{out}: {said}", soft_wrap=True)


def _matched(
    stored: Sequence[StoredResponse], tasks: Path, *, before: Path | None
) -> Matched:
    from rubric_judge.quality.rejudge import match_tasks

    matched = match_tasks(
        stored, read_tasks(tasks), before=read_tasks(before) if before else ()
    )
    if not matched.pairs:
        raise ConfigError(
            f"none of the {len(stored)} responses belongs to a task of {tasks}: take the "
            "tasks that they were written for, or give those as --tasks-before",
            location="tasks",
        )
    return matched


def _chosen(
    stored: Sequence[StoredResponse], *, only: Literal["all", "invalid", "unavailable"]
) -> Sequence[StoredResponse]:
    if only == "all":
        return stored
    if all(stored_response.before is None for stored_response in stored):
        problem = "no judgement is stored beside the responses; give --before"
        raise flag_error("only", f" {only}: {problem}")
    chosen = [
        response
        for response in stored
        if response.before and response.before.outcome is Outcome(only)
    ]
    if not chosen:
        raise flag_error("only", f" {only}: there is no such judgement")
    return chosen


def _judged(
    stored: StoredResponse, view: JudgeView, result: JudgeResult
) -> JudgedResponse:
    origin: dict[str, object] = {"id": stored.id, "task_id": stored.task_id}
    if stored.before is not None:
        origin |= {
            "judge": stored.before.judge,
            "outcome": stored.before.outcome.value,
            "reward": reward_of(stored.before),
        }
    return JudgedResponse(
        line=stored.line,
        view=view,
        result=result,
        origin=origin,
    )


def _report(
    matched: Matched,
    comparison: Comparison | None,
    judged: Sequence[JudgedResponse],
    *,
    out: Path,
) -> None:
    before = Counter(
        response.before.outcome
        for response, _ in matched.pairs
        if response.before is not None
    )
    after = Counter(row.result.outcome for row in judged)
    rows = [
        (outcome.value, str(before[outcome]), str(after[outcome]))
        for outcome in Outcome
    ]
    figures: list[tuple[str, object]] = [
        ("judged again", len(judged)),
        ("  under the same task", matched.same),
        ("  under another rubric", len(judged) - matched.same),
        ("without a task", len(matched.unmatched)),
    ]
    if comparison is not None:
        before_after = f"{comparison.mean_before:.4f}", f"{comparison.mean_after:.4f}"
        rows.append(("mean reward", *before_after))
        figures += [
            ("with both rewards", comparison.rewarded),
            ("  changed", f"{comparison.changed_frac:.1%}"),
            ("  mean absolute difference", f"{comparison.mean_abs_difference:.4f}"),
            ("  rank correlation", or_dash(comparison.rank_correlation, ".3f")),
            ("  order within a task kept", or_dash(comparison.order_kept_frac, ".3f")),
        ]
    command.print_rows(("", "before", "after"), rows)
    command.print_pairs([*figures, ("written", out)])
    if matched.unmatched:
        names = sorted(
            {stored_response.task_id for stored_response in matched.unmatched}
        )
        more = f" and {len(names) - _NAMED} more" if names[_NAMED:] else ""
        said = f"no task, or more than one, for {len(matched.unmatched)} responses"
        print(f"{said}: tasks {', '.join(names[:_NAMED])}{more}", file=sys.stderr)
