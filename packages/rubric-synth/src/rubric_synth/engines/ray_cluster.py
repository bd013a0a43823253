"""The connection to a Ray cluster: one that runs, or one of this process's own."""

from __future__ import annotations

import signal
import socket
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from structlog import get_logger

from rubric_core import MissingExtraError
from rubric_core.errors import install_command
from rubric_judge.settings import variable
from rubric_synth.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Generator

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


def _start(ray: Any) -> None:  # noqa: ANN401 - a module without types
    """Start a cluster here, or connect to one that `ray start` has started here."""
    for start in range(1, _STARTS + 1):
        try:
            _init(ray, None)
        except Exception as error:  # Ray raises plain `Exception` where a node starts too slowly
            if start < _STARTS:
                _log.warning("synth.ray.started_too_slowly", starts_left=_STARTS - start)
                continue
            message = (
                f"Ray did not start on this machine, {_STARTS} times: {_reason(error)}; run again "
                "when the machine is less busy, or start a cluster with `ray start --head` and set "
                "`ray.address: auto`"
            )
            raise EngineError(message) from error
        else:
            return


def _init(ray: Any, address: str | None) -> None:  # noqa: ANN401
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


def _ray() -> Any:  # noqa: ANN401
    try:
        import ray  # noqa: PLC0415 - takes a second, and is an extra
    except ImportError:
        message = f"engine: ray needs Ray: {install_command('rubric-synth', 'ray')}"
        raise MissingExtraError(message) from None
    return ray
