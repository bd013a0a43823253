"""From a specification to a model that can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio.to_thread

from rubric_core import Responder, SaysPromptForm, find_responder
from rubric_eval.errors import EvalConfigError
from rubric_eval.records.inputs import canonical_json, text_sha256
from rubric_eval.records.run import ModelEntry
from rubric_eval.responders.connecting import open_chat
from rubric_eval.responders.harness import HarnessResponder
from rubric_eval.responders.spec import CHAT, HARNESS, ModelSpec, Weights
from rubric_judge.provider.chat import ClosesItself


@dataclass(frozen=True)
class OpenModel(ClosesItself):
    """A model that can be asked; close it with `aclose`, or use it as a context manager."""

    entry: ModelEntry
    """Name and identity, as the manifest has them."""

    responder: Responder

    weights: Weights | None = None
    """What a server's model makes of a fixed text, where the server says."""

    @property
    def name(self) -> str:
        """In tables and file names."""
        return self.entry.name

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the identity."""
        return self.entry.fingerprint

    async def aclose(self) -> None:
        """Free the model or close the connections."""
        await self.responder.aclose()


def fingerprint(responder: Responder) -> str:
    """Return the SHA-256 of a responder's identity, in hexadecimal."""
    return text_sha256(canonical_json(dict(responder.identity)))


async def open_model(spec: ModelSpec) -> OpenModel:
    """Open a model: its files are hashed, or its server is asked what it serves; no weights load.

    Raises:
        ConfigError: an option that does not fit, no such folder, or a plugin that has no use for
            what it was given.
        PluginError: the plugin does not load.
        JudgeSetupError: nobody serves the model, or a key is not set.
    """
    weights: Weights | None = None
    if spec.kind in CHAT:
        responder: Responder = (chat := await open_chat(spec))
        weights = chat.weights
    else:
        responder = await anyio.to_thread.run_sync(_opened, spec)
    entry = ModelEntry(
        name=spec.name,
        spec=spec.spec,
        fingerprint=await anyio.to_thread.run_sync(fingerprint, responder),
        identity=dict(responder.identity),
        form=responder.prompt_form if isinstance(responder, SaysPromptForm) else None,
    )
    return OpenModel(entry, responder, weights)


async def open_models(specs: Sequence[ModelSpec]) -> tuple[OpenModel, ...]:
    """Open several; all are closed again where one cannot be opened.

    Raises:
        ConfigError, PluginError, JudgeSetupError: as `open_model`.
    """
    async with AsyncExitStack() as unless_all_open:
        opened = [await unless_all_open.enter_async_context(await open_model(one)) for one in specs]
        unless_all_open.pop_all()
    return tuple(opened)


def _opened(spec: ModelSpec) -> Responder:
    if spec.kind == HARNESS:
        return HarnessResponder(spec)
    responder = find_responder(spec.kind)(spec.options)
    if not isinstance(responder, Responder):  # pyright: ignore[reportUnnecessaryIsInstance]  # a plugin's
        raise EvalConfigError.told("no_responder", spec=spec, kind=type(responder).__name__)
    return responder
