"""A rehearsal from its first check to its report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rubric_judge.console import Progress, Steps
from rubric_train_openrlhf.cluster.launching.launch import FollowedPhases
from rubric_train_openrlhf.cluster.rehearse import (
    aftermath,
    asymmetry,
    checking,
    configuration,
    judge,
    machines,
    model,
    tasks,
)
from rubric_train_openrlhf.cluster.rehearse.stage import run_process, staged
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.run import RunFolder
from rubric_train_openrlhf.run.writing import write_text

if TYPE_CHECKING:
    from rubric_train_openrlhf.cluster.rehearse.checking import Finding
    from rubric_train_openrlhf.config import TrainConfig

REPORT: Final = "rehearse.json"

BEFORE: Final = (
    checking.Check("configuration", configuration.check_configuration),
    checking.Check("what OpenRLHF can do", configuration.check_refusals),
    checking.Check(
        "flags", configuration.check_flags, needs=("configuration", "what OpenRLHF can do")
    ),
    checking.Check("known traps", configuration.check_traps, needs=("configuration",)),
    checking.Check("training tasks", tasks.check_training_tasks, where="data.train"),
    checking.Check("held-out tasks", tasks.check_heldout_tasks, where="data.validation"),
    checking.Check("tasks of a step", tasks.check_enough_tasks, where="rollout.prompts"),
    checking.Check("split", tasks.check_splits, where="data.validation"),
    checking.Check("leaks", tasks.check_leaks, where="data.leak_ngram"),
    checking.Check("warm start", tasks.check_warm_start, where="sft"),
    checking.Check("model", model.check_model, where="model.path"),
    checking.Check("tokenizer", model.check_tokenizer, where="model.path"),
    checking.Check("questions", tasks.check_questions, where="data.train"),
    checking.Check("prompt lengths", tasks.check_prompt_lengths, where="cluster.max_len"),
    checking.Check("judge reachable", judge.check_reachable, where="judge.spec"),
    checking.Check("judge's contract", judge.check_contract, where="judge.spec"),
    checking.Check("output folder", machines.check_output_folder, where="out"),
    checking.Check("disk", machines.check_disk, needs=("configuration",), where="out"),
    checking.Check("memory", machines.check_memory, needs=("configuration",), where="cluster"),
    checking.Check(
        "judge's capacity",
        machines.check_judge_capacity,
        needs=("configuration",),
        where="judge.spec.api_base",
    ),
    checking.Check("starting time", machines.check_bytecode),
)
"""Before anything is started."""
_RUN_NEEDS: Final = ("configuration", "what OpenRLHF can do", "flags", "judge's contract")


def rehearse(
    request: checking.Request,
    *,
    progress: Progress | None = None,
    on_failure: Callable[[Finding], None] | None = None,
) -> checking.Report:
    """Check a production configuration, run two steps of it on a CPU, and write the report.

    Args:
        request: what, where, and against which judge.
        progress: told of each check, and of what the two steps do; nothing is shown if left out.
        on_failure: called with each failure that is known when the two steps start, which take
            minutes.

    Returns:
        The report, which stands in the request's folder as rehearse.json too.

    Raises:
        TrainConfigError: the deadline is none, there can be no such folder, or it holds something
            that is no rehearsal.
        DiskWriteError: the report could not be written.
    """
    _check_deadline(request.deadline_s)
    try:
        _clear(request.folder)
    except OSError as error:
        raise TrainConfigError(
            f"{str(request.folder)!r} cannot be made or cleared: {error.strerror or error}; choose "
            "another --out",
            location="--out",
        ) from error
    started_s = time.perf_counter()
    subject = checking.Subject(request)
    shown = progress or Progress.silent()
    with Steps(shown) as steps:
        findings = checking.run_checks(BEFORE, subject, on_check=steps.to)
        run = partial(
            _run_two_steps,
            failures=[found for found in findings if found.status is checking.Status.FAILED],
            tell=on_failure or _silent,
            progress=shown,
        )
        runs = (checking.Check(checking.TWO_STEPS, run, needs=_RUN_NEEDS),)
        if request.run:
            findings += checking.run_checks(runs, subject, on_check=steps.to, earlier=findings)
            if subject.rehearsed is not None:
                after = _after(subject.rehearsed, subject.arguments)
                findings += checking.run_checks(after, subject, on_check=steps.to, earlier=findings)
                findings += checking.run_checks(machines.ONLY_ON_GPUS, subject, on_check=steps.to)
    report = checking.Report(
        config=str(request.source),
        stand_ins=tuple(subject.stand_ins),
        findings=tuple(findings),
        wall_s=time.perf_counter() - started_s,
    )
    write_text(request.folder / REPORT, report.to_json())
    return report


def _run_two_steps(
    subject: checking.Subject,
    *,
    failures: Sequence[Finding],
    tell: Callable[[Finding], None],
    progress: Progress,
) -> Iterator[Finding]:
    request = subject.request
    lacking = [name for name in ("openrlhf", "vllm") if find_spec(name) is None]
    if lacking:
        yield checking.unchecked(
            f"not installed here: {' and '.join(lacking)}",
            remedy="install the extra openrlhf-cpu, or openrlhf on a machine with GPUs",
        )
        return
    for failure in failures:
        tell(failure)
    with staged(subject) as small:
        subject.rehearsed = small
        with FollowedPhases(small.out, progress) as phases:
            ended = run_process(
                small,
                folder=request.folder,
                deadline_s=request.deadline_s,
                on_poll=phases.poll,
            )
    subject.arguments = ended.arguments
    if ended.status is None:
        yield checking.failed(
            f"not done after {ended.wall_s:.0f} s; the last it said: {ended.cause}",
            where=str(ended.log),
            remedy="give it longer with --deadline-s, or read where it hangs",
        )
    elif ended.status:
        yield checking.failed(
            f"ended with status {ended.status}: {ended.cause}",
            where=str(ended.log),
            remedy="the cluster would stop there too; the log has all of it",
        )
    else:
        yield checking.passed(f"ran to the end in {ended.wall_s:.0f} s, real trainer and engine")


def _silent(_: object) -> None:
    """Show nothing."""


_AFTER: Final[dict[str, Callable[[TrainConfig, RunFolder], Finding | Iterator[Finding]]]] = {
    "rows": aftermath.check_steps,
    "rewards": aftermath.check_rewards,
    "advantages": aftermath.check_advantages,
    "weight sync": aftermath.check_sync,
    "evaluation": aftermath.check_heldout,
    "checkpoints": aftermath.check_checkpoints,
}


def _after(small: TrainConfig, arguments: frozenset[bytes]) -> tuple[checking.Check, ...]:
    folder = RunFolder(small.out)
    search = partial(asymmetry.check_asymmetry, small, folder, arguments=arguments)
    return (
        *(
            checking.Check(name, lambda _, ask=ask: ask(small, folder), needs=(checking.TWO_STEPS,))
            for name, ask in _AFTER.items()
        ),
        # Also of a run that failed, whose logs and errors may say more than those of another.
        checking.Check("asymmetry", lambda _: search()),
    )


def _check_deadline(deadline_s: float) -> None:
    if not isfinite(deadline_s) or deadline_s <= 0:
        raise TrainConfigError(
            f"--deadline-s {deadline_s:g} is no time to wait; give a positive number of seconds",
            location="--deadline-s",
        )


def _clear(folder: Path) -> None:
    """Make room for a new rehearsal where an old one stands, and nowhere else."""
    if folder.exists() and not folder.is_dir():
        raise TrainConfigError(
            f"{str(folder)!r} is a file; --out names a folder, which is made where it is missing",
            location="--out",
        )
    if folder.exists() and any(folder.iterdir()):
        if not (folder / REPORT).is_file():
            raise TrainConfigError(
                f"{str(folder)!r} is not empty and holds no {REPORT}; choose another --out",
                location="--out",
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # A rehearsal that is cut off leaves a folder that the next one may use.
    write_text(folder / REPORT, "{}\n")
