"""What every driver of `judge_throughput.py` shares: its workload, its turns and its clock.

A driver runs in the environment of its own library, so this holds nothing but the standard library.
It says that it is ready, and then answers each line `{"calls": n, "in_flight": m, "round": r}` with
what its calls took.
"""

import asyncio
import importlib.metadata
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Exercise", "Workload", "in_flight", "read_workload", "take_turns"]


@dataclass(frozen=True)
class Exercise:
    """One response to judge."""

    task: int
    question: str
    passage: str
    response: str


@dataclass(frozen=True)
class Workload:
    """What all libraries judge: groups of responses to questions about passages."""

    url: str
    system: str
    before: str
    """The user message of `ours` up to the response, for drivers that bring no prompt."""
    criteria: list[dict[str, Any]]
    questions: list[str]
    passages: list[str]
    response: str
    group: int
    """Responses to one question."""

    def exercises(self, count: int, turn: int) -> Iterator[Exercise]:
        """Yield responses, each unlike any other of this run."""
        for number in range(count):
            task = number // self.group % len(self.questions)
            response = f"Answer {turn}-{number}. {self.response}"
            yield Exercise(task, self.questions[task], self.passages[task], response)


def read_workload() -> Workload:
    """Read the file that the first argument names."""
    return Workload(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))


async def in_flight(
    ask: Callable[[Exercise], Awaitable[None]],
    exercises: Iterator[Exercise],
    limit: int,
) -> None:
    """Keep `limit` calls in flight until all are answered."""

    async def work() -> None:
        for exercise in exercises:
            await ask(exercise)

    await asyncio.gather(*(work() for _ in range(limit)))


def take_turns(
    judge: Callable[[list[Exercise], int], Awaitable[None]],
    workload: Workload,
    packages: tuple[str, ...],
) -> None:
    """Judge as often as the parent asks, and report wall and CPU seconds.

    Args:
        judge: judges all of a turn with as many calls in flight as it is told.
        workload: what there is to judge.
        packages: whose versions to report.
    """

    async def turns() -> None:
        versions = {name: importlib.metadata.version(name) for name in packages}
        say({"versions": versions, "python": sys.version.split()[0]})
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            turn = json.loads(line)
            exercises = list(workload.exercises(turn["calls"], turn["round"]))
            began_s, cpu_began_s = time.perf_counter(), time.process_time()
            await judge(exercises, turn["in_flight"])
            cpu_s = time.process_time() - cpu_began_s
            say({"wall_s": time.perf_counter() - began_s, "cpu_s": cpu_s})

    replies = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is no answer

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=replies, flush=True)

    asyncio.run(turns())
