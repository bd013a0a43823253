"""The process: uvicorn on an address that is this machine's, or that asks for a token."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from rubric_judge.errors import JudgeSetupError
from rubric_judge.label_page.app import build_app
from rubric_judge.label_page.desk import Desk
from rubric_judge.provider.settings import is_this_machine, service_token


class _Server(uvicorn.Server):
    """Ends on a signal without raising it again: what was typed is kept, so it is no failure."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End when the requests that are being answered are."""
        del sig, frame
        self.should_exit = True


def serve_page(
    desk: Desk, *, host: str, port: int, token_env: str | None, on_start: Callable[[str], None]
) -> None:
    """Serve the page until a signal.

    Args:
        desk: what is labelled.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        token_env: environment variable with the token that requests must bear.
        on_start: called with the address when it listens.

    Raises:
        JudgeSetupError: the variable is not set; or none is named, and other machines can reach
            the address.
        OSError: the address is taken, or not this machine's.
    """
    if token_env is None and not is_this_machine(host):
        raise JudgeSetupError(
            f"host {host!r} can be reached from other machines, and the page shows passages: name "
            "an environment variable with a token in --token-env, or listen on 127.0.0.1"
        )
    config = uvicorn.Config(
        build_app(desk, token=service_token(token_env)),
        log_config=None,  # its lines are not ours
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=5,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as bound:
        place, port = bound.getsockname()[:2]
        on_start(f"http://[{place}]:{port}" if ":" in place else f"http://{place}:{port}")
        _Server(config).run(sockets=[bound])
