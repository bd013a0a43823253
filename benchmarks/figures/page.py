"""The table of docs/benchmarks.md, made of the records in docs/benchmarks.json alone."""

import statistics
from typing import Any

from figures.claims import BENCHMARKS, Benchmark

BEGIN, END = "<!-- figures: benchmarks/all.py -->", "<!-- end of figures -->"


def figure(value: float) -> str:
    """Write a number with three digits that count, and none after a whole one."""
    return (
        f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004
    )


def row(benchmark: Benchmark, entry: dict[str, Any] | None) -> str:
    """Write one row of the table."""
    name = f"`{benchmark.script}.py`"
    if entry is None:
        return f"| {name} | {benchmark.value} | not run | | | |"
    values = entry["values"]
    interval = (
        f"{figure(min(values))} to {figure(max(values))}" if len(values) > 1 else ""
    )
    sign = {"at least": "≥", "at most": "≤"}[entry["direction"]]
    is_exact = entry["target"] == 0 and entry["direction"] == "at most"
    target = "0" if is_exact else f"{sign} {figure(entry['target'])}"
    median = figure(statistics.median(values)) + (
        "" if entry["passed"] else " (missed)"
    )
    return f"| {name} | {benchmark.value} | {median} | {interval} | {len(values)} | {target} |"


def table(entries: dict[str, Any]) -> str:
    """Write what stands between the marks of the page: the figures, then how they came about."""
    lines = [
        "| script | value | figure | interval | runs | target |",
        "|---|---|---:|---:|---:|---:|",
    ]
    lines += [row(benchmark, entries.get(benchmark.script)) for benchmark in BENCHMARKS]
    lines += [
        "",
        "| script | date | machine | minutes | versions |",
        "|---|---|---|---:|---|",
    ]
    for benchmark in BENCHMARKS:
        if (entry := entries.get(benchmark.script)) is not None:
            lines.append(
                f"| `{benchmark.script}.py` | {' | '.join(_circumstances(entry))} |"
            )
    return "\n".join(lines)


def _circumstances(entry: dict[str, Any]) -> list[str]:
    """Return the date, machine, minutes and versions; older entries have the date alone."""
    here = entry["machine"]
    if here is None:
        return [f"before {entry['date']}", "two shared cores", "", "not recorded"]
    return [
        entry["date"],
        f"{here['cores']} × {here['cpu']}, {here['memory_gib']} GiB, load {here['load']}",
        f"{entry['seconds'] / 60:.1f}",
        ", ".join(f"{name} {version}" for name, version in entry["versions"].items()),
    ]


def with_table(page: str, entries: dict[str, Any]) -> str:
    """Return the page with its figures replaced.

    Raises:
        ValueError: the page has not both marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(
            f"the page has no place for the figures: put {BEGIN} and {END} on lines of it"
        )
    return f"{before}{begin}\n\n{table(entries)}\n\n{end}{after}"
