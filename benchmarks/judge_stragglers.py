"""Time of a judging step with hedging over the time without, behind an endpoint with a long tail.

A real HTTP endpoint in a process of its own answers after log-normal latencies whose 99th
percentile is ten times their median. A step of 2,048 judgements with 128 in flight goes through
`LLMJudge` and `JudgePool`, by turns without and with hedging, for several seeds. Latencies are long
enough that the processor decides nothing.

    uv run python benchmarks/judge_stragglers.py [--quick] [--json PATH]
"""

import argparse
import asyncio
import logging
import random
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog
from record import finish

from rubric_core import Criterion, Grounding, JudgeView, Outcome, Rubric
from rubric_judge import Hedging, JudgeConfig, JudgePool, LLMJudge
from rubric_judge.testing import log_normal
from rubric_judge.testing.process import FakeEndpointProcess

CLAIM = "hedging cuts the median time of a 2,048-call step by a quarter for 5 % more calls at most"
TARGET = 0.75
CALLS = 2048
GROUP_SIZE = 32
IN_FLIGHT = 128
P99_OVER_MEDIAN = 10.0
HEDGING = Hedging()


@dataclass(frozen=True)
class Step:
    """What one step took."""

    seconds: float
    hedged_frac: float
    hedge_wins: int
    cpu_s: float


def latency_of_half_a_second(generator: random.Random) -> float:
    """Draw a latency for the whole run."""
    return log_normal(median_s=0.5, p99_s=0.5 * P99_OVER_MEDIAN)(generator)


def latency_of_a_fifth_of_a_second(generator: random.Random) -> float:
    """Draw a latency for the quick run."""
    return log_normal(median_s=0.2, p99_s=0.2 * P99_OVER_MEDIAN)(generator)


def main() -> None:
    """Run the comparison and print its ratio."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument(
        "--quick", action="store_true", help="under a minute: shorter latencies"
    )
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
    )
    result = compare(
        seeds=2 if arguments.quick else arguments.seeds, quick=arguments.quick
    )
    print(f"{result['value']:.3f} of the time (target {TARGET}): {result['passed']=}")
    finish(result, arguments.json)


def compare(*, seeds: int, quick: bool) -> dict[str, Any]:
    """Take turns and put the times beside each other.

    Args:
        seeds: steps of each kind.
        quick: whether latencies are short.

    Returns:
        The benchmark's record; its value is the median time with hedging over that without.
    """
    without, hedged = list[Step](), list[Step]()
    for seed in range(seeds):
        for hedging, steps in ((None, without), (HEDGING, hedged)):
            steps.append(run_step(hedging, seed=seed, quick=quick))
        one, other = without[-1], hedged[-1]
        print(
            f"seed {seed}: {one.seconds:.2f} s without, {other.seconds:.2f} s with "
            f"{other.hedged_frac:.1%} more calls",
            flush=True,
        )
    value = median_s(hedged) / median_s(without)
    most_extra = max(step.hedged_frac for step in hedged)
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at most",
        "passed": value <= TARGET and most_extra <= HEDGING.max_extra_frac,
        "details": {
            "calls": CALLS,
            "in_flight": IN_FLIGHT,
            "p99_over_median": P99_OVER_MEDIAN,
            "hedging": HEDGING.model_dump(),
            "most_extra_frac": most_extra,
            "without_s": median_s(without),
            "hedged_s": median_s(hedged),
            "steps_without": [asdict(step) for step in without],
            "steps_hedged": [asdict(step) for step in hedged],
        },
    }


def run_step(hedging: Hedging | None, *, seed: int, quick: bool) -> Step:
    """Judge one step against a fresh endpoint."""
    latency = latency_of_a_fifth_of_a_second if quick else latency_of_half_a_second
    with FakeEndpointProcess(0.5, latency=latency, seed=seed) as endpoint:
        return asyncio.run(judge_step(endpoint.url, hedging))


async def judge_step(url: str, hedging: Hedging | None) -> Step:
    """Judge 64 groups of 32 responses.

    Raises:
        RuntimeError: a judgement was not scored.
    """
    config = JudgeConfig(model="openai/fake", api_base=url, transport="direct")
    async with LLMJudge(config) as judge:
        pool = JudgePool(judge, workers=IN_FLIGHT, micro_batch=1, hedge=hedging)
        started_s, cpu_started_s = time.perf_counter(), time.process_time()
        results = await pool.judge_all(make_views())
        seconds, cpu_s = (
            time.perf_counter() - started_s,
            time.process_time() - cpu_started_s,
        )
    if any(result.outcome is not Outcome.SCORED for result in results):
        raise RuntimeError(
            f"not every judgement was scored: {pool.statistics().by_reason}"
        )
    counts = pool.statistics()
    return Step(seconds, counts.hedged / CALLS, counts.hedge_wins, cpu_s)


def make_views() -> list[JudgeView]:
    """Make the responses of a step; short, since only their latency counts here."""
    rubric = Rubric(
        criteria=tuple(Criterion(id=f"c{number}", weight=1.0) for number in range(5))
    )
    return [
        JudgeView(
            task_id=f"{number // GROUP_SIZE:016x}",
            question="What does it say?",
            grounding=Grounding(f"Passage {number // GROUP_SIZE}."),
            response=f"Response {number}.",
            rubric=rubric,
        )
        for number in range(CALLS)
    ]


def median_s(steps: list[Step]) -> float:
    """Median seconds of some steps."""
    return statistics.median(step.seconds for step in steps)


if __name__ == "__main__":
    main()
