"""Which of several replicas gets a call: a group stays with one, and a dead one is skipped."""

import time
from collections import OrderedDict
from collections.abc import Sequence

from rubric_core import Judge, JudgeResult, Outcome, Reason
from rubric_judge.capabilities import fingerprint
from rubric_judge.pool.statistics import ReplicaStatistics

_GROUPS_REMEMBERED = 4096
_FIRST_REST_S = 5.0
_LONGEST_REST_S = 120.0


class Replica:
    """One judge and what it has to do."""

    def __init__(self, judge: Judge, *, limit: int | None) -> None:
        """Start idle.

        Args:
            judge: the judge.
            limit: most calls in flight on it; None for no bound of its own.
        """
        self.judge = judge
        self.in_flight = set[object]()
        """A mark for each call on it, and for each that room is kept for."""
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
        """Whether it has not answered since a call did not reach it."""
        return self._rest_s > 0

    def is_open(self, now_s: float) -> bool:
        """Return whether new groups may go to it: it is up, or rested and not tried again yet."""
        return not self.is_down or (now_s >= self._rests_until_s and not self._on_trial)

    def call_started(self, mark: object) -> None:
        """Count a call in."""
        self.in_flight.add(mark)
        self.calls += 1

    def take_group(self) -> None:
        """Count a group given to it; one that was down is on trial with it."""
        self.groups += 1
        self._on_trial = self.is_down

    def ended(self, mark: object, result: JudgeResult | None) -> None:
        """Count a call out.

        One that did not reach the replica puts it to rest, twice as long as the last time.

        Args:
            mark: that of its start.
            result: what became of it; None of a call that was cancelled.
        """
        self.in_flight.discard(mark)
        self._on_trial = False
        if result is None or result.reason is Reason.CONNECTION:
            now_s = time.monotonic()
            # The calls of one outage end one by one, and are one outage.
            if result is not None and now_s >= self._rests_until_s:
                self.times_down += 1
                self._rest_s = min(_LONGEST_REST_S, self._rest_s * 2 or _FIRST_REST_S)
                self._rests_until_s = now_s + self._rest_s
        elif result.outcome is not Outcome.UNAVAILABLE:
            self._rest_s = 0.0

    def statistics(self) -> ReplicaStatistics:
        """Return what it has done."""
        return ReplicaStatistics(
            len(self.in_flight), self.calls, self.groups, self.is_down, self.times_down
        )


class Replicas:
    """The judges of a pool, and the groups that each has in its prefix cache."""

    def __init__(self, judges: Sequence[Judge], *, limit: int | None) -> None:
        """Take the judges.

        Raises:
            ValueError: there is none, or they are not one judge several times.
        """
        if not judges:
            raise ValueError("a pool needs a judge")
        prints = sorted({fingerprint(judge) for judge in judges})
        if len(prints) > 1:
            first, second, *_ = prints
            raise ValueError(
                f"the judges of a pool must be replicas of one, and here are {len(prints)}: "
                f"{first!r}, {second!r}; use a pool for each"
            )
        self.all = tuple(Replica(judge, limit=limit) for judge in judges)
        self._by_group = OrderedDict[str, Replica]()

    @property
    def has_room(self) -> bool:
        """Whether any may get another call now."""
        return any(replica.has_room for replica in self.all)

    def of(self, group: str, *, begins: bool = False) -> Replica | None:
        """Return the replica for a group's next call.

        The one that it had, unless that is down; else the one with the least to do of those that
        are up, or, where none is, of all.

        Args:
            group: the id of what its members share.
            begins: whether none of it is under way, so that it need not wait for its replica.

        Returns:
            The replica; None where it must wait for room.
        """
        if len(self.all) == 1:
            return self.all[0] if self.all[0].has_room else None
        replica = self._by_group.get(group)
        if (
            replica is not None
            and not replica.is_down
            and (replica.has_room or not begins)
        ):
            self._by_group.move_to_end(group)
            return replica if replica.has_room else None
        return self._assign(group)

    def other_than(self, replica: Replica) -> Replica | None:
        """Return another replica for a second call; the same where no other is up.

        None where all of those have what they may hold.
        """
        others = [one for one in self.all if one is not replica and not one.is_down]
        return min(
            (one for one in others or [replica] if one.has_room),
            key=_load,
            default=None,
        )

    def another_is_up(self, replica: Replica) -> bool:
        """Return whether a call that did not reach this replica can go elsewhere."""
        return any(one is not replica and not one.is_down for one in self.all)

    def _assign(self, group: str) -> Replica | None:
        now_s = time.monotonic()
        candidates = [one for one in self.all if one.is_open(now_s)] or list(self.all)
        free = (candidate for candidate in candidates if candidate.has_room)
        if (replica := min(free, key=_load, default=None)) is None:
            return None
        replica.take_group()
        self._by_group[group] = replica
        self._by_group.move_to_end(group)
        if len(self._by_group) > _GROUPS_REMEMBERED:
            self._by_group.popitem(last=False)
        return replica


def _load(replica: Replica) -> tuple[int, int]:
    return len(replica.in_flight), replica.groups
