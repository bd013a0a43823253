"""Direct calls of OpenAI-compatible endpoints over one long-lived HTTP client, without an SDK.

Answers are read as strictly as through litellm, with a small part of the work.
"""

import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module

import anyio.to_thread
from pydantic import BaseModel
from pydantic_core import to_json

from rubric_judge.models import chat, decoding, exchange, model_config, settings


class DirectClient(chat.Transport):
    """Client of one OpenAI-compatible server; every field is sent as it is."""

    def __init__(self, config: model_config.ModelConfig) -> None:
        """Read the key.

        Args:
            config: a configuration whose `api_base` is one address.

        Raises:
            JudgeSetupError: the configuration names a variable for the key that is not set, or
                that cannot be a key.
        """
        (address,) = config.addresses
        self._config = config
        self._url = f"{(address or '').rstrip('/')}/chat/completions"
        self._connections = exchange.Connections(self._url, settings.api_key(config))
        self._fields = decoding.Fields(config, routes=[config.model])
        self._opening: tuple[Mapping[str, object], bytes] = {}, b""

    async def prepare(self) -> None:
        """Import aiohttp in a thread; it takes a few tenths of a second."""
        if "aiohttp" not in sys.modules:
            await anyio.to_thread.run_sync(import_module, "aiohttp")

    async def ask(self, request: chat.ChatRequest) -> chat.ChatReply:
        """Send one request and read its answer; see `Transport.ask`."""
        return await self._fields.asked(request, self._asked_once)

    async def _asked_once(
        self, request: chat.ChatRequest, fields: Mapping[str, object]
    ) -> chat.ChatReply:
        body = self._body(request, fields)
        answer = await self._connections.post(self._url, body)
        return answer.chat_reply(sent=fields)

    async def aclose(self) -> None:
        """Close the connections of this event loop and of loops that have ended."""
        await self._connections.aclose()

    def _body(self, request: chat.ChatRequest, fields: Mapping[str, object]) -> bytes:
        messages = request.messages
        try:
            encoded = to_json(messages)
        except ValueError:  # half of a surrogate pair, which only an escape can hold
            encoded = json.dumps(messages).encode()
        if self._opening[0] is not fields:  # the constant part is encoded once
            head = {"model": self._config.served_name, **fields}
            self._opening = fields, json.dumps(head).encode().removesuffix(b"}")
        parts = [self._opening[1], b',"messages":', encoded]
        if request.reply is not None and request.asks_for != "prompt":
            parts += [
                b',"response_format":',
                _response_format(request.reply, request.asks_for),
            ]
        return b"".join((*parts, b"}"))


@lru_cache(maxsize=1024)
def _response_format(reply: type[BaseModel], form: model_config.ReplyForm) -> bytes:
    if form == "json_object":
        return b'{"type": "json_object"}'
    schema = {"name": reply.__name__, "schema": reply.model_json_schema()}
    return json.dumps({"type": "json_schema", "json_schema": schema}).encode()
