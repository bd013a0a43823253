"""Choice among replicas: a group stays with one replica, and a dead one is skipped."""

import time
from collections import OrderedDict
from collections.abc import Sequence

from rubric_core import Judge, JudgeResult, Outcome, Reason
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.pool.statistics import ReplicaStatistics

_GROUPS_REMEMBERED = 4096
_FIRST_REST_S = 5.0
_LONGEST_REST_S = 120.0


class Replica:
    """One judge and its load."""

    def __init__(self, judge: Judge, *, limit: int | None) -> None:
        """Start idle.

        Args:
            judge: the judge.
            limit: most calls in flight on it; None for no limit of its own.
        """
        self.judge = judge
        self.in_flight = set[object]()
        """A mark for each call on it, and for each call that room is reserved for."""
        self.calls = 0
        self.groups = 0
        self.times_down = 0
        self._limit = limit
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

    def call_started(self, mark: object) -> None:
        """Count a call in."""
        self.in_flight.add(mark)
        self.calls += 1

    def take_group(self) -> None:
        """Count a group given to it; if it was down, the group is its trial."""
        self.groups += 1
        self._on_trial = self.is_down

    def ended(self, mark: object, result: JudgeResult | None) -> None:
        """Count a call out.

        A call that did not reach the replica puts it to rest, twice as long as the last time.

        Args:
            mark: the mark of the call's start.
            result: the call's result; None if it was cancelled.
        """
        self.in_flight.discard(mark)
        self._on_trial = False
        if result is None or result.reason is Reason.CONNECTION:
            now_s = time.monotonic()
            # The calls of one outage end one by one, and count as one outage.
            if result is not None and now_s >= self._rests_until_s:
                self.times_down += 1
                self._rest_s = min(_LONGEST_REST_S, self._rest_s * 2 or _FIRST_REST_S)
                self._rests_until_s = now_s + self._rest_s
        elif result.outcome is not Outcome.UNAVAILABLE:
            self._rest_s = 0.0

    def statistics(self) -> ReplicaStatistics:
        """Return counts of what it has done."""
        return ReplicaStatistics(
            len(self.in_flight), self.calls, self.groups, self.is_down, self.times_down
        )


class Replicas:
    """The judges of a pool, and the groups that each has in its prefix cache."""

    def __init__(self, judges: Sequence[Judge], *, limit: int | None) -> None:
        """Take the judges.

        Raises:
            ValueError: there is none, or they are not the same judge.
        """
        if not judges:
            raise ValueError("a pool needs a judge")
        fingerprints = sorted({fingerprint(judge) for judge in judges})
        if len(fingerprints) > 1:
            first, second, *_ = fingerprints
            count = len(fingerprints)
            raise ValueError(
                f"the judges of a pool must be replicas of one, and here are {count}: "
                f"{first!r}, {second!r}; use a pool for each"
            )
        self.all = tuple(Replica(judge, limit=limit) for judge in judges)
        self._by_group = OrderedDict[str, Replica]()

    @property
    def has_room(self) -> bool:
        """Whether any replica may get another call now."""
        return any(replica.has_room for replica in self.all)

    def of(self, group: str, *, begins: bool = False) -> Replica | None:
        """Return the replica for a group's next call.

        It is the group's previous replica, unless that is down; otherwise the one with the least
        load among those that are up, or, if none is, among all.

        Args:
            group: id of the group.
            begins: whether no call of the group is under way, so that it may go to any replica.

        Returns:
            The replica; None if the call must wait for room.
        """
        if len(self.all) == 1:
            return self.all[0] if self.all[0].has_room else None
        replica = self._by_group.get(group)
        is_up = replica is not None and not replica.is_down
        if replica is not None and is_up and (replica.has_room or not begins):
            self._by_group.move_to_end(group)
            return replica if replica.has_room else None
        return self._assign(group)

    def other_than(self, replica: Replica) -> Replica | None:
        """Return another replica for a second call, or the same one if no other is up.

        None if those have no room.
        """
        others = [
            candidate
            for candidate in self.all
            if candidate is not replica and not candidate.is_down
        ]
        candidates = others or [replica]
        free = [candidate for candidate in candidates if candidate.has_room]
        return min(free, key=_load, default=None)

    def another_is_up(self, replica: Replica) -> bool:
        """Return whether a call that did not reach this replica can go elsewhere."""
        return any(
            candidate is not replica and not candidate.is_down for candidate in self.all
        )

    def _assign(self, group: str) -> Replica | None:
        now_s = time.monotonic()
        candidates = [replica for replica in self.all if replica.is_open(now_s)]
        free = [candidate for candidate in candidates or self.all if candidate.has_room]
        replica = min(free, key=_load, default=None)
        if replica is None:
            return None
        replica.take_group()
        self._by_group[group] = replica
        self._by_group.move_to_end(group)
        if len(self._by_group) > _GROUPS_REMEMBERED:
            self._by_group.popitem(last=False)
        return replica


def _load(replica: Replica) -> tuple[int, int]:
    return len(replica.in_flight), replica.groups
