"""Judging for a command: a ledger, a question before thousands, progress, and what was not kept."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import anyio

from rubric_core import Judge, JudgeResult, JudgeView, Outcome
from rubric_judge.cli.app import say
from rubric_judge.quality.responses import (
    JudgedResponse,
    judged_rows,
    write_judgements,
)
from rubric_judge.quality.trajectories import Submitted, views_of_all
from rubric_judge.ui.console import command, progress

if TYPE_CHECKING:
    from rubric_judge.judges.capabilities import WordMatching
    from rubric_judge.pool.ledger.store import Ledger
    from rubric_judge.pool.pool import JudgePool
    from rubric_judge.pool.ray_pool import RayJudgePool
    from rubric_judge.pool.statistics import PoolStatistics
    from rubric_judge.quality.reliability import Rating


_Pool: TypeAlias = "JudgePool | RayJudgePool"


class Batch(NamedTuple):
    """Views that are judged once for each replicate."""

    title: str
    """Name of the batch in progress reports."""
    views: Sequence[JudgeView]
    replicates: Sequence[int] = (0,)


class Judged(NamedTuple):
    """Results of `judge_batches`."""

    batches: list[list[list[JudgeResult]]]
    """For each batch and each of its replicates, one result a view."""
    statistics: PoolStatistics
    unwritten: int
    """Judgements that the ledger could not take; they are in the results all the same."""

    def status(self, rows: Sequence[JudgedResponse]) -> int:
        """Return the exit status: failed if no row has a reward, or the ledger lacks some."""
        lost = all(row.reward is None for row in rows)
        return command.FAILED if self.unwritten or lost else 0


class Judging(NamedTuple):
    """A judge of a command, and what makes a pool of it."""

    pool: Callable[[Ledger | None], _Pool]
    make: Callable[[], Judge]
    """Makes the judge alone, to ask who it is."""
    keeps_invalid: bool
    """Whether it keeps the texts of invalid replies."""
    word_matchers: Callable[[], Mapping[str, WordMatching]]
    """Makes the judges in it that look for words, by their names in results."""

    def name(self) -> str:
        """Make the judge, to ask its name."""
        return self.make().name


def read_judge(
    judge: Path,
    *,
    workers: int,
    micro_batch: int = 4,
    hedge: bool = False,
    ray: int | None = None,
) -> Judging:
    """Read the configuration of a judge that works in this process, or in so many Ray actors."""
    from rubric_judge.config import read_judge_spec
    from rubric_judge.judges.load import load_judge, load_replicas, word_matchers
    from rubric_judge.pool.pool import JudgePool
    from rubric_judge.pool.ray_pool import RayJudgePool
    from rubric_judge.pool.step import Hedging

    spec = read_judge_spec(judge)
    hedging = Hedging() if hedge else None
    n = micro_batch

    def pool(ledger: Ledger | None) -> _Pool:
        if ray is not None:
            return RayJudgePool(
                spec, actors=ray, micro_batch=n, hedge=hedging, ledger=ledger
            )
        judges = load_replicas(spec)
        return JudgePool(
            judges, workers=workers, micro_batch=n, hedge=hedging, ledger=ledger
        )

    return Judging(
        pool,
        lambda: load_judge(spec),
        '"keep_invalid":true' in spec.model_dump_json(),
        lambda: {judge.name: judge for judge in word_matchers(spec)},
    )


def judge_batches(
    make_pool: Callable[[Ledger | None], _Pool],
    batches: Sequence[Batch],
    *,
    ledger: Path | None,
    deadline_s: float | None = None,
) -> Judged:
    """Judge every batch, and say how far it is.

    Args:
        make_pool: makes the pool, which is closed at the end.
        batches: what to judge, in this order.
        ledger: where judgements are looked up and kept.
        deadline_s: seconds for each replicate of a batch.

    Returns:
        The results, in order.

    Raises:
        JudgeSetupError: the judge is not there, and the ledger does not hold everything.
    """

    async def judge(
        ledger: Ledger | None,
    ) -> tuple[list[list[list[JudgeResult]]], PoolStatistics]:
        pool = make_pool(ledger)
        try:
            asked = (
                (batch.views, number)
                for batch in batches
                for number in batch.replicates
            )
            with progress.current().phase("asking the judge whether it is there"):
                if not all(
                    pool.knows(views, replicate=number) for views, number in asked
                ):
                    await check_replicas(pool)
            results = [
                await _judge_batch(pool, batch, deadline_s=deadline_s)
                for batch in batches
            ]
            return results, pool.statistics()
        finally:
            await pool.aclose()

    with opened(ledger) as books:
        results, statistics = anyio.run(judge, books)
    return Judged(results, statistics, say_unwritten(books))


def judge_all(
    judges: Mapping[str, Judging],
    submitted: Sequence[Submitted],
    replicates: int,
    *,
    ledger: Path | None,
    out: Path,
) -> tuple[list[Rating], int]:
    """Judge responses several times with each judge, and write every judgement.

    Args:
        judges: by the stem of their configuration.
        submitted: the responses, or trajectories.
        replicates: judgements of each response by each judge.
        ledger: where judgements are looked up and kept.
        out: folder of `judgements_{stem}_{replicate}.jsonl`.

    Returns:
        The judgements, and how many of them the ledger could not take.
    """
    from rubric_judge.quality.reliability import Rating

    called = labels(judges)
    ratings: list[Rating] = []
    unwritten = 0
    for stem, judge in judges.items():
        label = called[stem]
        batch = Batch(label, views_of_all(submitted), range(replicates))
        judged = judge_batches(judge.pool, (batch,), ledger=ledger)
        unwritten += judged.unwritten
        for replicate, results in enumerate(judged.batches[0]):
            rows = [
                replace(row, result=row.result.with_call(judge=label))
                for row in judged_rows(submitted, results)
            ]
            write_judgements(out / f"judgements_{stem}_{replicate}.jsonl", rows)
            ratings += [
                Rating(label, row.view.task_id, row.line, row.result) for row in rows
            ]
    return ratings, unwritten


def opened(ledger: Path | None) -> AbstractContextManager[Ledger | None]:
    """Return the ledger, if there is to be one."""
    from rubric_judge.pool.ledger.store import Ledger

    return Ledger(ledger) if ledger else nullcontext()


def say_unwritten(ledger: Ledger | None) -> int:
    """Say how many judgements the ledger could not take, and return it."""
    if ledger is None or not ledger.unwritten:
        return 0
    print(
        f"not written to {ledger.path}: {ledger.unwritten} judgements", file=sys.stderr
    )
    return ledger.unwritten


def say_suspect(statistics: PoolStatistics, *, has_ledger: bool, again: str) -> None:
    """Say which answers may be worth another call.

    Args:
        statistics: a judge that gave no valid answer in this run may be a broken server.
        has_ledger: whether answers were kept.
        again: what asks again for invalid judgements that the ledger holds.
    """
    scored, invalid = (
        statistics.by_outcome.get(outcome, 0)
        for outcome in (Outcome.SCORED, Outcome.INVALID)
    )
    old = statistics.invalid_from_ledger
    if invalid > old and scored == statistics.from_ledger - old:
        kept = (
            "; the ledger keeps none as final: the same command asks again"
            if has_ledger
            else ""
        )
        say(
            f"suspect: not one of the {invalid - old} answers of this run is valid, so check "
            f"the server and its model{kept}"
        )
    if old:
        command.console().print(
            f"{old} invalid judgements are from the ledger; to ask for them again: {again}",
            soft_wrap=True,
        )


async def check_replicas(pool: _Pool) -> None:
    """Ask the judge whether it is there, and say which replicas are not.

    Raises:
        JudgeSetupError: none is.
    """
    for problem in await pool.check():
        say(f"one replica is not there: {problem}")


async def _judge_batch(
    pool: _Pool, batch: Batch, *, deadline_s: float | None
) -> list[list[JudgeResult]]:
    total = len(batch.replicates) * len(batch.views)
    with progress.current().phase(batch.title, total=total) as phase:
        return [
            await pool.judge_all(
                batch.views,
                on_result=lambda _position, _result: phase.advance(),
                deadline_s=deadline_s,
                replicate=replicate,
            )
            for replicate in batch.replicates
        ]


def labels(judges: Mapping[str, Judging]) -> dict[str, str]:
    """Return what each judge is called, by the stem of its configuration.

    Two configurations of one model are two judges.
    """
    names = {stem: judge.name() for stem, judge in judges.items()}
    shared = Counter(names.values())
    return {
        stem: f"{name} ({stem})" if shared[name] > 1 else name
        for stem, name in names.items()
    }
