"""Settings of the service: its limits, and who may use it."""

from typing import Literal

from pydantic import Field

from rubric_core import Thoughts
from rubric_judge.models.model_config import Positive, Seconds, Settings

OnUnavailable = Literal["retry", "zero"]


class ServeConfig(Settings):
    """Address, token and bounds of the service."""

    host: str = "127.0.0.1"
    """Address to listen on; any but this machine's own needs a token."""

    port: int = Field(default=8000, ge=0, le=65535)
    """Port to listen on; 0 takes a free one, which is printed."""

    token_env: str | None = None
    """Environment variable with the token that every request but /healthz must bear."""

    max_body_bytes: Positive = 16 * 2**20
    """Largest request; a larger one is answered 413."""

    max_items: Positive = 1024
    """Most responses in a request; more are answered 413."""

    max_queued: Positive = 4096
    """Most responses that wait or are being judged; past it, requests are answered 429."""

    max_connections: Positive = 4096
    """Most connections at once; never more than half of the files that the process may open."""

    max_connections_per_address: Positive | None = None
    """Most connections from one address, such as a proxy's; left out, half of all, or all where
    only this machine can reach the service."""

    headers_s: Seconds = 10
    """Longest time for the headers of a request; a connection without them by then is closed."""

    body_s: Seconds = 30
    """Longest time for the body of a request; a slower one is answered 408."""

    deadline_s: Seconds = 600
    """Longest time for a request; what is not judged by then is `unavailable`."""

    drain_s: float = Field(
        default=60,
        ge=0,
        le=10**7,
    )
    """Longest wait, on SIGTERM, for the requests that are being answered."""

    on_unavailable: OnUnavailable = "retry"
    """Answer to OpenRLHF for a response that could not be judged: `retry` answers 503, and it asks
    again; `zero` is a reward of 0, and its log `rubric/unavailable` is 1."""

    thoughts: Thoughts = "cut"
    """How thoughts are told from answers, of which alone scores are given: `cut` by the tags that
    are known, `opened` where the prompt opens each, `kept` to judge the whole, or the tags as
    JSON."""

    @property
    def is_private(self) -> bool:
        """Whether only this machine can reach the address."""
        from rubric_judge.models.settings import is_this_machine

        return is_this_machine(self.host)
