"""The engines that sample, any of which may die and come back while they do.

Ray starts a dead engine again, with the weights that the run began with. Whatever it had in hand is
lost and is asked for again, once it holds the policy's weights like the others.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import ray
import structlog
from ray.exceptions import ActorDiedError, RayActorError

from rubric_judge.ui.console.progress import Phase, current
from rubric_train_openrlhf.cluster.failure import last_line
from rubric_train_openrlhf.cluster.sampling.samples import SampleRequest
from rubric_train_openrlhf.errors import ClusterError
from rubric_train_openrlhf.run.records import Timing

_log = structlog.get_logger()

Engine = Any
"""Handle of a rollout actor."""
Identity = tuple[str, int]
"""Node and process of an engine; where it changes, the engine was restarted without weights."""

RESTART_S = 1800.0
"""How long an engine may take to load its model again."""
TRANSFER_S = 420.0
"""How long the policy may take to let go of a transfer over which an engine died: a member of a
group whose node is gone is missed after five minutes."""
_PAUSE_S = 0.5
_LOOK_EVERY_S = 5.0


class Answers:
    """Responses to some requests, and what it took."""

    def __init__(self) -> None:
        """Start the clock."""
        self._started_at = self._generated_at = self._arrived_at = time.perf_counter()
        self._judge_s = 0.0
        self.by_row: dict[int, dict[str, Any]] = {}
        """Responses so far, by the row of their request."""
        self.resent = 0
        """Requests that were made again."""

    @property
    def responses(self) -> list[dict[str, Any]]:
        """The responses in the order of their requests."""
        return [self.by_row[row] for row in sorted(self.by_row)]

    @property
    def timing(self) -> Timing:
        """Where the time went."""
        return Timing(
            generate_s=self._generated_at - self._started_at,
            judge_s=self._judge_s,
            judge_wait_s=self._arrived_at - self._generated_at,
        )

    def add(self, row: int, response: dict[str, Any]) -> None:
        """Take a response that has just come."""
        self._arrived_at = time.perf_counter()
        judge_s = float(response["extra_logs"]["rubric/judge_s"])
        self.by_row[row] = response
        self._judge_s += judge_s
        # An engine judges each response as soon as it is there; no clock but ours is read.
        self._generated_at = max(self._generated_at, self._arrived_at - judge_s)


class EngineFleet:
    """All engines of a run."""

    def __init__(
        self, engines: Sequence[Engine], *, rejoin: Callable[[], bool]
    ) -> None:
        """Take engines that are up, or coming up.

        Args:
            engines: actor handles.
            rejoin: brings engines that came back into the group that gets the policy's weights,
                and sends the weights to all; False if one died meanwhile.
        """
        self._engines = list(engines)
        self._rejoin = rejoin
        self._identities: list[Identity] = []
        self._are_stale = False
        self._restarts = 0

    def ask(self, requests: Sequence[SampleRequest]) -> Answers:
        """Have all requests answered, each once.

        Raises:
            ClusterError: an engine died for good.
        """
        answers = Answers()
        missing = list(range(len(requests)))
        with current().phase("responses", total=len(requests)) as phase:
            while missing:
                self.check()
                if self._are_stale:
                    self._deliver(self._rejoin)
                self._collect(requests, missing, answers, phase=phase)
                missing = [row for row in missing if row not in answers.by_row]
                answers.resent += len(missing)
        return answers

    def on_all(self, method: str, **arguments: object) -> None:
        """Call a method of every engine, and of all again if one died: it must be idempotent."""
        while True:
            refs = [
                getattr(engine, method).remote(**arguments) for engine in self._engines
            ]
            lost = [_is_lost(ref) for ref in refs]
            if not any(lost):
                return
            self.check()

    def synchronise(self, broadcast: Callable[[], bool]) -> None:
        """Give every engine the policy's weights, also those that die over it and come back.

        Args:
            broadcast: sends them to engines that are all in the policy's group; whether they have
                them, or one died over it.

        Raises:
            ClusterError: an engine died for good, or the weights go nowhere for another reason.
        """
        self.check()
        self._deliver(self._rejoin if self._are_stale else broadcast)

    def take_part(self, sending: Sequence[Any]) -> bool:
        """Wait for the policy's ranks to have sent weights, but not for ever once an engine died.

        Args:
            sending: Ray's references; of each rank, whether all went well.

        Raises:
            ClusterError: an engine died, and the ranks still wait for it.
            Exception: what a rank raised.
        """
        went_well = True
        pending = list(sending)
        gives_up_s: float | None = None
        while pending:
            done, pending = ray.wait(
                pending, num_returns=len(pending), timeout=_LOOK_EVERY_S
            )
            went_well &= all(ray.get(done))
            if not pending or not self._has_lost_one():
                continue
            gives_up_s = gives_up_s or time.monotonic() + TRANSFER_S
            if time.monotonic() > gives_up_s:
                raise ClusterError(
                    "an engine died while it was given the policy's weights, and "
                    f"{len(pending)} of the policy's processes still wait for it after "
                    f"{TRANSFER_S:.0f} s; continue with --resume"
                )
        return went_well

    def take_restarts(self) -> int:
        """How many engines came back since this was asked last."""
        restarts = self._restarts
        self._restarts = 0
        return restarts

    def check(self) -> None:
        """Wait until every engine answers, and notice those that are new.

        Raises:
            ClusterError: one died for good, or does not come back.
        """
        identities = [
            _identity(engine, number=i) for i, engine in enumerate(self._engines)
        ]
        known = zip(self._identities or identities, identities, strict=True)
        self._identities = identities
        if fresh := [
            number for number, (before, now) in enumerate(known) if before != now
        ]:
            self._restarts += len(fresh)
            self._are_stale = True
            _log.warning("train.engine.restarted", engines=fresh)

    def _deliver(self, send: Callable[[], bool]) -> None:
        while True:
            before = self._restarts
            if send():
                self._are_stale = False
                return
            self.check()
            if self._restarts == before:
                raise ClusterError(
                    "the policy's weights did not reach the engines, though none of them "
                    "died; see the logs of the run and continue with --resume"
                )
            send = self._rejoin

    def _has_lost_one(self) -> bool:
        """Whether an engine is away, or another than it was; asks and does not wait for it."""
        refs = [engine.__ray_call__.remote(_own_identity) for engine in self._engines]
        answered, _ = ray.wait(refs, num_returns=len(refs), timeout=_LOOK_EVERY_S)
        known = dict(zip(refs, self._identities, strict=True))
        return any(_is_lost(ref) or ray.get(ref) != known[ref] for ref in answered)

    def _collect(
        self,
        requests: Sequence[SampleRequest],
        rows: Sequence[int],
        to: Answers,
        *,
        phase: Phase,
    ) -> None:
        """Ask for some responses and wait for all that come."""
        pending: dict[Any, int] = {}
        engines = self._assigned([requests[row].group for row in rows])
        for row, engine in zip(rows, engines, strict=True):
            request = requests[row]
            ref = engine.generate_responses.remote(
                prompt=request.prompt,
                label=request.task_id,
                sampling_params=request.sampling,
                max_length=request.max_length,
                # The engine has its own: unpickling a large vocabulary for each response would
                # take longer than sampling it.
                hf_tokenizer=None,
                num_samples=1,
            )
            pending[ref] = row
        while pending:
            first, rest = ray.wait(list(pending), num_returns=1)
            more, _ = (
                ray.wait(rest, num_returns=len(rest), timeout=0) if rest else ([], [])
            )
            for ref in (*first, *more):
                row = pending.pop(ref)
                if not _is_lost(ref):
                    to.add(row, *ray.get(ref))
                    phase.advance()

    def _assigned(self, groups: Sequence[int]) -> list[Engine]:
        """The engine of each request: groups in order, each to the one with the least to do."""
        loads = [0] * len(self._engines)
        chosen = dict[int, int]()
        for group, size in Counter(groups).items():
            chosen[group] = loads.index(min(loads))
            loads[chosen[group]] += size
        return [self._engines[chosen[group]] for group in groups]


def _is_lost(ref: Any) -> bool:
    """Whether an engine died over a call; waits for the call."""
    try:
        ray.get(ref)
    except RayActorError:
        return True
    return False


def _identity(engine: Engine, *, number: int) -> Identity:
    deadline = time.monotonic() + RESTART_S
    while True:
        try:
            return ray.get(engine.__ray_call__.remote(_own_identity))
        except ActorDiedError as error:
            raise lost_engine(error, number=number) from error
        except RayActorError as error:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"engine {number} died and did not come back within {RESTART_S:.0f} s; "
                    "continue with --resume"
                ) from error
            time.sleep(_PAUSE_S)


def lost_engine(error: ActorDiedError, *, number: int) -> ClusterError:
    """Say why Ray does not start an engine again; it never does where a start raised an error."""
    cause = last_line(error)
    if error.actor_init_failed:
        return ClusterError(
            f"engine {number} cannot be started: {cause}; the logs of the run say more; "
            "continue with --resume once that is mended"
        )
    return ClusterError(
        f"engine {number} died and is not started again, as it died more often than "
        f"cluster.engines.restarts allows: {cause}; continue with --resume"
    )


def _own_identity(actor: object) -> Identity:
    del actor
    return ray.util.get_node_ip_address(), os.getpid()
