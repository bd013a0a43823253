"""Opening of specified models, and of controls, whose answers no model wrote.

Controls are made from the tasks before any model is asked, and so may use what no model sees.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

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
from rubric_core.files import text_sha256
from rubric_core.strict_json import canonical_json
from rubric_eval.errors import EvalConfigError
from rubric_eval.records.run import CONTROL, ModelEntry
from rubric_eval.responders.connecting import open_chat
from rubric_eval.responders.harness import HarnessResponder
from rubric_eval.responders.spec import CHAT, HARNESS, ModelSpec, Weights
from rubric_judge.models.chat import ClosesItself
from rubric_judge.quality import wrong_answers
from rubric_judge.quality.context_answers import context_start, nearest_sentences
from rubric_judge.quality.wrong_answers import (
    fixed_template,
    negated,
    other_references,
    shuffled,
)


@dataclass(frozen=True)
class OpenModel(ClosesItself):
    """A model that can be asked; close it with `aclose`, or use it as a context manager."""

    entry: ModelEntry
    """Name and identity, as in the manifest."""

    responder: Responder

    weights: Weights | None = None
    """Log-probabilities of a fixed text by a server's model, if the server reports them."""

    @property
    def name(self) -> str:
        """Name in tables and file names."""
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
    """Open a model: hash its files, or ask its server what it serves; no weights are loaded.

    Raises:
        ConfigError: an option does not fit, the folder is missing, or a plugin does not accept
            its options.
        PluginError: the plugin does not load.
        JudgeSetupError: no server serves the model, or a key is not set.
    """
    weights: Weights | None = None
    responder: Responder
    if spec.kind in CHAT:
        chat = await open_chat(spec)
        weights = chat.weights
        responder = chat
    else:
        responder = await anyio.to_thread.run_sync(_opened, spec)
    prompt_form = None
    if isinstance(responder, SaysPromptForm):
        prompt_form = responder.prompt_form
    entry = ModelEntry(
        name=spec.name,
        spec=spec.spec,
        fingerprint=await anyio.to_thread.run_sync(fingerprint, responder),
        identity=dict(responder.identity),
        prompt_form=prompt_form,
    )
    return OpenModel(entry, responder, weights)


async def open_models(specs: Sequence[ModelSpec]) -> tuple[OpenModel, ...]:
    """Open several models; if one cannot be opened, those already open are closed again.

    Raises:
        ConfigError, PluginError, JudgeSetupError: as `open_model`.
    """
    models: list[OpenModel] = []
    async with AsyncExitStack() as unless_all_open:
        for spec in specs:
            model = await open_model(spec)
            models.append(await unless_all_open.enter_async_context(model))
        unless_all_open.pop_all()
    return tuple(models)


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


CONTROLS = {
    name: wrong_answers.CONTROLS[name]
    for name in (
        "right_in_other_words",
        "false_in_the_same_words",
        "fixed_template",
        "context_start",
        "nearest_sentences",
        "shuffled",
        "negated",
        "other_reference",
    )
}
"""Description of each control that an evaluation may have, by name."""


_NOT_WRITTEN = Reply.unavailable(Reason.NOT_WRITTEN, "nobody has written an answer")


class WrittenResponder:
    """Responder with ready answers; a question without one is unavailable."""

    def __init__(self, name: str, answers: Mapping[str, str]) -> None:
        """Store the answers by task id; their content is the identity."""
        self._answers = dict(answers)
        digest = text_sha256(canonical_json(self._answers))
        self._identity: dict[str, JsonValue] = {
            "kind": CONTROL,
            "name": name,
            "answers": digest,
        }

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """Name of the control, and hash of its answers."""
        return self._identity

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        """Answer at once, with the same answer every time; see `Responder.respond`."""
        del decoding
        for index, ask in enumerate(asks):
            text = self._answers.get(ask.view.task_id)
            reply = _NOT_WRITTEN
            if text is not None:
                reply = Reply.answered(text)
            yield index, reply

    async def aclose(self) -> None:
        """Hold nothing open."""


def open_controls(
    tasks: Sequence[Task],
    *,
    beside: Sequence[ModelSpec] = (),
    known: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[OpenModel, ...]:
    """Make the controls of some tasks.

    Args:
        tasks: tasks that are evaluated.
        beside: models of the evaluation, whose names controls may not have.
        known: answers that were written to be right, or false, by name of the control and task id.

    Returns:
        The template; if every task has a context, copies from it; and if every task has a
        reference answer, the controls made from those, as a mean over some of the questions would
        stand beside means over all. The answer of another document requires that there is one.
        Answers that a person has to write may cover only some questions; their means say how many.

    Raises:
        ConfigError: a model has the name of a control.
    """
    reserved = {f"{CONTROL}_{name}" for name in CONTROLS}
    clashes = reserved & {spec.name for spec in beside}
    if clashes:
        raise EvalConfigError(
            f"{min(clashes)!r} is the name of a control: give the model another one"
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
        others = other_references(tasks)
        if others:
            written["other_reference"] = others
    for name, texts in (known or {}).items():
        answers = {id_: texts[id_] for id_ in contexts if id_ in texts}
        if answers:
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
