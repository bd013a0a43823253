"""`rubric-train`: the command line. Parses, calls, prints; no logic of training."""

from __future__ import annotations

import sys
from pathlib import Path  # cyclopts resolves it at runtime
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from rubric_core import RubricError, find_trainer
from rubric_train_openrlhf.log import configure_logging

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rubric_core import TrainerBackend
    from rubric_train_openrlhf.policy import SupervisedStep
    from rubric_train_openrlhf.run import HeldoutRow, MetricsRow

Overrides = Annotated[
    str, Parameter(allow_leading_hyphen=True, help="Values over the file: --section.key value.")
]

app = App(name="rubric-train", help="Train a policy on rubric rewards.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an error that has a name is one line and exit status 1."""
    try:
        app(arguments)
    except RubricError as error:
        _fail(error)


@app.command
def run(config: Path, *overrides: Overrides, resume: bool = False, verbose: bool = False) -> None:
    """Train, write the run folder and its report.

    Args:
        config: YAML file.
        overrides: values that replace the file's.
        resume: go on from the last checkpoint in `out`.
        verbose: log every step to stderr.
    """
    configure_logging(verbose=verbose)
    # The tensor libraries take seconds to import; `--help` should not.
    from transformers.utils.logging import disable_progress_bar  # noqa: PLC0415

    from rubric_train_openrlhf.config import parse_config, read_values  # noqa: PLC0415
    from rubric_train_openrlhf.local import run_grpo  # noqa: PLC0415
    from rubric_train_openrlhf.report import write_report  # noqa: PLC0415

    disable_progress_bar()
    values = read_values(config, overrides=overrides)
    if (backend := _backend_from_elsewhere(values)) is not None:
        print(backend.run(values, resume=resume))
        return
    loaded = parse_config(values, source=str(config))
    with _LiveProgress(steps=loaded.steps) as live:
        summary = run_grpo(
            loaded,
            resume=resume,
            on_step=live.step,
            on_heldout=live.heldout,
            on_supervised=live.supervised,
        )
    report = write_report(loaded.out)
    print(summary.model_dump_json(indent=2))
    print(report)


@app.command
def plan(config: Path, *overrides: Overrides) -> None:
    """Print the resolved configuration, the work of a step and the memory it needs.

    Args:
        config: YAML file.
        overrides: values that replace the file's.
    """
    from rubric_train_openrlhf.config import parse_config, read_values  # noqa: PLC0415  # as above
    from rubric_train_openrlhf.local.plan import describe_plan  # noqa: PLC0415  # as above

    values = read_values(config, overrides=overrides)
    if (backend := _backend_from_elsewhere(values)) is not None:
        print(backend.plan(values))
    else:
        print(describe_plan(parse_config(values, source=str(config))))


@app.command
def report(folder: Path) -> None:
    """Write report.html from the files of a run folder.

    Args:
        folder: the run folder.
    """
    from rubric_train_openrlhf.report import write_report  # noqa: PLC0415  # as above

    print(write_report(folder))


def _backend_from_elsewhere(values: Mapping[str, object]) -> TrainerBackend | None:
    """Find the backend that a configuration names; None for ours, which shows its progress here."""
    name = str(values.get("backend", "local"))
    return None if name == "local" else find_trainer(name)


class _LiveProgress(Progress):
    """One bar with reward and divergence beside it; nothing at all where there is no terminal."""

    def __init__(self, *, steps: int) -> None:
        console = Console(stderr=True)
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._steps = steps
        self._heldout = ""
        self._bars: dict[str, TaskID] = {}

    def supervised(self, phase: str, step: SupervisedStep) -> None:
        """Show a step of pre-training or of the warm start."""
        self._show(phase, done=step.step, total=step.steps, numbers=f"loss {step.loss:.3f}")

    def step(self, row: MetricsRow) -> None:
        """Show a training step."""
        numbers = f"reward {row.reward_mean:.3f}  KL {row.kl:.4f}{self._heldout}"
        self._show("grpo", done=row.step, total=self._steps, numbers=numbers)

    def heldout(self, row: HeldoutRow) -> None:
        """Show the latest held-out reward beside the step's."""
        self._heldout = f"  held-out {row.reward_mean:.3f}"
        self._show("grpo", done=row.step, total=self._steps, numbers=self._heldout.strip())

    def _show(self, name: str, *, done: int, total: int, numbers: str) -> None:
        if name not in self._bars:
            self._bars[name] = self.add_task(name, total=total, numbers="")
        self.update(self._bars[name], completed=done, numbers=numbers)


def _fail(error: RubricError) -> NoReturn:
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        f"{type(error).__name__}: {error}", style="red", markup=False
    )
    sys.exit(1)


if __name__ == "__main__":
    main()
