"""CPU of plain instructor+litellm per judgement, over that of our direct transport.

Both, our own litellm path, autorubric, rubric and verifiers judge responses of the same
size by the same five criteria, one call for each response, against one endpoint in a process of its
own. They take turns with bare aiohttp calls, which every time is compared with: no bound is an
absolute time. A driver's CPU is its own process's, user and system. Peers run in environments of
their own, which uv makes by package name; one that cannot be installed is left out with a note.

    uv run python benchmarks/judge_throughput.py [--quick] [--json PATH] [--cache FOLDER]
"""

import argparse
import importlib.metadata
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers.answers import CRITERIA, answer
from record import finish
from rich.console import Console
from rich.table import Table

from rubric_core import Criterion, Grounding, JudgeView, Rubric
from rubric_judge.judges.llm.prompt import load_prompt
from rubric_judge.testing import FakeEndpointProcess

CLAIM = "the direct transport takes an eighth of the CPU of instructor+litellm as commonly used"
TARGET = 8.0
MOST_OF_BARE = 4.0
"""CPU of our direct transport, over that of bare calls: strict reading, limits, results, events."""
MOST_OF_PLAIN = 1.25
"""CPU of our litellm path, over that of the plain one: the same calls, read strictly."""
MOST_OVER_BOUND = 1.0
"""A step whose calls all take 200 ms, over bare calls that wait as long and the client's own work.

The work is the time of as many calls to an endpoint that answers at once. A client that never waits
while it has something to do stays below 1, on a slow machine too.
"""
STEPS = 3
"""Of each kind at 200 ms a call, by turns; the median counts."""
LATENCY_S = 0.2
READY_WITHIN_S = 600.0
"""An environment may have to be downloaded first."""
TURN_WITHIN_S = 600.0
PEERS = Path(__file__).parent / "peers"
HERE = (sys.executable,)


@dataclass(frozen=True)
class Library:
    """One side of the comparison."""

    name: str
    driver: tuple[str, ...]
    calls: int
    """In one turn: the slower, the fewer."""
    packages: tuple[str, ...] = ()
    """What uv puts into its environment; none for what runs in this one."""
    note: str = ""

    def command(self, workload: Path, cache: Path | None) -> list[str]:
        """Return what starts its driver."""
        script, *options = self.driver
        python = list(HERE)
        if self.packages:
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            python = [
                "uv",
                "run",
                "--quiet",
                "--no-project",
                "--isolated",
                "--python",
                version,
            ]
            python += ["--cache-dir", str(cache)] if cache else []
            python += [part for name in self.packages for part in ("--with", name)]
            python += ["python"]
        # Nobody fetches a price list while it is being measured.
        offline = ["env", "LITELLM_LOCAL_MODEL_COST_MAP=True"]
        return [*offline, *python, str(PEERS / script), str(workload), *options]


def _same(*names: str) -> tuple[str, ...]:
    """Pin packages to the versions that our own path uses."""
    return tuple(f"{name}=={importlib.metadata.version(name)}" for name in names)


DIRECT = Library("ours, direct", ("ours.py", "direct", "ours"), calls=1024)
LITELLM = Library(
    "ours, litellm",
    ("ours.py", "litellm", "hosted_vllm/ours"),
    calls=384,
    note="through litellm; its route for a server of one's own, hosted_vllm/",
)
PLAIN = Library(
    "plain instructor+litellm",
    ("plain_instructor.py",),
    calls=256,
    packages=("instructor", *_same("litellm")),
    note="openai/, from_litellm, the model of the reply at each call; our prompt, a list of scores",
)
BARE = Library(
    "bare aiohttp",
    ("bare_aiohttp.py",),
    calls=1024,
    note="the bound: our prompt sent, the reply parsed, nothing checked",
)
LIBRARIES = (
    BARE,
    DIRECT,
    LITELLM,
    PLAIN,
    Library(
        "autorubric 1.6.1",
        ("autorubric_item.py",),
        calls=256,
        packages=("autorubric==1.6.1",),
        note="per item; its own, longer prompt; met or unmet",
    ),
    Library(
        "rubric 2.2.0",
        ("rubric_one_shot.py",),
        calls=256,
        packages=("rubric==2.2.0", *_same("openai")),
        note="one shot; its own, longer prompt; the call is its user's: AsyncOpenAI",
    ),
    Library(
        "verifiers 0.4.0",
        ("verifiers_rubric.py",),
        calls=64,
        packages=("verifiers==0.4.0",),
        note="RubricJudge; its own prompt; yes or no; a client for each call",
    ),
)


@dataclass
class Driver:
    """A running driver and its turns."""

    library: Library
    process: subprocess.Popen[str]
    log: Path
    versions: dict[str, str] = field(default_factory=dict[str, str])
    turns: list[dict[str, float]] = field(default_factory=list[dict[str, float]])

    def read(self, *, within_s: float) -> dict[str, Any] | None:
        """Return its next line; None when it has ended, or when it was too slow and was ended."""
        watchdog = threading.Timer(within_s, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline() if self.process.stdout else ""
        watchdog.cancel()
        return json.loads(line) if line else None

    def take_turn(self, calls: int, *, limit: int, turn: int) -> dict[str, float]:
        """Let it judge, and return what that took."""
        order = {"calls": calls, "in_flight": limit, "round": turn}
        if self.process.stdin is not None:
            print(json.dumps(order), file=self.process.stdin, flush=True)
        took = self.read(within_s=TURN_WITHIN_S)
        if took is None:
            raise RuntimeError(
                f"{self.library.name} failed, or took more than {TURN_WITHIN_S:g} s for "
                f"{calls} calls: {self.last_words()}"
            )
        return {**took, "calls": calls}

    def last_words(self) -> str:
        """Return the end of what it wrote to stderr."""
        return " ".join(self.log.read_text(encoding="utf-8").split())[-300:]

    @property
    def cpu_ms(self) -> float:
        """Median CPU of one judgement."""
        return statistics.median(
            1000 * turn["cpu_s"] / turn["calls"] for turn in self.turns
        )

    @property
    def last_cpu_ms(self) -> float:
        """CPU of one judgement in the last turn."""
        return 1000 * self.turns[-1]["cpu_s"] / self.turns[-1]["calls"]

    @property
    def calls_per_s(self) -> float:
        """Median rate, bound by the CPU that there is."""
        return statistics.median(turn["calls"] / turn["wall_s"] for turn in self.turns)


@dataclass(frozen=True)
class Place:
    """Where drivers find their workload, and write what went wrong."""

    folder: Path
    cache: Path | None

    def write_workload(self, url: str) -> Path:
        """Write what all libraries judge."""
        fields = {**texts(), "url": url}
        path = self.folder / f"workload_{url.rpartition(':')[2].partition('/')[0]}.json"
        path.write_text(json.dumps(fields), encoding="utf-8")
        return path

    @contextmanager
    def started(self, library: Library, workload: Path) -> Iterator[Driver | None]:
        """Start a driver, and give None for one that cannot be."""
        log = (
            self.folder
            / f"{library.driver[0]}_{workload.stem}_{len(library.driver)}.log"
        )
        with log.open("w", encoding="utf-8") as errors:
            process = subprocess.Popen(
                library.command(workload, self.cache),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        with process:
            driver = Driver(library, process, log)
            ready = driver.read(within_s=READY_WITHIN_S)
            if ready is None:
                print(
                    f"{library.name} is left out: {driver.last_words()}",
                    file=sys.stderr,
                )
            else:
                driver.versions = ready["versions"]
            yield driver if ready else None
            if process.stdin:
                process.stdin.close()


def texts() -> dict[str, Any]:
    """Return questions, passages, criteria and a response: 5.5 kB of prompt with our template."""
    criteria = [
        {
            "id": f"fact_{number}",
            "weight": number + 1.0,
            "description": f"States fact number {number} with the right figure and its unit.",
            "scoring_guide": "Full marks for figure and unit, half of them for the figure alone.",
        }
        for number in range(CRITERIA)
    ]
    sentence = (
        "The annual report puts the base margin in the fourth quarter at 17.2 percent. "
    )
    passages = [f"Passage {number}. {sentence * 28}" for number in range(8)]
    questions = [
        f"What moved the margin in year {2000 + number}, and why?"
        for number in range(8)
    ]
    response = (
        "According to the filing the margin rose by 1.3 points because of the mix. "
        * 18
    )
    prompt = load_prompt("shared_prefix").render(
        JudgeView(
            task_id="0" * 16,
            question=questions[0],
            grounding=Grounding(passages[0]),
            response="@response@",
            rubric=Rubric(criteria=tuple(Criterion(**one) for one in criteria)),
        ),
        passage_chars=50_000,
    )
    return {
        "system": prompt.system,
        "before": prompt.user.partition("@response@")[0],
        "criteria": criteria,
        "questions": questions,
        "passages": passages,
        "response": response,
        "group": 32,
    }


def cpu_by_turns(place: Place, *, rounds: int, share: float) -> list[Driver]:
    """Let all libraries judge by turns, 32 calls in flight, the endpoint answering at once."""
    drivers: list[Driver] = []
    with FakeEndpointProcess(answer, keep="counts") as endpoint, ExitStack() as stack:
        workload = place.write_workload(endpoint.url)
        for library in LIBRARIES:
            driver = stack.enter_context(place.started(library, workload))
            if driver is not None:
                driver.take_turn(
                    64, limit=32, turn=0
                )  # connections, caches, late imports
                drivers.append(driver)
        for turn in range(1, rounds + 1):
            for driver in drivers:
                calls = max(32, int(driver.library.calls * share))
                driver.turns.append(driver.take_turn(calls, limit=32, turn=turn))
            rates = ", ".join(
                f"{one.library.name} {one.last_cpu_ms:.2f}" for one in drivers
            )
            print(f"round {turn}, CPU ms: {rates}", flush=True)
    return drivers


def over_bound(
    place: Place, limits: dict[Library, int], rates: dict[str, float], *, calls: int
) -> dict[str, dict[str, float]]:
    """Time steps whose calls all take 200 ms, each beside bare calls with as many in flight.

    Args:
        place: where drivers find things.
        limits: calls in flight of each library.
        rates: judgements per second of each library where the endpoint answers at once.
        calls: judgements in a step.
    """
    measured: dict[str, dict[str, float]] = {}
    with FakeEndpointProcess(answer, latency=LATENCY_S, keep="counts") as endpoint:
        workload = place.write_workload(endpoint.url)
        for library, limit in limits.items():
            with ExitStack() as stack:
                pair = [
                    stack.enter_context(place.started(one, workload))
                    for one in (BARE, library)
                ]
                if None in pair:
                    continue
                turns = [
                    [
                        step_s(driver, turn, calls=calls, limit=limit)
                        for driver in pair
                        if driver
                    ]
                    for turn in range(1, STEPS + 1)
                ]
            bare_s, wall_s = (
                statistics.median(times) for times in zip(*turns, strict=True)
            )
            bound_s = bare_s + calls / rates[library.name]
            measured[library.name] = {
                "in_flight": limit,
                "latency_s": calls / limit * LATENCY_S,
                "bare_s": bare_s,
                "bound_s": bound_s,
                "wall_s": wall_s,
                "over_bare": wall_s / bare_s,
                "over_bound": wall_s / bound_s,
            }
    return measured


def step_s(driver: Driver, turn: int, *, calls: int, limit: int) -> float:
    """Return the seconds of one step, its connections being open."""
    driver.take_turn(limit, limit=limit, turn=-turn)
    return driver.take_turn(calls, limit=limit, turn=turn)["wall_s"]


def compare(place: Place, *, quick: bool) -> dict[str, Any]:
    """Measure everything and put it beside the targets."""
    drivers = cpu_by_turns(
        place, rounds=2 if quick else 5, share=0.25 if quick else 1.0
    )
    cpu_ms = {driver.library.name: driver.cpu_ms for driver in drivers}
    direct_ms = cpu_ms[DIRECT.name]
    limits = {DIRECT: 128, LITELLM: 32} | ({} if quick else {PLAIN: 32})
    rates = {driver.library.name: driver.calls_per_s for driver in drivers}
    bounds = over_bound(place, limits, rates, calls=256 if quick else 2048)
    value = cpu_ms[PLAIN.name] / direct_ms
    of_bare = direct_ms / cpu_ms[BARE.name]
    of_plain = cpu_ms[LITELLM.name] / cpu_ms[PLAIN.name]
    within = {
        f"{DIRECT.name}, over {BARE.name}": of_bare <= MOST_OF_BARE,
        f"{LITELLM.name}, over {PLAIN.name}": of_plain <= MOST_OF_PLAIN,
    } | {
        f"{library.name}, over its bound": bounds[library.name]["over_bound"]
        <= MOST_OVER_BOUND
        for library in (DIRECT, LITELLM)
    }
    missed = [name for name, is_within in within.items() if not is_within]
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at least",
        "passed": value >= TARGET and not missed,
        "details": {
            "missed": missed,
            "libraries": {
                driver.library.name: {
                    "cpu_ms": driver.cpu_ms,
                    "times_direct": driver.cpu_ms / direct_ms,
                    "calls_per_s": driver.calls_per_s,
                    "versions": driver.versions,
                    "note": driver.library.note,
                }
                for driver in drivers
            },
            "direct_of_bare": of_bare,
            "litellm_of_plain": of_plain,
            "at_200_ms": bounds,
            "targets": {
                "direct_of_bare": MOST_OF_BARE,
                "litellm_of_plain": MOST_OF_PLAIN,
                "over_bound": MOST_OVER_BOUND,
            },
        },
    }


def show(result: dict[str, Any]) -> None:
    """Print the tables."""
    console = Console(width=120)
    table = Table("library", "CPU ms", "times direct", "judgements/s", "note")
    for name, row in result["details"]["libraries"].items():
        numbers = (
            f"{row['cpu_ms']:.2f}",
            f"{row['times_direct']:.1f}",
            f"{row['calls_per_s']:.0f}",
        )
        table.add_row(name, *numbers, row["note"])
    console.print(table)
    table = Table(
        "at 200 ms a call", "in flight", "bare s", "took s", "over bare", "over bound"
    )
    for name, row in result["details"]["at_200_ms"].items():
        figures = (row[key] for key in ("bare_s", "wall_s", "over_bare", "over_bound"))
        table.add_row(
            name, str(row["in_flight"]), *(f"{figure:.2f}" for figure in figures)
        )
    console.print(table)
    console.print(
        f"ours, direct, over bare calls: {result['details']['direct_of_bare']:.2f}"
    )
    console.print(
        f"ours, litellm, over plain: {result['details']['litellm_of_plain']:.2f}"
    )
    for name in result["details"]["missed"]:
        console.print(f"missed: {name}")
    print(
        f"{result['value']:.2f} times less CPU (target {TARGET}): {result['passed']=}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print its ratio."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument(
        "--quick", action="store_true", help="under a minute: fewer calls"
    )
    parser.add_argument(
        "--cache", type=Path, help="uv's cache, for the peers' environments"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = compare(Place(Path(folder), options.cache), quick=options.quick)
    show(result)
    finish(result, options.json)


if __name__ == "__main__":
    main()
