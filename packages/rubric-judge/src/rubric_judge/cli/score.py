"""`rubric-judge score`: one judgement for each response of a file."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rubric_core import ConfigError, Outcome, read_tasks
from rubric_judge.cli.app import require_writable, working
from rubric_judge.cli.judging import Batch, Judged, judge_batches, require_positive, say_suspect
from rubric_judge.console.command import FAILED, configure_log, console, print_pairs
from rubric_judge.console.progress import current
from rubric_judge.responses import JudgedResponse, read_responses, write_judgements

if TYPE_CHECKING:
    from rubric_judge.config import JudgeSpec
    from rubric_judge.ledger.store import Ledger
    from rubric_judge.pool.pool import JudgePool
    from rubric_judge.pool.ray_pool import RayJudgePool
    from rubric_judge.pool.statistics import PoolStatistics


_DETAILS_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """What kind of pool was asked for."""

    workers: int
    micro_batch: int
    deadline_s: float | None
    hedge: bool
    ray: int | None

    def __post_init__(self) -> None:
        require_positive(workers=self.workers, micro_batch=self.micro_batch, ray=self.ray)
        if self.deadline_s is not None and not self.deadline_s > 0:
            raise ConfigError(
                f"--deadline-s is {self.deadline_s:g}: give seconds above 0", location="deadline-s"
            )


def score(  # noqa: PLR0913  # the flags of a command
    tasks: Path,
    responses: Path,
    *,
    judge: Path,
    out: Path,
    ledger: Path | None = None,
    workers: int = 32,
    micro_batch: int = 4,
    deadline_s: float | None = None,
    hedge: Annotated[bool, Parameter(negative=())] = False,
    ray: int | None = None,
    verbose: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Score responses and write one judgement for each.

    Example: rubric-judge score test.jsonl answers.jsonl --judge lexical.yaml --out judged.jsonl

    Args:
        tasks: Tasks, JSON Lines in the paper's schema (or Parquet).
        responses: JSON Lines with `task_id` and `response`.
        judge: The judge's configuration, YAML.
        out: File to write: line, task id, reward and the whole result, in the order of RESPONSES.
        ledger: A ledger to look judgements up in and to record them in, so that a command that was
            stopped goes on where it was.
        workers: Judge workers; each holds up to MICRO-BATCH responses.
        micro_batch: Responses that a worker holds at once.
        deadline_s: Seconds after which what is not judged yet is given up, and what is judged kept.
        hedge: Ask a second time for stragglers, for 5 % more calls at most.
        ray: Judge in this many Ray actors instead of in WORKERS; needs rubric-judge[ray].
        verbose: Log every judge call to stderr.

    Returns:
        Exit status: 1 when not a single response could be judged, or the ledger could not be
        written.
    """
    configure_log(verbose=verbose)
    kind = _Pool(
        workers=workers, micro_batch=micro_batch, deadline_s=deadline_s, hedge=hedge, ray=ray
    )
    require_writable(out, flag="--out", inputs=(tasks, responses, judge, ledger))
    with working() as progress:
        judged, done = _judge(tasks, responses, judge, kind=kind, ledger=ledger)
        with progress.phase("writing the judgements"):
            write_judgements(out, judged)
    if not judged:
        print(f"rubric-judge: {responses} holds no response: nothing was judged", file=sys.stderr)
    _report(judged, done.statistics, out=out)
    say_suspect(done.statistics, has_ledger=ledger is not None)
    if ledger is not None:
        files = ("rejudge", responses, tasks, "--before", out, "--judge", judge, "--ledger", ledger)
        _say_how_to_ask_again(done.statistics, files)
    lost = bool(judged) and all(row.reward is None for row in judged)
    return FAILED if done.unwritten or lost else 0


def _judge(
    tasks: Path, responses: Path, judge: Path, *, kind: _Pool, ledger: Path | None
) -> tuple[list[JudgedResponse], Judged]:
    from rubric_judge.config import read_judge_spec

    with current().phase("reading tasks and responses"):
        spec = read_judge_spec(judge)
        numbered = read_responses(responses, {task.task_id: task for task in read_tasks(tasks)})
    done = judge_batches(
        lambda books: _pool(spec, kind, books),
        [Batch("judging", [view for _, view in numbered])],
        ledger=ledger,
        deadline_s=kind.deadline_s,
    )
    judged = [
        JudgedResponse(line=line, view=view, result=result)
        for (line, view), result in zip(numbered, done.batches[0][0], strict=True)
    ]
    return judged, done


def _pool(spec: JudgeSpec, kind: _Pool, ledger: Ledger | None) -> JudgePool | RayJudgePool:
    from rubric_judge.load import load_replicas
    from rubric_judge.pool.pool import JudgePool
    from rubric_judge.pool.ray_pool import RayJudgePool
    from rubric_judge.pool.schedule import Hedging

    hedge, n = Hedging() if kind.hedge else None, kind.micro_batch
    if kind.ray is not None:
        return RayJudgePool(spec, actors=kind.ray, micro_batch=n, hedge=hedge, ledger=ledger)
    judges = load_replicas(spec)
    return JudgePool(judges, workers=kind.workers, micro_batch=n, hedge=hedge, ledger=ledger)


def _report(judged: Sequence[JudgedResponse], statistics: PoolStatistics, *, out: Path) -> None:
    rewards = [row.reward for row in judged if row.reward is not None]
    mean = [("mean reward", f"{sum(rewards) / len(rewards):.4f}")] if rewards else []
    print_pairs(
        [
            ("responses", len(judged)),
            *mean,
            *((outcome.value, count) for outcome, count in statistics.by_outcome.items()),
            *((f"  {reason.value}", count) for reason, count in statistics.by_reason.items()),
            *_answerers(statistics),
            *_figures(statistics),
            ("written", out),
        ]
    )
    for outcome, words in (
        (Outcome.UNAVAILABLE, "not judged"),
        (Outcome.INVALID, "answered out of contract, reward 0"),
    ):
        failed = [row.result for row in judged if row.result.outcome is outcome]
        details = Counter(result.detail or str(result.reason) for result in failed)
        for detail, count in details.most_common(_DETAILS_SHOWN):
            print(f"{words} ({count}): {detail}", file=sys.stderr)


def _say_how_to_ask_again(statistics: PoolStatistics, files: Sequence[str | Path]) -> None:
    if count := statistics.invalid_from_ledger:
        command = " ".join(shlex.quote(str(part)) for part in ("rubric-judge", *files))
        console().print(
            f"{count} invalid judgements are from the ledger; to ask for them again: {command} "
            "--only invalid --replicate 1 --out again.jsonl",
            soft_wrap=True,
        )


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
        for by, count in sorted(counts.items(), key=lambda one: -one[1])
    ]


def _figures(statistics: PoolStatistics) -> list[tuple[str, str]]:
    figures: list[tuple[str, str]] = []
    counts = {
        "from the ledger": statistics.from_ledger,
        "  of them invalid": statistics.invalid_from_ledger,
        "attempts": statistics.attempts,
        "asked twice": statistics.hedged,
        "  second answer taken": statistics.hedge_wins,
        "moved to another replica": statistics.moved,
        "passages cut": statistics.passages_truncated,
    }
    figures.extend((name, str(count)) for name, count in counts.items() if count)
    if statistics.latency is not None:
        figures.append(("seconds, median", f"{statistics.latency.p50_s:.3g}"))
        figures.append(("seconds, 99 %", f"{statistics.latency.p99_s:.3g}"))
    usage = statistics.usage
    if usage.prompt_tokens:
        cached = statistics.cached_token_frac
        figures.append(("prompt tokens", str(usage.prompt_tokens)))
        figures.append(("  of them cached", "not reported" if cached is None else f"{cached:.1%}"))
        figures.append(("completion tokens", str(usage.completion_tokens)))
        figures.append(("tokens per criterion", f"{statistics.tokens_per_criterion:.0f}"))
        if statistics.cached_tokens_per_criterion is not None:
            cached_tokens = f"{statistics.cached_tokens_per_criterion:.0f}"
            figures.append(("cached tokens per criterion", cached_tokens))
    if usage.cost_usd is not None and statistics.cost_per_criterion_usd is not None:
        figures.append(("cost", f"${usage.cost_usd:.4f}"))
        figures.append(("  per criterion", f"${statistics.cost_per_criterion_usd:.2g}"))
    return figures
