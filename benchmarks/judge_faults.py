"""Judgements that faults lose, double, misplace, over-credit, or leave without a reason.

An endpoint in a process of its own fails at random, every fault it knows at 1 to 4 % of the calls,
and awards every response a share of its own. Afterwards its records are compared with the results:
what a judgement was credited, and why it was not, must be what its last call was given. One that
says it timed out must also have taken that long; an answer that comes later counts as none.

    uv run python benchmarks/judge_faults.py [--json-test-suite FOLDER] [--quick] [--json PATH]

FOLDER is `test_parsing` of JSONTestSuite; without it, only texts of our own are sent. It takes some
minutes.
"""

import argparse
import asyncio
import logging
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import structlog
from record import finish
from rich.console import Console
from rich.table import Table

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Rubric,
)
from rubric_judge import JudgeConfig, JudgePool, LLMJudge
from rubric_judge.testing import (
    HOSTILE_TEXTS,
    CallRecord,
    FakeEndpointProcess,
    Fault,
    FaultMix,
    HostileText,
    marked,
    marked_share,
    read_json_test_suite,
)

CLAIM = "no judgement is lost, doubled, misplaced, over-credited or without its reason"
TARGET = 0
MOST_GROWTH = 1.2
"""Peak memory at the end over that after the first fifth."""
RUBRIC = Rubric(criteria=tuple(Criterion(id=f"c{j}", weight=j + 0.5) for j in range(5)))
GROUP = 32
TIMEOUT_S = 1.0
STEP = 2048
"""Responses that are judged together."""
SHARES = dict.fromkeys(Fault, 0.015) | {
    Fault.HANG: 0.01,
    Fault.SLOW_DRIP: 0.01,
    Fault.GIANT: 0.01,
    Fault.HOSTILE_BODY: 0.02,
    Fault.HOSTILE_REPLY: 0.04,
}
INVALID = frozenset(reason for reason in Reason if reason.outcome is Outcome.INVALID)
EXPECTED: dict[Fault | None, frozenset[Reason | None]] = {
    None: frozenset({None}),
    Fault.RATE_LIMIT: frozenset({Reason.RATE_LIMITED}),
    Fault.RATE_LIMIT_RETRY_AFTER: frozenset({Reason.RATE_LIMITED}),
    Fault.SERVER_ERROR: frozenset({Reason.SERVER_ERROR}),
    Fault.OVERLOADED: frozenset({Reason.SERVER_ERROR}),
    Fault.UNAUTHORIZED: frozenset({Reason.AUTH}),
    Fault.NOT_FOUND: frozenset({Reason.BAD_REQUEST}),
    Fault.BAD_REQUEST: frozenset({Reason.BAD_REQUEST}),
    Fault.CONTENT_POLICY: frozenset({Reason.REFUSED}),
    Fault.HANG: frozenset({Reason.TIMEOUT}),
    Fault.RESET: frozenset({Reason.CONNECTION}),
    Fault.HALF_RESPONSE: frozenset({Reason.CONNECTION}),
    Fault.SLOW_DRIP: frozenset({Reason.TIMEOUT}),
    Fault.WRONG_CONTENT_TYPE: frozenset({Reason.SERVER_ERROR}),
    Fault.FENCED: frozenset({Reason.NOT_JSON}),
    Fault.PROSE: frozenset({Reason.NOT_JSON}),
    Fault.EMPTY: frozenset({Reason.EMPTY}),
    Fault.TRUNCATED: frozenset({Reason.TRUNCATED}),
    Fault.REFUSAL: frozenset({Reason.REFUSED}),
    Fault.CONTENT_FILTER: frozenset({Reason.REFUSED}),
    Fault.MISSING_ID: frozenset({Reason.MISSING_CRITERION}),
    Fault.EXTRA_ID: frozenset({Reason.UNKNOWN_CRITERION}),
    Fault.RENAMED_ID: frozenset({Reason.UNKNOWN_CRITERION}),
    Fault.DUPLICATE_ID: frozenset({Reason.DUPLICATE_CRITERION}),
    Fault.NAN: frozenset({Reason.NOT_FINITE}),
    Fault.INFINITE: frozenset({Reason.NOT_FINITE}),
    Fault.STRING_SCORE: frozenset({Reason.WRONG_TYPE}),
    Fault.NEGATIVE_SCORE: frozenset({Reason.SCORE_OUT_OF_RANGE}),
    Fault.EXCESSIVE_SCORE: frozenset({Reason.SCORE_OUT_OF_RANGE}),
    Fault.HUGE_SCORE: frozenset({Reason.SCORE_OUT_OF_RANGE}),
    Fault.WRONG_TOTAL: frozenset({Reason.TOTAL_MISMATCH}),
    Fault.WRONG_MAX_TOTAL: frozenset({Reason.MAX_TOTAL_MISMATCH}),
    Fault.GIANT: frozenset({Reason.NOT_JSON}),
    # A body that is no UTF-8 is no answer; any other hostile reply is one, outside of the contract.
    Fault.HOSTILE_REPLY: INVALID | {Reason.SERVER_ERROR},
    # An answer whose content is in no known form is asked for once: the judge's error.
    Fault.HOSTILE_BODY: frozenset(
        {
            Reason.SERVER_ERROR,
            Reason.CONNECTION,
            Reason.BAD_REQUEST,
            Reason.EMPTY,
            Reason.JUDGE_ERROR,
        }
    ),
}
"""Why a judgement may have failed, by the fault of its last call; None is a scored one."""

Transport = Literal["direct", "litellm"]


Credit = Literal["none", "fair", "above", "other"]
"""What a result credits, beside what its response earns."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is kept of one result, so that memory stays flat."""

    reason: Reason | None
    credit: Credit
    attempts: int
    timed_out: bool
    """Whether it took as long as one attempt may."""


@dataclass
class Run:
    """One transport's judgements."""

    transport: Transport
    judgements: int
    texts: tuple[HostileText, ...]
    rows: list[Row | None] = field(default_factory=list[Row | None])
    violations: Counter[str] = field(default_factory=Counter[str])
    faults: dict[Fault | None, Counter[str]] = field(default_factory=dict)
    calls: int = 0
    unsent: int = 0
    """Hostile texts that no call was given."""
    seconds: float = 0.0
    growth: float = 1.0

    async def judge_all(self, url: str) -> None:
        """Judge in steps, as training does, and keep a row for each result."""
        config = JudgeConfig.model_validate(
            {
                "model": "openai/fake",
                "api_base": url,
                "transport": self.transport,
                "timeout_s": TIMEOUT_S,
                "deadline_s": 60.0,
                "backoff_s": 0.01,
                "max_transport_attempts": 2,  # some judgements end with a fault of the transport
                "limits": {"adaptive": False},  # the faults are no sign of load
            }
        )
        began_s = time.perf_counter()
        peak_early = 0
        async with LLMJudge(config) as judge:
            pool = JudgePool(judge, workers=32 if self.transport == "direct" else 8)
            for start in range(0, self.judgements, STEP):
                await self._judge_step(
                    pool, range(start, min(start + STEP, self.judgements))
                )
                done = len(self.rows)
                print(f"{self.transport}: {done} of {self.judgements}", file=sys.stderr)
                if not peak_early and done >= self.judgements / 5:
                    peak_early = _peak_memory()
        self.growth = _peak_memory() / peak_early
        self.seconds = time.perf_counter() - began_s

    async def _judge_step(self, pool: JudgePool, numbers: range) -> None:
        seen: Counter[int] = Counter()
        try:
            results = await pool.judge_all(
                [view(number) for number in numbers],
                on_result=lambda position, _: seen.update([position]),
            )
        except Exception as error:  # noqa: BLE001 -- whatever comes out is what is looked for
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            self.violations["crashed"] += len(numbers)
            self.rows += [None] * len(numbers)
            return
        self.violations["lost"] += (
            abs(len(numbers) - len(results)) + len(numbers) - len(seen)
        )
        self.violations["doubled"] += sum(seen.values()) - len(seen)
        self.rows += [
            row(number, result)
            for number, result in zip(numbers, results, strict=False)
        ]

    def compare(self, records: Iterable[CallRecord]) -> None:
        """Count where results and the endpoint's records differ."""
        calls: defaultdict[int, list[CallRecord]] = defaultdict(list)
        given: Counter[Fault | None] = Counter()
        sent: set[str | None] = set()
        for record in records:
            given[record.fault] += 1
            sent.add(record.hostile)
            if record.view is not None:
                calls[record.view].append(record)
        self.calls = given.total()
        self.unsent = len({text.name for text in self.texts} - sent)
        self.faults = {fault: Counter(calls=count) for fault, count in given.items()}
        for number, kept in enumerate(self.rows):
            if kept is not None:
                self.violations.update(violations(kept, calls[number]))
                last = max(
                    calls[number], key=lambda record: record.number, default=None
                )
                if last is not None:
                    word = kept.reason.value if kept.reason else "scored"
                    self.faults[last.fault][word] += 1


def view(number: int) -> JudgeView:
    """Return one response of a group; it earns what no other of its step does."""
    task = number // GROUP
    return JudgeView(
        task_id=f"{task:016x}",
        question=f"What does section {task} say?",
        grounding=Grounding(
            f"Section {task} says that water boils at 100 degrees. " * 20
        ),
        response=marked(
            f"It boils, says answer {number}.", view=number, share=share(number)
        ),
        rubric=RUBRIC,
    )


def share(number: int) -> float:
    """Return what a response earns of every criterion, more than 0 and at most 1."""
    return (number % 9973 + 1) / 9973


def row(number: int, result: JudgeResult) -> Row:
    """Return what is kept of a result."""
    fair = {criterion.id: criterion.weight * share(number) for criterion in RUBRIC}
    credit: Credit = "other"
    if not result.scores:
        credit = "none"
    elif result.scores == fair:
        credit = "fair"
    elif any(score > fair[name] for name, score in result.scores.items()):
        credit = "above"
    timed_out = (result.latency_s or 0.0) >= TIMEOUT_S
    return Row(result.reason, credit, result.attempts, timed_out)


def violations(kept: Row, calls: Sequence[CallRecord]) -> Iterable[str]:
    """Yield what is wrong with one result, given the calls that were made for it."""
    last = max(calls, key=lambda record: record.number, default=None)
    awarded = last.awarded if last is not None else {}
    if kept.credit == "above" or (kept.credit != "none" and not awarded):
        yield "over-credited"
    elif kept.credit == "other":
        yield "misplaced"
    if kept.reason is Reason.JUDGE_ERROR:
        if last is None or kept.reason not in EXPECTED[last.fault]:
            yield "crashed"
    elif kept.reason is Reason.TIMEOUT:
        if not kept.timed_out:
            yield "without its reason"
    elif last is None or kept.reason not in EXPECTED[last.fault]:
        yield "without its reason"
    if len(calls) > kept.attempts:
        yield "called more often than it says"


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def judged(
    transport: Transport, judgements: int, texts: tuple[HostileText, ...]
) -> Run:
    """Run one transport against an endpoint of its own and compare the two sides."""
    run = Run(transport, judgements, texts)
    mix = FaultMix(SHARES, texts=texts)
    with FakeEndpointProcess(
        marked_share, faults=mix, retry_after_s=0.02, seed=1
    ) as endpoint:
        asyncio.run(run.judge_all(endpoint.url))
        run.compare(endpoint.records)
    return run


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the benchmark's record."""
    value = sum(run.violations.total() for run in runs)
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at most",
        # Over the cheap transport, every text must have been met.
        "passed": value <= TARGET
        and all(run.growth <= MOST_GROWTH for run in runs)
        and all(run.unsent == 0 for run in runs if run.transport == "direct"),
        "details": {
            run.transport: {
                "judgements": run.judgements,
                "calls": run.calls,
                "violations": {
                    kind: count for kind, count in run.violations.items() if count
                },
                "hostile_texts": len(run.texts),
                "hostile_texts_unsent": run.unsent,
                "peak_memory_growth": run.growth,
                "seconds": run.seconds,
                "by_fault": {
                    str(fault): dict(counts) for fault, counts in run.faults.items()
                },
            }
            for run in runs
        },
    }


def show(result: dict[str, Any]) -> None:
    """Print a table for each transport."""
    console = Console(width=120)
    for transport, details in result["details"].items():
        table = Table(
            "fault",
            "calls",
            "share",
            "last calls of judgements, by what became of them",
        )
        by_fault = details["by_fault"]
        for fault in ("None", *Fault):
            counts = dict(by_fault.get(fault, {}))
            calls = counts.pop("calls", 0)
            words = ", ".join(
                f"{word} {count}" for word, count in sorted(counts.items())
            )
            name = "none" if fault == "None" else fault
            table.add_row(name, str(calls), f"{calls / details['calls']:.1%}", words)
        table.title = (
            f"{transport}: {details['judgements']} judgements, {details['calls']} calls"
        )
        console.print(table)
        console.print(
            f"{details['hostile_texts']} hostile texts, {details['hostile_texts_unsent']} unsent; "
            f"{details['seconds']:.0f} s; peak memory grew {details['peak_memory_growth']:.2f} "
            f"times after the first fifth; violations: {details['violations'] or 'none'}"
        )
    print(f"{result['value']} violations (target {TARGET}): {result['passed']=}")


def main() -> None:
    """Run both transports, print the tables, and end with 1 if anything was violated."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument(
        "--quick", action="store_true", help="under a minute: 5,000 judgements"
    )
    parser.add_argument(
        "--judgements", type=int, help="over the direct transport; 100,000"
    )
    parser.add_argument(
        "--litellm-share", type=float, default=0.05, help="over litellm, of these"
    )
    parser.add_argument(
        "--json-test-suite", type=Path, help="folder `test_parsing` of it"
    )
    options = parser.parse_args()
    judgements = options.judgements or (5_000 if options.quick else 100_000)
    texts = HOSTILE_TEXTS
    if options.json_test_suite:
        texts += read_json_test_suite(options.json_test_suite)
    # As the command line does: an event is made for every call, and filtered.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
    )
    runs = [judged("direct", judgements, texts)]
    if through_litellm := int(judgements * options.litellm_share):
        runs.append(judged("litellm", through_litellm, texts))
    result = summary(runs)
    show(result)
    finish(result, options.json)


if __name__ == "__main__":
    main()
