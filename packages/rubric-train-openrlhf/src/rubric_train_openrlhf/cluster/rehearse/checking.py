"""Runs checks in order: one that fails keeps only those from running that build on it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from rubric_core import RubricError
from rubric_train_openrlhf.cluster.rehearse.finding import (
    Finding,
    Status,
    failed,
    passed,
    unchecked,
)
from rubric_train_openrlhf.cluster.rehearse.subject import UnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rubric_train_openrlhf.cluster.rehearse.subject import Subject

_log = structlog.get_logger()
_LONGEST_DETAIL = 600


@dataclass(frozen=True)
class Check:
    """One question about a subject."""

    name: str
    ask: Callable[[Subject], Iterable[Finding]]
    """Yields findings; none at all means that there is nothing to say, and counts as passed."""
    needs: tuple[str, ...] = ()
    """Checks without whose success this one says nothing."""


def run_checks(
    checks: Sequence[Check],
    subject: Subject,
    *,
    on_check: Callable[[str], object] | None = None,
    earlier: Sequence[Finding] = (),
) -> list[Finding]:
    """Ask every check that can be asked.

    Args:
        checks: in an order in which each comes after what it needs.
        subject: what is asked about.
        on_check: called with the name of each check before it runs.
        earlier: findings of checks that were run before these.

    Returns:
        The findings in the order of the checks, at least one for each.
    """
    missing = {found.check for found in earlier if found.status is Status.FAILED}
    findings: list[Finding] = []
    for check in checks:
        if on_check is not None:
            on_check(check.name)
        lacking = [name for name in check.needs if name in missing]
        started_s = time.perf_counter()
        found = [_waits_for(lacking[0])] if lacking else _asked(check, subject)
        seconds = time.perf_counter() - started_s
        if lacking or any(one.status is Status.FAILED for one in found):
            missing.add(check.name)
        findings += [
            one.model_copy(update={"check": check.name, "seconds": seconds}) for one in found
        ]
        _log.info("rehearse.check.finished", check=check.name, seconds=seconds)
    return findings


def _asked(check: Check, subject: Subject) -> list[Finding]:
    try:
        return list(check.ask(subject)) or [passed("nothing to object to")]
    except UnknownError as error:
        return [_waits_for(str(error))]
    except RubricError as error:
        return [failed(_short(error), where=str(getattr(error, "location", "") or ""))]
    # The named boundary of a rehearsal: what a model folder, a stack or a disk raises is not known
    # beforehand, and the other checks still have something to say.
    except Exception as error:  # noqa: BLE001
        return [
            failed(
                f"the check itself ended with {type(error).__name__}: {_short(error)}",
                remedy="repair what it names; the cluster would meet it too",
            )
        ]


def _waits_for(name: str) -> Finding:
    return unchecked(f"needs {name!r}")


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}…"
