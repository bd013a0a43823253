"""A model of a Hugging Face folder, loaded by lm-eval: prompts, and answers to them."""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal, cast

import structlog
from pydantic import Field, JsonValue

from rubric_core import (
    Ask,
    Decoding,
    Finish,
    Reason,
    Reply,
    Thoughts,
    answer_of_tokens,
    opens_thought,
)
from rubric_core.data.chat_prompt import PROMPT_DATE, ChatPrompt
from rubric_core.data.end_tokens import end_tokens, settings_end
from rubric_core.data.model_files import PromptForm, adapter_base
from rubric_eval.records.run import Record
from rubric_eval.responders.drawing import (
    NonFiniteScoresError,
    SeededDraw,
    hold_positions,
)
from rubric_judge.ui.reporting import Report

_log: Any = structlog.get_logger("rubric_eval")


class HarnessOptions(Record):
    """Options of a model of kind `hf`."""

    path: Path
    """Folder of a model, or of an adapter whose base model is a folder."""

    device: str | None = None
    """Device such as `cuda:1` or `cpu`; by default the first GPU if there is one."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format of the weights; `auto` is that of the folder."""

    batch_size: int = Field(default=16, ge=1)
    """Answers written at once; does not change them."""

    trust_remote_code: bool = False
    """Whether to run Python files of the folder."""

    prompt_date: dt.date = PROMPT_DATE
    """Today's date for a chat template that writes it."""

    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the chat template, such as `enable_thinking: false`."""

    thoughts: Thoughts = "cut"
    """How thoughts are separated from answers; see `rubric_core.answer_of`."""

    @property
    def chat_prompt(self) -> ChatPrompt:
        """Settings that the chat template gets besides the question."""
        return ChatPrompt(date=self.prompt_date, arguments=self.chat_template_kwargs)


@dataclass(frozen=True, slots=True)
class _Prompt:
    index: int
    """Position in the asks."""
    seed: int
    token_ids: list[int]
    most: int
    """Tokens of an answer at most; below 1 if the prompt alone does not fit."""
    text: str
    """Text with the chat template."""
    opens_thought: bool
    """Whether the prompt ends within a thought."""
    choices: tuple[str, ...]
    """Texts, the likeliest of which is the answer; empty if the answer is to be generated."""


class FolderModel:
    """Weights and tokenizer of a folder."""

    def __init__(self, options: HarnessOptions, form: PromptForm) -> None:
        """Load the weights; a broken folder may make the library raise anything."""
        from lm_eval.models import huggingface  # seconds, and an extra

        library = cast("Any", huggingface)  # it is hardly typed
        device = options.device
        if device is None:
            device = "cuda" if library.torch.cuda.is_available() else "cpu"
        base = adapter_base(options.path)
        folder = str(options.path)
        tokenizer = folder if _has_tokenizer(options.path) else None
        harness = library.HFLM(
            pretrained=str(base or folder),
            peft=folder if base else None,
            tokenizer=tokenizer,
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
            # For `loglikelihood`: the template writes its own.
            harness.add_bos_token = False
        self._model = harness.model
        self._tokenizer = harness.tokenizer
        self._tokenizer.padding_side = "left"
        has_template = bool(self._tokenizer.chat_template)
        if has_template != self._is_chat:
            raise ValueError(
                f"its files say that prompts are {form}, and the tokenizer that was read from them "
                "does not: put the chat template into chat_template.jinja"
            )
        self._device = harness.device
        self.positions = _positions(self._model.config)
        self._is_held = True
        if self.positions is not None:
            self._is_held = hold_positions(self._model, self.positions)
        ends = end_tokens(self._tokenizer, settings_end(base or options.path))
        if ends.disagree:
            names = ends.described(self._tokenizer)
            _log.warning("model.end_tokens.differ", **names, why="each ends an answer")
        self._ends = list(ends.ids)
        self._batch_size = options.batch_size
        self._pad: int = self._tokenizer.pad_token_id
        # The folder's own defaults, such as a penalty for repetition, would make its decoding
        # differ from that of the other models.
        self._model.generation_config = type(self._model.generation_config)(
            do_sample=False,
            eos_token_id=self._ends,
            pad_token_id=self._pad,
        )

    def write(
        self,
        asks: Sequence[Ask],
        decoding: Decoding,
        report: Report[tuple[int, Reply]],
    ) -> None:
        """Answer all questions, and report each reply with the index of its ask when it is done."""
        prompts = self._prompts(asks, decoding)
        for prompt in prompts:
            if prompt.most < 1:
                tokens = len(prompt.token_ids)
                report((prompt.index, Reply.too_long(tokens, self.positions)))
        for batch in self._batches(prompts):
            self._write(batch, decoding, report)

    def _prompts(self, asks: Sequence[Ask], decoding: Decoding) -> list[_Prompt]:
        """Render and encode the prompts, shortest first."""
        has_template = bool(self._tokenizer.chat_template)
        prompts: list[_Prompt] = []
        for index, ask in enumerate(asks):
            text = ask.view.plain_text
            if has_template:
                text = self._prompt.render(self._tokenizer, ask.view.messages)
            ids: list[int] = self._tokenizer.encode(
                text, add_special_tokens=not has_template
            )
            most = decoding.max_tokens
            if self.positions is not None:
                most = min(most, self.positions - len(ids))
            prompt = _Prompt(
                index=index,
                seed=ask.seed,
                token_ids=ids,
                most=most,
                text=text,
                opens_thought=opens_thought(text, self._thoughts),
                choices=tuple(ask.choices),
            )
            prompts.append(prompt)
        prompts.sort(key=lambda prompt: (bool(prompt.choices), len(prompt.token_ids)))
        return prompts

    def _batches(self, prompts: Sequence[_Prompt]) -> Iterator[list[_Prompt]]:
        """Batch neighbours; if rows cannot wait for others, only those of the same length limit."""

        def group(prompt: _Prompt) -> tuple[bool, int | None]:
            limit = None if self._is_held else prompt.most
            return bool(prompt.choices), limit

        fitting = (prompt for prompt in prompts if prompt.most >= 1)
        for _, rows in groupby(fitting, key=group):
            while batch := list(islice(rows, self._batch_size)):
                yield batch

    def _write(
        self,
        batch: Sequence[_Prompt],
        decoding: Decoding,
        report: Report[tuple[int, Reply]],
    ) -> None:
        """Answer a batch; if memory runs out, answer the rest of it in halves.

        A row without finite scores has no answer; the others are written anew without it.
        """
        waiting = dict(enumerate(batch))
        try:
            if batch[0].choices:
                self._compare(waiting, report)
            else:
                on_rows = partial(self._report_ended, waiting, decoding, report)
                seeds = [prompt.seed for prompt in batch]
                draw = SeededDraw(decoding, seeds, report.left)
                self._generate(batch, decoding, draw, on_rows)
        except NonFiniteScoresError as error:
            # The scores of a row that has ended do not matter: it waits no more.
            for row in error.rows:
                if row in waiting:
                    reply = Reply.unavailable(Reason.SERVER_ERROR, str(error))
                    report((waiting.pop(row).index, reply))
            if waiting:
                self._write(list(waiting.values()), decoding, report)
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            rest = list(waiting.values())
            if len(rest) == 1:
                reply = Reply.unavailable(Reason.SERVER_ERROR, "out of memory")
                report((rest[0].index, reply))
                return
            half = len(rest) // 2
            self._write(rest[:half], decoding, report)
            self._write(rest[half:], decoding, report)

    def _report_ended(
        self,
        waiting: dict[int, _Prompt],
        decoding: Decoding,
        report: Report[tuple[int, Reply]],
        rows_BT: Any,
        *,
        is_over: bool,
    ) -> None:
        """Report the rows that have ended, and remove them from the waiting ones."""
        length = rows_BT.shape[1]
        last_tokens: list[int] = rows_BT[:, -1].tolist()
        for number, prompt in tuple(waiting.items()):
            last = last_tokens[number]
            has_ended = is_over or last in self._ends or length >= prompt.most
            may_have_stopped = bool(decoding.stop) and last == self._pad
            if not has_ended and not may_have_stopped:
                continue
            row = self._own(rows_BT[number, : prompt.most].tolist())
            reply = self._reply(row, decoding, opened=prompt.opens_thought)
            if has_ended or reply.finish is Finish.COMPLETE:
                del waiting[number]
                report((prompt.index, reply))

    def _compare(
        self, waiting: dict[int, _Prompt], report: Report[tuple[int, Reply]]
    ) -> None:
        """Compute how likely each choice is after its prompt."""
        from lm_eval.api.instance import Instance

        lead = "" if self._is_chat else " "
        prompts = list(waiting.values())
        requests: list[Instance] = []
        for prompt in prompts:
            for choice in prompt.choices:
                pair = (prompt.text, f"{lead}{choice}")
                requests.append(Instance("loglikelihood", {}, pair, len(requests)))
        results = iter(self._harness.loglikelihood(requests, disable_tqdm=True))
        for prompt in prompts:
            logprobs = [next(results)[0] for _ in prompt.choices]
            reply = Reply.chosen(prompt.choices, logprobs)
            report((prompt.index, reply))

    def _generate(
        self,
        batch: Sequence[_Prompt],
        decoding: Decoding,
        draw: SeededDraw,
        on_rows: Callable[..., None],
    ) -> None:
        """Generate a batch; call `on_rows` with the new tokens after each step and at the end."""
        unpadded = {"input_ids": [prompt.token_ids for prompt in batch]}
        padded = self._tokenizer.pad(unpadded, return_tensors="pt").to(self._device)
        width = padded["input_ids"].shape[1]

        def watch(input_ids: Any, *_: object, **__: object) -> Any:
            on_rows(input_ids[:, width:], is_over=False)
            return input_ids.new_zeros(len(input_ids)).bool()  # no row is stopped

        stopping: dict[str, Any] = {}
        if decoding.stop:
            stopping["stop_strings"] = list(decoding.stop)
            stopping["tokenizer"] = self._tokenizer
        output = self._model.generate(
            input_ids=padded["input_ids"],
            attention_mask=padded["attention_mask"],
            max_new_tokens=max(prompt.most for prompt in batch),
            logits_processor=[draw],
            stopping_criteria=[watch],
            **stopping,
        )
        on_rows(output[:, width:], is_over=True)

    def _own(self, row: list[int]) -> list[int]:
        """Cut a row after its end token; padding follows it."""
        for place, token in enumerate(row):
            if token in self._ends:
                return row[: place + 1]
        while row and row[-1] == self._pad:  # a stop text ended the row
            row.pop()
        return row

    def _reply(
        self,
        row: list[int],
        decoding: Decoding,
        *,
        opened: bool,
    ) -> Reply:
        # Searched before blanks are stripped: a stop may be only blanks, such as an empty line.
        text = self._decode(row, skip_special=True)
        is_stopped = any(stop in text for stop in decoding.stop)
        is_ended = bool(row) and row[-1] in self._ends
        finish = Finish.TRUNCATED
        if is_stopped or is_ended:
            finish = Finish.COMPLETE
        answer = answer_of_tokens(row, self._decode, self._thoughts, opened=opened)
        places = [answer.text.find(stop) for stop in decoding.stop]
        first_stop = min((place for place in places if place >= 0), default=None)
        return Reply.of_completion(
            answer._replace(text=answer.text[:first_stop]),
            finish=finish,
            tokens=len(row),
        )

    def _decode(self, token_ids: Sequence[int], /, *, skip_special: bool) -> str:
        return cast(
            "str", self._tokenizer.decode(token_ids, skip_special_tokens=skip_special)
        )


def _positions(config: Any) -> int | None:
    """Return the number of positions of a model; None if its configuration has none."""
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        positions = getattr(config, name, None)
        if isinstance(positions, int):
            return positions
    return None


def _has_tokenizer(folder: Path) -> bool:
    return (folder / "tokenizer_config.json").exists()


def tokenizer_folder(folder: Path) -> Path:
    """Return the folder of the tokenizer: the model's own, or that of an adapter's base model."""
    if _has_tokenizer(folder):
        return folder
    return adapter_base(folder) or folder
