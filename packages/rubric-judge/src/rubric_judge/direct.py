"""Calls of OpenAI-compatible endpoints over one long-lived HTTP client: no SDK in between.

The same strict reading of an answer as through litellm, at a small part of the work.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from importlib import import_module

import anyio.to_thread
from pydantic import BaseModel
from pydantic_core import to_json

from rubric_judge.chat import ChatReply
from rubric_judge.exchange import Connections
from rubric_judge.model_config import ModelConfig
from rubric_judge.settings import api_key

__all__ = ["DirectClient"]


class DirectClient:
    """A `Transport` to one OpenAI-compatible server."""

    def __init__(self, config: ModelConfig) -> None:
        """Read the key.

        Args:
            config: its `api_base` is one address.

        Raises:
            JudgeSetupError: the configuration names a variable for the key that is not set, or
                that cannot be a key.
        """
        (address,) = config.addresses
        self._url = f"{(address or '').rstrip('/')}/chat/completions"
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._key = api_key(config)
        self._connections = Connections(self._url)
        fields = {
            "model": config.model.removeprefix("hosted_vllm/"),
            "max_tokens": config.max_tokens,
            **({} if config.temperature is None else {"temperature": config.temperature}),
            **config.parameters,
        }
        # What no call changes is encoded once; `_body` puts the rest behind it.
        self._opening = json.dumps(fields).encode().removesuffix(b"}")

    async def prepare(self) -> None:
        """Import aiohttp, which takes a few tenths of a second, in a thread."""
        if "aiohttp" not in sys.modules:
            await anyio.to_thread.run_sync(import_module, "aiohttp")

    async def ask(self, *, system: str, user: str, reply: type[BaseModel]) -> ChatReply:
        """Send one request and read its answer; see `Transport.ask`."""
        headers = self._headers
        if self._key is not None:  # in plain text for the call only
            headers = {**headers, "Authorization": f"Bearer {self._key.get_secret_value()}"}
        body = self._body(system, user, reply)
        answer = await self._connections.post(self._url, body=body, headers=headers)
        return answer.chat_reply()

    async def aclose(self) -> None:
        """Close this event loop's connections, and those of loops that are no more."""
        await self._connections.aclose()

    def _body(self, system: str, user: str, reply: type[BaseModel]) -> bytes:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        try:
            encoded = to_json(messages)
        except ValueError:  # half of a surrogate pair, which only an escape can hold
            encoded = json.dumps(messages).encode()
        parts = (self._opening, b',"messages":', encoded, b',"response_format":')
        return b"".join((*parts, _response_format(reply), b"}"))


@lru_cache(maxsize=1024)
def _response_format(reply: type[BaseModel]) -> bytes:
    schema = {"name": reply.__name__, "schema": reply.model_json_schema()}
    return json.dumps({"type": "json_schema", "json_schema": schema}).encode()
