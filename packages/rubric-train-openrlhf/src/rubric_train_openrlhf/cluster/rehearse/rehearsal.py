"""A rehearsal from its first check to its report."""

import shutil
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from rubric_judge.ui.console.progress import Progress, Steps
from rubric_train_openrlhf.cluster.launching.launch import FollowedPhases
from rubric_train_openrlhf.cluster.rehearse import (
    aftermath,
    configuration,
    judge,
    model,
    tasks,
)
from rubric_train_openrlhf.cluster.rehearse import checking as check
from rubric_train_openrlhf.cluster.rehearse.checking import (
    TWO_STEPS,
    Check,
    Finding,
    Report,
    Request,
    Subject,
)
from rubric_train_openrlhf.cluster.rehearse.stage import Ended, run_process, staged
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.writing import write_text

REPORT = "rehearse.json"

_READ = ("configuration",)
_CAN_RUN = ("configuration", "what OpenRLHF can do")
_API_BASE = "judge.spec.api_base"
BEFORE = (
    Check("configuration", configuration.check_configuration),
    Check("what OpenRLHF can do", configuration.check_refusals),
    Check("flags", configuration.check_flags, needs=_CAN_RUN),
    Check("known traps", configuration.check_traps, needs=_READ),
    Check("training tasks", tasks.check_training_tasks, where="data.train"),
    Check("held-out tasks", tasks.check_heldout_tasks, where="data.validation"),
    Check("tasks of a step", tasks.check_enough_tasks, where="rollout.prompts"),
    Check("split", tasks.check_splits, where="data.validation"),
    Check("leaks", tasks.check_leaks, where="data.leak_ngram"),
    Check("warm start", tasks.check_warm_start, where="sft"),
    Check("model", model.check_model, where="model.path"),
    Check("tokenizer", model.check_tokenizer, where="model.path"),
    Check("questions", tasks.check_questions, where="data.train"),
    Check("prompt lengths", tasks.check_prompt_lengths, where="cluster.max_len"),
    Check("judge reachable", judge.check_reachable, where="judge.spec"),
    Check("judge's contract", judge.check_contract, where="judge.spec"),
    Check("admission", judge.check_admission, where="judge.calibration"),
    Check("output folder", configuration.check_output_folder, where="out"),
    Check("disk", configuration.check_disk, needs=_READ, where="out"),
    Check("memory", configuration.check_memory, needs=_READ, where="cluster"),
    Check(
        "judge's capacity", configuration.check_capacity, needs=_READ, where=_API_BASE
    ),
    Check("starting time", configuration.check_bytecode),
)
"""Before anything is started."""
_RUN_NEEDS = (*_CAN_RUN, "flags", "judge's contract")


def rehearse(
    request: Request,
    *,
    progress: Progress | None = None,
    on_failure: Callable[[Finding], object] = lambda _: None,
) -> Report:
    """Check a production configuration, run two steps of it on a CPU, and write the report.

    Args:
        request: what, where, and against which judge.
        progress: told of each check, and of what the two steps do; nothing is shown if left out.
        on_failure: called with each failure that is known when the two steps start, which take
            minutes.

    Returns:
        The report, which stands in the request's folder as rehearse.json too.

    Raises:
        TrainConfigError: the deadline is not valid, the folder cannot be made, or it holds
            something that is not a rehearsal.
        DiskWriteError: the report could not be written.
    """
    _clear(request)
    started_s = time.perf_counter()
    subject = Subject(request)
    shown = progress or Progress.silent()
    findings: list[Finding] = []

    def tell_failures() -> None:
        for finding in findings:
            if finding.status is check.Status.FAILED:
                on_failure(finding)

    with Steps(shown) as steps:
        ask = partial(
            check.run_checks, subject=subject, on_check=steps.to, earlier=findings
        )
        findings += ask(BEFORE)
        if request.run:
            run = partial(_run_two_steps, on_start=tell_failures, progress=shown)
            findings += ask((Check(TWO_STEPS, run, needs=_RUN_NEEDS),))
            if (small := subject.rehearsed) is not None:
                findings += ask(_after(small, subject.arguments))
    report = Report(
        config=str(request.source),
        stand_ins=tuple(subject.stand_ins),
        findings=tuple(findings),
        wall_s=time.perf_counter() - started_s,
    )
    write_text(request.folder / REPORT, report.to_json())
    return report


def _run_two_steps(
    subject: Subject, *, on_start: Callable[[], None], progress: Progress
) -> Finding:
    request = subject.request
    if lacking := [name for name in ("openrlhf", "vllm") if find_spec(name) is None]:
        return check.unchecked(
            f"not installed here: {' and '.join(lacking)}",
            remedy="install the extra openrlhf-cpu, or openrlhf on a machine with GPUs",
        )
    on_start()
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
    if ended.status == 0:
        return check.passed(
            f"ran to the end in {ended.wall_s:.0f} s, real trainer and engine"
        )
    return bad_ending(ended)


def bad_ending(ended: Ended) -> Finding:
    """Say what is wrong with two steps that did not end well."""
    log = str(ended.log)
    if ended.status is None:
        return check.failed(
            f"not done after {ended.wall_s:.0f} s; the last it said: {ended.cause}",
            where=log,
            remedy="give it longer with --deadline-s, more so on a busy machine, or "
            "read where it hangs; it says nothing of the cluster",
        )
    if ended.ran_out_of_time:
        return check.failed(
            f"ended with status {ended.status}, for a wait ran out: {ended.cause}",
            where=log,
            remedy="rehearse again when this machine is less busy; a wait that runs out "
            "here says nothing of the cluster, and one that does again is in the log",
        )
    return check.failed(
        f"ended with status {ended.status}: {ended.cause}",
        where=log,
        remedy="the cluster would stop there too; the log has all of it",
    )


_AFTER = {
    "rows": aftermath.check_steps,
    "rewards": aftermath.check_rewards,
    "advantages": aftermath.check_advantages,
    "weight sync": aftermath.check_sync,
    "evaluation": aftermath.check_heldout,
    "checkpoints": aftermath.check_checkpoints,
}


def _after(small: TrainConfig, arguments: frozenset[bytes]) -> tuple[Check, ...]:
    folder = RunFolder(small.out)
    search = partial(aftermath.check_asymmetry, small, folder, arguments=arguments)
    return (
        *(
            Check(name, lambda _, ask=ask: ask(small, folder), needs=(TWO_STEPS,))
            for name, ask in _AFTER.items()
        ),
        # Also of a run that failed, whose logs and errors may say more than those of another.
        Check("asymmetry", lambda _: search()),
        # Last, so that a reader sees what the verdict does not cover.
        Check("only on GPUs", configuration.check_only_on_gpus),
    )


def _clear(request: Request) -> None:
    """Make room for a new rehearsal where an old one stands, and nowhere else."""
    if not 0 < request.deadline_s < float("inf"):
        raise TrainConfigError(
            f"--deadline-s {request.deadline_s:g} is no time to wait; give a positive number "
            "of seconds",
            location="--deadline-s",
        )
    folder = request.folder
    problem = ""
    try:
        if folder.exists() and not folder.is_dir():
            problem = (
                "is a file; --out names a folder, which is made where it is missing"
            )
        elif (folder / REPORT).is_file():
            shutil.rmtree(folder)
        elif folder.exists() and any(folder.iterdir()):
            problem = f"is not empty and holds no {REPORT}; choose another --out"
        if not problem:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or error
        problem = f"cannot be made or cleared: {why}; choose another --out"
    if problem:
        raise TrainConfigError(f"{str(folder)!r} {problem}", location="--out")
    # A rehearsal that is cut off leaves a folder that the next one may use.
    write_text(folder / REPORT, "{}\n")
