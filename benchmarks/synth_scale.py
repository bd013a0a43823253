"""CPU of rubric-synth per document over its three stages, with everything that a run does.

Generated documents are collected, and a run asks an endpoint in a process of its own, which answers
at once from a template, three questions about each: prompts, HTTP, strict reading, checks, four
judgements by the lexical judge, journal, shards, dataset and Parquet are in the figure. Each run
has a process of its own, whose user and system time and peak memory are read at its end; starting
Python is left out. Then the finished run is resumed, and one is timed whose calls take 200 ms.

    uv run python benchmarks/synth_scale.py [--quick] [--json PATH]

The whole takes some twenty minutes.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import yaml
from rich.console import Console
from rich.table import Table

from rubric_judge.testing import FakeEndpointProcess
from rubric_synth import collect, synthesise
from rubric_synth.config import SynthConfig
from rubric_synth.testing import generated_documents, template_reply

CLAIM = "a run takes at most 3 ms of CPU per document over three stages, in flat memory"
TARGET = 3.0
MOST_RSS_MB = 500.0
MOST_GROWTH = 1.5
"""Peak memory with all documents over that with a tenth of them."""
MOST_RESUME_S = 5.0
LEAST_OF_IDEAL = 0.9
"""Documents per second at 200 ms a call, over in flight / (calls × latency)."""
STAGES = 3
IN_FLIGHT = 64
IN_WORK = 128
"""Documents at 200 ms a call: some are checked while 64 calls are in flight. At none, 64 do."""
LATENCY_S = 0.2
SLOW_DOCUMENTS = 6_400
"""With 200 ms a call: a minute."""


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
    parser.add_argument("--quick", action="store_true", help="under a minute: 3,000 documents")
    parser.add_argument("--documents", type=int, help="100,000 when left out")
    options = parser.parse_args()
    documents = options.documents or (3_000 if options.quick else 100_000)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), documents, quick=options.quick)
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if result["passed"] else 1)


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
        collected[count] = in_a_process(run_collect, source, folder / f"collected_{count}")
        print(f"collected {count}: {collected[count].cpu_s / count * 1000:.2f} ms each", flush=True)
    runs: dict[int, list[Measured]] = {few: [], documents: []}
    with FakeEndpointProcess(template_reply, keep="counts") as endpoint:
        config = write_config(folder / "fast.yaml", endpoint.url)
        for turn, count in enumerate((few, documents, few)):  # the small ones before and after
            out = folder / f"dataset_{count}_{turn}"
            run = in_a_process(run_synthesise, folder / f"collected_{count}", out, config)
            runs[count].append(run)
            print(f"{count} documents: {per_document_ms(run, count):.2f} ms each", flush=True)
        large = folder / f"dataset_{documents}_1"
        again = resumed(folder / f"collected_{documents}", large, config)
        rate_of_ideal, slow = rate_at_latency(folder, quick=quick)
    return record(documents, collected[documents], runs, again, rate_of_ideal, slow)


def write_source(path: Path, count: int) -> None:
    """Write generated documents as records of JSONL."""
    with path.open("w", encoding="utf-8") as file:
        for document in generated_documents(count):
            row = {"id": document.source, "title": document.title, "text": document.text}
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
    content = {"synthesiser": {"type": "llm", "model": model}, "max_concurrency": in_work}
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


def in_a_process(function: Callable[..., Any], *arguments: Path) -> Measured:
    """Run a function in a new process and measure it there."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measured, (function, *arguments))


def _measured(function: Callable[..., Any], *arguments: Path) -> Measured:
    # As the command line does: an event is made for each step, and filtered.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
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
    if status.exists():  # `getrusage` would count what the parent had before it became this one
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
    options = ["--out", str(out), "--config", str(config)]
    command = [sys.executable, "-m", "rubric_synth.cli", "run", str(collected), *options]
    times: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    before = statistics.median(times)
    for path in out.iterdir():
        if path.is_file():
            path.unlink()
    rewritten = in_a_process(run_synthesise, collected, out, config)
    return {"command_s": before, "rewrite_s": rewritten.wall_s, "rewrite_mb": rewritten.peak_mb}


def rate_at_latency(folder: Path, *, quick: bool) -> tuple[float, Measured]:
    """Return the rate over the ideal one, where each call takes 200 ms, and what was measured."""
    count = SLOW_DOCUMENTS // 5 if quick else SLOW_DOCUMENTS
    source, collected = folder / "slow.jsonl", folder / "collected_slow"
    write_source(source, count)
    run_collect(source, collected)
    with FakeEndpointProcess(template_reply, latency=LATENCY_S, keep="counts") as endpoint:
        config = write_config(folder / "slow.yaml", endpoint.url, in_work=IN_WORK)
        slow = in_a_process(run_synthesise, collected, folder / "dataset_slow", config)
    shutil.rmtree(folder / "dataset_slow")
    ideal = IN_FLIGHT / (STAGES * LATENCY_S)
    return count / slow.result["worked_s"] / ideal, slow


def per_document_ms(run: Measured, documents: int) -> float:
    """Return the CPU of one document."""
    return 1000 * run.cpu_s / documents


def record(
    documents: int,
    collecting: Measured,
    runs: dict[int, list[Measured]],
    again: dict[str, float],
    rate_of_ideal: float,
    slow: Measured,
) -> dict[str, Any]:
    """Put the figures beside their bounds."""
    few = min(runs)
    (large,) = runs[documents]
    small_ms = statistics.median(per_document_ms(run, few) for run in runs[few])
    small_mb = statistics.median(run.peak_mb for run in runs[few])
    value = per_document_ms(large, documents)
    within = {
        "cpu": value <= TARGET,
        "memory": max(large.peak_mb, small_mb) <= MOST_RSS_MB,
        "flat memory": large.peak_mb <= MOST_GROWTH * small_mb,
        "resume": again["command_s"] <= MOST_RESUME_S,
        "rate at 200 ms": rate_of_ideal >= LEAST_OF_IDEAL,
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
            "cpu_ms_at_a_tenth": small_ms,
            "documents_per_s": documents / large.wall_s,
            "peak_mb": large.peak_mb,
            "peak_mb_at_a_tenth": small_mb,
            "start_mb": large.start_mb,
            "accepted": large.result["accepted"],
            "rejected": large.result["rejected"],
            "resume": again,
            "rate_of_ideal_at_200_ms": rate_of_ideal,
            "documents_per_s_at_200_ms": slow.result["accepted"] / slow.result["worked_s"],
            "collect_cpu_ms": per_document_ms(collecting, documents),
            "collect_peak_mb": collecting.peak_mb,
        },
    }


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    details = result["details"]
    table = Table("what", "figure", "bound", title=f"{details['documents']} documents")
    rows = (
        ("CPU ms per document", f"{result['value']:.2f}", f"≤ {TARGET:g}"),
        ("  with a tenth of them", f"{details['cpu_ms_at_a_tenth']:.2f}", ""),
        ("documents per second", f"{details['documents_per_s']:.0f}", ""),
        ("peak memory, MB", f"{details['peak_mb']:.0f}", f"≤ {MOST_RSS_MB:g}"),
        ("  with a tenth of them", f"{details['peak_mb_at_a_tenth']:.0f}", f"≤ {MOST_RSS_MB:g}"),
        ("resume of the finished run, s", f"{details['resume']['command_s']:.1f}", "≤ 5"),
        ("  dataset written again, s", f"{details['resume']['rewrite_s']:.1f}", ""),
        ("rate over ideal at 200 ms", f"{details['rate_of_ideal_at_200_ms']:.3f}", "≥ 0.9"),
        ("collect: CPU ms per document", f"{details['collect_cpu_ms']:.2f}", ""),
        ("collect: peak memory, MB", f"{details['collect_peak_mb']:.0f}", ""),
    )
    for row in rows:
        table.add_row(*row)
    Console(width=100).print(table)
    for name in details["missed"]:
        print(f"missed: {name}")
    print(f"{result['value']:.2f} ms per document (target {TARGET}): {result['passed']=}")


if __name__ == "__main__":
    main()
