"""The audit judge of a run in one process: it scores while the policy is updated."""

import contextlib
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from rubric_core import Task
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
from rubric_train_openrlhf.step.audit import Auditor, Draw


@dataclass(frozen=True)
class Audit:
    """Audits of a step or pass that are under way."""

    draw: Draw
    tasks: Sequence[Task]
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
        draw = self.auditor.draw(source, step, [group.results for group in groups])
        answers = [
            [completion.answer for completion in group.completions] for group in groups
        ]
        return Audit(draw, tasks, self.judge.submit(draw.views(tasks, answers)))

    def finish(self, audit: Audit) -> AuditRow:
        """Wait for the audits, add them to the test and write their row.

        Raises:
            DiskWriteError: the row could not be written.
        """
        draw = audit.draw
        pairs = draw.pairs(audit.judged.result().results)
        return self.auditor.note(draw.source, draw.step, pairs, audit.tasks)


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
