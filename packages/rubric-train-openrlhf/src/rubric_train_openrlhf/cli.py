"""`rubric-train`: the command line. Parses, calls, prints; no logic of training."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path  # cyclopts resolves it at runtime
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from rubric_core.errors import ConfigError, FolderLockError, PluginError
from rubric_core.files import read_file
from rubric_core.locks import folder_lock
from rubric_judge.ui.console import command
from rubric_judge.ui.console.progress import Progress
from rubric_judge.ui.console.snapshot import duration_text
from rubric_train_openrlhf.errors import RUN_ERRORS, PolicyLoadError, TrainConfigError

if TYPE_CHECKING:
    from rubric_core import TrainerBackend
    from rubric_core.configuration import Keys
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.run.records import RunSummary

JudgeChoice = Literal["auto", "config", "claims", "lexical", "fake"]
Overrides = Annotated[
    str,
    Parameter(
        allow_leading_hyphen=True, help="Values over the file: --section.key value."
    ),
]

app = command.command_app("rubric-train", summary="Train a policy on rubric rewards.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a known error is one message, and status 2, or 1 of a run that broke off."""
    _quieten_libraries()
    command.run_command(app, arguments, broken_off=RUN_ERRORS)


def _quieten_libraries() -> None:
    """Keep from a reader what libraries say, when they are imported, of what they did not find."""
    # By torch, where OpenRLHF brings pynvml.
    warnings.filterwarnings("ignore", "The pynvml package is deprecated", FutureWarning)
    # By DeepSpeed, where there is no GPU.
    logging.getLogger("DeepSpeed").addFilter(_names_no_accelerator)


def _names_no_accelerator(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Setting accelerator to CPU")


@app.command
def init(folder: Path, *, preset: str = "tiny") -> None:
    """Write train.yaml, a configuration to start from, into a folder; nothing is overwritten.

    Args:
        folder: folder to write to; made where there is none.
        preset: tiny (a small policy, on a CPU), one_gpu_1_5b (1.5 billion weights on 24 GB), paper
            (the main run of the paper), paper_llama31_8b_8gpu (that run on eight GPUs, by OpenRLHF)
            or paper_llama31_8b_8gpu_sft (its supervised start alone).
    """
    from rubric_train_openrlhf.starting import start

    file = start(folder, name=preset)
    print(f"wrote {file}; its first lines say what it needs; next:")
    # Its comments hold the commands that make its data, where there are any.
    for line in read_file(file).decode().splitlines():
        if (command_line := line.removeprefix("#").strip()).startswith("rubric-synth "):
            print(command_line)
    print(f"rubric-train plan {file}")
    print(f"rubric-train run {file}")


@app.command
def run(
    config: Path, *overrides: Overrides, resume: bool = False, verbose: bool = False
) -> None:
    """Train, write the run folder and its report.

    Args:
        config: YAML file.
        overrides: values that replace the file's.
        resume: go on from the last checkpoint in `out`.
        verbose: log every step to stderr.
    """
    command.configure_log(verbose=verbose)
    words = [*overrides, *(["--verbose"] if verbose else [])]
    go_on = command.typed_command(app.name[0], ["run", str(config), *words], "--resume")
    with Progress.of(app.name[0], at_once=True) as progress:
        with progress.phase("reading the configuration"):
            # These take seconds to import; `--help` should not.
            from rubric_train_openrlhf.backend import train
            from rubric_train_openrlhf.config.train import (
                parse_config,
                read_values,
                written_at,
            )

            values = read_values(config, overrides=overrides)
        source = written_at(config, overrides=overrides)
        if (backend := _backend_from_elsewhere(values, source)) is not None:
            with progress.phase(f"backend {backend.name}"):
                print(backend.run(values, resume=resume))
            return
        loaded = parse_config(values, source=source)
        if resume and (ended := _silent_end(loaded.out)) is not None:
            print(ended, file=sys.stderr)
        try:
            summary = train(loaded, resume=resume, progress=progress)
        except (KeyboardInterrupt, SystemExit):
            print(_stopped(loaded.out, go_on=go_on), file=sys.stderr)
            raise
        except (TrainConfigError, PolicyLoadError) as error:
            error.add_note(f"configuration: {config}")
            raise
        with progress.phase("writing the report"):
            report = _report(loaded.out)
    print(_result(summary))
    facts = {
        "steps": f"{summary.steps} of {summary.total_steps or summary.steps}",
        "time of the steps": duration_text(summary.wall_s),
        "warning": summary.warning,
    }
    command.print_pairs(
        (name, value) for name, value in facts.items() if value is not None
    )
    for name, factor in summary.admission.items():
        effect = "masked from the reward" if factor == 0 else f"weighed at {factor:g}"
        print(
            f"rubric-train: criterion {name} {effect} (judge.calibration)",
            file=sys.stderr,
        )
    for name, count in summary.by_fallback.items():
        print(
            f"rubric-train: {count} judgements by the fallback {name}", file=sys.stderr
        )
    print(report)
    print(f"next: {_next(loaded)}")
    if summary.status == "diverged":
        sys.exit(command.DIVERGED)


def _next(config: TrainConfig) -> str:
    """Return the command that measures a policy on questions of a test, decoded as in training."""
    from rubric_train_openrlhf.run.checkpoints import checkpoint_path, latest_checkpoint
    from rubric_train_openrlhf.run.folder import RunFolder

    checkpoints = RunFolder(config.out).checkpoints
    rollout = config.rollout
    first = checkpoint_path(checkpoints, step=0)
    best = checkpoints / "best"
    trained = (
        ("best", best) if best.exists() else ("last", latest_checkpoint(checkpoints))
    )
    named = [("first", first), trained] if first.exists() else [trained]
    models = [f"{name}=policy:{path}" for name, path in named]
    decoding = (
        f"--temperature {rollout.temperature:g} --max-tokens {rollout.max_new_tokens}"
    )
    rest = f"--tasks TEST.jsonl --judge JUDGE.yaml --out FOLDER {decoding}"
    return command.typed_command("rubric-eval", ["heldout", *models, *rest.split()])


def _result(summary: RunSummary) -> str:
    """Say how the run ended, and what its best checkpoint earns on the validation questions."""
    if (best := summary.best_heldout_reward) is None:
        return (
            f"{summary.status}: nothing was validated, as data.validation is not given"
        )
    first = summary.first_heldout_reward
    before = "" if first is None else f"; before training {100 * first:.1f} %"
    earned = f"validation reward {100 * best:.1f} % at step {summary.best_step}"
    if summary.onset is not None and (summary.best_step or 0) >= summary.onset:
        earned += ", after the judges seem to part"
    return f"{summary.status}: {earned}{before}"


def _stopped(out: Path, *, go_on: str) -> str:
    from rubric_train_openrlhf.run.folder import RunFolder

    if not (folder := RunFolder(out)).holds_run:
        return f"rubric-train: stopped before the run began; {str(out)!r} holds nothing of it"
    return f"rubric-train: stopped after step {folder.steps_done}; go on with: {go_on}"


def _silent_end(out: Path) -> str | None:
    """Say of a run that was killed how far it came; None for any other."""
    from rubric_train_openrlhf.run.folder import RunFolder
    from rubric_train_openrlhf.run.live_summary import was_killed

    if not was_killed(folder := RunFolder(out)):
        return None
    return (
        f"rubric-train: {str(out)!r} ended without saying so at step {folder.steps_done}: "
        "it was killed, or its machine was"
    )


def _report(out: Path) -> str:
    """Write the report and say where it is, with the folder kept from a run that goes on."""
    from rubric_train_openrlhf.report.page import write_report

    try:
        with folder_lock(out):
            return str(write_report(out))
    except FolderLockError as error:
        return f"no report is written: {error}"


@app.command
def plan(
    config: Path,
    *overrides: Overrides,
    full: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Print the work of a step, the memory it needs, what is missing, and known traps.

    Args:
        config: YAML file.
        overrides: values that replace the file's.
        full: print the resolved configuration and what the sizes are made of too, and for OpenRLHF
            its command, which its own parser is asked about where it is installed.
    """
    from rubric_train_openrlhf.backend import describe_plan
    from rubric_train_openrlhf.config.train import parse_config, read_values, written_at

    values = read_values(config, overrides=overrides)
    source = written_at(config, overrides=overrides)
    if (backend := _backend_from_elsewhere(values, source)) is not None:
        print(backend.plan(values))
        return
    print(describe_plan(parse_config(values, source=source), full=full))
    if not full:
        print("more, such as the resolved configuration: --full")


@app.command
def rehearse(  # noqa: PLR0913  # each is an option of its own
    config: Path,
    *overrides: Overrides,
    judge: JudgeChoice = "auto",
    data: Path | None = None,
    out: Path | None = None,
    on_cluster: bool = False,
    checks_only: bool = False,
    deadline_s: command.Seconds = 600.0,
    verbose: bool = False,
) -> None:
    """Run two real steps of an OpenRLHF configuration on a CPU; say what would fail on the cluster.

    Exit status 1 if anything failed. The report stands in rehearse.json too.

    Args:
        config: YAML file of the production run.
        overrides: values that replace the file's.
        judge: who judges: `config` the configuration's judge, `claims` and `lexical` those that are
            programs, `fake` an endpoint on this machine that speaks the protocol of the
            configuration's model; `auto` is `fake` for a language model, `config` for any other and
            with `--on-cluster`.
        data: tasks to rehearse with, in place of the configuration's.
        out: folder of the rehearsal; by default `runs/rehearsals/` and the file's name.
        on_cluster: this machine is one of the cluster's: what is missing here is a failure.
        checks_only: leave the two steps out.
        deadline_s: longest time for the two steps.
        verbose: log every check to stderr.
    """
    command.configure_log(verbose=verbose)
    from rubric_train_openrlhf.cluster.rehearse.checking import (
        Request,
        print_failure,
        print_report,
    )
    from rubric_train_openrlhf.cluster.rehearse.rehearsal import rehearse
    from rubric_train_openrlhf.config.train import read_values

    request = Request(
        source=config,
        values=read_values(config, overrides=overrides),
        folder=out or Path("runs", "rehearsals", config.stem),
        overrides=overrides,
        judge=judge,
        data=data,
        on_cluster=on_cluster,
        deadline_s=deadline_s,
        run=not checks_only,
    )
    with Progress.of(app.name[0]) as progress:
        rehearsal = rehearse(
            request,
            progress=progress,
            # Shown at once, so that nobody need wait for the rest.
            on_failure=print_failure,
        )
    print_report(rehearsal, folder=request.folder)
    if not rehearsal.passed:
        sys.exit(command.FAILED)


@app.command
def model(name: Literal["smollm2"]) -> None:
    """Print the folder of a model that an installed package holds, for commands that take a path.

    Args:
        name: smollm2 is SmolLM2-135M-Instruct; it is converted the first time.
    """
    from rubric_train_openrlhf.config.sections import SmolLM2Model

    with Progress.of(app.name[0]):
        folder = SmolLM2Model(type=name).folder()
    print(folder)


@app.command
def report(
    *folders: Path,
    out: Path | None = None,
    reveal_grounding: Annotated[bool, Parameter(negative="")] = False,
    tasks: Annotated[tuple[Path, ...], Parameter(negative=())] = (),
) -> None:
    """Write report.html from the files of a run folder, or one page of several runs.

    Prints the paths of the pages; with --reveal-grounding also that of judgements/view.html, the
    page of the judgements that the report leads to.

    Args:
        folders: run folders; of several, the curves are drawn into the same charts.
        out: the page; by default report.html in the run's folder, report_revealed.html where it
            shows what only the judge may see, and of several runs runs.html beside the first.
        reveal_grounding: show passages, rubrics and what the judge said, for the judge's side only.
        tasks: files of tasks to reveal, where they are not where the run read them.
    """
    if not folders:
        raise ConfigError(
            "no run folder is named; give the `out` of a run", location="folders"
        )
    for folder in folders:
        if (ended := _silent_end(folder)) is not None:
            print(
                f"{ended}; go on with: rubric-train run CONFIG --resume",
                file=sys.stderr,
            )
    if tasks and not reveal_grounding:
        problem = "--tasks holds passages and rubrics: give --reveal-grounding with it, or neither"
        raise ConfigError(problem, location="tasks")
    if len(folders) == 1:
        from rubric_train_openrlhf.report.page import Revealed, write_pages

        reveal = Revealed(tasks) if reveal_grounding else None
        pages = write_pages(folders[0], reveal=reveal, out=out)
        print(pages.page)
        if pages.viewer is not None:
            print(pages.viewer)
        return
    if reveal_grounding:
        problem = (
            "--reveal-grounding is for one run: a page of several shows no responses"
        )
        raise ConfigError(problem, location="reveal-grounding")
    from rubric_train_openrlhf.report.several import write_runs_report

    print(write_runs_report(folders, out))


@app.command
def criteria(
    folder: Path,
    *,
    by: Literal["criterion", "prompt"] = "criterion",
    last: command.Positive | None = None,
    calibration: Path | None = None,
    json_out: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Show what became of each criterion in a run: dead, held down, worth its tokens.

    Args:
        folder: run folder.
        by: what a row stands for: criteria of an id that repeats, or of a kind; or a prompt.
        last: only this many of the last steps.
        calibration: calibration.json for the judge's noise; by default the run's own.
        json_out: file to write the figures to, as JSON.

    Returns:
        Exit status: 1 when there was nothing to compare.
    """
    from rubric_judge.quality.criteria.printing import print_report, write_json
    from rubric_train_openrlhf.report.criteria import run_criteria

    with Progress.of(app.name[0]) as progress, progress.phase("reading the judgements"):
        report = run_criteria(folder, by=by, last=last, calibration=calibration)
    print_report(report, [folder])
    if json_out is not None:
        write_json(json_out, report)
    return 0 if report.cells else command.FAILED


def _backend_from_elsewhere(
    values: Mapping[str, object], written_at: Callable[[Keys], str]
) -> TrainerBackend | None:
    """Find the backend that a configuration names; None for ours, which show progress here."""
    from rubric_core import find_trainer

    name = str(values.get("backend", "local"))
    try:
        return None if name in {"local", "openrlhf"} else find_trainer(name)
    except PluginError as error:
        raise PluginError(f"{written_at(('backend',))}: backend: {error}") from None


if __name__ == "__main__":
    main()
