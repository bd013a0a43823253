"""Hugging Face folders, loaded by lm-eval's model and asked through their chat template."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, Literal, cast

import anyio.to_thread
import structlog
from pydantic import Field, JsonValue

from rubric_core import (
    Ask,
    Decoding,
    Finish,
    MissingExtraError,
    Reason,
    Reply,
    ResponderError,
    Thoughts,
    answer_of_tokens,
    opens_thought,
)
from rubric_core.configuration import validated
from rubric_core.data.chat_prompt import (
    PROMPT_DATE,
    ChatPrompt,
    prompt_identity,
    unread_arguments,
)
from rubric_core.data.end_tokens import end_tokens, settings_end
from rubric_core.data.model_files import (
    PromptForm,
    adapter_base,
    model_files,
    prompt_form,
)
from rubric_core.errors import install_command
from rubric_eval.records.run import Record
from rubric_eval.responders.drawing import SeededDraw, hold_positions
from rubric_eval.responders.spec import ModelSpec
from rubric_eval.responders.thinking import identity_of
from rubric_judge.reporting import Report, reported

_log: Final[Any] = structlog.get_logger("rubric_eval")
_VERSION: Final = 2
"""Of how prompts are written and tokens drawn."""


class HarnessOptions(Record):
    """What a specification of kind `hf` may say."""

    path: Path
    """Model folder, or an adapter's whose base model is a folder."""

    device: str | None = None
    """Such as `cuda:1` or `cpu`; left out, the first GPU where there is one."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of the weights; `auto` is that of the folder."""

    batch_size: int = Field(default=16, ge=1)
    """Answers written at once; does not change them."""

    trust_remote_code: bool = False
    """Whether to run Python files of the folder."""

    prompt_date: dt.date = PROMPT_DATE
    """What a chat template that writes the date takes for today."""

    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Names that the chat template is given, such as `enable_thinking: false`."""

    thoughts: Thoughts = "cut"
    """How thoughts are told from answers; see `rubric_core.answer_of`."""

    @property
    def chat_prompt(self) -> ChatPrompt:
        """What the chat template is given beside the question."""
        return ChatPrompt(date=self.prompt_date, arguments=self.chat_template_kwargs)


class HarnessResponder:
    """A model of a folder; its weights load with the first question."""

    def __init__(self, spec: ModelSpec) -> None:
        """Hash the folder.

        Raises:
            ConfigError: an option that does not fit, or no model in the folder.
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
        self.prompt_form: PromptForm = prompt_form(
            _tokenizer_folder(self._options.path)
        )
        """By the tokenizer's files."""
        self._tell_unread(spec.name)
        self._model: _Loaded | None = None

    @property
    def scores_choices(self) -> bool:
        """By lm-eval's `loglikelihood`."""
        return True

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """Every file of the model, its number format, and how questions are put to it."""
        return {
            "kind": "hf",
            "version": _VERSION,
            "prompt_form": self.prompt_form,
            "files": self._files,
            "dtype": self._options.dtype,
            "trust_remote_code": self._options.trust_remote_code,
            **prompt_identity(
                _tokenizer_folder(self._options.path), self._options.chat_prompt
            ),
            **identity_of(self._options.thoughts, {}),
        }

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        """Answer questions, shortest first, each reply as it is done; see `Responder.respond`."""
        if not asks:
            return
        model = await anyio.to_thread.run_sync(self._loaded)
        async with aclosing(reported(partial(model.write, asks, decoding))) as replies:
            async for index, reply in replies:
                yield index, reply

    async def aclose(self) -> None:
        """Let go of the weights."""
        self._model = None

    def _tell_unread(self, name: str) -> None:
        folder = _tokenizer_folder(self._options.path)
        if unread := unread_arguments(folder, self._options.chat_template_kwargs):
            why = "no chat template of the model reads them"
            _log.warning(
                "chat_template_kwargs_unread", model=name, keys=list(unread), why=why
            )

    def _loaded(self) -> _Loaded:
        if self._model is None:
            try:
                self._model = _Loaded(self._options, self.prompt_form)
            # The named boundary for model folders: what a broken file makes the library raise is
            # not known.
            except Exception as error:
                problem = f"the model folder {str(self._options.path)!r} does not load"
                why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
                raise ResponderError(f"{problem}: {why}") from error
        return self._model


@dataclass(frozen=True, slots=True)
class _Prompt:
    index: int
    """Into the asks."""
    seed: int
    token_ids: list[int]
    most: int
    """Tokens that an answer may have; below 1 where the prompt alone does not fit."""
    text: str
    """With the chat template."""
    opens_thought: bool
    """Whether it ends in a thought."""
    choices: tuple[str, ...]
    """Texts of which the likeliest is the answer; empty where it is to be written."""


class _Loaded:
    """Weights and tokenizer."""

    def __init__(self, options: HarnessOptions, form: PromptForm) -> None:
        from lm_eval.models import huggingface  # seconds, and an extra

        library = cast("Any", huggingface)  # it has no types to speak of
        device = options.device
        if device is None:
            device = "cuda" if library.torch.cuda.is_available() else "cpu"
        base = adapter_base(options.path)
        harness = library.HFLM(
            pretrained=str(base or options.path),
            peft=str(options.path) if base else None,
            tokenizer=str(options.path) if _has_tokenizer(options.path) else None,
            device=device,
            dtype=options.dtype,
            batch_size=options.batch_size,
            trust_remote_code=options.trust_remote_code,
        )
        self._harness = harness
        self._is_chat = form == "chat"
        self._prompt = options.chat_prompt
        self._thoughts: Thoughts = options.thoughts
        if self._is_chat:
            harness.add_bos_token = (
                False  # of `loglikelihood`: the template has its own
            )
        self._model = harness.model
        self._tokenizer = harness.tokenizer
        self._tokenizer.padding_side = "left"
        if bool(self._tokenizer.chat_template) != (form == "chat"):
            raise ValueError(
                f"its files say that prompts are {form}, and the tokenizer that was read from them "
                "does not: put the chat template into chat_template.jinja"
            )
        self._device = harness.device
        config = self._model.config
        names = ("n_positions", "max_position_embeddings", "n_ctx")
        found = (getattr(config, name, None) for name in names)
        self.positions: int | None = next(
            (one for one in found if isinstance(one, int)), None
        )
        self._is_held = self.positions is None or hold_positions(
            self._model, self.positions
        )
        ends = end_tokens(self._tokenizer, settings_end(base or options.path))
        if ends.differ:
            named = ends.named(self._tokenizer)
            _log.warning("model.end_tokens.differ", **named, why="each ends an answer")
        self._ends = list(ends.ids)
        self._batch_size = options.batch_size
        self._pad: int = self._tokenizer.pad_token_id
        # The folder's own defaults, such as a penalty for repetition, would be a decoding that the
        # other models do not have.
        self._model.generation_config = type(self._model.generation_config)(
            do_sample=False, eos_token_id=self._ends, pad_token_id=self._pad
        )

    def write(
        self, asks: Sequence[Ask], decoding: Decoding, report: Report[tuple[int, Reply]]
    ) -> None:
        """Answer everything; each reply is reported with the index of its ask once it is done."""
        prompts = self._prompts(asks, decoding)
        for prompt in prompts:
            if prompt.most < 1:
                tokens = len(prompt.token_ids)
                report((prompt.index, Reply.too_long(tokens, self.positions)))
        for batch in self._batches(prompts):
            self._write(batch, decoding, report)

    def _prompts(self, asks: Sequence[Ask], decoding: Decoding) -> list[_Prompt]:
        """Write and encode the questions, shortest first."""
        has_template = bool(self._tokenizer.chat_template)
        prompts: list[_Prompt] = []
        for index, ask in enumerate(asks):
            text = ask.view.plain_text
            if has_template:
                text = self._prompt.render(self._tokenizer, ask.view.message)
            ids: list[int] = self._tokenizer.encode(
                text, add_special_tokens=not has_template
            )
            room = (
                decoding.max_tokens
                if self.positions is None
                else self.positions - len(ids)
            )
            most = min(room, decoding.max_tokens)
            opens = opens_thought(text, self._thoughts)
            prompts.append(
                _Prompt(index, ask.seed, ids, most, text, opens, tuple(ask.choices))
            )
        return sorted(
            prompts, key=lambda prompt: (bool(prompt.choices), len(prompt.token_ids))
        )

    def _batches(self, prompts: Sequence[_Prompt]) -> Iterator[list[_Prompt]]:
        """Put neighbours together; where rows cannot wait, only those that end at one step."""
        fitting = (prompt for prompt in prompts if prompt.most >= 1)
        for _, rows in groupby(
            fitting,
            key=lambda row: (bool(row.choices), None if self._is_held else row.most),
        ):
            while batch := list(islice(rows, self._batch_size)):
                yield batch

    def _write(
        self,
        batch: Sequence[_Prompt],
        decoding: Decoding,
        report: Report[tuple[int, Reply]],
    ) -> None:
        """Answer a batch; what is left of it in halves where memory runs out."""
        waiting = dict(enumerate(batch))
        try:
            if batch[0].choices:
                self._compare(waiting, report)
            else:
                told = partial(self._tell, waiting, decoding, report)
                draw = SeededDraw(
                    decoding, [prompt.seed for prompt in batch], report.left
                )
                self._generate(batch, decoding, draw, told)
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            left = list(waiting.values())
            if len(left) == 1:
                reply = Reply.unavailable(Reason.SERVER_ERROR, "out of memory")
                report((left[0].index, reply))
                return
            half = len(left) // 2
            for part in (left[:half], left[half:]):
                self._write(part, decoding, report)

    def _tell(
        self,
        waiting: dict[int, _Prompt],
        decoding: Decoding,
        report: Report[tuple[int, Reply]],
        rows_BT: Any,
        *,
        is_over: bool,
    ) -> None:
        """Report the rows that have ended; they wait no longer."""
        last: list[int] = rows_BT[:, -1].tolist()
        for number, prompt in tuple(waiting.items()):
            ended = last[number] in self._ends or rows_BT.shape[1] >= prompt.most
            if is_over or ended or (decoding.stop and last[number] == self._pad):
                row = self._own(rows_BT[number, : prompt.most].tolist())
                reply = self._reply(row, decoding, opened=prompt.opens_thought)
                if is_over or ended or reply.finish is Finish.COMPLETE:
                    del waiting[number]
                    report((prompt.index, reply))

    def _compare(
        self, waiting: dict[int, _Prompt], report: Report[tuple[int, Reply]]
    ) -> None:
        """Ask how likely each choice is behind its prompt."""
        from lm_eval.api.instance import Instance

        lead = "" if self._is_chat else " "
        prompts = list(waiting.values())
        pairs = [
            (prompt.text, f"{lead}{choice}")
            for prompt in prompts
            for choice in prompt.choices
        ]
        requests = [
            Instance("loglikelihood", {}, pair, idx) for idx, pair in enumerate(pairs)
        ]
        found = iter(self._harness.loglikelihood(requests, disable_tqdm=True))
        for prompt in prompts:
            logprobs = [next(found)[0] for _ in prompt.choices]
            report((prompt.index, Reply.chosen(prompt.choices, logprobs)))

    def _generate(
        self,
        batch: Sequence[_Prompt],
        decoding: Decoding,
        draw: SeededDraw,
        told: Callable[..., None],
    ) -> None:
        """Write a batch, and tell of its rows behind their prompts after each token and at last."""
        padded = self._tokenizer.pad(
            {"input_ids": [prompt.token_ids for prompt in batch]}, return_tensors="pt"
        ).to(self._device)
        width = padded["input_ids"].shape[1]

        def watch(input_ids: Any, *_: object, **__: object) -> Any:
            told(input_ids[:, width:], is_over=False)
            return input_ids.new_zeros(len(input_ids)).bool()  # it stops nothing

        stopping = {"stop_strings": list(decoding.stop), "tokenizer": self._tokenizer}
        output = self._model.generate(
            input_ids=padded["input_ids"],
            attention_mask=padded["attention_mask"],
            max_new_tokens=max(prompt.most for prompt in batch),
            logits_processor=[draw],
            stopping_criteria=[watch],
            **(stopping if decoding.stop else {}),
        )
        told(output[:, width:], is_over=True)

    def _own(self, row: list[int]) -> list[int]:
        """Cut a row behind its end: what follows fills the rectangle."""
        end = next(
            (place for place, token in enumerate(row) if token in self._ends), None
        )
        if end is not None:
            return row[: end + 1]
        while row and row[-1] == self._pad:  # it ended by a text
            row.pop()
        return row

    def _reply(self, row: list[int], decoding: Decoding, *, opened: bool) -> Reply:
        # Looked for before blanks go: a stop may be nothing else, such as an empty line.
        text = self._decode(row, skip_special=True)
        is_stopped = any(stop in text for stop in decoding.stop)
        has_ended = is_stopped or (bool(row) and row[-1] in self._ends)
        answer = answer_of_tokens(row, self._decode, self._thoughts, opened=opened)
        places = [
            place for stop in decoding.stop if (place := answer.text.find(stop)) >= 0
        ]
        return Reply.of_completion(
            answer._replace(text=answer.text[: min(places, default=None)]),
            finish=Finish.COMPLETE if has_ended else Finish.TRUNCATED,
            tokens=len(row),
        )

    def _decode(self, token_ids: Sequence[int], /, *, skip_special: bool) -> str:
        return cast(
            "str", self._tokenizer.decode(token_ids, skip_special_tokens=skip_special)
        )


def _has_tokenizer(folder: Path) -> bool:
    return (folder / "tokenizer_config.json").exists()


def _tokenizer_folder(folder: Path) -> Path:
    """An adapter's own where it has one, or its base model's."""
    return folder if _has_tokenizer(folder) else adapter_base(folder) or folder
