"""Run all benchmarks, and write their figures into docs/benchmarks.md.

    uv run python benchmarks/all.py [--only NAME ...] [--repeat 6] [--quick]

Each script runs as itself and leaves its record; the records of this and of earlier runs are in
docs/benchmarks.json, and the table on the page is made of them alone. Scripts that need another
stack run in the environment of `--stacks-python`, which these commands make:

    export UV_PROJECT_ENVIRONMENT=.cache/stacks
    uv sync --extra openrlhf-cpu --group stacks

With `--repeat N` the figure is the median of N runs, and the interval that from the least to the
greatest: it holds the true median with probability 1 − 2^(1−N), whatever the distribution.
`--quick` runs what is smaller, to see that it works, and writes nothing but `--json FOLDER`.
Ends with 1 where a target is missed or a script failed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from figures.claims import BENCHMARKS, Benchmark
from figures.page import row, with_table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RECORDS = ROOT / "docs" / "benchmarks.json"
STACKS = ROOT / ".cache" / "stacks" / "bin" / "python"

VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


class NoFigureError(Exception):
    """A script left no record; the message holds the end of what it said."""


def machine() -> dict[str, object]:
    """Say what the figures were measured on, and how busy it was."""
    cpu = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        names = (
            line
            for line in facts.read_text("utf-8").splitlines()
            if "model name" in line
        )
        cpu = next((line.partition(":")[2].strip() for line in names), cpu)
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        ),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
    }


def run_once(command: list[str], folder: Path) -> dict[str, Any]:
    """Run a script and return its record.

    Raises:
        NoFigureError: it ended without one.
    """
    record = folder / "record.json"
    record.unlink(missing_ok=True)
    done = subprocess.run(
        [*command, "--json", str(record)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if not record.exists():
        end = "\n".join(done.stdout.strip().splitlines()[-20:])
        raise NoFigureError(f"ended with {done.returncode} and no record\n{end}")
    return json.loads(record.read_text("utf-8"))


def measure(
    benchmark: Benchmark, python: str, options: list[str], repeat: int
) -> dict[str, Any]:
    """Run a script so often, and return its entry in docs/benchmarks.json."""
    probe = [python, "-c", VERSIONS, "rubric-core", *benchmark.versions]
    versions = json.loads(subprocess.run(probe, check=True, capture_output=True).stdout)
    command = [python, str(ROOT / "benchmarks" / f"{benchmark.script}.py"), *options]
    start, here = time.monotonic(), machine()
    with tempfile.TemporaryDirectory() as folder:
        runs = [run_once(command, Path(folder)) for _ in range(repeat)]
    values = [run["value"] for run in runs]
    return {
        **{name: runs[0][name] for name in ("claim", "target", "direction")},
        "values": values,
        "passed": all(run["passed"] for run in runs),
        "details": runs[values.index(statistics.median_low(values))]["details"],
        "versions": versions | _peers(runs[0]["details"]),
        "machine": here,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.monotonic() - start),
    }


def _peers(details: dict[str, Any]) -> dict[str, str]:
    """Return the versions of peers that a script ran in environments of their own."""
    libraries = details.get("libraries", {})
    return {
        name: version
        for library in libraries.values()
        for name, version in library.get("versions", {}).items()
    }


def read_records() -> dict[str, Any]:
    """Return what was measured so far, by script."""
    return json.loads(RECORDS.read_text("utf-8")) if RECORDS.exists() else {}


def write(entries: dict[str, Any]) -> None:
    """Keep the records, and write the page from them."""
    ordered = {
        one.script: entries[one.script] for one in BENCHMARKS if one.script in entries
    }
    text = json.dumps(ordered, indent=1, ensure_ascii=False)
    RECORDS.write_text(text + "\n", "utf-8")
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), ordered), "utf-8")


def main() -> None:
    """Run what was chosen, writing the page after each, and end with whether all passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[one.script for one in BENCHMARKS])
    parser.add_argument(
        "--repeat", type=int, default=1, help="runs of each; 6 give 97 %%"
    )
    parser.add_argument(
        "--quick", action="store_true", help="smaller, and the page stays as it is"
    )
    parser.add_argument("--json", type=Path, help="keep each entry in this folder, too")
    parser.add_argument(
        "--stacks-python", type=Path, default=STACKS, help="of other stacks"
    )
    parser.add_argument(
        "--json-test-suite", type=Path, help="its folder `test_parsing`"
    )
    parser.add_argument("--data", type=Path, help="folder of the public judgements")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    entries = read_records()
    failed = [] if options.page else run_all(options, entries)
    if options.page:
        write(entries)
    for line in failed:
        print(line, file=sys.stderr)
    sys.exit(1 if failed else 0)


def run_all(options: argparse.Namespace, entries: dict[str, Any]) -> list[str]:
    """Run the chosen scripts into the entries; return a line for each that missed or failed."""
    failed: list[str] = []
    for benchmark in BENCHMARKS:
        if options.only and benchmark.script not in options.only:
            continue
        print(f"{benchmark.script}: ", end="", flush=True)
        try:
            entry = measured(benchmark, options)
        except NoFigureError as error:
            print("failed", flush=True)
            failed.append(f"{benchmark.script}: {error}")
            continue
        print(f"{row(benchmark, entry)} in {entry['seconds']} s", flush=True)
        if not entry["passed"]:
            failed.append(f"{benchmark.script}: missed its target")
        entries[benchmark.script] = entry
        if options.json is not None:
            options.json.mkdir(parents=True, exist_ok=True)
            path = options.json / f"{benchmark.script}.json"
            path.write_text(json.dumps(entry, indent=1) + "\n", "utf-8")
        if not options.quick:
            write(entries)
    return failed


def measured(benchmark: Benchmark, options: argparse.Namespace) -> dict[str, Any]:
    """Run one script as the options of the whole say.

    Raises:
        NoFigureError: there is no environment of other stacks, or the script left no record.
    """
    python = str(options.stacks_python if benchmark.stacks else sys.executable)
    if benchmark.stacks and not options.stacks_python.exists():
        raise NoFigureError(
            f"no {options.stacks_python}: make it as this script's first lines say"
        )
    folder = {"--json-test-suite": options.json_test_suite, "--data": options.data}
    passed_on = ["--quick"] * options.quick
    if benchmark.data is not None and folder[benchmark.data] is not None:
        passed_on += [benchmark.data, str(folder[benchmark.data].resolve())]
    return measure(benchmark, python, passed_on, options.repeat)


if __name__ == "__main__":
    main()
