"""`rubric-judge fixtures`: whether an environment's judge pays right answers, and no false ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from rubric_judge.cli.app import app
from rubric_judge.ui.console import command
from rubric_judge.ui.page.tables import counted

if TYPE_CHECKING:
    from rubric_judge.quality.fixtures.checking import Checked, FixtureReport

_SHOWN = 10


def fixtures(
    environment: Path, *, judge: Path | None = None, low: command.Share = 0.5
) -> int:
    """Test an exported environment: right answers earn all, empty ones nothing, false ones little.

    Example: rubric-judge fixtures my-docs

    Args:
        environment: Folder that `rubric-synth export` wrote.
        judge: Another judge than the environment's own, YAML.
        low: Reward from which a false answer is a false pass.

    Returns:
        Exit status: 1 when a fixture does not earn what it must, or could not be judged.
    """
    from rubric_core import read_tasks
    from rubric_judge.config import read_judge_spec
    from rubric_judge.judges.load import load_replicas
    from rubric_judge.quality.fixtures.checking import check_fixtures, judge_folder
    from rubric_judge.quality.fixtures.rows import FIXTURES_FILE, read_fixtures

    with command.working(app) as progress, progress.phase("judging the fixtures"):
        folder = judge_folder(environment)
        tasks = {task.task_id: task for task in read_tasks(folder / "tasks.jsonl")}
        rows = read_fixtures(folder / FIXTURES_FILE, tasks)
        judges = load_replicas(read_judge_spec(judge or folder / "judge.yaml"))

        async def check() -> FixtureReport:
            only = judges[0] if len(judges) == 1 else judges
            return await check_fixtures(rows, tasks, only, low=low)

        report = anyio.run(check)
    print_report(report)
    return 0 if report.is_passed else command.FAILED


def print_report(report: FixtureReport) -> None:
    """Print what each kind of answer earned, and the answers that earned something else."""
    command.print_rows(
        ("answer", "must earn", "answers", "mean", "worst", "fail"),
        (
            (name, expect, str(count), _percent(mean), _percent(worst), str(failures))
            for name, expect, count, mean, worst, failures in report.rows()
        ),
    )
    for entry in report.failed[:_SHOWN]:
        command.console().print(line_of(entry), soft_wrap=True)
    if rates := report.rates():
        tpr, fpr = rates
        command.console().print(
            f"criteria met: {100 * tpr:.1f} % of right answers, {100 * fpr:.1f} % of false ones "
            f"(J {tpr - fpr:.2f})",
            soft_wrap=True,
        )
    if report.unavailable:
        lost = counted(report.unavailable, "fixture")
        command.say_on_stderr(f"{lost} could not be judged: the test is not passed")
    failed = counted(len(report.failed), "fixture")
    command.console().print(f"{failed} of {len(report.checked)} failed")


def line_of(entry: Checked) -> str:
    """Return a failure in words, without the texts."""
    fixture = entry.fixture
    reward = entry.reward or 0.0
    return f"{fixture.name} of task {fixture.task_id}: {reward:.3f} {entry.problem}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
