"""Live status of a run: summary.json, and whoever else is told how it goes on."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from rubric_core import RubricError
from rubric_core.files import read_file
from rubric_core.locks import is_locked
from rubric_judge.ui.console.progress import Phase, Progress
from rubric_judge.ui.console.snapshot import PhaseSnapshot
from rubric_train_openrlhf.errors import DiskWriteError, ResumeError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import (
    AuditFigures,
    DistillationRow,
    HeldoutRow,
    MetricsRow,
    RunSummary,
    Status,
)
from rubric_train_openrlhf.run.writing import write_text

if TYPE_CHECKING:
    from rubric_train_openrlhf.policy import SupervisedStep

_FEWEST_IN_A_QUARTER = 3
"""Means of fewer steps say little."""
_AGAIN_AFTER_S = 5.0
"""A summary older than this is written again, so that a reader sees that the run goes on."""
_BEST = ("best_step", "best_heldout_reward")
_OF_HELDOUT = (*_BEST, "first_heldout_reward", "last_heldout_reward")
_OF_ANSWERS = ("unclosed_thought_frac", "empty_answer_frac")
_OF_AUDIT = ("alarm_step", "onset")
_FIGURES = (
    "steps",
    "wall_s",
    "admission",
    *_OF_HELDOUT,
    *_OF_ANSWERS,
    *_OF_AUDIT,
)
_PLACE = ("phase", "phase_done", "phase_total", "note")

_log = structlog.get_logger()


class LiveSummary:
    """Writes summary.json. Of several processes of a run, the last that began keeps it."""

    def __init__(self, folder: RunFolder, *, total_steps: int) -> None:
        """Look at what an earlier start has left; nothing is written."""
        self._folder = folder
        self._total_steps = total_steps
        self._before = before = folder.told
        self._left: bytes | None = None
        with contextlib.suppress(OSError):
            self._left = read_file(folder.summary)
        self._figures: dict[str, Any] = (
            before.model_dump(include=set(_FIGURES)) if before else {}
        )
        self._place: dict[str, Any] = {}
        self._may_write = False
        self._has_begun = False
        self._loaded_s: float | None = None
        self._written_s = -float("inf")
        self._written_steps = -1
        self._is_diverged = False
        self._kept: int | None = None
        self._writing = threading.Lock()

    @property
    def wall_s(self) -> float:
        """Seconds that the run has taken since everything was loaded, over its restarts."""
        before_s: float = self._figures.get("wall_s", 0.0)
        return (
            before_s
            if self._loaded_s is None
            else before_s + time.monotonic() - self._loaded_s
        )

    def open(self, *, resume: bool) -> None:
        """Say that the run is being started, unless the folder is one that will be refused.

        Raises:
            DiskWriteError: the file could not be written.
        """
        if self._folder.holds_run:
            stood = self._before and (self._before.status, self._before.steps)
            self._may_write = resume and stood != ("finished", self._total_steps)
        else:
            self._may_write = not self._folder.names_taken
            self._figures = {}
        if self._may_write:
            self._write(is_new=True)

    def begin(self, *, wall_s: float) -> None:
        """Say that the input was found good, and the folder is this run's.

        Args:
            wall_s: seconds that it has taken before.

        Raises:
            ResumeError: a row is damaged.
            DiskWriteError: the file could not be written.
        """
        figures = summed_up(self._folder).model_dump(include=set(_FIGURES))
        with self._writing:
            self._figures = figures | {"wall_s": wall_s}
            self._has_begun = self._may_write = True
        self._write(is_new=True)

    def start_clock(self) -> None:
        """Say that everything is loaded: `wall_s` counts from now."""
        self._loaded_s = time.monotonic()

    def step(self, row: MetricsRow | DistillationRow) -> None:
        """Note a step that is on disk."""
        self._figures |= {"steps": row.step, **row.model_dump(include=set(_OF_ANSWERS))}
        if isinstance(row, DistillationRow):
            return
        if row.audit is not None and row.audit.alarm:
            self._figures |= row.audit.model_dump(include=set(_OF_AUDIT))

    def heldout(self) -> None:
        """Note that another held-out pass is on disk."""
        known = {*_OF_HELDOUT, *_OF_AUDIT}
        self._figures |= summed_up(self._folder).model_dump(include=known)

    def note_divergence(self, *, kept: int | None = None) -> None:
        """Note that an alarm ends the run, which then has ended well.

        Args:
            kept: step of the checkpoint from before the drift that was made the best.
        """
        self._is_diverged = True
        self._kept = kept

    def note_phase(self, snapshot: PhaseSnapshot) -> None:
        """Note where the run is; `Progress` calls it, also from its thread."""
        is_other = snapshot.name != self._place.get("phase")
        self._place = {
            "phase": snapshot.name,
            "phase_done": snapshot.done,
            "phase_total": snapshot.total,
            "rate": snapshot.rate,
            "eta_s": snapshot.eta_s,
            "note": snapshot.note or None,
        }
        is_behind = self._figures.get("steps", 0) != self._written_steps
        is_old = time.monotonic() - self._written_s >= _AGAIN_AFTER_S
        if self._may_write and (is_other or is_behind or is_old):
            # A full disk stops the run where it matters, and with its own error.
            with contextlib.suppress(DiskWriteError):
                self._write()

    def end(self, status: Status, error: Exception | None = None) -> RunSummary | None:
        """Say how the run ended; a run that never began leaves the file as it was.

        Raises:
            ResumeError: a row is damaged.
            DiskWriteError: the file could not be written.
        """
        if not self._has_begun:
            if self._may_write:
                self._may_write = False
                with contextlib.suppress(OSError, DiskWriteError):
                    if self._left is None:
                        self._folder.summary.unlink(missing_ok=True)
                    else:
                        write_text(self._folder.summary, self._left.decode())
            return None
        place = {name: self._place.get(name) for name in _PLACE}
        wall_s = self.wall_s
        written = self._folder.told
        if written is not None and not _is_ours(written):
            if status == "finished":
                return written
            place = written.model_dump(include=set(_PLACE))
            wall_s = written.wall_s
        summary = summed_up(self._folder)
        update = self._signed()
        if status == "finished":
            update["warning"] = _divergence(
                summary, is_end=self._is_diverged, kept=self._kept
            ) or _warning(self._folder.read_metrics())
            status = "diverged" if self._is_diverged else status
        else:
            update |= {
                name: value for name, value in place.items() if value is not None
            }
        update |= {"status": status, "wall_s": wall_s, "error": error and _shown(error)}
        summary = summary.model_copy(update=update)
        if summary.warning is not None:
            _log.warning("train.run.suspect", why=summary.warning)
        self._folder.write_summary(summary)
        self._may_write = False
        return summary

    def _write(self, *, is_new: bool = False) -> None:
        with self._writing:
            written = None if is_new else self._folder.told
            if written is not None and not _is_ours(written):
                return
            values = {"steps": 0, **self._figures, **self._place, **self._signed()}
            values |= {"status": "running", "wall_s": self.wall_s}
            summary = RunSummary.model_validate(values)
            self._folder.write_summary(summary)
            self._written_s = time.monotonic()
            self._written_steps = summary.steps

    def _signed(self) -> dict[str, Any]:
        return {
            "total_steps": self._total_steps,
            "updated_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "pid": os.getpid(),
            "host": platform.node(),
        }


@contextlib.contextmanager
def live_summary(
    folder: RunFolder,
    *,
    total_steps: int,
    resume: bool,
    progress: Progress,
    named: Callable[[Exception], Exception] | None = None,
) -> Generator[LiveSummary]:
    """Keep summary.json as the run stands, from now until it ends in any way that leaves time to.

    Args:
        folder: of the run, which this process alone works in.
        total_steps: steps that are asked for.
        resume: whether the run may go on with what the folder holds.
        progress: what is being done.
        named: gives the error that is told for one that ends the run.

    Raises:
        DiskWriteError: the file could not be written.
    """
    summary_file = LiveSummary(folder, total_steps=total_steps)
    summary_file.open(resume=resume)
    try:
        with progress.watched(summary_file.note_phase):
            yield summary_file
    except Exception as error:
        # The error that stopped the run must reach the caller, also from a full disk.
        with contextlib.suppress(DiskWriteError, ResumeError):
            summary_file.end("failed", error if named is None else named(error))
        raise
    except BaseException:
        with contextlib.suppress(DiskWriteError, ResumeError):
            summary_file.end("interrupted")
        raise
    summary_file.end("finished")


def was_killed(folder: RunFolder) -> bool:
    """Whether a run was killed: it says that it is running, and no process works in its folder."""
    summary = folder.told
    return (
        summary is not None
        and summary.status == "running"
        and not is_locked(folder.path)
    )


def _is_ours(summary: RunSummary) -> bool:
    return (summary.pid, summary.host) == (os.getpid(), platform.node())


def step_note(row: MetricsRow) -> str:
    """Say in a line how a step went."""
    unanswered = (row.unclosed_thought_frac or 0) + (row.empty_answer_frac or 0)
    without = f", {100 * unanswered:.1f} % without an answer" if unanswered else ""
    audit = "" if row.audit is None else audit_note(row.audit)
    return f"reward {100 * row.reward_mean:.1f} %, KL {row.kl:.4f}{without}{audit}"


def audit_note(audit: AuditFigures) -> str:
    """Say in a few words where the audits of a run stand."""
    gap = "" if audit.gap is None else f", audit gap {100 * audit.gap:+.1f} points"
    if audit.alarm_step is not None:
        return f"{gap}, ALARM since step {audit.alarm_step}"
    return f"{gap} (too few audits to tell)" if audit.cannot_tell else gap


@dataclass(frozen=True)
class Watch:
    """Receivers of the news of a run: its summary, its progress, and callers of its rows."""

    summary_file: LiveSummary
    progress: Progress
    on_step: Callable[[MetricsRow], None] | None = None
    on_distilled: Callable[[DistillationRow], None] | None = None
    on_heldout: Callable[[HeldoutRow], None] | None = None
    on_supervised: Callable[[str, SupervisedStep], None] | None = None

    def step(self, row: MetricsRow, *, phase: Phase) -> None:
        """A training step is on disk."""
        self.summary_file.step(row)
        phase.advance(note=step_note(row))
        if self.on_step is not None:
            self.on_step(row)

    def distilled(self, row: DistillationRow, *, phase: Phase) -> None:
        """A step of self-distillation is on disk."""
        self.summary_file.step(row)
        phase.advance(note=f"divergence from the teacher {row.divergence:.3f}")
        if self.on_distilled is not None:
            self.on_distilled(row)

    def heldout(self, row: HeldoutRow) -> None:
        """A held-out pass is on disk."""
        self.summary_file.heldout()
        if self.on_heldout is not None:
            self.on_heldout(row)

    def supervised(self, name: str, step: SupervisedStep, *, phase: Phase) -> None:
        """A step of pre-training or of the warm start is made."""
        phase.advance(note=f"loss {step.loss:.3f}")
        if self.on_supervised is not None:
            self.on_supervised(name, step)


def summed_up(folder: RunFolder) -> RunSummary:
    """Sum the rows of a run up.

    Raises:
        ResumeError: a row is damaged.
    """
    rewarded = folder.read_metrics()
    steps = rewarded or folder.read_distillation()
    heldout = folder.read_heldout()
    best = next((row for row in reversed(heldout) if row.best), None)
    alarm = next((row for row in reversed(folder.read_audit()) if row.alarm), None)
    return RunSummary(
        status="running",
        steps=steps[-1].step if steps else 0,
        best_step=best.step if best else None,
        best_heldout_reward=best.reward_mean if best else None,
        first_heldout_reward=heldout[0].reward_mean if heldout else None,
        last_heldout_reward=heldout[-1].reward_mean if heldout else None,
        unclosed_thought_frac=steps[-1].unclosed_thought_frac if steps else None,
        empty_answer_frac=steps[-1].empty_answer_frac if steps else None,
        admission=folder.read_admission(),
        alarm_step=alarm.alarm_step if alarm else None,
        onset=alarm.onset if alarm else None,
        by_fallback=dict(
            sum((Counter(row.by_fallback) for row in rewarded), Counter[str]())
        ),
    )


def best_step(folder: RunFolder, *, up_to: int) -> int:
    """Step of the best held-out pass up to a step, the first at a tie; that step without any."""
    steps = [
        row.step for row in folder.read_heldout() if row.best and row.step <= up_to
    ]
    return steps[-1] if steps else up_to


END_THOUGHTS = (
    "raise rollout.max_new_tokens, or set "
    "model.chat_template_kwargs.enable_thinking=false where the chat template reads it"
)
"""Remedy of thoughts that do not end."""
_MOST = 0.5


def _divergence(summary: RunSummary, *, is_end: bool, kept: int | None) -> str | None:
    """Say that there was an alarm, and what was done."""
    if summary.alarm_step is None:
        return None
    step = summary.alarm_step
    parts = [f"the training judge left the audit judge behind: alarm at step {step}"]
    if summary.onset is not None:
        parts.append(f"the drift seems to begin at step {summary.onset}")
    if kept is not None:
        parts.append(f"`best` is the checkpoint of step {kept}, from before it")
    if is_end:
        parts.append("to go on: --resume with audit.on_divergence=log")
    return "; ".join(parts)


def _warning(steps: Sequence[MetricsRow]) -> str | None:
    if not steps:
        return None
    shares = [row.unclosed_thought_frac or 0.0 for row in steps]
    if (mean := sum(shares) / len(shares)) > _MOST:
        return (
            f"{mean:.0%} of the responses were thoughts that do not end, which have no "
            f"answer and earn 0: {END_THOUGHTS}"
        )
    if any(row.degenerate_group_frac < 1 for row in steps):
        return _collapse(steps)
    # Without a spread of rewards every advantage is 0.
    mean = sum(row.reward_mean for row in steps) / len(steps)
    return (
        f"in all {len(steps)} steps the responses of each group earned the same "
        f"({mean:.3f} on average), so that no advantage differed from 0 and nothing was "
        "learnt; warm-start the policy (sft) until some responses earn more than others, "
        "or look at the rubrics"
    )


def _collapse(steps: Sequence[MetricsRow]) -> str | None:
    """Compare the first quarter of a run with its last one."""
    quarter = len(steps) // 4
    if quarter < _FEWEST_IN_A_QUARTER:
        return None
    ends = (steps[:quarter], steps[-quarter:])
    first, last = (sum(row.reward_mean for row in part) / quarter for part in ends)
    if first == 0 or last > first / 2:
        return None
    return (
        f"the training reward fell from {first:.3f} to {last:.3f}, first and last quarter "
        f"of the steps, at a KL divergence of {steps[-1].kl:.2f} at the end: lower "
        "optim.learning_rate, raise objective.kl_coef, or let a warm start on few answers "
        "take fewer sft.steps"
    )


def _shown(error: Exception) -> str:
    """Name an error; only our own are known to hold no text of a task or an answer."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, RubricError) else name
