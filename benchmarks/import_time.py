"""CPU of importing a light package with all its public names, over that of its libraries alone.

A name loads its module at its first use, so each of them is used. The bound is what nothing of
ours can go below: a fresh interpreter imports the third-party modules that this pulls in, by their
names, and nothing else. Runs are interleaved.

    uv run python benchmarks/import_time.py [--quick] [--json PATH]
"""

import argparse
import json
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from record import finish
from rich.console import Console
from rich.table import Table

CLAIM = "a package with all its names costs at most 4 times the import of its libraries alone"
TARGET = 4.0
PACKAGES = ("rubric_core", "rubric_eval", "rubric_judge", "rubric_synth")
PROBE = textwrap.dedent("""
    import importlib, json, sys, time
    start = time.process_time()
    for name in json.loads(sys.argv[1]):
        module = importlib.import_module(name)
        if name.startswith("rubric_"):
            for public in module.__all__:
                getattr(module, public)
    cpu_s = time.process_time() - start
    foreign = [
        name for name in sys.modules
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("rubric_", "__"))
        and getattr(sys.modules[name], "__spec__", None) is not None
    ]
    print(json.dumps({"cpu_s": cpu_s, "foreign": foreign}))
""")


def main() -> None:
    """Measure, print the table, and end with 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--quick", action="store_true", help="3 rounds in place of 15")
    options = parser.parse_args()
    result = record(
        {name: measure(name, 3 if options.quick else 15) for name in PACKAGES}
    )
    show(result)
    finish(result, options.json)


def measure(package: str, rounds: int) -> dict[str, float]:
    """Return the medians of both imports, in CPU seconds, and their ratio."""
    foreign = probe([package])["foreign"]
    ours: list[float] = []
    libraries: list[float] = []
    for _ in range(rounds):
        ours.append(probe([package])["cpu_s"])
        libraries.append(probe(foreign)["cpu_s"])
    cpu_s, least_s = statistics.median(ours), statistics.median(libraries)
    return {"cpu_s": cpu_s, "libraries_s": least_s, "ratio": cpu_s / least_s}


def probe(modules: list[str]) -> dict[str, Any]:
    """Import modules in a fresh interpreter."""
    command = [sys.executable, "-c", PROBE, json.dumps(modules)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def record(measured: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Put the figures beside the target; the value is the worst ratio."""
    value = max(figures["ratio"] for figures in measured.values())
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at most",
        "passed": value <= TARGET,
        "details": measured,
    }


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    table = Table("package", "CPU s", "its libraries alone", "ratio")
    for name, figures in result["details"].items():
        row = (
            f"{figures['cpu_s']:.3f}",
            f"{figures['libraries_s']:.3f}",
            f"{figures['ratio']:.2f}",
        )
        table.add_row(name, *row)
    Console(width=100).print(table)
    print(f"{result['value']:.2f} (target {TARGET}): {result['passed']=}")


if __name__ == "__main__":
    main()
