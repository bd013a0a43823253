"""Hugging Face folders, loaded by lm-eval's model and asked through their chat template."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from importlib.util import find_spec
from typing import Any

import anyio.to_thread
import structlog
from pydantic import JsonValue

from rubric_core import Ask, Decoding, MissingExtraError, Reply, ResponderError
from rubric_core.configuration import validated
from rubric_core.data.chat_prompt import prompt_identity, unread_arguments
from rubric_core.data.model_files import PromptForm, model_files, prompt_form
from rubric_core.errors import install_command
from rubric_eval.responders.folder_model import (
    FolderModel,
    HarnessOptions,
    tokenizer_folder,
)
from rubric_eval.responders.spec import ModelSpec
from rubric_eval.responders.thinking import identity_of
from rubric_judge.ui.reporting import reported

_log: Any = structlog.get_logger("rubric_eval")
_VERSION = 2
"""Version of the rules for writing prompts and drawing tokens."""


class HarnessResponder:
    """A model of a folder; its weights load with the first question."""

    def __init__(self, spec: ModelSpec) -> None:
        """Hash the folder.

        Raises:
            ConfigError: an option does not fit, or the folder holds no model.
            MissingExtraError: lm-eval is not installed.
        """
        self._options = validated(
            HarnessOptions, spec.options, source=f"model {spec.name!r}"
        )
        if find_spec("lm_eval") is None or find_spec("transformers") is None:
            remedy = install_command("rubric-eval", "lm-eval")
            raise MissingExtraError(
                f"model {spec.name!r}: kind 'hf' needs lm-eval: {remedy}"
            )
        self._files = model_files(self._options.path)
        self.prompt_form: PromptForm = prompt_form(tokenizer_folder(self._options.path))
        """Form of prompts, according to the tokenizer's files."""
        self._warn_of_unread(spec.name)
        self._model: FolderModel | None = None

    @property
    def scores_choices(self) -> bool:
        """Whether choices can be scored: yes, by lm-eval's `loglikelihood`."""
        return True

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """Hashes of the model's files, its number format, and how its prompts are written."""
        options = self._options
        folder = tokenizer_folder(options.path)
        return {
            "kind": "hf",
            "version": _VERSION,
            "prompt_form": self.prompt_form,
            "files": self._files,
            "dtype": options.dtype,
            "trust_remote_code": options.trust_remote_code,
            **prompt_identity(folder, options.chat_prompt),
            **identity_of(options.thoughts, {}),
        }

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        """Answer questions, shortest first, and yield each reply when it is done.

        See `Responder.respond`.
        """
        if not asks:
            return
        model = await anyio.to_thread.run_sync(self._loaded)
        write = partial(model.write, asks, decoding)
        async with aclosing(reported(write)) as replies:
            async for index, reply in replies:
                yield index, reply

    async def aclose(self) -> None:
        """Free the weights."""
        self._model = None

    def _warn_of_unread(self, name: str) -> None:
        folder = tokenizer_folder(self._options.path)
        unread = unread_arguments(folder, self._options.chat_template_kwargs)
        if unread:
            _log.warning(
                "chat_template_kwargs_unread",
                model=name,
                keys=list(unread),
                why="no chat template of the model reads them",
            )

    def _loaded(self) -> FolderModel:
        if self._model is None:
            try:
                self._model = FolderModel(self._options, self.prompt_form)
            # A model folder is third-party data: a broken file may make the library raise
            # anything.
            except Exception as error:
                problem = f"the model folder {str(self._options.path)!r} does not load"
                first_line = str(error).strip().partition("\n")[0]
                why = f"{type(error).__name__}: {first_line}"
                raise ResponderError(f"{problem}: {why}") from error
        return self._model
