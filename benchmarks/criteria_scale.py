"""CPU of `rubric-train criteria` on a long run, over a bound, and over reading the same rows.

A run of 500 steps of 2,048 responses (64 prompts × 32) with six criteria each, of a language model:
reasons, usage and the split of every advantage, as `rubric-train run` writes them. The bound is 60
CPU-seconds; beside it stands the CPU of `json.loads` on the same lines.

    uv run python benchmarks/criteria_scale.py [--quick] [--json PATH]
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from record import finish
from rich.console import Console
from rich.table import Table

from rubric_core import JudgeResult, Outcome, Usage
from rubric_core.reward.attribution import criterion_attribution
from rubric_train_openrlhf.run.records import JudgementRow, row_id

CLAIM = "the criteria of 500 steps of 2,048 responses take at most 60 CPU-seconds"
TARGET = 60.0
STEPS = 500
PROMPTS = 64
GROUP = 32
QUICK = 50
CRITERIA = ("does", "cost", "limits", "example", "cause", "names")
WEIGHTS = np.array([3.0, 2.0, 2.0, 1.0, 1.0, 1.0])
REASON = """The answer states what the function does and names the cost, and says nothing of the
limit that the passage gives for inputs of length zero, nor of what the caller has to divide by. """
COMMAND = "import sys; from rubric_train_openrlhf.cli import main; main(['criteria', sys.argv[1]])"
PLAIN = """
import json, pathlib, sys
for file in sorted(pathlib.Path(sys.argv[1], "judgements").glob("step_*.jsonl")):
    with file.open("rb") as lines:
        for line in lines:
            json.loads(line)
"""


def write_run(folder: Path, steps: int) -> int:
    """Write the judgements of a run; returns their size in bytes."""
    rng = np.random.default_rng(0)
    draw = random.Random(0)
    (folder / "judgements").mkdir(parents=True)
    shares = WEIGHTS / WEIGHTS.sum()
    size = 0
    for step in range(1, steps + 1):
        # Criteria differ in how hard they are, prompts too: about half of the cells are constant.
        ease_PM = rng.normal(0, 2.5, (PROMPTS, len(CRITERIA))) + step / steps
        hit_PGM = (
            rng.normal(0, 1, (PROMPTS, GROUP, len(CRITERIA))) + ease_PM[:, None] > 0
        )
        z_PGM = hit_PGM.astype(np.float64)
        split_PGM = criterion_attribution(z_PGM, np.tile(WEIGHTS, (PROMPTS, 1)))
        file = folder / "judgements" / f"step_{step:06d}.jsonl"
        with file.open("w", encoding="utf-8") as lines:
            for p in range(PROMPTS):
                for g in range(GROUP):
                    scores = (z_PGM[p, g] * WEIGHTS).tolist()
                    result = JudgeResult(
                        outcome=Outcome.SCORED,
                        scores=dict(zip(CRITERIA, scores, strict=True)),
                        total=sum(scores),
                        max_total=float(WEIGHTS.sum()),
                        reasoning=REASON * draw.randint(1, 4),
                        judge="llm",
                        usage=Usage(
                            prompt_tokens=draw.randint(900, 1400),
                            completion_tokens=draw.randint(80, 200),
                        ),
                        latency_s=1.5,
                    )
                    row = JudgementRow(
                        id=row_id(step=step, prompt=p, response=g),
                        step=step,
                        task_id=f"task-{(step * PROMPTS + p) % 997}",
                        result=result,
                        z=dict(zip(CRITERIA, z_PGM[p, g].tolist(), strict=True)),
                        shares=dict(zip(CRITERIA, shares.tolist(), strict=True)),
                        attribution=dict(
                            zip(CRITERIA, split_PGM[p, g].tolist(), strict=True)
                        ),
                    )
                    lines.write(f"{row.model_dump_json()}\n")
        size += file.stat().st_size
    (folder / "config.resolved.yaml").write_text("seed: 0\n", encoding="utf-8")
    return size


def cpu_of(program: str, folder: Path) -> float:
    """Return the CPU-seconds of a Python program on a folder, children and start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Write the run, measure both, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    steps = QUICK if arguments.quick else STEPS
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        size = write_run(folder, steps)
        plain_s = cpu_of(PLAIN, folder)
        ours_s = cpu_of(COMMAND, folder)
    rows = steps * PROMPTS * GROUP
    value = ours_s * STEPS / steps
    table = Table(title=f"{rows:,} judgements, {size / 1e9:.2f} GB")
    for name in ("", "CPU, s", "a judgement, µs"):
        table.add_column(name, justify="right" if name else "left")
    for name, seconds in (
        ("rubric-train criteria", ours_s),
        ("json.loads alone", plain_s),
    ):
        table.add_row(name, f"{seconds:.1f}", f"{1e6 * seconds / rows:.1f}")
    console = Console()
    console.print(table)
    console.print(
        f"{value:.1f} of {TARGET:.0f} CPU-seconds for {STEPS} steps; "
        f"{ours_s / plain_s:.2f} times json.loads"
    )
    details: dict[str, Any] = {
        "steps": steps,
        "judgements": rows,
        "bytes": size,
        "criteria_s": ours_s,
        "json_s": plain_s,
        "over_json": ours_s / plain_s,
    }
    record = {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at most",
        "passed": value <= TARGET,
        "details": details,
    }
    finish(record, arguments.json)


if __name__ == "__main__":
    main()
