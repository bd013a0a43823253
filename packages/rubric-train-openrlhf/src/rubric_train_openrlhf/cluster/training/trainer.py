"""OpenRLHF's single controller, running the paper's Algorithm 1 over its actors.

Its models, engines, updates and weight transfer are used as they are; the loop is ours, because
OpenRLHF's evaluates neither before training nor after it, keeps the value of an earlier held-out
pass beside a checkpoint, and ends an epoch in a partial batch.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import ray
import structlog
from openrlhf.trainer import ppo_trainer

from rubric_core import Answer
from rubric_core.data.model_files import read_settings
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.cluster.sampling import (
    fleet,
    groups,
    judge_calls,
    policy_run,
    samples,
)
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.cluster.training import (
    experience,
    learner,
    trained,
    trainer_states,
)
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import live_summary, step_note
from rubric_train_openrlhf.run.records import (
    AuditFigures,
    HeldoutReward,
    MetricsRow,
    Watched,
)
from rubric_train_openrlhf.run.writing import EventWriter
from rubric_train_openrlhf.step.agreement import Agreement, Tolerance
from rubric_train_openrlhf.step.passes import HeldoutPasses, UnclosedThoughts
from rubric_train_openrlhf.step.rows import StepRecord, metrics_row, rollout_rows

_log = structlog.get_logger()

_Trainer: Any = cast("Any", ppo_trainer.PPOTrainer).__ray_metadata__.modified_class
"""The plain class under `@ray.remote`."""


class RubricPPOTrainer(_Trainer):
    """Runs a training run to its end, or goes on with one."""

    def __init__(self, *parts: Any, **generation: Any) -> None:
        """Build OpenRLHF's trainer, and put our parts in the place of its own."""
        super().__init__(*parts, **generation)
        self._run = run = policy_run.read_policy_run()
        self._folder = RunFolder(run.out)
        self._checkpoints = trainer_states.PolicyCheckpoints(
            self._folder, config=run.checkpoint
        )
        coordinator = judge_calls.find_coordinator(run.namespace)
        self._coordinator = judge_calls.CoordinatorClient(coordinator)
        rejoin = partial(self._send_weights, rejoin=True)
        self._fleet = fleet.EngineFleet(self.vllm_engines, rejoin=rejoin)
        # Every rank has responses of its own: rings and tensor-parallel groups are refused.
        self._shares = trained.Shares(
            run.optim.updates_per_rollout, ranks=run.cluster.policy_gpus
        )
        paths = ClusterPaths(run.out)
        self._states = trainer_states.DeepSpeedStates(paths.trainer_state)
        heldout = samples.read_prompts(paths.heldout_prompts) if run.heldout else []
        self.samples_generator = groups.RubricSamplesGenerator(
            self.strategy,
            run=run,
            fleet=self._fleet,
            coordinator=self._coordinator,
            prompts=samples.read_prompts(paths.train_prompts),
            heldout=heldout[: run.validation.questions],
        )
        theirs = self.experience_maker
        self.experience_maker = experience.RubricExperienceMaker(
            theirs.actor_model_group,
            theirs.critic_model_group,
            theirs.reward_model_group,
            theirs.initial_model_group,
            theirs.kl_ctl,
            theirs.strategy,
            theirs.tokenizer,
            coordinator=self._coordinator,
            shares=self._shares,
            ratio_to_sampler=not run.objective.importance.reads_old_logprobs,
            precision=run.precision,
        )
        self._checkpoints.keeps_before_drift = run.watch == "rollback"
        self._alarmed = False
        self._watcher = ThreadPoolExecutor(1)
        """Asks for audits while the policy is updated."""
        self._first_step = 1
        """First step of this process, whose engines and policy were just given equal weights."""

    def get_max_steps(self) -> int:
        """Optimiser updates of the whole run."""
        return self._run.steps * self._run.optim.updates_per_rollout

    def fit(self, global_step: int = 0) -> None:
        """Train to the last step.

        Raises:
            JudgeAbortError: too many judgements failed.
            NoInformativePromptError: dynamic sampling found too few groups with a spread.
            NonFiniteUpdateError: the loss or its gradient is not a number.
            PolicyMismatchError: engines, policy and update do not hold the same policy.
            ClusterError: an engine or the judge coordinator died for good, or responses were
                trained on by what is not theirs.
            DiskWriteError: the run folder could not be written.
        """
        del global_step
        position = trainer_states.TrainPosition.model_validate(
            self.init_checkpoint_states()
        )
        summary_kept = partial(live_summary, total_steps=self._run.steps, resume=True)
        with (
            Progress.silent() as self._progress,
            summary_kept(self._folder, progress=self._progress) as self._summary_file,
        ):
            self._passes = HeldoutPasses(
                self._folder,
                self._run,
                self._progress,
                self._ask_heldout,
                UnclosedThoughts(),
            )
            with self._progress.phase("giving the engines their weights"):
                self._go_back(position)
            self._summary_file.begin(wall_s=position.wall_s)
            self._summary_file.start_clock()
            with EventWriter(
                self._folder.tensorboard, first_step=position.step + 1
            ) as events:
                self._train(position, events=events)

    def _train(
        self, position: trainer_states.TrainPosition, *, events: EventWriter
    ) -> None:
        self._evaluate_if_due(position.step, events=events)
        if not self._checkpoints.path(position.step).exists():
            with self._progress.phase("writing the first checkpoint"):
                self._checkpoints.save(position.step, self._write_policy)
        prompts_drawn = position.prompts_drawn
        self._first_step = position.step + 1
        with self._progress.phase(
            "training", total=self._run.steps, unit="steps"
        ) as phase:
            phase.start_at(position.step)
            for step in range(position.step + 1, self._run.steps + 1):
                if self._has_diverged:
                    break
                row, drawn = self._one_step(step, position=prompts_drawn, events=events)
                prompts_drawn += drawn
                self._summary_file.step(row)
                phase.advance(note=step_note(row))
                self._passes.thoughts.look(row)
                improved = self._evaluate_if_due(step, events=events)
                self._save_if_due(step, improved=improved, prompts_drawn=prompts_drawn)
        if self._has_diverged:
            kept = None
            if self._run.watch == "rollback":
                kept = self._checkpoints.roll_back()
            self._summary_file.note_divergence(kept=kept)

    @property
    def _has_diverged(self) -> bool:
        """Whether an alarm ends the run."""
        return self._alarmed and self._run.watch in {"stop", "rollback"}

    def _note_audit(self, audit: AuditFigures | None) -> None:
        if audit is not None:
            self._alarmed = bool(audit.alarm)
            self._checkpoints.onset = audit.onset

    def _save_if_due(self, step: int, *, improved: bool, prompts_drawn: int) -> None:
        every = self._run.checkpoint.every
        due = step % every == 0 or step == self._run.steps or self._has_diverged
        with self._progress.phase("writing a checkpoint"):
            if due:
                position = trainer_states.TrainPosition(
                    step=step,
                    prompts_drawn=prompts_drawn,
                    wall_s=self._summary_file.wall_s,
                )
                path = str(self._states.path(step))
                kept = position.model_dump()
                seen = self._ask_all("save_state", path=path, client_state=kept)
                # All ranks have come back, so that the state is whole.
                self._states.mark(step, seen, keep=self._run.checkpoint.keep)
                self._checkpoints.state_step = step
            if due or improved:
                # After the state: a state without its policy is completed when the run goes on.
                self._checkpoints.save(step, self._write_policy)

    def _go_back(self, position: trainer_states.TrainPosition) -> None:
        """Drop what comes after the checkpoint, and give the engines its weights."""
        passes = range(0, position.step + 1, self._run.validation.every)
        expected = self._run.heldout and position.step > 0
        self._states.check_loaded(position.step)
        self._folder.cut_back(position.step, heldout=passes if expected else ())
        self._note_audit(next(reversed(self._folder.read_audit()), None))
        self._checkpoints.go_back(position.step)
        self._fleet.check()
        if position.step:
            self._fleet.synchronise(self._send_weights)

    def _one_step(
        self, step: int, *, position: int, events: EventWriter
    ) -> tuple[MetricsRow, int]:
        """Sample, judge, update and hand the new weights over.

        Returns:
            The step's figures, and how many prompts were drawn.
        """
        phase = self._progress.phase
        at = {"start": time.perf_counter()}
        check = self._agreement(step)
        with phase("sampling and judging"):
            drawn: samples.Draw = self.samples_generator.draw_step(
                step=step, position=position
            )
        at["draw"] = time.perf_counter()
        watching = self._watching(step, drawn.groups)
        with phase("log-probabilities of policy and reference"):
            experiences = self.experience_maker.make_step(
                step, drawn.groups, check=check
            )
        at["experience"] = time.perf_counter()
        with phase("updating"):
            figures = self._update(experiences.batches, step=step, check=check)
            # What the learner was trained on must be what it was to be trained on.
            trained_samples = trained.in_row_order(
                self._ask_all("trained"), shares=self._shares, step=step
            )
            trained.check_trained(
                trained_samples, drawn.groups, experiences.credit, step=step
            )
        at["update"] = time.perf_counter()
        with phase("giving the engines the new weights"):
            self._fleet.synchronise(self._send_weights)
        at["sync"] = time.perf_counter()
        figures["sampler_gap"] = experiences.sampler_gap
        figures["engine_restarts"] = self._fleet.take_restarts()
        record = trained.step_record(
            step,
            drawn,
            experiences.credit,
            trained_samples,
            figures=figures,
            ended_at=at,
        )
        watched = watching()
        self._note_audit(watched.audit)
        record = replace(record, audit=watched.audit, monitor=watched.monitor)
        return self._write_step(record, events=events), drawn.prompts

    def _watching(
        self, step: int, drawn: Sequence[samples.Group]
    ) -> Callable[[], Watched]:
        """Have the responses audited and monitored meanwhile; return what waits for the figures."""
        if self._run.watch is None:
            return Watched
        asked = self._watcher.submit(self._coordinator.watch, step, drawn)

        def wait() -> Watched:
            with self._progress.phase("auditing"):
                return asked.result()

        return wait

    def _update(
        self, batches: Sequence[Any], *, step: int, check: Agreement | None
    ) -> dict[str, float]:
        """Make the updates of a step."""
        actors = self.actor_model_group
        ray.get(actors.async_run_method_batch(method_name="append", experience=batches))
        status = self.ppo_train(step)
        ours = [name for name in status if name.startswith(learner.FIGURES)]
        figures = {name.removeprefix(learner.FIGURES): status[name] for name in ours}
        trained.check_update(figures, step=step)
        if check is not None:
            # The old log-probabilities are the engine's, unless a correction asks for both.
            by_engine = not self._run.objective.importance.reads_old_logprobs
            tolerance = Tolerance.of(self._run.precision, by_engine=by_engine)
            check.settle_mean(figures["first_gap"], allowed=tolerance.mean)
        return figures

    def _agreement(self, step: int) -> Agreement | None:
        """Return the comparison of log-probabilities in the first step of this process."""
        if step != self._first_step:
            return None
        settings = read_settings(
            Path(self.strategy.args.actor.model_name_or_path) / "config.json"
        )
        named: Any = settings.get("architectures") or ["the model"]
        return Agreement(named[0], step=step, on_mismatch=self._run.on_mismatch)

    def _write_step(self, record: StepRecord, *, events: EventWriter) -> MetricsRow:
        row = metrics_row(record)
        self._folder.write_rollouts(row.step, rollout_rows(record))
        self._folder.write_metrics(row)
        events.write("train", row, step=row.step)
        _log.info("train.step.finished", **row.model_dump(exclude={"criteria"}))
        return row

    def _evaluate_if_due(self, step: int, *, events: EventWriter) -> bool:
        """Ask the held-out questions where this step is due; whether it is the best so far."""
        row = self._passes.pass_if_due(step) if self._run.heldout else None
        if row is None:
            return False
        self._summary_file.heldout()
        self._note_audit(row.audit)
        events.write("heldout", row, step=step)
        return row.best

    def _ask_heldout(self, step: int) -> tuple[HeldoutReward, list[int], list[Answer]]:
        groups = self.samples_generator.draw_heldout().groups
        lengths = [length for group in groups for length in group.lengths]
        samples_N = (sample for group in groups for sample in group.samples)
        written = [
            sample.completion.answer
            for sample in samples_N
            if sample.judgement.is_answer
        ]
        is_watched = self._run.watch is not None
        reward = self._coordinator.heldout(step, groups, watch=is_watched)
        return reward, lengths, written

    def _write_policy(self, path: Path) -> None:
        self._ask_all("save_policy", path=str(path))

    def _ask_all(self, method: str, **arguments: object) -> list[Any]:
        """Call a method of every process that trains, and wait for all of them."""
        return ray.get(
            self.actor_model_group.async_run_method(method_name=method, **arguments)
        )

    def _send_weights(self, *, rejoin: bool = False) -> bool:
        if self._run.cluster.engines_sleep:
            self._fleet.on_all("wake_up", tags=["weights"])
        actors = self.actor_model_group
        name = "broadcast_to_vllm"
        return self._fleet.take_part(
            actors.async_run_method(method_name=name, rejoin=rejoin)
        )
