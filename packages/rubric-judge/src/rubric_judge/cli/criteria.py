"""`rubric-judge criteria`: the life of each criterion, by the log of any training stack."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rubric_core import Task, read_tasks
from rubric_judge.cli.app import app
from rubric_judge.ui.console.command import FAILED, Names, Paths, Positive, working
from rubric_judge.ui.console.outputs import require_writable

FormatChoice = Literal[
    "run", "ledger", "judged", "trl", "verl", "verifiers", "nemo-gym"
]


def criteria(  # noqa: PLR0913  # each is an option of the command
    *logs: Path,
    format: FormatChoice | None = None,  # noqa: A002  # the option's name
    by: Literal["criterion", "prompt"] = "criterion",
    tasks: Paths = (),
    calibration: Path | None = None,
    only: Names = (),
    group_size: Positive | None = None,
    last: Positive | None = None,
    json_out: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Show what became of each criterion in a training run: dead, held down, worth its tokens.

    Reads runs, ledgers and judgements of ours, and logs of TRL, verl, verifiers and NeMo-Gym.

    Example: rubric-judge criteria runs/trl/completions --tasks dataset/train.jsonl

    Args:
        logs: The log: a file or a folder; of judgements, a second file repeats the first.
        format: Its format; told from its content unless named.
        by: What a row stands for: criteria of an id that repeats, or of a kind; or a prompt.
        tasks: Files of its tasks: weights and kinds of criteria that the log does not hold.
        calibration: A calibration.json of the judge, for its noise.
        only: Names of another stack's scores that are criteria; all its numbers unless named.
        group_size: Answers in a group (`num_generations`), where TRL's log does not tell it.
        last: Only the last steps, of formats with a file for each.
        json_out: File to write the figures to, as JSON.

    Returns:
        Exit status: 1 when there was nothing to compare.
    """
    from rubric_judge.quality.criteria.measure import measure
    from rubric_judge.quality.criteria.printing import (
        finish,
        noise_of,
        print_report,
        write_json,
    )
    from rubric_judge.quality.criteria.sources import open_log

    if json_out is not None:
        require_writable(json_out, flag="--json", inputs=(*logs, *tasks, calibration))
    with working(app) as progress:
        with progress.phase("reading tasks"):
            by_id: dict[str, Task] = {}
            for path in tasks:
                by_id.update((task.task_id, task) for task in read_tasks(path))
        with progress.phase("reading the log"):
            noise = noise_of(calibration)
            log = open_log(
                logs,
                kind=format,
                tasks=by_id,
                group_size=group_size,
                last=last,
                only=only,
            )
            report = measure(
                log.answers,
                source=log.format,
                by=by,
                tasks=by_id.values(),
                noise=noise,
            )
            report = finish(report, log.all_notes())
    print_report(report, logs, tasks)
    if json_out is not None:
        write_json(json_out, report)
    return 0 if report.cells else FAILED
