"""The engine of a Ray cluster: workers in actors, which Ray places, starts again and feeds."""

import signal
import socket
import threading
import warnings
from collections.abc import Generator, Iterable
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from typing import Any, cast
from urllib.parse import urlsplit

import anyio

from rubric_core import RubricError
from rubric_core.errors import needing_extra, shortened
from rubric_judge import LimitsConfig
from rubric_judge.models.settings import variable
from rubric_judge.pool.ray_actors import LimiterActor, SharedLimiter
from rubric_synth.calls import CallRecord, DocumentCalls
from rubric_synth.document import Document, DocumentOutcome, RejectionReason, rejected
from rubric_synth.errors import EngineError
from rubric_synth.events import log_warning
from rubric_synth.run.engines.ray_actor import News, WorkerActor, current_run
from rubric_synth.run.engines.worker import EngineBase, Pending, Sink, plain_task_group

_STARTS = 3
"""Ray gives the processes of a new cluster 30 s to come up, which a busy machine may miss once."""
_LIVES = 3
"""Actors that a document is given to, before it is taken for what kills them."""
_RESTARTS = 100
"""Restarts of one actor by Ray; an actor that dies more often will not live."""
_MANY = 100_000
"""Calls of an actor at once: the number of documents in work bounds them."""
_ASK_EVERY_S = 0.2
_SPEAK_EVERY_S = 1.0
"""Interval of the words to each actor, which waits when it hears nothing for a few intervals."""


@contextmanager
def connected(address: str | None) -> Generator[Any]:
    """Give Ray's module, connected; what was not so before is disconnected afterwards.

    Raises:
        MissingExtraError: Ray is not installed.
        EngineError: There is no cluster at the address, or none can be started here.
    """
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    # Where Ray looks by itself: it takes the variable before a cluster found on this machine.
    named = variable("RAY_ADDRESS") if address in {None, "auto"} else address
    _reach(named)
    is_own = address is None and not named  # or one that `ray start` has started here
    starts = _STARTS if is_own else 1
    for starts_left in reversed(range(starts)):
        try:
            _init(ray, address)
            break
        # Ray raises plain `Exception` where a node starts too slowly.
        except Exception as error:
            if not is_own:
                raise _unreachable(named or address, error) from error
            if not starts_left:
                why = _reason(error)
                raise EngineError(
                    f"Ray did not start on this machine, {_STARTS} times: {why}; run again "
                    "when the machine is less busy, or start a cluster with `ray start "
                    "--head` and set `ray.address: auto`"
                ) from error
            log_warning("synth.ray.started_too_slowly", starts_left=starts_left)
    try:
        yield ray
    finally:
        ray.shutdown()


def _reach(address: str | None) -> None:
    """Ask whether anything listens; Ray itself finds out after minutes of its own log lines."""
    url = address or ""
    if "://" not in url:
        url = f"//{url}"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        port = parts.port
    except ValueError:
        return  # Ray says what is wrong with it
    if host and port:
        try:
            socket.create_connection((host, port), timeout=10.0).close()
        except OSError as error:
            raise _unreachable(address, error) from error


def _init(ray: Any, address: str | None) -> None:
    """Connect in silence, and without Ray's handler of SIGTERM, which would end the run at once."""
    is_main = threading.current_thread() is threading.main_thread()
    on_termination = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            # A tip on accelerators in later releases, and that a client's connection timed out.
            warnings.simplefilter("ignore", FutureWarning)
            warnings.filterwarnings("ignore", "Ray Client connection timed out")
            ray.init(
                address,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
            )
    finally:
        if is_main and on_termination is not None:
            signal.signal(signal.SIGTERM, on_termination)


def _unreachable(address: str | None, error: Exception) -> EngineError:
    return EngineError(
        f"no Ray cluster at ray.address={address!r}: {_reason(error)}; start one there with "
        "`ray start --head`, set RAY_AUTH_MODE=token if it wants a token (Ray 2.60 and "
        "later), or leave `ray.address` out for one of this run's own"
    )


def _reason(error: Exception) -> str:
    first_line = shortened(str(error).partition("\n")[0], 300)
    return f"{type(error).__name__}: {first_line}"


def _ray() -> Any:
    with needing_extra("rubric-synth", "ray", by="engine: ray"):
        return import_module("ray")  # takes a second


@dataclass(eq=False)
class _Place:
    """One actor, as the driver sees it."""

    actor: Any
    documents: int = 0
    is_up: bool = False


class RayEngine(EngineBase):
    """Documents in work spread over actors; one limiter for all of them.

    An actor that dies is started again by Ray, and its documents are worked on again, with the
    answers that they had got. Where this process is killed, nothing is asked twice but what was in
    flight then and what the actors ask in the three seconds until they notice: they make calls only
    while this process speaks to them, and wait where it does not; Ray then ends them. That holds
    for calls through a limiter, which a caller's own judge may do without. Keys are read from the
    environment of each worker: they must be set on every node before Ray starts there.
    """

    async def run(self, pending: Iterable[Pending], sink: Sink) -> None:
        """Work on documents; see `LocalEngine.run`. Starting takes seconds.

        Raises:
            MissingExtraError: Ray is not installed.
            EngineError: There is no cluster, or none of its workers lives.
            JudgeSetupError, ConfigError, PluginError: A worker cannot be built there.
            OutputError: The sink could not keep something.
        """
        with connected(self._config.ray.address) as self._ray:
            self._sink = sink
            self._numbers = count(1)
            self._ask_for_actors()
            try:
                async with plain_task_group() as self._group:
                    for place in self._places:
                        self._group.start_soon(self._bring_up, place)
                    self._group.start_soon(self._speak)
                    await self._draw(pending, sink, self._process)
                    # An actor that has not come up is not waited for.
                    self._group.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._end()

    def _ask_for_actors(self) -> None:
        """Ask Ray for the actors; they come up while documents are given to the first ones."""
        ray = self._ray
        config = self._config
        self._alone = anyio.Lock()
        self._came_up = anyio.Event()
        # A limiter that dies loses its counts alone: it is started again.
        limiting = ray.remote(
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=_MANY,
        )(LimiterActor)
        self._limiters: list[SharedLimiter] = []
        for model in (config.model, config.judge_model):
            limits = model.limits if model else LimitsConfig()
            limiter = SharedLimiter(limiting.remote(limits), owner=current_run)
            self._limiters.append(limiter)
        # Once for all actors: it may hold the word counts of a collection.
        self._shared_spec = ray.put(self._spec)
        cpus = config.ray.cpus_per_actor
        working = ray.remote(
            num_cpus=cpus,
            max_restarts=_RESTARTS,
            max_concurrency=_MANY,
            scheduling_strategy="SPREAD",
        )(WorkerActor)
        actors = config.ray.actors or max(
            1, int(ray.cluster_resources().get("CPU", 1) / cpus)
        )
        places = range(min(actors, config.max_concurrency))
        self._places = [_Place(working.remote()) for _ in places]

    async def _end(self) -> None:
        """Close the workers, and end all actors."""
        with anyio.move_on_after(5.0):
            async with anyio.create_task_group() as group:
                for place in self._places:
                    if place.is_up:
                        group.start_soon(self._close, place.actor)
        for place in self._places:
            self._ray.kill(place.actor)
        # Ray ends the limiters with their last handles, after what the workers still say to them.
        self._limiters.clear()

    async def _process(self, item: Pending) -> None:
        """Give a document to one actor after another, until one of them ends it.

        After its last but one actor's death it is the only such document in work: then another
        death is of its own doing, not of its neighbour's.
        """
        document = item.document
        known = list(item.known)
        with self._in_flight():
            for life in range(1, _LIVES + 1):
                async with self._alone if life == _LIVES else nullcontext():
                    news = await self._live(document, known)
                if news is not None:
                    if news.outcome is not None:
                        self._sink.on_outcome(news.outcome)
                    return
                if not self._sink.may_call():
                    return
            self._sink.on_outcome(_deadly(document, known))

    async def _live(self, document: Document, known: list[CallRecord]) -> News | None:
        """Let one actor work on a document; return its last news, None if the actor died."""
        place = await self._free_place()
        run = f"{document.doc_hash[:12]}.{next(self._numbers)}"
        place.documents += 1
        try:
            news = await self._ask(place, "begin", run, document, tuple(known))
            while news is not None:
                for record in news.records:
                    known.append(record)
                    self._sink.on_call(document.doc_hash, record)
                if news.is_over:
                    return news
                news = await self._ask(place, "more", run)
        except self._ray.exceptions.RayActorError:
            pass
        finally:
            place.documents -= 1
        for limiter in self._limiters:
            limiter.forget(run)
        # Where only the connection was lost, the actor still works on it.
        place.actor.drop.remote(run)
        if place.is_up:
            place.is_up = False
            self._group.start_soon(self._bring_up, place)
        return None

    async def _ask(
        self,
        place: _Place,
        method: str,
        *arguments: object,
    ) -> News | None:
        """Call a method of an actor.

        Raises:
            RayActorError: The actor died, or cannot be reached.
            EngineError: The cluster cannot be reached.
        """
        errors = self._ray.exceptions
        remote_method = getattr(place.actor, method)
        try:
            news = await remote_method.remote(*arguments)
        except errors.RayActorError:
            raise
        except errors.RayTaskError as error:
            # Ray's error quotes the worker's stack.
            if isinstance(error.cause, RubricError):
                raise error.cause from None
            raise
        except (errors.RayError, ConnectionError) as error:
            raise EngineError(
                f"the Ray cluster does not answer: {type(error).__name__}; what was answered "
                "is kept, run again when it is back"
            ) from error
        return cast("News | None", news)

    async def _free_place(self) -> _Place:
        """Return the live actor with the fewest documents; wait for one if there is none."""
        while True:
            live = [place for place in self._places if place.is_up]
            if live:
                return min(live, key=lambda place: place.documents)
            with anyio.move_on_after(30.0):
                await self._came_up.wait()
                continue
            log_warning("synth.ray.no_worker_yet", actors=len(self._places))

    async def _bring_up(self, place: _Place) -> None:
        """Wait until Ray has started an actor, for the first time or again."""
        errors = self._ray.exceptions
        while True:
            try:
                await self._ask(place, "prepare", self._shared_spec, self._limiters)
            except errors.ActorUnavailableError:
                await anyio.sleep(_ASK_EVERY_S)
            except errors.RayActorError as error:
                self._places.remove(place)
                log_warning("synth.ray.worker_lost", left=len(self._places))
                if not self._places:
                    raise EngineError(
                        "no worker of the Ray cluster is left: its nodes are gone, or its "
                        "workers cannot start, see Ray's logs; what was answered is kept, "
                        "run again when the cluster is back"
                    ) from error
                return
            else:
                break
        place.is_up = True
        self._came_up.set()
        self._came_up = anyio.Event()

    async def _speak(self) -> None:
        """Let the actors know that somebody hears them, and at once when calls must end."""
        last_may_call = True
        said_s = -_SPEAK_EVERY_S
        while True:
            may_call = self._sink.may_call()
            now_s = anyio.current_time()
            if may_call != last_may_call or now_s - said_s >= _SPEAK_EVERY_S:
                last_may_call = may_call
                said_s = now_s
                with suppress(ConnectionError):  # a question to an actor meets it too
                    for place in self._places:
                        if place.is_up:
                            place.actor.hear.remote(may_call=may_call)
            await anyio.sleep(_ASK_EVERY_S)

    async def _close(self, actor: Any) -> None:
        # A dead actor has closed everything.
        with suppress(self._ray.exceptions.RayError):
            await actor.aclose.remote()


def _deadly(document: Document, known: list[CallRecord]) -> DocumentOutcome:
    """Return the end of a document that every actor dies of."""
    calls = DocumentCalls()
    for record in known:
        calls.count(record)
    detail = f"{_LIVES} Ray actors died with this document; see Ray's logs"
    rejection = rejected(document, "analyse", RejectionReason.STAGE_FAILED, detail)
    return DocumentOutcome(
        source=document.source,
        doc_hash=document.doc_hash,
        rejections=(rejection,),
        totals=calls.totals,
    )
