"""`rubric-judge score`: one judgement for each response of a file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rubric_core import MissingExtraError, Outcome
from rubric_judge.cli import judging
from rubric_judge.cli.app import app, say, tasks_by_id
from rubric_judge.cli.thoughts import HowThoughts
from rubric_judge.quality.responses import (
    AnswerCounts,
    JudgedResponse,
    judged_rows,
    read_submitted,
    write_judgements,
)
from rubric_judge.quality.trajectories import (
    MISSING,
    Submitted,
    shown_parts,
    views_of_all,
)
from rubric_judge.ui.console import command
from rubric_judge.ui.console.outputs import require_writable
from rubric_judge.ui.page.tables import counted

if TYPE_CHECKING:
    from rubric_judge.judges.capabilities import WordMatching
    from rubric_judge.pool.cascades import CascadeStatistics
    from rubric_judge.pool.statistics import PoolStatistics


_DETAILS_SHOWN = 3
_SMALL_BIAS = 0.02
"""Bias of a cascade's first judge that is not worth a word."""
_AGAIN = "--only invalid --replicate 1 --out again.jsonl"


def score(  # noqa: PLR0913  # the flags of a command
    tasks: Path,
    responses: Path,
    *,
    judge: Path,
    out: Path,
    ledger: Path | None = None,
    workers: command.Positive = 32,
    micro_batch: command.Positive = 4,
    deadline_s: command.Seconds | None = None,
    hedge: command.Flag = False,
    ray: command.Positive | None = None,
    thoughts: HowThoughts = "cut",
    show: command.Count = 0,
    verbose: command.Flag = False,
) -> int:
    """Score responses and write one judgement for each.

    Example: rubric-judge score test.jsonl answers.jsonl --judge claims.yaml --out judged.jsonl

    Args:
        tasks: Tasks, JSON Lines in the paper's schema (or Parquet).
        responses: JSON Lines with `task_id` and `response`; a response that is no text is a
            trajectory (messages with tool calls, a trace of verifiers, NeMo Gym's output, ATIF).
        judge: The judge's configuration, YAML.
        out: File to write: line, task id, reward and the whole result, in the order of RESPONSES;
            beside it, OUT.inputs.json names RESPONSES and TASKS for `rubric-judge view`.
        ledger: A ledger to look judgements up in and to record them in, so that a command that was
            stopped goes on where it was.
        workers: Judge workers; each holds up to MICRO-BATCH responses.
        micro_batch: Responses that a worker holds at once.
        deadline_s: Seconds after which what is not judged yet is given up, and what is judged kept.
        hedge: Ask a second time for stragglers, for 5 % more calls at most.
        ray: Judge in this many Ray actors instead of in WORKERS; needs rubric-judge[ray].
        thoughts: How thoughts are told from answers, as `HowThoughts` says it.
        show: How many responses to print the judge's reasons for, as its `reasoning` has them; of a
            trajectory, what the judge saw too.
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when no response at all could be judged, or the ledger could not be written.
    """
    command.configure_log(verbose=verbose)
    from rubric_judge.quality.view.inputs import ENDING, write_inputs

    require_writable(
        out,
        flag="--out",
        inputs=(tasks, responses, judge, ledger),
        endings=(ENDING,),
    )
    with command.working(app) as progress:
        with progress.phase("reading tasks and responses"):
            asked = judging.read_judge(
                judge, workers=workers, micro_batch=micro_batch, hedge=hedge, ray=ray
            )
            by_id = tasks_by_id(tasks)
            submitted = read_submitted(responses, by_id, thoughts=thoughts)
        batch = judging.Batch("judging", views_of_all(submitted))
        done = judging.judge_batches(
            asked.pool, [batch], ledger=ledger, deadline_s=deadline_s
        )
        judged = judged_rows(submitted, done.batches[0][0])
        with progress.phase("writing the judgements"):
            write_judgements(out, judged)
            write_inputs(out, tasks=tasks, responses=responses, thoughts=thoughts)
    _show(submitted[:show], judged[:show])
    _report(judged, done.statistics, out=out)
    _remark(judged, done.statistics, asked=asked, judge=judge, out=out)
    words = ["rejudge", responses, tasks, "--before", out, "--judge", judge]
    words += ["--ledger", ledger]
    judging.say_suspect(
        done.statistics,
        has_ledger=ledger is not None,
        again=f"{command.typed_command('rubric-judge', list(map(str, words)))} {_AGAIN}",
    )
    return done.status(judged)


def _show(submitted: Sequence[Submitted], judged: Sequence[JudgedResponse]) -> None:
    """Print what the judge said of responses, which it may quote, and what it saw of traces."""
    for item, row in zip(submitted, judged, strict=True):
        reward = "not judged" if row.reward is None else f"reward {row.reward:.4f}"
        seen = "" if item.recorded is None else f"{shown_parts(item)}\n\n"
        said = row.result.reasoning or "the judge gave no reasons"
        command.console().print(
            f"line {row.line}: {reward}\n{seen}{said}\n", soft_wrap=True, markup=False
        )


def _outcomes(
    judged: Sequence[JudgedResponse], statistics: PoolStatistics
) -> list[tuple[str, int]]:
    """Say how many were scored, and why others were not; a trajectory counts once."""
    by_outcome = statistics.by_outcome
    by_reason = statistics.by_reason
    if any(row.trace is not None for row in judged):
        results = [row.result for row in judged]
        by_outcome = Counter(result.outcome for result in results)
        by_reason = Counter(result.reason for result in results if result.reason)
    return [
        *((outcome.value, count) for outcome, count in by_outcome.items()),
        *((f"  {reason.value}", count) for reason, count in by_reason.items()),
    ]


def _trajectories(judged: Sequence[JudgedResponse]) -> list[tuple[str, str]]:
    """Say which formats were read, and what was judged of them."""
    traces = [row.trace for row in judged if row.trace is not None]
    if not traces:
        return []
    counts = Counter(trace.format for trace in traces)
    parts = Counter(part for trace in traces for part in trace.judged.values())
    missing = parts.pop(MISSING, 0)
    figures = {
        "trajectories read as": ", ".join(f"{name} {n}" for name, n in counts.items()),
        "  turns": str(sum(trace.turns for trace in traces)),
        "  calls of tools": str(sum(trace.calls for trace in traces)),
        "  scores by part": ", ".join(f"{part} {n}" for part, n in parts.items()),
    }
    if missing:
        figures["  turn not taken, 0"] = str(missing)
    return list(figures.items())


def _remark(
    judged: Sequence[JudgedResponse],
    statistics: PoolStatistics,
    *,
    asked: judging.Judging,
    judge: Path,
    out: Path,
) -> None:
    """Say to stderr what the figures hide, where it is not as one would wish."""
    _say_unclosed(AnswerCounts.of(row.view for row in judged))
    _say_invalid(judged, judge=None if asked.keeps_invalid else judge, out=out)
    _say_unread(judged, asked.word_matchers())
    _say_unescalated(statistics)
    _say_bias(statistics)


def _say_unclosed(counts: AnswerCounts) -> None:
    if 2 * counts.unclosed > counts.responses:
        say(
            f"{counts.unclosed} of {counts.responses} responses are thoughts that do not end, "
            "which have no answer and score 0: give the policy more tokens, or switch its "
            "thinking off (docs/answer.md)"
        )


def _shares(counts: AnswerCounts) -> list[tuple[str, str]]:
    count_of_name = {
        "with a thought": counts.thoughts,
        "  that does not end": counts.unclosed,
        "empty answers": counts.empty,
    }
    total = counts.responses
    return [
        (name, f"{count} ({count / total:.1%})")
        for name, count in count_of_name.items()
        if count
    ]


def _say_invalid(
    judged: Sequence[JudgedResponse], *, judge: Path | None, out: Path
) -> None:
    """Say where the texts of invalid replies are, or in which judge's file to have them kept."""
    invalid = [row.result for row in judged if row.result.outcome is Outcome.INVALID]
    if any(result.reasoning for result in invalid):
        print(f"what was replied is `reasoning` in {out}", file=sys.stderr)
    elif invalid and judge:
        print(
            f"to see what was replied: `keep_invalid: true` in {judge}", file=sys.stderr
        )


def _say_unread(
    judged: Sequence[JudgedResponse], word_matchers: Mapping[str, WordMatching]
) -> None:
    from rubric_judge.judges.claims.claim import claim_of
    from rubric_judge.quality.lint.criterion_words import has_no_words

    rows = [row for row in judged if row.result.judge in word_matchers]
    rubrics = {(row.view.task_id, row.result.judge): row.view.rubric for row in rows}
    criteria = [
        (criterion, word_matchers[judge].reads_claims and bool(claim_of(criterion)))
        for (_, judge), rubric in rubrics.items()
        for criterion in rubric
    ]
    unread = sum(
        has_no_words(criterion) and not is_read for criterion, is_read in criteria
    )
    if unread:
        say(
            f"{unread} of {len(criteria)} criteria hold nothing that a program can look for "
            "and score 0: `rubric-judge lint` names them"
        )


def _report(
    judged: Sequence[JudgedResponse],
    statistics: PoolStatistics,
    *,
    out: Path,
) -> None:
    from rubric_judge.quality.view.scored import criteria_table
    from rubric_judge.ui.console.printing import print_table

    rewards = [row.reward for row in judged if row.reward is not None]
    mean = [("mean reward", f"{sum(rewards) / len(rewards):.4f}")] if rewards else []
    command.print_pairs(
        [
            ("responses", len(judged)),
            *_trajectories(judged),
            *mean,
            *_outcomes(judged, statistics),
            *_shares(AnswerCounts.of(row.view for row in judged)),
            *_answerers(statistics),
            *_figures(statistics),
            *_cascade(statistics),
            ("written", out),
        ]
    )
    print_table(command.console(), criteria_table(judged))
    for outcome, words in (
        (Outcome.UNAVAILABLE, "not judged"),
        (Outcome.INVALID, "answered out of contract, reward 0"),
    ):
        failed = [row.result for row in judged if row.result.outcome is outcome]
        details = Counter(result.detail or str(result.reason) for result in failed)
        for detail, count in details.most_common(_DETAILS_SHOWN):
            print(f"{words} ({count}): {detail}", file=sys.stderr)


def _answerers(statistics: PoolStatistics) -> list[tuple[str, str]]:
    """Say who answered, where that is more than one model on one server."""
    counts = statistics.by_answerer
    if len(counts) <= 1 and not any(by.fallback for by in counts):
        return []
    return [
        (
            f"by the fallback {by.fallback}" if by.fallback else "answered by",
            f"{count} of {statistics.done}: {by.model}"
            + (f" at {by.deployment}" if by.deployment else ""),
        )
        for by, count in sorted(counts.items(), key=lambda item: -item[1])
    ]


def _figures(statistics: PoolStatistics) -> list[tuple[str, str]]:
    usage = statistics.usage
    cached = statistics.cached_token_frac
    counts = {
        "from the ledger": statistics.from_ledger,
        "  of them invalid": statistics.invalid_from_ledger,
        "attempts": statistics.attempts,
        "asked twice": statistics.hedged,
        "  second answer taken": statistics.hedge_wins,
        "moved to another replica": statistics.moved,
        "passages cut": statistics.passages_truncated,
    }
    figures = {name: str(count) for name, count in counts.items() if count}
    if statistics.latency is not None:
        figures["seconds, median"] = f"{statistics.latency.p50_s:.3g}"
        figures["seconds, 99 %"] = f"{statistics.latency.p99_s:.3g}"
    if usage.prompt_tokens:
        figures["prompt tokens"] = str(usage.prompt_tokens)
        figures["  of them cached"] = (
            "not reported" if cached is None else f"{cached:.1%}"
        )
        figures["completion tokens"] = str(usage.completion_tokens)
        figures["tokens per criterion"] = f"{statistics.tokens_per_criterion:.0f}"
        if (per_criterion := statistics.cached_tokens_per_criterion) is not None:
            figures["cached tokens per criterion"] = f"{per_criterion:.0f}"
    if usage.cost_usd is not None and statistics.cost_per_criterion_usd is not None:
        figures["cost"] = f"${usage.cost_usd:.4f}"
        figures["  per criterion"] = f"${statistics.cost_per_criterion_usd:.2g}"
    return list(figures.items())


def _cascade(statistics: PoolStatistics) -> list[tuple[str, str]]:
    """Say who decided how much, what the audits found, and what was saved."""
    if (cascade_statistics := statistics.cascade) is None:
        return []
    total = sum(level.decided for level in cascade_statistics.levels.values())
    figures = [
        (
            "criteria decided by",
            f"{name}: {level.decided} of {total}, asked {counted(level.calls, 'time')}",
        )
        for name, level in cascade_statistics.levels.items()
    ]
    if cascade_statistics.saved_frac is not None:
        figures.append(
            ("responses without the last judge", f"{cascade_statistics.saved_frac:.1%}")
        )
    if cascade_statistics.saved_usd is not None:
        figures.append(("saved", f"${cascade_statistics.saved_usd:.4f}"))
    if cascade_statistics.bound is not None:
        figures.append(
            (
                "risk, calibrated",
                f"at most {cascade_statistics.bound:.1%} ({cascade_statistics.confidence:.0%})",
            )
        )
    otherwise = (
        f"{cascade_statistics.audited_otherwise} of {cascade_statistics.audited} "
        "decided otherwise"
    )
    with suppress(MissingExtraError):  # the interval needs scipy; the counts do not
        if (share := cascade_statistics.audit_disagreement()) is not None:
            otherwise += f", {share.value:.1%} ({share.low:.1%} to {share.high:.1%})"
    figures += _group(cascade_statistics)
    frac = cascade_statistics.escalated / total if total else 0.0
    escalated = (
        f"{cascade_statistics.escalated} of {total} criteria, {frac:.1%}, audits aside"
    )
    return [*figures, ("escalated", escalated), ("audited", otherwise)]


def _group(statistics: CascadeStatistics) -> list[tuple[str, str]]:
    """Say what groups took of the last judge, and how far off the first one's readings are."""
    if statistics.spent_frac is None:
        return []
    stops = ", ".join(f"{stop} {n}" for stop, n in sorted(statistics.stops.items()))
    figures = [
        ("of the last judge's bill", f"{statistics.spent_frac:.1%}"),
        ("groups ended by", f"{stops} (responses)"),
    ]
    with suppress(MissingExtraError):
        if (bias := statistics.audit_bias()) is not None:
            figures.append(("last judge less expected, audits", bias.text("+.3f")))
    return figures


def _say_bias(statistics: PoolStatistics) -> None:
    """Warn of a first judge whose readings are not worth what the calibration says."""
    if statistics.cascade is None:
        return
    with suppress(MissingExtraError):
        bias = statistics.cascade.audit_bias()
        if bias is None or bias.low is None or bias.high is None:
            return
        if bias.low <= _SMALL_BIAS and bias.high >= -_SMALL_BIAS:
            return
        side = "below" if bias.high < 0 else "above"
        say(
            f"the last judge's scores are {side} what the first one's readings are worth by the "
            f"calibration, by {bias.text('.3f')} of the weight in {bias.n} audits: the answers are "
            "others than the calibrated ones, or a policy learned to please the first judge; "
            "calibrate on such answers again"
        )


def _say_unescalated(statistics: PoolStatistics) -> None:
    cascade_statistics = statistics.cascade
    if (
        cascade_statistics is not None
        and cascade_statistics.judgements
        and not cascade_statistics.escalated
    ):
        say(
            "nothing was escalated: the first judge was sure of all, and only audits check it"
        )
