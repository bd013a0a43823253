"""The engine of a Ray cluster: workers in actors, which Ray places, starts again and feeds."""

from __future__ import annotations

import signal
import socket
import threading
import warnings
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from structlog import get_logger

from rubric_core import MissingExtraError
from rubric_core.errors import install_command
from rubric_judge.provider.settings import variable
from rubric_synth.config import SynthConfig
from rubric_synth.engines.protocol import Pending, Sink, WorkerSpec
from rubric_synth.engines.ray_crew import Crew
from rubric_synth.errors import EngineError

_log = get_logger(__name__)

_LONGEST_REASON: Final = 300
_REACH_WITHIN_S: Final = 10.0
_STARTS: Final = 3
"""Ray gives the processes of a new cluster 30 s to come up, which a busy machine may miss once."""


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
    if address is None and not named:
        _start(ray)
    else:
        try:
            _init(ray, address)
        except Exception as error:
            raise _unreachable(named or address, error) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _reach(address: str | None) -> None:
    """Ask whether anything listens; Ray itself finds out after minutes of its own log lines."""
    try:
        parts = urlsplit(address if address and "://" in address else f"//{address or ''}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return  # Ray says what is wrong with it
    if host and port:
        try:
            socket.create_connection((host, port), timeout=_REACH_WITHIN_S).close()
        except OSError as error:
            raise _unreachable(address, error) from error


def _start(ray: Any) -> None:
    """Start a cluster here, or connect to one that `ray start` has started here."""
    for start in range(1, _STARTS + 1):
        try:
            _init(ray, None)
        except Exception as error:  # Ray raises plain `Exception` where a node starts too slowly
            if start < _STARTS:
                _log.warning("synth.ray.started_too_slowly", starts_left=_STARTS - start)
                continue
            raise EngineError(
                f"Ray did not start on this machine, {_STARTS} times: {_reason(error)}; run again "
                "when the machine is less busy, or start a cluster with `ray start --head` and set "
                "`ray.address: auto`"
            ) from error
        else:
            return


def _init(ray: Any, address: str | None) -> None:
    """Connect in silence, and without Ray's handler of SIGTERM, which would end the run at once."""
    is_main = threading.current_thread() is threading.main_thread()
    on_termination = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            # A tip on accelerators in later releases, and that a client's connection timed out.
            warnings.simplefilter("ignore", FutureWarning)
            warnings.filterwarnings("ignore", "Ray Client connection timed out")
            ray.init(address, include_dashboard=False, log_to_driver=False, configure_logging=False)
    finally:
        if is_main and on_termination is not None:
            signal.signal(signal.SIGTERM, on_termination)


def _unreachable(address: str | None, error: Exception) -> EngineError:
    return EngineError(
        f"no Ray cluster at ray.address={address!r}: {_reason(error)}; start one there with "
        "`ray start --head`, or leave `ray.address` out for one of this run's own"
    )


def _reason(error: Exception) -> str:
    first_line = str(error).partition("\n")[0][:_LONGEST_REASON]
    return f"{type(error).__name__}: {first_line}"


def _ray() -> Any:
    try:
        import ray  # takes a second, and is an extra
    except ImportError:
        message = f"engine: ray needs Ray: {install_command('rubric-synth', 'ray')}"
        raise MissingExtraError(message) from None
    return ray


class RayEngine:
    """Documents in work spread over actors; one limiter for all of them.

    An actor that dies is started again by Ray, and its documents are worked on again, with the
    answers that they had got. Where this process is killed, nothing is asked twice but what was in
    flight then and what the actors ask in the three seconds until they notice: they make calls only
    while this process speaks to them, and wait where it does not; Ray then ends them. That holds
    for calls through a limiter, which a caller's own judge may do without. Keys are read from the
    environment of each worker: they must be set on every node before Ray starts there.
    """

    def __init__(self, config: SynthConfig, spec: WorkerSpec) -> None:
        """Keep the settings; nothing is started yet."""
        self._config = config
        self._spec = spec
        self._crew: Crew | None = None

    @property
    def calls_in_flight(self) -> int:
        """Documents in work; the calls are made elsewhere."""
        return self._crew.in_work if self._crew is not None else 0

    async def run(self, pending: Iterable[Pending], sink: Sink) -> None:
        """Work on documents; see `Engine.run`. Starting takes seconds.

        Raises:
            MissingExtraError: Ray is not installed.
            EngineError: There is no cluster, or none of its workers lives.
            JudgeSetupError, ConfigError, PluginError: A worker cannot be built there.
            OutputError: The sink could not keep something.
        """
        with connected(self._config.ray.address) as ray:
            self._crew = Crew(ray, self._config, self._spec, sink)
            try:
                await self._crew.work_on(pending)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._crew.end()
