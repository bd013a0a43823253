"""`rubric-judge lint`: a task file read for what is wrong with it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rubric_core import ConfigError, Task
from rubric_core.files import write_text
from rubric_judge.cli.app import app
from rubric_judge.ui.console.command import FAILED, Count, console, print_rows, working
from rubric_judge.ui.console.outputs import require_writable
from rubric_judge.ui.page.tables import counted

if TYPE_CHECKING:
    from rubric_judge.quality.lint.findings import Finding


def lint(
    tasks: Path,
    *,
    judge: Path | None = None,
    json_out: Annotated[Path | None, Parameter(name="--json")] = None,
    examples: Count = 3,
) -> int:
    """Find what is wrong with tasks before anything is spent on them; no model is called.

    Example: rubric-judge lint dataset/train.jsonl --json findings.json

    Args:
        tasks: Tasks, JSON Lines in the paper's schema (or Parquet).
        judge: The configuration of the judge that will score, YAML: with `type: claims`, criteria
            that state no claim are findings; with a language model, those without words to look for
            are none.
        json_out: File to write every finding to, as JSON.
        examples: How many findings of each kind to show.

    Returns:
        Exit status: 1 when a finding is an error; warnings leave it at 0.
    """
    from rubric_judge.config import read_judge_spec
    from rubric_judge.quality.lint.claims import looks_for_words, reads_claims
    from rubric_judge.quality.lint.grounding import lacks_passage
    from rubric_judge.quality.lint.run import lint_tasks

    if json_out is not None:
        require_writable(json_out, flag="--json", inputs=(tasks, judge))
    spec = None if judge is None else read_judge_spec(judge)
    by_claims = spec is not None and reads_claims(spec)
    by_model = spec is not None and not looks_for_words(spec)
    findings: list[Finding] = []
    without_passage = 0

    def count(task: Task) -> None:
        nonlocal without_passage
        without_passage += lacks_passage(task)

    read = 0
    with working(app) as progress, progress.phase("reading tasks") as phase:
        for _, of_task in lint_tasks(tasks, by_claims=by_claims, on_task=count):
            read += 1
            findings += [
                finding
                for finding in of_task
                if not (by_model and finding.code == "no_words")
            ]
            phase.advance()
    if not read:
        raise ConfigError(f"{tasks} holds no task", location="tasks")
    _report(findings, read=read, path=tasks, examples=examples)
    if without_passage:
        console().print(
            f"{counted(without_passage, 'task')} without a passage or reference answer: whether "
            "a passage answers the criteria, and whether the question gives it away, is not "
            "checked there",
            soft_wrap=True,
        )
    if json_out is not None:
        report = {
            "tasks": read,
            "counts": Counter(finding.code for finding in findings),
            "findings": [asdict(finding) for finding in findings],
        }
        write_text(json_out, json.dumps(report, indent=1) + "\n")
    return FAILED if any(finding.severity == "error" for finding in findings) else 0


def _report(
    findings: Sequence[Finding], *, read: int, path: Path, examples: int
) -> None:
    stdout = console()
    by_code: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in sorted(
        findings, key=lambda finding: (finding.severity, finding.code)
    ):
        by_code[finding.code].append(finding)
    if by_code:
        rows = [
            (
                matches[0].severity, code, str(len(matches)),
                str(len({finding.line for finding in matches})), matches[0].remedy,
            )
            for code, matches in by_code.items()
        ]  # fmt: skip
        print_rows(("", "finding", "count", "tasks", "what to do"), rows)
    for code, matches in by_code.items():
        for finding in matches[:examples]:
            criterion = f" {finding.criterion_id!r}" if finding.criterion_id else ""
            where = f"{path}:{finding.line}: {code}:{criterion}"
            stdout.print(f"{where} {finding.what}", soft_wrap=True)
    errors = sum(finding.severity == "error" for finding in findings)
    counts = {"task": read, "error": errors, "warning": len(findings) - errors}
    stdout.print(", ".join(counted(count, noun) for noun, count in counts.items()))
