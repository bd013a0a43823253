"""CPU of rubric-synth per document over its three stages, over that of its bare calls.

Generated documents are collected, and a run asks an endpoint in a process of its own, which answers
at once from a template, three questions about each: prompts, HTTP, strict reading, checks, four
judgements by the judge of claims, journal, shards, dataset and Parquet are in the figure. The bound
is bare aiohttp, which sends the requests of one document as often and parses the replies. Each run
has a process of its own, whose user and system time and peak memory are read at its end; starting
Python is left out. Then the finished run is resumed, beside a command that only starts, and a run
is timed whose calls take 200 ms, beside bare calls that take as long. Last, tasks are made without
a model, beside spaCy's parse of the whole texts.

    uv run python benchmarks/synth_scale.py [--quick] [--json PATH]

The whole takes some twenty minutes.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import structlog
import yaml
from peers.spacy_prose import rules_cpu_s, rules_wall_s, spacy_cpu_s
from record import finish
from rich.console import Console
from rich.table import Table

from rubric_judge.judges.lexical.words import FUNCTION_WORDS
from rubric_judge.testing import FakeCall, FakeEndpoint, FakeEndpointProcess
from rubric_synth import collect, synthesise
from rubric_synth.config import SynthConfig
from rubric_synth.testing import generated_documents

CLAIM = "a run takes at most 7 times the CPU of its bare calls, in flat memory"
TARGET = 7.0
MOST_RSS_MB = 500.0
MOST_GROWTH = 1.5
"""Peak memory with all documents over that with a tenth of them."""
MOST_OF_START = 3.0
"""Resuming a finished run, over starting the command for its help."""
MOST_OVER_BOUND = 1.0
"""A run whose calls take 200 ms, over bare calls that wait as long and the run's own work.

The work is the time of as many documents where the endpoint answers at once. A run that never waits
while it has something to do stays below 1, on a slow machine too.
"""
MOST_OVER_SPACY = 2.0
"""CPU of a run without a model over that of spaCy, which parses the same documents whole."""
RULES_DOCUMENTS = 400
"""Made into tasks without a model, which all of them give; articles of textbooks mostly do not."""
STAGES = 3
IN_FLIGHT = 64
IN_WORK = 128
"""Documents at 200 ms a call: some are checked while 64 calls are in flight. At none, 64 do."""
LATENCY_S = 0.2
SLOW_DOCUMENTS = 6_400
"""With 200 ms a call: a minute."""

_TITLE = "\nTitle: "
_LONG_NOUN = re.compile(r"(?<=\bof )[a-z]{6,}\b|\b[a-z]{6,}(?=[.,]| of\b)")
"""A word after `of`, before it, or at the end of a clause: what is no prose earns little."""
_READ_CHARS = 1_500
_TITLE_WORDS = 5
_SLOTS = 17
"""Words of the document that the template has a place for."""
_TEMPLATE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_REPLIES = {
    "_Ready": '{"ready": true}',
    "AnalysisReply": json.dumps(_TEMPLATE["analysis"]),
    "EnrichmentReply": json.dumps(_TEMPLATE["enrichment"]),
}
_SYNTHESIS = json.dumps(_TEMPLATE["synthesis"])


def template_reply(call: FakeCall) -> str:
    """Answer a stage with a template: an `Award` for `FakeEndpoint` of little work.

    The document needs some twenty different long nouns at its beginning, as generated ones have.

    Raises:
        ValueError: Something else is asked, or the document has too few words.
    """
    body: Any = call.body
    asked = body.get("response_format")
    name = asked["json_schema"]["name"] if asked else ""
    if name in _REPLIES:
        return _REPLIES[name]
    if name != "SynthesisReply":
        raise ValueError(f"{name!r} is asked for, which is no stage of open synthesis")
    message = call.messages[-1]["content"]
    start = message.index(_TITLE) + len(_TITLE)
    end = message.index("\n", start)
    title = message[start:end].split()
    found = _LONG_NOUN.findall(message, end, end + _READ_CHARS)
    unwanted = FUNCTION_WORDS.union(title)
    words = [word for word in dict.fromkeys(found) if word not in unwanted][:_SLOTS]
    if len(words) < _SLOTS:
        raise ValueError(
            f"{len(words)} different long nouns at the beginning, {_SLOTS} needed"
        )
    named = " ".join([*title[: _TITLE_WORDS - 1], title[-1]])
    slots = {f"w{number}": word for number, word in enumerate(words)}
    return _SYNTHESIS % {"title": json.dumps(named)[1:-1], **slots}


@dataclass(frozen=True)
class Measured:
    """What one process took for one thing."""

    cpu_s: float
    wall_s: float
    start_mb: float
    """Memory before, imports included."""
    peak_mb: float
    result: Any = None


def main() -> None:
    """Measure, print the table, and end with 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument(
        "--quick", action="store_true", help="under a minute: 3,000 documents"
    )
    parser.add_argument("--documents", type=int, help="100,000 when left out")
    options = parser.parse_args()
    documents = options.documents or (3_000 if options.quick else 100_000)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), documents, quick=options.quick)
    show(result)
    finish(result, options.json)


def measure(folder: Path, documents: int, *, quick: bool) -> dict[str, Any]:
    """Take all measurements.

    Args:
        folder: an empty folder.
        documents: of the large run; the small ones have a tenth.
        quick: whether the slow endpoint is asked about few documents.

    Returns:
        The benchmark's record; its value is the CPU of the large run per document, in ms.
    """
    few = documents // 10
    collected = {}
    for count in (few, documents):
        source = folder / f"{count}.jsonl"
        write_source(source, count)
        collected[count] = in_a_process(
            run_collect, source, folder / f"collected_{count}"
        )
        print(
            f"collected {count}: {collected[count].cpu_s / count * 1000:.2f} ms each",
            flush=True,
        )
    requests = requests_of_a_document(folder)
    runs: dict[int, list[Measured]] = {few: [], documents: []}
    with FakeEndpointProcess(template_reply, keep="counts") as endpoint:
        config = write_config(folder / "fast.yaml", endpoint.url)
        bare = []
        for turn, count in enumerate(
            (few, documents, few)
        ):  # the small ones before and after
            out = folder / f"dataset_{count}_{turn}"
            run = in_a_process(
                run_synthesise, folder / f"collected_{count}", out, config
            )
            runs[count].append(run)
            bare.append(in_a_process(run_bare, requests, endpoint.url, few))
            print(
                f"{count} documents: {per_document_ms(run, count):.2f} ms each, "
                f"bare calls {per_document_ms(bare[-1], few):.2f} ms",
                flush=True,
            )
        large = folder / f"dataset_{documents}_1"
        again = resumed(folder / f"collected_{documents}", large, config)
    bare_ms = statistics.median(per_document_ms(run, few) for run in bare)
    slow = at_latency(
        folder, requests, documents / runs[documents][0].wall_s, quick=quick
    )
    rules = by_rules(folder, turns=1 if quick else 3)
    return record(documents, collected[documents], runs, bare_ms, again | slow | rules)


def requests_of_a_document(folder: Path) -> Path:
    """Write the three requests that a run sends about one document, as they are sent."""
    source, collected = folder / "one.jsonl", folder / "collected_one"
    write_source(source, 1)
    run_collect(source, collected)
    with FakeEndpoint(template_reply) as endpoint:
        run_synthesise(
            collected,
            folder / "dataset_one",
            write_config(folder / "one.yaml", endpoint.url),
        )
        bodies = [call.body for call in endpoint.calls][
            -STAGES:
        ]  # after "Are you ready?"
    path = folder / "requests.json"
    path.write_text(json.dumps(bodies), encoding="utf-8")
    return path


def run_bare(requests: Path, url: str, documents: int) -> None:
    """Send the requests of one document as often as there are documents, and parse the replies."""
    bodies = json.loads(requests.read_text("utf-8"))
    numbers = iter(range(documents))

    async def work(session: aiohttp.ClientSession) -> None:
        for _ in numbers:
            for body in bodies:
                async with session.post(f"{url}/chat/completions", json=body) as answer:
                    reply = json.loads(await answer.read())
                json.loads(reply["choices"][0]["message"]["content"])

    async def run() -> None:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0)
        ) as session:
            await asyncio.gather(*(work(session) for _ in range(IN_FLIGHT)))

    asyncio.run(run())


def write_source(path: Path, count: int) -> None:
    """Write generated documents as records of JSONL."""
    with path.open("w", encoding="utf-8") as file:
        for document in generated_documents(count):
            row = {
                "id": document.source,
                "title": document.title,
                "text": document.text,
            }
            file.write(json.dumps(row) + "\n")


def write_config(path: Path, url: str, *, in_work: int = IN_FLIGHT) -> Path:
    """Write the configuration of a run against an endpoint."""
    model = {
        "model": "openai/fake",
        "api_base": url,
        "transport": "direct",
        "limits": {"max_in_flight": IN_FLIGHT},
        "prices": {"prompt_usd_per_mtok": 0.1, "completion_usd_per_mtok": 0.4},
    }
    content = {
        "synthesiser": {"type": "llm", "model": model},
        "max_concurrency": in_work,
    }
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def run_collect(source: Path, out: Path) -> int:
    """Collect, and return how many documents there are."""
    return collect([source], out).documents


def run_synthesise(collected: Path, out: Path, config: Path) -> dict[str, Any]:
    """Run, and return how many documents became tasks, what was left out, and when all were done.

    The dataset is written after that, when no call is made any more.
    """
    settings = SynthConfig.model_validate(yaml.safe_load(config.read_text("utf-8")))
    began = ended = time.perf_counter()

    def note(_: int) -> None:
        nonlocal ended
        ended = time.perf_counter()

    report = synthesise(collected, out, config=settings, on_document=note)
    return {
        "accepted": report.accepted_documents,
        "rejected": report.rejected,
        "worked_s": ended - began,
    }


def in_a_process(function: Callable[..., Any], *arguments: object) -> Measured:
    """Run a function in a new process and measure it there."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measured, (function, *arguments))


def _measured(function: Callable[..., Any], *arguments: object) -> Measured:
    # As the command line does: an event is made for each step, and filtered.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
    )
    start_mb = peak_rss_mb()
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    result = function(*arguments)
    return Measured(
        cpu_s=time.process_time() - cpu_s,
        wall_s=time.perf_counter() - wall_s,
        start_mb=start_mb,
        peak_mb=peak_rss_mb(),
        result=result,
    )


def peak_rss_mb() -> float:
    """Return the peak memory of this process."""
    status = Path("/proc/self/status")
    if (
        status.exists()
    ):  # `getrusage` would count what the parent had before it became this one
        lines = status.read_text("utf-8").splitlines()
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return int(peak) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def resumed(collected: Path, out: Path, config: Path) -> dict[str, float]:
    """Resume a finished run: by the command, Python's start included, and without its dataset.

    The second time the files of the dataset are gone, so that it is written again from the shards;
    no document is worked on again.
    """
    program = [sys.executable, "-m", "rubric_synth.cli", "run"]
    options = [str(collected), "--out", str(out), "--config", str(config)]
    resuming_s: list[float] = []
    starting_s: list[float] = []
    for _ in range(3):
        starting_s.append(command_s([*program, "--help"]))
        resuming_s.append(command_s([*program, *options]))
    start_s, before_s = statistics.median(starting_s), statistics.median(resuming_s)
    for path in out.iterdir():
        if path.is_file():
            path.unlink()
    rewritten = in_a_process(run_synthesise, collected, out, config)
    return {
        "resume_s": before_s,
        "start_s": start_s,
        "resume_of_start": before_s / start_s,
        "rewrite_s": rewritten.wall_s,
        "rewrite_mb": rewritten.peak_mb,
    }


def command_s(command: list[str]) -> float:
    """Return the seconds of a command."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def at_latency(
    folder: Path, requests: Path, rate: float, *, quick: bool
) -> dict[str, float]:
    """Time a run, and bare calls, where each call takes 200 ms.

    Args:
        folder: for the documents and the dataset.
        requests: of one document.
        rate: documents per second of a run where the endpoint answers at once.
        quick: whether there are few documents.
    """
    count = SLOW_DOCUMENTS // 5 if quick else SLOW_DOCUMENTS
    source, collected = folder / "slow.jsonl", folder / "collected_slow"
    write_source(source, count)
    run_collect(source, collected)
    with FakeEndpointProcess(
        template_reply, latency=LATENCY_S, keep="counts"
    ) as endpoint:
        bare = in_a_process(run_bare, requests, endpoint.url, count)
        config = write_config(folder / "slow.yaml", endpoint.url, in_work=IN_WORK)
        slow = in_a_process(run_synthesise, collected, folder / "dataset_slow", config)
    worked_s, ideal_s = slow.result["worked_s"], count * STAGES * LATENCY_S / IN_FLIGHT
    return {
        "documents_per_s_at_200_ms": count / worked_s,
        "rate_of_bare": bare.wall_s / worked_s,
        "rate_of_ideal": ideal_s / worked_s,
        "time_over_bound": worked_s / (bare.wall_s + count / rate),
    }


def by_rules(folder: Path, *, turns: int) -> dict[str, float]:
    """Time runs without a model in turns with spaCy, and one in as many processes as it takes.

    Args:
        folder: for the documents and the datasets.
        turns: how often each is timed.
    """
    source, collected = folder / "prose.jsonl", folder / "collected_prose"
    write_source(source, RULES_DOCUMENTS)
    run_collect(source, collected)
    ours_s: list[float] = []
    spacy_s: list[float] = []
    for turn in range(turns):
        out = folder / f"dataset_rules_{turn}"
        ours_s.append(in_a_process(rules_cpu_s, collected, out).result)
        spacy_s.append(in_a_process(spacy_cpu_s, collected).result)
    wall_s = rules_wall_s(collected, folder / "dataset_rules")
    rules_s = statistics.median(ours_s)
    return {
        "rules_cpu_ms": 1000 * rules_s / RULES_DOCUMENTS,
        "rules_over_spacy": rules_s / statistics.median(spacy_s),
        "rules_documents_per_s": RULES_DOCUMENTS / wall_s,
    }


def per_document_ms(run: Measured, documents: int) -> float:
    """Return the CPU of one document."""
    return 1000 * run.cpu_s / documents


def record(
    documents: int,
    collecting: Measured,
    runs: dict[int, list[Measured]],
    bare_ms: float,
    timed: dict[str, float],
) -> dict[str, Any]:
    """Put the figures beside their bounds."""
    few = min(runs)
    (large,) = runs[documents]
    small_ms = statistics.median(per_document_ms(run, few) for run in runs[few])
    small_mb = statistics.median(run.peak_mb for run in runs[few])
    large_ms = per_document_ms(large, documents)
    value = large_ms / bare_ms
    within = {
        "cpu": value <= TARGET,
        "memory": max(large.peak_mb, small_mb) <= MOST_RSS_MB,
        "flat memory": large.peak_mb <= MOST_GROWTH * small_mb,
        "resume": timed["resume_of_start"] <= MOST_OF_START,
        "time at 200 ms": timed["time_over_bound"] <= MOST_OVER_BOUND,
        "without a model": timed["rules_over_spacy"] <= MOST_OVER_SPACY,
        "every document a task": large.result["accepted"] >= 0.99 * documents,
    }
    missed = [name for name, is_within in within.items() if not is_within]
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at most",
        "passed": not missed,
        "details": {
            "missed": missed,
            "documents": documents,
            "cpu_ms": large_ms,
            "cpu_ms_at_a_tenth": small_ms,
            "bare_cpu_ms": bare_ms,
            "documents_per_s": documents / large.wall_s,
            "peak_mb": large.peak_mb,
            "peak_mb_at_a_tenth": small_mb,
            "start_mb": large.start_mb,
            "accepted": large.result["accepted"],
            "rejected": large.result["rejected"],
            "collect_cpu_ms": per_document_ms(collecting, documents),
            "collect_peak_mb": collecting.peak_mb,
            **timed,
        },
    }


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    details = result["details"]
    table = Table("what", "figure", "bound", title=f"{details['documents']} documents")
    rows = (
        ("CPU per document over bare calls", f"{result['value']:.2f}", f"≤ {TARGET:g}"),
        ("  in ms", f"{details['cpu_ms']:.2f}", ""),
        ("  with a tenth of them, in ms", f"{details['cpu_ms_at_a_tenth']:.2f}", ""),
        ("  bare calls, in ms", f"{details['bare_cpu_ms']:.2f}", ""),
        ("documents per second", f"{details['documents_per_s']:.0f}", ""),
        ("peak memory, MB", f"{details['peak_mb']:.0f}", f"≤ {MOST_RSS_MB:g}"),
        (
            "  with a tenth of them",
            f"{details['peak_mb_at_a_tenth']:.0f}",
            f"≤ {MOST_RSS_MB:g}",
        ),
        (
            "resume over start",
            f"{details['resume_of_start']:.2f}",
            f"≤ {MOST_OF_START:g}",
        ),
        ("  in s", f"{details['resume_s']:.2f}", ""),
        ("  dataset written again, s", f"{details['rewrite_s']:.1f}", ""),
        ("time at 200 ms over its bound", f"{details['time_over_bound']:.2f}", "≤ 1"),
        ("  rate over bare calls", f"{details['rate_of_bare']:.2f}", ""),
        ("  rate over the ideal", f"{details['rate_of_ideal']:.2f}", ""),
        (
            "without a model: CPU over spaCy's parse",
            f"{details['rules_over_spacy']:.2f}",
            f"≤ {MOST_OVER_SPACY:g}",
        ),
        ("  in ms per document", f"{details['rules_cpu_ms']:.1f}", ""),
        ("  documents per second", f"{details['rules_documents_per_s']:.0f}", ""),
        ("collect: CPU ms per document", f"{details['collect_cpu_ms']:.2f}", ""),
        ("collect: peak memory, MB", f"{details['collect_peak_mb']:.0f}", ""),
    )
    for row in rows:
        table.add_row(*row)
    Console(width=100).print(table)
    for name in details["missed"]:
        print(f"missed: {name}")
    print(
        f"{result['value']:.2f} times bare calls (target {TARGET}): {result['passed']=}"
    )


if __name__ == "__main__":
    main()
