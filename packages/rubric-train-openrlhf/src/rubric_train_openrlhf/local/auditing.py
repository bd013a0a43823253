"""The audit judge of a run in one process: it scores while the policy is updated."""

import contextlib
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from rubric_core import Outcome, Task
from rubric_judge import Ledger
from rubric_judge.config import is_program
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.local.inputs import RunInputs
from rubric_train_openrlhf.local.rollout import (
    BackgroundJudge,
    Judged,
    JudgedGroup,
    background_judge,
)
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import AuditRow, AuditSource
from rubric_train_openrlhf.step.audit import Auditor, Pair, Place


@dataclass(frozen=True)
class Audit:
    """Audits of a step or pass that are under way."""

    source: AuditSource
    step: int
    groups: Sequence[JudgedGroup]
    tasks: Sequence[Task]
    places: Sequence[Place]
    asked: Sequence[Place]
    """Those of them that the training judge scored."""
    judged: Future[Judged]


@dataclass(frozen=True)
class Audits:
    """The audit judge at work, and the test of what it says."""

    auditor: Auditor
    judge: BackgroundJudge

    def start(
        self,
        source: AuditSource,
        step: int,
        groups: Sequence[JudgedGroup],
        tasks: Sequence[Task],
    ) -> Audit | None:
        """Start the audits of judged groups and return at once; None where there are none."""
        if not self.auditor.audits(source):
            return None
        size = len(groups[0].results)
        places = (
            self.auditor.heldout_places(questions=len(groups), samples=size)
            if source == "heldout"
            else self.auditor.places(step, prompts=len(groups), group_size=size)
        )
        asked = [
            place
            for place in places
            if groups[place.group].results[place.member].outcome is Outcome.SCORED
        ]
        views = [
            tasks[place.group].judge_view(
                groups[place.group].completions[place.member].answer
            )
            for place in asked
        ]
        judged = self.judge.submit(views)
        return Audit(source, step, groups, tasks, places, asked, judged)

    def finish(self, audit: Audit) -> AuditRow:
        """Wait for the audits, add them to the test and write their row.

        Raises:
            DiskWriteError: the row could not be written.
        """
        results = dict(zip(audit.asked, audit.judged.result().results, strict=True))
        pairs = {
            place: Pair(
                audit.groups[place.group].results[place.member], results.get(place)
            )
            for place in audit.places
        }
        return self.auditor.note(audit.source, audit.step, pairs, audit.tasks)


@contextlib.contextmanager
def opened_audits(
    config: TrainConfig,
    inputs: RunInputs,
    folder: RunFolder,
    *,
    keeps: bool,
    ledger: Ledger | None,
) -> Generator[Audits | None]:
    """Keep the audit judge running, if there is one; leaving the block ends its calls.

    Args:
        config: configuration of the run.
        inputs: of the run, with the audit judge.
        folder: of the run.
        keeps: whether judgements of a model are kept in the run's ledger.
        ledger: the run's ledger where it is open already.
    """
    if config.audit is None:
        yield None
        return
    with contextlib.ExitStack() as held:
        if not keeps or is_program(config.audit.spec):
            ledger = None
        elif ledger is None:
            ledger = held.enter_context(Ledger(folder.ledger))
        background = held.enter_context(
            background_judge(*inputs.audit_judges, config=config.audit, ledger=ledger)
        )
        auditor = Auditor(config, folder, admission=inputs.admission)
        yield Audits(auditor, background)
