"""What some judges can do beyond `Judge`, and the defaults for those that cannot."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rubric_core import Judge


@runtime_checkable
class Fingerprinted(Protocol):
    """A judge whose scores depend on more than its name says."""

    @property
    def fingerprint(self) -> str:
        """Changes with everything that may change a score: model, prompt, parameters; no key."""
        ...


@runtime_checkable
class Warming(Protocol):
    """A judge behind an endpoint with a prefix cache."""

    @property
    def warm_call(self) -> bool:
        """Whether the cache is filled only when a call ends, so that a group's first goes alone."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A judge that keeps connections or processes."""

    async def aclose(self) -> None:
        """Let go of them; the judge is not called again."""
        ...


@runtime_checkable
class Checking(Protocol):
    """A judge that can say whether its endpoint is there."""

    async def check(self) -> None:
        """Ask it, within seconds.

        Raises:
            JudgeSetupError: it is not; says what to do.
        """
        ...


async def check(judge: Judge) -> None:
    """Check a judge that can be checked; see `Checking.check`."""
    if isinstance(judge, Checking):
        await judge.check()


def fingerprint(judge: Judge) -> str:
    """Return what identifies a judge's scores: its fingerprint, or else its name."""
    return judge.fingerprint if isinstance(judge, Fingerprinted) else judge.name


def wants_warm_call(judge: Judge) -> bool:
    """Return whether the first response of a group should be judged before the others."""
    return isinstance(judge, Warming) and judge.warm_call


async def close(judge: Judge) -> None:
    """Close a judge that keeps something open."""
    if isinstance(judge, Closing):
        await judge.aclose()
