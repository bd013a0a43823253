"""Audits of a run: which responses a second judge scores, and whether the first drifts from it.

Both backends use `Auditor`, on the judge's side. All that it knows follows from the rows of
audit.jsonl, so that a run that was killed goes on with exactly the same numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from statistics import fmean
from typing import NamedTuple

import numpy as np
import structlog

import rubric_core as core
from rubric_core import Answer, JudgeResult, JudgeView, Outcome, Rubric, Task
from rubric_judge.statistics.drift import DriftTest
from rubric_judge.ui.page.tables import counted
from rubric_train_openrlhf.config.sections import AuditConfig
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.randomness import derived_seed
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import (
    AlarmState,
    AuditCounts,
    AuditRow,
    AuditSource,
)
from rubric_train_openrlhf.step.admission import Admission
from rubric_train_openrlhf.step.rewards import ALL

_LEAST_LATER = 32
"""Fewest audited questions after the start before a quiet test says anything."""
_RECENT = 10
"""Last looks of a source in which audits that failed are counted."""
LEAST_USED = 0.5
"""Least share of the chosen responses that both judges scored, for a mean to stand for all."""

_log = structlog.get_logger()


class Place(NamedTuple):
    """Place of a response in a step or in a held-out pass."""

    group: int
    member: int


class Pair(NamedTuple):
    """Judgements of one response, by the judge of the training and by the audit judge."""

    training: JudgeResult
    audit: JudgeResult | None
    """None where the training judge did not score it, so that the audit judge was not asked."""


@dataclass(frozen=True)
class Draw:
    """The responses of a step or of a held-out pass that are audited."""

    source: AuditSource
    step: int
    training: Mapping[Place, JudgeResult]
    """Results of the training judge, one for each."""

    @property
    def asked(self) -> list[Place]:
        """Those that the training judge scored: the audit judge is asked about no other."""
        return [
            place
            for place, result in self.training.items()
            if result.outcome is Outcome.SCORED
        ]

    def views(
        self, tasks: Sequence[Task], answers: Sequence[Sequence[Answer]]
    ) -> list[JudgeView]:
        """Return what the audit judge reads, of the tasks and answers of all groups."""
        return [
            tasks[group].judge_view(answers[group][member])
            for group, member in self.asked
        ]

    def pairs(self, audits: Sequence[JudgeResult]) -> dict[Place, Pair]:
        """Return both judgements of each response, by those of the audit judge in order."""
        by_place = dict(zip(self.asked, audits, strict=True))
        return {
            place: Pair(result, by_place.get(place))
            for place, result in self.training.items()
        }


def training_places(
    seed: int, step: int, *, prompts: int, group_size: int, frac: float
) -> list[Place]:
    """Draw the responses of a step that are audited, spread over as many prompts as possible.

    Args:
        seed: seed of the run, from which the draw follows with the step.
        step: number of the step.
        prompts: groups of the step.
        group_size: responses in a group.
        frac: share of the responses; at least one is drawn.

    Returns:
        Places in their order.
    """
    n = max(1, round(frac * prompts * group_size))
    draw = np.random.default_rng(derived_seed(seed, step=step, purpose="audit"))
    order = draw.permutation(prompts).tolist()
    places: list[Place] = []
    for rank, group in enumerate(order):
        count = n // prompts + (rank < n % prompts)
        members = draw.permutation(group_size)[:count].tolist()
        places += [Place(group, member) for member in members]
    return sorted(places)


def heldout_questions(seed: int, *, questions: int, frac: float) -> list[int]:
    """Draw the held-out questions that are audited; at least one.

    They are the same in all passes, so that two passes differ by the policy alone.
    """
    n = max(1, round(frac * questions))
    draw = np.random.default_rng(derived_seed(seed, step=0, purpose="audit"))
    return sorted(draw.permutation(questions)[:n].tolist())


def check_apart(config: TrainConfig, *, training: str, audit: str) -> None:
    """Refuse an audit judge whose scores are those of the training judge.

    Args:
        config: configuration of the run.
        training: fingerprint of its judge.
        audit: fingerprint of its audit judge.

    Raises:
        TrainConfigError: they are one judge.
    """
    if config.audit is not None and training == audit:
        raise TrainConfigError(
            f"audit.spec and judge.spec make one judge ({training}): its scores would always "
            "agree with themselves, and no drift could be seen; give another model, prompt or "
            "granularity (an address, a key or limits do not make another judge)",
            location="audit.spec",
        )


def audit_lines(config: TrainConfig) -> Iterator[str]:
    """Say for a plan what is audited, and what an alarm does; nothing without an audit judge."""
    audit = config.audit
    if audit is None:
        return
    parts: list[str] = []
    if audit.training_frac:
        n = max(1, round(audit.training_frac * config.batch_size))
        questions = min(n, config.rollout.prompts)
        parts.append(f"{n} responses a step, to {counted(questions, 'question')}")
    if config.data.validation is not None and audit.heldout_frac:
        parts.append(f"{audit.heldout_frac:.0%} of the held-out questions")
    yield (
        f"audit: {' and '.join(parts)}, by a judge {audit.spec.type!r} that is in no reward; "
        f"at a rise of its gap above {audit.tolerance:g}: {audit.on_divergence}"
    )


@dataclass
class _Stream:
    """The test of one source, with the steps behind its looks."""

    test: DriftTest
    start: int
    """Number of values that the start takes."""
    policy_steps: list[int] = field(default_factory=list[int])
    """Steps that the policy had done at each look after the start."""

    @property
    def has_started(self) -> bool:
        """Whether the start has all of its values."""
        return self.test.start_values >= self.start

    def add(self, gaps: Sequence[float], *, policy_step: int) -> None:
        """Add the gaps of a look to the start, or after it."""
        if not gaps:
            return
        if self.has_started:
            self.test.add_look(gaps)
            self.policy_steps.append(policy_step)
        else:
            self.test.add_start(gaps)

    @property
    def onset(self) -> int | None:
        """Steps that the policy had done where a drift seems to begin; None without any sign."""
        look = self.test.onset()
        return None if look is None else self.policy_steps[look]


class Auditor:
    """Keeps the audits of a run, and says whether the two judges drift apart."""

    def __init__(
        self, config: TrainConfig, folder: RunFolder, *, admission: Admission = ALL
    ) -> None:
        """Read what was audited so far.

        Args:
            config: configuration of the run, which has an audit judge.
            folder: of the run, cut back to the step that it goes on from.
            admission: criteria that count, of both judges alike.

        Raises:
            ResumeError: a row of audit.jsonl is damaged.
        """
        assert config.audit is not None  # noqa: S101  # no auditor without a judge
        self.config: AuditConfig = config.audit
        self._seed = config.seed
        self._folder = folder
        self._admission = admission
        sources: dict[AuditSource, bool] = {
            "heldout": config.data.validation is not None
            and self.config.heldout_frac > 0,
            "training": self.config.training_frac > 0,
        }
        self._streams = {
            source: _Stream(
                DriftTest(tolerance=self.config.tolerance), self.config.start
            )
            for source, is_on in sources.items()
            if is_on
        }
        self._rows: dict[tuple[AuditSource, int], AuditRow] = {}
        for row in folder.read_audit():
            self._keep(row)

    def audits(self, source: AuditSource) -> bool:
        """Return whether responses of a source are audited."""
        return source in self._streams

    def row(self, source: AuditSource, step: int) -> AuditRow | None:
        """Return the row of a step that was audited already; None of any other."""
        return self._rows.get((source, step))

    @property
    def alarm_step(self) -> int | None:
        """Step of the first alarm; None where there was none."""
        steps = (row.alarm_step for row in self._rows.values())
        return next((step for step in steps if step is not None), None)

    @property
    def ends_run(self) -> bool:
        """Whether there was an alarm that ends the run."""
        return self.config.on_divergence != "log" and self.alarm_step is not None

    @property
    def onset(self) -> int | None:
        """Steps done by the first policy that seems to drift, by the source with most evidence."""
        with_onset = [
            stream for stream in self._streams.values() if stream.onset is not None
        ]
        if not with_onset:
            return None
        return max(with_onset, key=lambda stream: stream.test.log_evidence).onset

    def draw(
        self, source: AuditSource, step: int, results: Sequence[Sequence[JudgeResult]]
    ) -> Draw:
        """Draw the responses that are audited; the same in every held-out pass.

        Args:
            source: what the responses are of.
            step: of the training.
            results: of the training judge, of each response to each prompt or question.
        """
        config = self.config
        groups = len(results)
        size = len(results[0])
        if source == "training":
            places = training_places(
                self._seed,
                step,
                prompts=groups,
                group_size=size,
                frac=config.training_frac,
            )
        else:
            chosen = heldout_questions(
                self._seed, questions=groups, frac=config.heldout_frac
            )
            places = [
                Place(question, sample) for question in chosen for sample in range(size)
            ]
        training = {place: results[place.group][place.member] for place in places}
        return Draw(source, step, training)

    def note(
        self,
        source: AuditSource,
        step: int,
        pairs: Mapping[Place, Pair],
        tasks: Sequence[Task],
    ) -> AuditRow:
        """Add the audits of a step or pass to the test, and write their row.

        Args:
            source: where the responses come from.
            step: number of the step, or of the step that the pass comes after.
            pairs: both judgements of each response that was chosen.
            tasks: the task of each group, by its place.

        Returns:
            The row, which is on disk.

        Raises:
            DiskWriteError: the row could not be written.
        """
        if (before := self.row(source, step)) is not None:
            return before
        counts, gaps = self._counted(pairs, tasks)
        stream = self._streams[source]
        is_later = stream.has_started
        had_alarm = self.alarm_step is not None
        stream.add(gaps, policy_step=_policy_step(source, step))
        row = self._row_of(source, step, counts, gaps, is_later=is_later)
        self._folder.write_audit(row)
        self._rows[source, step] = row
        _log.info("train.audit.finished", **row.model_dump(exclude={"gaps"}))
        if row.alarm and not had_alarm:
            _log.warning(
                "train.audit.alarm",
                step=step,
                drift_low=row.drift_low,
                onset=row.onset,
                todo="read responses of the steps since, and the page on alarms",
            )
        return row

    def _keep(self, row: AuditRow) -> None:
        """Take a row that is on disk into the test."""
        self._rows[row.source, row.step] = row
        if (stream := self._streams.get(row.source)) is not None:
            stream.add(row.gaps, policy_step=_policy_step(row.source, row.step))

    def _counted(
        self, pairs: Mapping[Place, Pair], tasks: Sequence[Task]
    ) -> tuple[AuditCounts, tuple[float, ...]]:
        """Count the audits, and return the gap of each question that has one."""
        failed = dict.fromkeys(("invalid", "unavailable", "unjudged"), 0)
        # By task: one that a step holds in two groups is one question.
        rewards: dict[str, list[tuple[float, float]]] = {}
        for place, (training, audit) in sorted(pairs.items()):
            if training.outcome is not Outcome.SCORED or audit is None:
                failed["unjudged"] += 1
            elif audit.outcome is not Outcome.SCORED:
                failed[audit.outcome.value] += 1
            else:
                task = tasks[place.group]
                rubric = task.rubric
                both = self._reward(training, rubric), self._reward(audit, rubric)
                rewards.setdefault(task.task_id, []).append(both)
        used = [both for of_question in rewards.values() for both in of_question]
        gaps = tuple(
            fmean(training - audit for training, audit in of_question)
            for of_question in rewards.values()
        )
        counts = AuditCounts(
            chosen=len(pairs),
            used=len(used),
            **failed,
            training_mean=fmean(both[0] for both in used) if used else None,
            audit_mean=fmean(both[1] for both in used) if used else None,
            gap=fmean(gaps) if gaps else None,
        )
        return counts, gaps

    def _reward(self, result: JudgeResult, rubric: Rubric) -> float:
        """Return the reward by the admitted criteria, uncorrected and without penalties."""
        admission = self._admission
        return core.normalized_reward(
            admission.result(result, rubric), admission.rubric(rubric)
        )

    def _row_of(
        self,
        source: AuditSource,
        step: int,
        counts: AuditCounts,
        gaps: tuple[float, ...],
        *,
        is_later: bool,
    ) -> AuditRow:
        """Say where the test stands after a look."""
        test = self._streams[source].test
        evidence = self._log_evidence
        alarm_step = self.alarm_step
        if alarm_step is None and evidence >= -log(self.config.alpha):
            alarm_step = step
        drift = None
        if is_later and counts.gap is not None and test.start_mean is not None:
            drift = counts.gap - test.start_mean
        state = self._state(source, counts, alarm_step=alarm_step)
        return AuditRow(
            **counts.model_dump(),
            step=step,
            source=source,
            gaps=gaps,
            drift=drift,
            # Each source has its part of α, so that the limits of all of them hold at once.
            drift_low=test.drift_low(self.config.alpha / len(self._streams)),
            log_evidence=evidence,
            state=state,
            cannot_tell=int(state in {"starting", "cannot_tell"}),
            alarm=int(alarm_step is not None),
            alarm_step=alarm_step,
            onset=self.onset,
        )

    @property
    def _log_evidence(self) -> float:
        """Log of the mean evidence of the sources; a mean of e-processes is one too."""
        logs = [stream.test.log_evidence for stream in self._streams.values()]
        return float(np.logaddexp.reduce(logs) - log(len(logs)))

    def _state(
        self, source: AuditSource, counts: AuditCounts, *, alarm_step: int | None
    ) -> AlarmState:
        """Return what the row of a look says of the run, with this look among the recent ones."""
        if alarm_step is not None:
            return "alarm"
        streams = self._streams.values()
        if not any(stream.has_started for stream in streams):
            return "starting"
        recent = [row for row in self._rows.values() if row.source == source]
        looks = [*recent[1 - _RECENT :], counts]
        chosen = sum(look.chosen for look in looks)
        used = sum(look.used for look in looks)
        later = sum(stream.test.later_values for stream in streams)
        if later < _LEAST_LATER or used < LEAST_USED * chosen:
            return "cannot_tell"
        return "quiet"


def _policy_step(source: AuditSource, step: int) -> int:
    """Return the number of steps that the policy which wrote the responses had done."""
    return step - 1 if source == "training" else step
