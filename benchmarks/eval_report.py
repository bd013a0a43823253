"""CPU of a report over CPU of reading the same JSON, for each judgement.

Three models, two judges, 5,000 questions of 1,250 documents and eight answers to each: 240,000
judgements. The report verifies digests, holds files against each other, compares, looks for signs
of hacking and writes the page; the bound reads the lines of answers and scores with `json`. Both
are also measured on a tenth of the questions and subtracted, so that imports do not count.

    uv run python benchmarks/eval_report.py [--quick] [--json PATH]
"""

import argparse
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from record import finish
from rich.console import Console
from rich.table import Table

from rubric_core import Decoding, Finish, Outcome
from rubric_core.files import text_sha256
from rubric_eval.answers.collecting import AnswerKeys
from rubric_eval.records.files import (
    AnswerRow,
    QuestionRow,
    ScoreRow,
    questions_sha256,
    write_finished_run,
    write_rows,
)
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import EvalRun, JudgeEntry, ModelEntry, Questions

CLAIM = (
    "a report costs at most 30 times the CPU of reading its answers and scores as JSON"
)
TARGET = 30.0
QUESTIONS = 5_000
SAMPLES = 8
MODELS = ("base", "sft", "grpo")
JUDGES = ("first", "second")
WEIGHTS = {f"criterion_{number}": float(1 + number % 3) for number in range(6)}
TOTAL = sum(WEIGHTS.values())
DECODING = Decoding(temperature=1.0)
TEXT = """the function returns an array whose shape is that of its input and might perhaps be cut
off at a tolerance so that small values are lost note that the caller must divide by the length"""
WORDS = TEXT.split()
REPORT = "from rubric_eval.cli import main; main()"


def model(name: str) -> ModelEntry:
    """Make an entry whose fingerprint is that of its identity."""
    identity = {"weights": name}
    canonical = json.dumps(identity, separators=(",", ":"))
    fingerprint = hashlib.sha256(canonical.encode()).hexdigest()
    return ModelEntry(
        name=name, spec=name, fingerprint=fingerprint, identity=dict(identity)
    )


def evaluation(root: Path, count: int) -> EvalFolder:
    """Write a finished evaluation of so many questions."""
    folder, rng, models = (
        EvalFolder(root),
        random.Random(count),
        [model(name) for name in MODELS],
    )
    questions = [
        QuestionRow(
            task_id=text_sha256(f"task {number}")[:16],
            doc_hash=text_sha256(f"document {number // 4}"),
            question=f"What does function {number} do, and what must its caller know?",
            field=("signals", "algebra", "statistics")[number % 3],
            weights=WEIGHTS,
            passage_sha256=text_sha256(f"passage {number // 4}"),
        )
        for number in range(count)
    ]
    write_rows(folder.questions, questions)
    for entry in models:
        answers = [
            answer(question, sample, AnswerKeys(entry.fingerprint, DECODING), rng)
            for question in questions
            for sample in range(SAMPLES)
        ]
        write_rows(folder.answers(entry.name, 0), answers)
        for judge in JUDGES:
            write_rows(
                folder.scores(judge, entry.name, 0),
                [score(one, rng) for one in answers],
            )
    asked = Questions(source="made", sha256=questions_sha256(questions), count=count)
    run = EvalRun(
        kind="heldout",
        status="finished",
        started="2026-01-01T00:00:00+00:00",
        models=tuple(models),
        judges=tuple(
            JudgeEntry(name=name, fingerprint=name, identity={}) for name in JUDGES
        ),
        questions={"heldout": asked},
        decoding=DECODING,
        seeds=(0,),
        samples=SAMPLES,
        template="made",
        versions={},
    )
    write_finished_run(folder, run)
    return folder


def answer(
    question: QuestionRow, sample: int, keys: AnswerKeys, rng: random.Random
) -> AnswerRow:
    """Answer with 60 to 140 words."""
    prompt = text_sha256(question.question)
    return AnswerRow(
        task_id=question.task_id,
        doc_hash=question.doc_hash,
        sample=sample,
        prompt_sha256=prompt,
        key=keys.of(prompt, seed=0, sample=sample),
        text=" ".join(rng.choices(WORDS, k=rng.randint(60, 140))),
        finish=Finish.COMPLETE,
        tokens=100,
    )


def score(given: AnswerRow, rng: random.Random) -> ScoreRow:
    """Score in quarters."""
    z = {name: rng.randint(0, 4) / 4 for name in WEIGHTS}
    return ScoreRow(
        task_id=given.task_id,
        doc_hash=given.doc_hash,
        sample=given.sample,
        key=given.key,
        outcome=Outcome.SCORED,
        reward=sum(weight * z[name] for name, weight in WEIGHTS.items()) / TOTAL,
        criteria_z=z,
    )


def report_cpu_s(folder: EvalFolder) -> float:
    """Write the report in a process of its own."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = spent()
    command = [sys.executable, "-c", REPORT, "report", str(folder.root)]
    subprocess.run(command, check=True, capture_output=True)
    return spent() - before


def json_cpu_s(folder: EvalFolder) -> float:
    """Read answers and scores line by line."""
    began = time.process_time()
    for part in ("answers", "scores"):
        for path in (folder.root / part).rglob("*.jsonl"):
            with path.open("rb") as file:
                for line in file:
                    json.loads(line)
    return time.process_time() - began


def measure(*, quick: bool) -> dict[str, Any]:
    """Measure both on all questions and on a tenth of them."""
    count = QUESTIONS // 4 if quick else QUESTIONS
    ways: dict[str, Callable[[EvalFolder], float]] = {
        "report": report_cpu_s,
        "json": json_cpu_s,
    }
    with tempfile.TemporaryDirectory() as place:
        folders = [
            evaluation(Path(place) / str(size), size) for size in (count, count // 10)
        ]
        spent = {
            name: [way(folder) for folder in folders] for name, way in ways.items()
        }
    value = (spent["report"][0] - spent["report"][1]) / (
        spent["json"][0] - spent["json"][1]
    )
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at most",
        "passed": value <= TARGET,
        "details": {
            "judgements": count * SAMPLES * len(MODELS) * len(JUDGES),
            "report_cpu_s": spent["report"][0],
            "report_of_a_tenth_cpu_s": spent["report"][1],
            "json_cpu_s": spent["json"][0],
            "json_of_a_tenth_cpu_s": spent["json"][1],
        },
    }


def main() -> None:
    """Measure, print and write; status 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument(
        "--quick", action="store_true", help="a quarter of the questions"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    result = measure(quick=options.quick)
    table = Table(title=result["claim"], title_justify="left", show_header=False)
    for name, figure in result["details"].items():
        table.add_row(name.replace("_", " "), f"{figure:g}")
    table.add_row(
        "over reading JSON", f"{result['value']:.1f}, at most {result['target']:g}"
    )
    Console().print(table)
    finish(result, options.json)


if __name__ == "__main__":
    main()
