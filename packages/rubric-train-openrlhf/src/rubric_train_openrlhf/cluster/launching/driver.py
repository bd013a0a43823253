"""The process that runs OpenRLHF's own command, with our classes where it looks for its own.

`python -m rubric_train_openrlhf.cluster.launching.driver CONFIG [--resume] …`, started by `launch`
on this machine or by Ray on the head node of a cluster.
"""

import argparse
import contextlib
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import structlog

from rubric_core import RubricError
from rubric_core.files import open_to_append
from rubric_judge.ui.console.command import configure_log
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.cluster import cpu, failure, orphans
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.config.train import TrainConfig, load_config
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import live_summary
from rubric_train_openrlhf.run.writing import disk_errors
from rubric_train_openrlhf.tracking.running import Trackers, tracked


class Output:
    """Standard output and error of this process, which its children inherit."""

    def __init__(self) -> None:
        """Show what whoever started the process has to know, and no more."""
        configure_log(verbose=False)
        self._first = os.dup(sys.stderr.fileno())
        self.is_file = False

    def turn_to(self, path: Path) -> None:
        """Send all that is printed from now on to a file, with every step of ours.

        Raises:
            DiskWriteError: there can be no such file.
        """
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_to_append(path) as log:
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                    os.dup2(log.fileno(), stream.fileno())
        self.is_file = True
        configure_log(verbose=True)

    def say_first(self, line: str) -> None:
        """Print a line where the process printed to when it started."""
        os.write(self._first, f"{line}\n".encode())


_COMMAND = "openrlhf.cli.train_ppo_ray"

_log = structlog.get_logger()


def main(words: Sequence[str] | None = None) -> None:
    """Run a training run to its end; exit with status 1 where it fails."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__spec__.name if __spec__ else __name__}"
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument(
        "--failure", type=Path, help="where to leave the error that ends the run"
    )
    parser.add_argument("--parent", type=int, help="end when this process does")
    arguments = parser.parse_args(words)
    output = Output()
    signal.signal(signal.SIGTERM, _end)
    if arguments.parent is not None:
        orphans.end_with(arguments.parent)
    try:
        run(load_config(arguments.config), resume=arguments.resume, output=output)
    except SystemExit:
        raise
    # The end of the process: whatever ended the run is shown by its first cause.
    except BaseException as error:
        is_told = False
        # Where the disk has no room for it, the line below tells it.
        with contextlib.suppress(OSError):
            if arguments.failure is not None:
                failure.write_failure(arguments.failure, error)
                is_told = True
        # What the command says of an error of ours is enough where there is no log yet.
        if output.is_file or not isinstance(failure.first_cause(error), RubricError):
            traceback.print_exception(error)
            sys.stderr.write(f"{failure.shown(error)}\n")
        if not is_told:
            output.say_first(failure.shown(error))
        raise SystemExit(1) from error


def run(config: TrainConfig, *, resume: bool, output: Output) -> None:
    """Train, with Ray running and the judge coordinator open for as long as that takes.

    Args:
        config: of the run.
        resume: go on from the last checkpoint in `config.out`.
        output: goes to the run folder's log once there is one.

    Raises:
        RubricError: unusable input, or why the run ended; each with its own type.
        Exception: what OpenRLHF or its stack raised.
    """
    folder = RunFolder(config.out)
    summary_kept = partial(
        live_summary, total_steps=config.steps, resume=resume, named=failure.known
    )
    with (
        Progress.silent() as progress,
        # Left last: trackers are told how the run ended.
        tracked(config, progress=progress, tell=output.say_first) as trackers,
        folder.locked(),
        summary_kept(folder, progress=progress) as summary_file,
    ):
        if config.cluster.device == "cpu":
            cpu.install()
        with progress.phase("loading torch"):
            # Seconds, and minutes from a cold disk: summary.json comes before.
            from rubric_train_openrlhf.cluster.launching.preparation import prepare

        namespace = f"rubric-{uuid4().hex}"
        words = prepare(
            config, resume=resume, namespace=namespace, summary_file=summary_file
        )
        if words is not None:
            output.turn_to(ClusterPaths(config.out).logs / "driver.log")
            _run_prepared(config, words, namespace, progress, trackers)


def _run_prepared(
    config: TrainConfig,
    words: Sequence[str],
    namespace: str,
    progress: Progress,
    trackers: Trackers,
) -> None:
    # Ray takes seconds to load, which a run that fails before has no need of.
    from rubric_train_openrlhf.cluster.launching import ray_session
    from rubric_train_openrlhf.cluster.sampling.judge_calls import ask

    with contextlib.ExitStack() as held:
        with progress.phase("starting Ray"):
            held.enter_context(ray_session.ray_session(config, namespace=namespace))
            coordinator = ray_session.start_coordinator(config, namespace=namespace)
            held.callback(ray_session.stop_coordinator, coordinator)
        # After Ray: where its start fails, all that this process has started is ended.
        trackers.start()
        with progress.phase("loading OpenRLHF, starting the judge"):
            # Loading OpenRLHF takes as long as the coordinator takes to start.
            install(config)
            ask(coordinator.open)
        # Until the trainer says what it does itself.
        with progress.phase("starting the engines, loading the models"):
            sys.argv = [_COMMAND, *words]
            runpy.run_module(_COMMAND, run_name="__main__", alter_sys=True)


def install(config: TrainConfig) -> None:
    """Put our classes where OpenRLHF's command looks for its own, in this process alone.

    Its workers unpickle them by name, so that nothing has to be replaced there.
    """
    import ray  # the stack is loaded where a run starts, after its shims
    from openrlhf.trainer import ppo_trainer
    from openrlhf.trainer.ray import launcher, ppo_actor, vllm_engine

    from rubric_train_openrlhf.cluster.sampling.engine_actor import RubricRolloutActor
    from rubric_train_openrlhf.cluster.training import policy_actor
    from rubric_train_openrlhf.cluster.training.trainer import RubricPPOTrainer

    # Exact advantages, evaluation at both ends, our rows; the command imports it when it starts.
    ppo_trainer.PPOTrainer = ray.remote(RubricPPOTrainer)
    # Warm-up per GRPO step, decay of all weights, our divergence, Hugging Face checkpoints.
    ppo_actor.PolicyModelActor = ray.remote(num_gpus=1)(policy_actor.RubricPolicyActor)
    # The number format of the policy, where that is float32.
    launcher.ReferenceModelActor = ray.remote(num_gpus=1)(
        policy_actor.RubricReferenceActor
    )
    # Restarts of a dead engine, arguments of vLLM that have no flag, every response at once.
    engines = ray.remote(
        max_restarts=config.cluster.engines.restarts,  # pyright: ignore[reportCallIssue]
        max_concurrency=max(1000, 2 * config.batch_size),
    )
    vllm_engine.RolloutRayActor = engines(RubricRolloutActor)


def _end(signum: int, frame: object) -> NoReturn:
    """Leave through every `finally`, which stops the cluster; later signals are ignored."""
    del frame
    signal.signal(signum, signal.SIG_IGN)
    raise SystemExit(128 + signum)


if __name__ == "__main__":
    main()
