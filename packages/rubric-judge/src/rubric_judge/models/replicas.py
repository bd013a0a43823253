"""Several servers of one model: which of them gets a call, and which is left alone for a while.

One class for all of them: addresses of a `ChatModel`, judges of a pool, actors of a pool on Ray.
"""

import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

from rubric_core import Reason
from rubric_judge import events

T = TypeVar("T")

_GROUPS_REMEMBERED = 4096
_FIRST_REST_S = 5.0
_LONGEST_REST_S = 120.0


@dataclass(frozen=True)
class ReplicaStatistics:
    """Counts of what one of several replicas has done."""

    in_flight: int
    calls: int
    """Number of calls sent to it, hedges included."""
    groups: int
    """Number of groups given to it, including those moved to it."""
    is_down: bool
    """Whether it is avoided because calls did not reach it."""
    times_down: int
    mean_s: float | None = None
    """Mean seconds of the calls that it answered; None before the first."""


@dataclass(frozen=True)
class Rests:
    """When a replica that fails is left alone, and for how long."""

    after_failures: int = 1
    """Failures in a row before it rests."""
    first_s: float = _FIRST_REST_S
    """Seconds of its first rest; each further one lasts twice as long. 0: it never rests."""
    longest_s: float = _LONGEST_REST_S


class Replica(Generic[T]):
    """One of several that do the same work: its load and its health."""

    def __init__(
        self, target: T, *, name: str, limit: int | None, rests: Rests
    ) -> None:
        """Start idle.

        Args:
            target: what is called, such as a judge.
            name: its name among the others, such as its server; groups that could go to any
                replica are dealt out by it.
            limit: most calls in flight on it; None for no limit of its own.
            rests: when it is left alone.
        """
        self.target = target
        self.name = name
        self.in_flight = set[object]()
        """A mark for each call on it, and for each call that room is reserved for."""
        self._calls = 0
        self._groups = 0
        self._times_down = 0
        self._answers = 0
        self._answered_s = 0.0
        self._limit = limit
        self._rests = rests
        self._failures = 0
        self._rest_s = 0.0
        self._rests_until_s = 0.0
        self._on_trial = False

    @property
    def has_room(self) -> bool:
        """Whether it may get another call now."""
        return self._limit is None or len(self.in_flight) < self._limit

    @property
    def is_down(self) -> bool:
        """Whether it has not answered since a call failed to reach it."""
        return self._rest_s > 0

    def is_open(self, now_s: float) -> bool:
        """Return whether new groups may go to it: it is up, or rested and due for a trial."""
        return not self.is_down or (now_s >= self._rests_until_s and not self._on_trial)

    def begin(self, mark: object) -> None:
        """Count a call in; `Replicas.report` counts it out.

        Args:
            mark: anything that stands for the call among those in flight.
        """
        self.in_flight.add(mark)
        self._calls += 1

    def take_group(self) -> None:
        """Count a group given to it; if it was down, the group is its trial."""
        self._groups += 1
        self._on_trial = self.is_down

    def answered(self, seconds: float) -> None:
        """Count an answer: it is up."""
        self._on_trial = False
        self._failures = 0
        self._rest_s = 0.0
        self._answers += 1
        self._answered_s += seconds

    def failed(self) -> float:
        """Count a failure; put it to rest, twice as long as the last time.

        Returns:
            Seconds of the rest that begins with it; 0 if none does.
        """
        self._on_trial = False
        self._failures += 1
        rests = self._rests
        if self._failures < rests.after_failures or not rests.first_s:
            return 0.0
        now_s = time.monotonic()
        # The calls of one outage end one by one, and count as one outage.
        if now_s < self._rests_until_s:
            return 0.0
        self._times_down += 1
        self._rest_s = min(rests.longest_s, self._rest_s * 2 or rests.first_s)
        self._rests_until_s = now_s + self._rest_s
        return self._rest_s

    def unsettled(self) -> None:
        """Count a call that says nothing about its health: a trial may be made again."""
        self._on_trial = False

    def load(self, group: str) -> tuple[int, int, bytes]:
        """Return what decides who gets a new group; the smallest one does.

        The last part is a rendezvous hash: between equals a group goes to the same replica in
        every process, and other groups to others.
        """
        written = f"{self.name}\n{group}".encode(errors="surrogatepass")
        place = blake2b(written, digest_size=8).digest()
        return len(self.in_flight), self._groups, place

    def statistics(self) -> ReplicaStatistics:
        """Return counts of what it has done."""
        return ReplicaStatistics(
            in_flight=len(self.in_flight),
            calls=self._calls,
            groups=self._groups,
            is_down=self.is_down,
            times_down=self._times_down,
            mean_s=self._answered_s / self._answers if self._answers else None,
        )


class Replicas(Generic[T]):
    """Replicas of one thing, and the groups that each has in its prefix cache.

    A new group goes to the replica with the least to do and stays there while that is up. A replica
    that a call did not reach gets no group for 5 s, then 10 s, up to 120 s; after each rest one
    call tries it. Other failures, and calls that were cancelled, say nothing about it.
    """

    def __init__(
        self,
        targets: Sequence[T],
        *,
        names: Sequence[str] = (),
        limit: int | None = None,
        rests: Rests | None = None,
    ) -> None:
        """Take the replicas.

        Args:
            targets: what is called, at least one.
            names: a name for each, such as its server, by which the log tells of one that rests;
                by default its number, and nothing is logged.
            limit: most calls in flight on one; None for no limit.
            rests: when one that fails is left alone; by default as this class says.
        """
        rests = rests or Rests()
        self._is_logged = len(targets) > 1 and bool(names)
        names = names or [str(number) for number in range(len(targets))]
        self.all = tuple(
            Replica(target, name=name, limit=limit, rests=rests)
            for target, name in zip(targets, names, strict=True)
        )
        self._by_group = OrderedDict[str, Replica[T]]()

    @property
    def has_room(self) -> bool:
        """Whether any replica may get another call now."""
        return any(replica.has_room for replica in self.all)

    @property
    def is_open(self) -> bool:
        """Whether any replica is up, or rested and due for a trial."""
        now_s = time.monotonic()
        return any(replica.is_open(now_s) for replica in self.all)

    def pick(
        self,
        group: str,
        *,
        begins: bool = True,
        avoid: Collection[Replica[T]] = (),
    ) -> Replica[T] | None:
        """Return the replica for a group's next call.

        It is the group's previous replica, unless that is down; otherwise the one with the least to
        do among those that are up, or, if none is, among all.

        Args:
            group: what shares a prefix, such as the id of a task; "" for a call of its own.
            begins: whether no call of the group is under way, so that it may go to any replica.
            avoid: where the same was asked before: it goes to another that is up, or to one of
                these if there is none, and the group stays where it is.

        Returns:
            The replica; None if the call must wait for room.
        """
        if avoid:
            return self._other_than(avoid, group)
        if len(self.all) == 1:
            return self.all[0] if self.all[0].has_room else None
        replica = self._by_group.get(group)
        is_up = replica is not None and not replica.is_down
        if replica is not None and is_up and (replica.has_room or not begins):
            self._by_group.move_to_end(group)
            return replica if replica.has_room else None
        return self._assign(group)

    def report(self, replica: Replica[T], ok: bool | None, seconds: float) -> None:  # noqa: FBT001
        """Report how a call ended; whoever holds its mark takes it out of `in_flight`.

        Args:
            replica: where it was sent.
            ok: True for an answer, False if it did not reach the replica; None if it was cancelled
                or failed in another way.
            seconds: how long it took.
        """
        if ok is None:
            replica.unsettled()
            return
        if ok:
            if replica.is_down and self._is_logged:
                events.replica_back(replica=replica.name)
            replica.answered(seconds)
        else:
            rest_s = replica.failed()
            if rest_s and self._is_logged:
                events.replica_rests(replica=replica.name, rest_s=rest_s)

    def another_is_up(self, replica: Replica[T]) -> bool:
        """Return whether a call that did not reach this replica can go elsewhere."""
        return any(
            candidate is not replica and not candidate.is_down for candidate in self.all
        )

    def _other_than(
        self, avoid: Collection[Replica[T]], group: str
    ) -> Replica[T] | None:
        others = [
            candidate
            for candidate in self.all
            if candidate not in avoid and not candidate.is_down
        ]
        candidates = others or avoid
        free = [candidate for candidate in candidates if candidate.has_room]
        return min(free, key=lambda candidate: candidate.load(group), default=None)

    def _assign(self, group: str) -> Replica[T] | None:
        now_s = time.monotonic()
        candidates = [replica for replica in self.all if replica.is_open(now_s)]
        free = [candidate for candidate in candidates or self.all if candidate.has_room]
        replica = min(free, key=lambda candidate: candidate.load(group), default=None)
        if replica is None:
            return None
        replica.take_group()
        if group:
            self._by_group[group] = replica
            self._by_group.move_to_end(group)
        if len(self._by_group) > _GROUPS_REMEMBERED:
            self._by_group.popitem(last=False)
        return replica


def was_reached(failure: Reason | None) -> bool | None:
    """Return what a call's end says about its replica, for `Replicas.report`.

    Args:
        failure: why there is no answer; None if there is one.

    Returns:
        True for an answer, False if it was not reached, None if neither is known.
    """
    if failure is None:
        return True
    return False if failure is Reason.CONNECTION else None
