"""Time of a held-out evaluation over the time that its judge alone takes.

1,319 questions, as many as GSM8K's test split has, answered at once by a model that costs nothing;
a judge in a process of its own takes 200 ms for each answer and is given 32 at once. The bound is
answers / 32 · 200 ms. Everything else counts against the evaluation: the question whether the judge
is there, the last round that is not full, answers, ledger, rows and the table with its intervals.
The judge is asked a few questions first, so that imports are not timed. A second run into the same
folder must ask for nothing, and is compared with reading the folder's lines as JSON.

    uv run python benchmarks/heldout_throughput.py [--quick] [--json PATH]
"""

import argparse
import json
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from pydantic import JsonValue
from record import finish
from rich.console import Console
from rich.table import Table

from rubric_core import Ask, Criterion, Decoding, Grounding, Reply, Rubric, Task
from rubric_eval.heldout.plan import HeldoutPlan
from rubric_eval.heldout.run import run_heldout
from rubric_eval.records.run import ModelEntry
from rubric_eval.responders.opening import OpenModel, fingerprint
from rubric_eval.scores.scoring import read_judges
from rubric_judge.testing import FakeEndpointProcess

CLAIM = "an evaluation takes hardly longer than its judge, and a second one asks for nothing"
TARGET = 1.15
"""Over the bound, at most."""
SECOND_RUN_TARGET = 60.0
"""Second run over reading the first one's lines as JSON, at most."""
LATENCY_S = 0.2
WORKERS = 8
IN_FLIGHT = WORKERS * 4
QUESTIONS = 1_319
SENTENCE = (
    "The annual report puts the base margin in the fourth quarter at 17.2 percent. "
)


class Instant:
    """A `Responder` that costs nothing."""

    identity: Mapping[str, JsonValue] = {"benchmark": "instant"}

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncIterator[tuple[int, Reply]]:
        """Answer every question at once, differently."""
        for index, ask in enumerate(asks):
            text = f"{ask.view.question} {SENTENCE * 18}"
            yield index, Reply.answered(text, tokens=min(300, decoding.max_tokens))

    async def aclose(self) -> None:
        """Nothing is open."""


def model() -> OpenModel:
    """Open a new one."""
    responder = Instant()
    entry = ModelEntry(
        name="instant",
        spec="instant",
        fingerprint=fingerprint(responder),
        identity=dict(responder.identity),
    )
    return OpenModel(entry, responder)


def questions(count: int) -> tuple[Task, ...]:
    """Make so many tasks with five criteria, four of each passage of 3,000 characters."""
    rubric = Rubric(
        criteria=tuple(
            Criterion(
                id=f"fact_{number}",
                weight=number + 1.0,
                description=f"States fact number {number} with the right figure and its unit.",
            )
            for number in range(5)
        )
    )
    passages = [
        Grounding(f"Passage {n}. {SENTENCE * 38}") for n in range(count // 4 + 1)
    ]
    return tuple(
        Task(
            question=f"What moved margin {n}?",
            grounding=passages[n // 4],
            rubric=rubric,
        )
        for n in range(count)
    )


def evaluate(folder: Path, judge: Path, tasks: tuple[Task, ...]) -> float:
    """Evaluate, and return the seconds that it took."""
    plan = HeldoutPlan(tasks=tasks, source="made", decoding=Decoding(), workers=WORKERS)
    judges = read_judges([str(judge)])
    began_s = time.perf_counter()
    anyio.run(partial(run_heldout, folder, plan, [model()], judges))
    return time.perf_counter() - began_s


def read_lines(folder: Path) -> float:
    """Parse every line of an evaluation, and return the seconds that it took."""
    began_s = time.perf_counter()
    for path in folder.rglob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            json.loads(line)
    return time.perf_counter() - began_s


def measure(*, quick: bool) -> dict[str, Any]:
    """Evaluate once into a new folder and once more into the same one."""
    count = QUESTIONS // 4 if quick else QUESTIONS
    tasks = questions(count)
    with (
        FakeEndpointProcess(0.5, latency=LATENCY_S, keep="counts") as endpoint,
        tempfile.TemporaryDirectory() as place,
    ):
        folder, judge = Path(place), Path(place) / "judge.yaml"
        spec = f"type: llm\nmodel: openai/fake\napi_base: {endpoint.url}\ntransport: direct\n"
        judge.write_text(spec, encoding="utf-8")
        evaluate(folder / "warm", judge, tasks[:8])
        took_s = evaluate(folder / "eval", judge, tasks)
        asked = endpoint.counts.total()
        again_s = evaluate(folder / "eval", judge, tasks)
        asked_again = endpoint.counts.total() - asked
        lines_s = read_lines(folder / "eval")
    bound_s = count / IN_FLIGHT * LATENCY_S
    value = took_s / bound_s
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at most",
        "passed": value <= TARGET
        and again_s <= SECOND_RUN_TARGET * lines_s
        and asked_again == 0,
        "details": {
            "answers": count,
            "in_flight": IN_FLIGHT,
            "judge_s": LATENCY_S,
            "bound_s": bound_s,
            "took_s": took_s,
            "second_run_s": again_s,
            "second_run_over_reading_json": again_s / lines_s,
            "second_run_calls": asked_again,
        },
    }


def print_result(result: dict[str, Any]) -> None:
    """Print the figures as a table."""
    table = Table(title=result["claim"], title_justify="left", show_header=False)
    for name, figure in result["details"].items():
        table.add_row(name.replace("_", " "), f"{figure:g}")
    table.add_row(
        "over the bound", f"{result['value']:.3f}, at most {result['target']}"
    )
    Console().print(table)


def main() -> None:
    """Measure, print and write; status 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument(
        "--quick", action="store_true", help="a quarter of the questions"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    result = measure(quick=options.quick)
    print_result(result)
    finish(result, options.json)


if __name__ == "__main__":
    main()
