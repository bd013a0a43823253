"""Calls of OpenAI-compatible endpoints over one long-lived HTTP client: no SDK in between.

The same strict reading of an answer as through litellm, at a small part of the work.
"""

import json
import sys
from functools import lru_cache
from importlib import import_module

import anyio.to_thread
from pydantic import BaseModel
from pydantic_core import to_json

from rubric_judge.provider import chat, exchange, model_config, settings


class DirectClient(chat.Transport):
    """To one OpenAI-compatible server; every field is sent as it is."""

    def __init__(self, config: model_config.ModelConfig) -> None:
        """Read the key.

        Args:
            config: its `api_base` is one address.

        Raises:
            JudgeSetupError: the configuration names a variable for the key that is not set, or
                that cannot be a key.
        """
        (address,) = config.addresses
        self._url = f"{(address or '').rstrip('/')}/chat/completions"
        self._connections = exchange.Connections(self._url, settings.api_key(config))
        self._fields = {"model": config.served_name, **config.sent_fields}
        # What no call changes is encoded once; `_body` puts the rest behind it.
        self._opening = json.dumps(self._fields).encode().removesuffix(b"}")

    async def prepare(self) -> None:
        """Import aiohttp, which takes a few tenths of a second, in a thread."""
        if "aiohttp" not in sys.modules:
            await anyio.to_thread.run_sync(import_module, "aiohttp")

    async def ask(self, request: chat.ChatRequest) -> chat.ChatReply:
        """Send one request and read its answer; see `Transport.ask`."""
        answer = await self._connections.post(self._url, self._body(request))
        return answer.chat_reply()

    async def aclose(self) -> None:
        """Close this event loop's connections, and those of loops that are no more."""
        await self._connections.aclose()

    def _body(self, request: chat.ChatRequest) -> bytes:
        messages = request.messages
        try:
            encoded = to_json(messages)
        except ValueError:  # half of a surrogate pair, which only an escape can hold
            encoded = json.dumps(messages).encode()
        opening = self._opening
        if request.parameters:
            fields = {**self._fields, **request.parameters}
            opening = json.dumps(fields).encode().removesuffix(b"}")
        parts = [opening, b',"messages":', encoded]
        if request.reply is not None:
            parts += [b',"response_format":', _response_format(request.reply)]
        return b"".join((*parts, b"}"))


@lru_cache(maxsize=1024)
def _response_format(reply: type[BaseModel]) -> bytes:
    schema = {"name": reply.__name__, "schema": reply.model_json_schema()}
    return json.dumps({"type": "json_schema", "json_schema": schema}).encode()
