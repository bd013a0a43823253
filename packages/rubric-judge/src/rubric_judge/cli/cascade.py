"""`rubric-judge calibrate --cascade`: the thresholds of a cascade of judges, from labels."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import anyio
from cyclopts import ArgumentCollection, Group, Parameter

from rubric_core import JudgeView, Task
from rubric_core.traces.views import answer_view
from rubric_judge.cli import judging
from rubric_judge.cli.app import flag_error, say
from rubric_judge.quality.calibration.target import CascadeTarget
from rubric_judge.quality.trajectories import Submitted
from rubric_judge.ui.console.command import print_figures, print_pairs
from rubric_judge.ui.console.progress import current

if TYPE_CHECKING:
    from rubric_judge.judges.cascade.record import CascadeCalibration, GroupCalibration
    from rubric_judge.pool.ledger.store import Ledger
    from rubric_judge.quality.labels.rows import Label


def _require_cascade(arguments: ArgumentCollection) -> None:
    """Refuse options of a cascade without --cascade, and --cascade without a risk."""
    flags = [argument.name for argument in arguments if argument.tokens]
    if flags and not _is_cascade(arguments):
        raise ValueError(
            f"{flags[0]} is of a cascade: give --cascade too, or leave it out"
        )
    if flags and "--risk" not in flags:
        raise ValueError(
            "--cascade needs --risk: the share that may contradict the labels"
        )


def _refuse_cascade(arguments: ArgumentCollection) -> None:
    """Refuse options of verdicts beside --cascade."""
    flags = [
        argument.name
        for argument in arguments
        if argument.tokens and argument.name != "--cascade"
    ]
    if flags and _is_cascade(arguments):
        raise ValueError(
            f"{flags[0]} has no meaning with --cascade: leave one of the two out"
        )


def _is_cascade(arguments: ArgumentCollection) -> bool:
    return any(
        argument.name == "--cascade" and argument.value is True
        for argument in arguments
    )


CASCADE = Group("Thresholds of a cascade", validator=_require_cascade)
VERDICTS = Group("Verdicts", show=False, validator=_refuse_cascade)
"""Options that --cascade does not have."""

IsCascade = Annotated[
    bool, Parameter("--cascade", negative=(), group=(CASCADE, VERDICTS))
]
Target = Annotated[CascadeTarget, Parameter("*", negative=(), group=CASCADE)]


class Labelled(NamedTuple):
    """Labels of people, with what they are about."""

    tasks: dict[str, Task]
    views: dict[int, JudgeView]
    """The responses, by line."""
    labels: list[Label]
    """Labels of all raters."""
    traces: Mapping[int, Submitted] = {}
    """Those of the responses that are trajectories, by line."""

    def submitted(self, line: int) -> Submitted:
        """Return what the judge is asked of a line."""
        trace = self.traces.get(line)
        return trace or Submitted(line, answer_view(self.views[line]))

    @property
    def is_complete(self) -> bool:
        """Whether each criterion with weight of each response has a label."""
        labelled = {(label.line, label.criterion) for label in self.labels}
        return labelled >= {
            (line, criterion.id)
            for line, view in self.views.items()
            for criterion in view.rubric
            if criterion.weight > 0
        }


def find_thresholds(
    judge: Path,
    target: CascadeTarget,
    labelled: Labelled,
    *,
    ledger: Path | None,
    workers: int,
) -> tuple[CascadeCalibration, int]:
    """Calibrate the cascade of a configuration.

    Args:
        judge: the configuration.
        target: what is to be promised.
        labelled: by people.
        ledger: where answers are looked up and kept; without one they are kept until the end.
        workers: responses that are judged at once.

    Returns:
        The calibration, and how many answers the ledger could not take.

    Raises:
        ConfigError: the judge is not a cascade, or as `calibrate_cascade`.
        JudgeSetupError: a judge is not there.
    """
    from rubric_judge.config import CascadeConfig, read_judge_spec
    from rubric_judge.judges.load import load_judge
    from rubric_judge.judges.several import SeveralJudges
    from rubric_judge.quality.calibration.cascade import CascadeRun, calibrate_cascade
    from rubric_judge.quality.calibration.thresholds import GRID

    config = read_judge_spec(judge)
    if not isinstance(config, CascadeConfig):
        kind = f"is of `type: {config.type}`"
        raise flag_error("judge", f" {judge}: {kind}: give a file of `type: cascade`")
    if labelled.traces:
        raise flag_error(
            "cascade",
            f": line {min(labelled.traces)} is a trajectory, and thresholds are found on responses "
            "of one text: calibrate on those alone, or without --cascade",
        )
    judges = [load_judge(spec) for spec in config.judges]
    asked = SeveralJudges(judges)
    documents = {task_id: task.doc_hash for task_id, task in labelled.tasks.items()}

    async def calibrate(books: Ledger | None) -> CascadeCalibration:
        try:
            with current().phase("asking the judges whether they are there"):
                await asked.check()
            run = CascadeRun(judges, config, books, workers=workers)
            with current().phase("testing thresholds", total=len(GRID)) as phase:
                return await calibrate_cascade(
                    run,
                    labelled.labels,
                    [*labelled.views.items()],
                    target,
                    documents=documents,
                    on_threshold=lambda _: phase.advance(),
                )
        finally:
            await asked.aclose()

    with tempfile.TemporaryDirectory() as folder:
        with judging.opened(ledger or Path(folder) / "ledger.sqlite") as books:
            calibration = anyio.run(calibrate, books)
        return calibration, judging.say_unwritten(books)


def print_thresholds(
    calibration: CascadeCalibration, out: Path, classes: Mapping[str, set[bool]]
) -> None:
    """Print the thresholds, where they are written, and what is to be known of them.

    Args:
        calibration: the thresholds.
        out: where they are written.
        classes: by pool of criteria, whether their labels are met: true and false, or one alone.
    """
    tests = (
        {"all": calibration.pooled}
        if calibration.pooled is not None
        else calibration.criteria
    )
    columns = {
        "criterion": "{0}",
        "kept up to": "{1.threshold:.2f}",
        f"{calibration.unit}s": "{1.n}",
        "risk": "{1.risk:.1%}",
        "at most": "{1.bound:.1%}",
        "escalated": "{1.escalated:.1%}",
        "invalid": "{1.invalid_frac:.1%}",
    }
    print_figures({"title": "", "columns": columns}, tests.items())
    alone = max(test.last_risk for test in tests.values())
    if calibration.group is not None:
        _print_maps(calibration, calibration.group, out, alone=alone)
        return
    promise = f"risk ≤ {calibration.risk:g} with probability {calibration.confidence:g}"
    escalated = sorted(test.escalated for test in tests.values())
    spread = " to ".join(
        f"{share:.1%}" for share in dict.fromkeys((escalated[0], escalated[-1]))
    )
    audited = (
        f"{calibration.audit_frac:.1%} of what is kept"
        if escalated[0] < 1
        else "nothing is kept"
    )
    print_pairs(
        [
            ("promise", promise),
            ("the last judge alone", f"{alone:.1%}"),
            ("escalated", f"{spread} of labelled criteria, audits aside"),
            ("audited", audited),
            ("written", out),
        ]
    )
    if not escalated[-1]:
        say(
            "nothing escalates: the cheap judge is sure of all that was labelled, so that only "
            "audits ask the last judge"
        )
    for name, threshold in tests.items():
        if threshold.escalated == 1:
            why = (
                "no threshold keeps to the risk"
                if threshold.threshold is None
                else "nothing is kept"
            )
            say(f"{name}: {why}: everything goes to the last judge")
        found_in = classes.values() if calibration.pooled else [classes[name]]
        if len(known := set[bool]().union(*found_in)) == 1:
            seen, other = ("met", "unmet") if True in known else ("unmet", "met")
            say(
                f"{name}: every label is {seen}: nothing is promised of what is {other}: "
                "label some"
            )


def _print_maps(
    calibration: CascadeCalibration, group: GroupCalibration, out: Path, *, alone: float
) -> None:
    """Print what the first judge's readings are worth, for `decide: group`.

    Args:
        calibration: the whole.
        group: its readings.
        out: where they are written.
        alone: share of the labels that the last judge contradicts.
    """
    maps = {"all": group.pooled, **group.criteria}
    columns = {
        "readings of": "{0}",
        "criteria": "{1}",
        "lowest is worth": "{2:.2f}",
        "highest": "{3:.2f}",
    }
    rows = [
        (name, sum(known.counts), known.values[0], known.values[-1])
        for name, known in maps.items()
    ]
    print_figures({"title": "", "columns": columns}, rows)
    print_pairs(
        [
            ("the last judge alone contradicts", f"{alone:.1%} of the labels"),
            ("verdicts alike within a criterion of a task", f"{group.alike:.2f}"),
            ("agreement shared within it", f"{group.shared:.2f}"),
            ("errors together within a response", f"{group.together:.2f}"),
            ("audited", f"{calibration.audit_frac:.1%}"),
            ("written", out),
        ]
    )
    if group.pooled.values[-1] - group.pooled.values[0] < _LEAST_RANGE:
        say(
            "the first judge's readings say next to nothing of the last one's scores: groups will "
            "go to the last judge"
        )


_LEAST_RANGE = 0.2
"""Range of what readings are worth, below which the first judge is of no use."""


def classes_of(
    labelled: Labelled, calibration: CascadeCalibration
) -> dict[str, set[bool]]:
    """Return by threshold whether people call met what they labelled: true and false, or one."""
    classes: dict[str, set[bool]] = {}
    for label in labelled.labels:
        criterion = labelled.views[label.line].rubric[label.criterion]
        if label.score is not None and criterion.weight:
            name = calibration.name(criterion) or criterion.id
            classes.setdefault(name, set()).add(label.score >= criterion.weight / 2)
    return classes
