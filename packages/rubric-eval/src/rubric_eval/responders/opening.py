"""From a specification to a model that can be asked, and controls, which no model wrote.

Controls are written from the tasks before anything is asked; what a model may see is not concerned.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import anyio.to_thread
from pydantic import JsonValue

from rubric_core import (
    Ask,
    Decoding,
    Reason,
    Reply,
    Responder,
    SaysPromptForm,
    Task,
    find_responder,
)
from rubric_core.files import toml_beside
from rubric_eval.errors import EvalConfigError
from rubric_eval.records.inputs import canonical_json, text_sha256
from rubric_eval.records.run import CONTROL, ModelEntry
from rubric_eval.responders.connecting import open_chat
from rubric_eval.responders.harness import HarnessResponder
from rubric_eval.responders.spec import CHAT, HARNESS, ModelSpec, Weights
from rubric_judge.context_answers import context_start, nearest_sentences
from rubric_judge.provider.chat import ClosesItself
from rubric_judge.wrong_answers import (
    fixed_template,
    negated,
    other_references,
    shuffled,
)


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
        prompt_form=responder.prompt_form
        if isinstance(responder, SaysPromptForm)
        else None,
    )
    return OpenModel(entry, responder, weights)


async def open_models(specs: Sequence[ModelSpec]) -> tuple[OpenModel, ...]:
    """Open several; all are closed again where one cannot be opened.

    Raises:
        ConfigError, PluginError, JudgeSetupError: as `open_model`.
    """
    async with AsyncExitStack() as unless_all_open:
        opened = [
            await unless_all_open.enter_async_context(await open_model(spec))
            for spec in specs
        ]
        unless_all_open.pop_all()
    return tuple(opened)


def _opened(spec: ModelSpec) -> Responder:
    if spec.kind == HARNESS:
        return HarnessResponder(spec)
    responder = find_responder(spec.kind)(spec.options)
    if not isinstance(responder, Responder):  # pyright: ignore[reportUnnecessaryIsInstance]  # a plugin's
        raise EvalConfigError(
            f"model {spec.name!r}: the plugin {spec.kind!r} makes a "
            f"{type(responder).__name__}, not a Responder: report it to whoever wrote it"
        )
    return responder


CONTROLS: Final[dict[str, str]] = toml_beside(__file__, "controls.toml")
"""Each control, and what it is."""


_NOT_WRITTEN: Final = Reply.unavailable(
    Reason.NOT_WRITTEN, "nobody has written an answer"
)


class WrittenResponder:
    """Gives answers that are there already, and none to a question that has none."""

    def __init__(self, name: str, answers: Mapping[str, str]) -> None:
        """Take the answers by task id; their content is the identity."""
        self._answers = dict(answers)
        digest = text_sha256(canonical_json(self._answers))
        self._identity: dict[str, JsonValue] = {
            "kind": CONTROL,
            "name": name,
            "answers": digest,
        }

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """The control, and the content of its answers."""
        return self._identity

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        """Answer at once, and every time alike; see `Responder.respond`."""
        del decoding
        for index, ask in enumerate(asks):
            text = self._answers.get(ask.view.task_id)
            yield index, _NOT_WRITTEN if text is None else Reply.answered(text)

    async def aclose(self) -> None:
        """Hold nothing open."""


def open_controls(
    tasks: Sequence[Task],
    *,
    beside: Sequence[ModelSpec] = (),
    known: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[OpenModel, ...]:
    """Write the controls of some tasks.

    Args:
        tasks: those that are evaluated.
        beside: models, whose names are taken.
        known: answers that were written to be right, or false, by name of the control and task id.

    Returns:
        The template; where every task has a context, what is copied from it; and where every task
        has a reference answer, the others: a mean over some of the questions would stand beside
        means over all. Another document's answer needs one. Answers that somebody has to write
        are there for some questions, and their means say for how many.

    Raises:
        ConfigError: a model has the name of a control.
    """
    if taken := {spec.name for spec in beside} & {
        f"{CONTROL}_{name}" for name in CONTROLS
    }:
        raise EvalConfigError(
            f"{min(taken)!r} is the name of a control: give the model another one"
        )
    written = {
        "fixed_template": {
            task.task_id: fixed_template(task.question) for task in tasks
        }
    }
    contexts = {task.task_id: task.context for task in tasks}
    if all(contexts.values()):
        written["context_start"] = {
            id_: context_start(sections or ()) for id_, sections in contexts.items()
        }
        written["nearest_sentences"] = {
            task.task_id: nearest_sentences(task.question, task.context or ())
            for task in tasks
        }
    references = {task.task_id: task.reference_answer or "" for task in tasks}
    if all(references.values()):
        written["shuffled"] = {
            id_: shuffled(text, seed=id_) for id_, text in references.items()
        }
        written["negated"] = {id_: negated(text) for id_, text in references.items()}
        if others := other_references(tasks):
            written["other_reference"] = others
    for name, texts in (known or {}).items():
        if answers := {id_: texts[id_] for id_ in contexts if id_ in texts}:
            written[name] = answers
    return tuple(_open(name, answers) for name, answers in written.items())


def _open(name: str, answers: Mapping[str, str]) -> OpenModel:
    responder = WrittenResponder(name, answers)
    entry = ModelEntry(
        name=f"{CONTROL}_{name}",
        spec=f"{CONTROL}:{name}",
        fingerprint=fingerprint(responder),
        identity=dict(responder.identity),
    )
    return OpenModel(entry, responder)
