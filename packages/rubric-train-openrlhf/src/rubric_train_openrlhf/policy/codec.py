"""Codecs between text and tokens, for chat templates and for slot tokens."""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Protocol, cast

from pydantic import JsonValue
from transformers import PreTrainedTokenizerBase as Tokenizer

from rubric_core import PolicyView, Thought, Thoughts, answer_of, opens_thought
from rubric_core.data.chat_prompt import PLAIN, ChatPrompt
from rubric_core.data.end_tokens import EndTokens, end_tokens
from rubric_core.errors import shortened
from rubric_core.schema.answer import ThoughtTags, opened_tags, unopened
from rubric_train_openrlhf.errors import PolicyInputError, PolicyLoadError
from rubric_train_openrlhf.policy.completion import Completion, completion_of
from rubric_train_openrlhf.policy.rollouts import EncodedPrompt
from rubric_train_openrlhf.policy_config import SLOT_FILE

_SHOWN_CHARACTERS = 400


class Asked(Protocol):
    """A question as a prompt is made of it: a `PolicyView`, or what a teacher is shown."""

    @property
    def question(self) -> str:
        """The question, whose names fill slots."""
        ...

    @property
    def messages(self) -> list[dict[str, str]]:
        """All of the prompt, as a chat."""
        ...

    @property
    def plain_text(self) -> str:
        """All of the prompt, for a model without a chat template."""
        ...


class TextCodec(ABC):
    """A policy's way of reading questions and writing answers.

    What counts as the answer of what it writes: docs/answer.md.
    """

    eos_token_id: int
    """End token used in training."""
    end_token_ids: tuple[int, ...]
    """Tokens that end a sampled answer, `eos_token_id` first."""
    pad_token_id: int
    """Padding token; never read."""
    prompt: ChatPrompt = PLAIN
    """Arguments of the chat template, in addition to the question."""

    def __init__(self, tokenizer: Tokenizer, thoughts: Thoughts = "cut") -> None:
        self.thoughts: Thoughts = thoughts
        """How thoughts are separated from answers."""
        self._tokenizer = tokenizer
        self._path = cast("str", tokenizer.name_or_path)
        self._vocabulary = cast("dict[object, int]", tokenizer.get_vocab())

    @abstractmethod
    def encode_prompt(self, view: Asked) -> EncodedPrompt:
        """Turn what the policy may see, or its teacher, into the prompt its answer follows."""

    @abstractmethod
    def encode_answer(self, view: PolicyView, answer: str) -> tuple[int, ...]:
        """Turn an answer into the tokens that should follow the prompt, the end token last."""

    @abstractmethod
    def encode_text(self, text: str) -> tuple[int, ...]:
        """Turn running text into tokens for language-model training, without an end token."""

    def decode(self, view: PolicyView, token_ids: Sequence[int]) -> str:
        """Turn response tokens into the answer they hold: no thought, no special token."""
        return self.completion(view, token_ids).answer.text

    def completion(self, view: PolicyView, token_ids: Sequence[int]) -> Completion:
        """Turn response tokens into text, and separate the answer in it from the thought."""
        written = partial(self._written, view)
        opened = self.opens_thought(view)
        return completion_of(
            token_ids,
            written,
            ends=self.end_token_ids,
            thoughts=self.thoughts,
            opened=opened,
        )

    def opens_thought(self, view: PolicyView) -> bool:
        """Whether the prompt ends with the opening of a thought."""
        del view
        return False

    @abstractmethod
    def _written(
        self, view: PolicyView, token_ids: Sequence[int], /, *, skip_special: bool
    ) -> str:
        """Turn tokens into text."""

    @property
    def record(self) -> dict[str, JsonValue]:
        """Everything besides model and question that the tokens of a prompt depend on."""
        words = sorted((str(word), number) for word, number in self._vocabulary.items())
        template = cast("str | dict[str, str] | None", self._tokenizer.chat_template)
        written = (
            template
            if isinstance(template, str)
            else json.dumps(template, sort_keys=True)
        )
        return {
            "prompt_date": self.prompt.date.isoformat(),
            "chat_template_kwargs": dict(self.prompt.arguments),
            "chat_template_sha256": _sha256(written) if template else None,
            "tokenizer_sha256": _sha256(json.dumps(words)),
        }

    def save(self, path: Path) -> None:
        """Write everything that `load_policy` needs to a checkpoint folder."""
        self._tokenizer.save_pretrained(path)

    def _text(self, token_ids: Sequence[int], *, skip_special: bool = True) -> str:
        return cast(
            "str",
            self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special),
        )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_SWITCHES = ("enable_thinking", "thinking")
"""Arguments by which templates switch thinking off."""


class ChatCodec(TextCodec):
    """Questions and answers through a Hugging Face tokenizer.

    The question, after its context if it has one, is one user message of the tokenizer's chat
    template; a tokenizer without a template gets "Question: …" and "Answer:" on two lines.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        ends: EndTokens | None = None,
        *,
        prompt: ChatPrompt = PLAIN,
        thoughts: Thoughts = "cut",
    ) -> None:
        """Find the end, padding and start tokens that a tokenizer names.

        Args:
            tokenizer: of the model.
            ends: what ends an answer; left out, what the tokenizer and its template name.
            prompt: what its chat template is given in addition to the question.
            thoughts: how its thoughts are separated from its answers.

        Raises:
            PolicyLoadError: nothing names an end token.
        """
        super().__init__(tokenizer, thoughts)
        self.prompt = prompt
        self.end_token_ids = (ends or end_tokens(tokenizer)).ids
        if not self.end_token_ids:
            raise PolicyLoadError(
                f"the tokenizer at {self._path!r} has no end-of-sequence token; set eos_token "
                "in its tokenizer_config.json",
                path=self._path,
            )
        self.eos_token_id = self.end_token_ids[0]
        pad = tokenizer.pad_token or tokenizer.eos_token
        self.pad_token_id = self._vocabulary[pad] if pad else self.eos_token_id
        # "A" is one token in every vocabulary: the tokens before it were added.
        added = self.encode_text("A")[: -len(self._ids("A"))]
        self._lead = self._text(added, skip_special=False)
        self._opens: dict[str, bool] = {}
        """Whether the prompt opens a thought, by question, for those asked so far."""

    def encode_prompt(self, view: Asked) -> EncodedPrompt:
        """Turn the question into the prompt its answer follows."""
        if self._tokenizer.chat_template:
            return EncodedPrompt(self._ids(self.prompt_text(view)))
        return EncodedPrompt(self.encode_text(view.plain_text))

    def prompt_text(self, view: Asked) -> str:
        """Write the prompt as text, for programs that tokenize it themselves.

        Returns:
            Text to tokenize with add_special_tokens=False; it already contains the special tokens.

        Raises:
            PolicyLoadError: the chat template is invalid, or refuses a user's question.
        """
        if not self._tokenizer.chat_template:
            return f"{self._lead}{view.plain_text}"
        return self._rendered(view, self.prompt)

    def opens_thought(self, view: PolicyView) -> bool:
        """Whether the chat template opens a thought after the question."""
        if view.question not in self._opens:
            self._opens[view.question] = opens_thought(
                self.prompt_text(view), self.thoughts
            )
        return self._opens[view.question]

    def _rendered(self, view: Asked, prompt: ChatPrompt) -> str:
        try:
            return prompt.render(self._tokenizer, view.messages)
        # A template is third-party code: any error is reported as a fault of the model's files.
        except Exception as error:
            said = shortened(" ".join(str(error).split()), _SHOWN_CHARACTERS)
            raise PolicyLoadError(
                f"the chat template of {self._path!r} cannot render a question "
                f"({type(error).__name__}: {said}); repair chat_template in the tokenizer's "
                "files",
                path=self._path,
            ) from error

    def encode_answer(self, view: PolicyView, answer: str) -> tuple[int, ...]:
        """Turn an answer into the tokens that should follow the prompt, the end token last.

        Raises:
            PolicyInputError: as `answer_text`.
        """
        return (*self._ids(self.answer_text(view, answer)), self.eos_token_id)

    @property
    def eos_text(self) -> str:
        """The end token used in training, as text."""
        return self._text([self.eos_token_id], skip_special=False)

    def answer_text(self, view: PolicyView, answer: str) -> str:
        """Write an answer as it follows the prompt's text, without the end token.

        Where the prompt opens a thought, the answer follows its end; an answer with a thought of
        its own continues the opened one.

        Raises:
            PolicyInputError: the closing tag is unknown, or the answer is within a thought.
        """
        lead = "" if self._tokenizer.chat_template else " "
        text = f"{lead}{answer.strip()}"
        opened = self.opens_thought(view)
        if answer_of("…", self.thoughts, opened=opened).thought is Thought.UNCLOSED:
            tags = self._tags(view)
            if answer_of(text, unopened(self.thoughts)).thought is Thought.CLOSED:
                text = text.removeprefix(tags.open).lstrip("\n")
            else:
                text = f"{self._closing(view, tags)}{text}"
        if answer_of(text, self.thoughts, opened=opened).thought is Thought.UNCLOSED:
            raise PolicyInputError(
                f"the reference answer of task {view.task_id!r} opens a thought that does not "
                "end, so that nothing of it would be judged; end the thought, or leave the "
                "answer out"
            )
        return text

    def _tags(self, view: PolicyView) -> ThoughtTags:
        """The marks of the thought that the prompt opens."""
        tags = opened_tags(self.prompt_text(view), self.thoughts)
        if tags is None and isinstance(self.thoughts, ThoughtTags):
            return self.thoughts
        if tags is None:
            raise PolicyInputError(
                "model.thoughts is 'opened', and the prompt does not end with a known mark, "
                "so that no answer can be taught after the end of a thought; give the tags, "
                "as in thoughts: {open: <think>, close: </think>, opened: true}"
            )
        return tags

    def _closing(self, view: PolicyView, tags: ThoughtTags) -> str:
        """Return the end of the thought that the prompt opens, from the template if possible."""
        prompt = self.prompt_text(view)
        for name in _SWITCHES:
            switched = replace(
                self.prompt, arguments={**self.prompt.arguments, name: False}
            )
            without_thinking = self._rendered(view, switched)
            closing = without_thinking.removeprefix(prompt)
            if without_thinking.startswith(prompt) and tags.close in closing:
                return closing
        line_end = "" if prompt.endswith("\n") else "\n"
        return f"{line_end}\n{tags.close}\n\n"

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Turn running text into tokens, with the tokenizer's start token and no end token."""
        token_ids = tuple(self._tokenizer.encode(text, add_special_tokens=True))
        ends = bool(token_ids) and token_ids[-1] in self.end_token_ids
        return token_ids[:-1] if ends else token_ids

    def _written(
        self, view: PolicyView, token_ids: Sequence[int], /, *, skip_special: bool
    ) -> str:
        del view
        return self._text(token_ids, skip_special=skip_special)

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


SLOT_TOKENS = ("<F>", "<P1>", "<P2>", "<P3>", "<P4>", "<P5>", "<P6>")
_NAME = re.compile(r"`([A-Za-z_][\w.]*)`")


def slot_names(question: str) -> tuple[str, ...]:
    """List the names that fill a question's slots.

    Args:
        question: any text.

    Returns:
        Its distinct identifiers in backticks, in order of appearance, at most seven.
    """
    return tuple(dict.fromkeys(_NAME.findall(question)))[: len(SLOT_TOKENS)]


class SlotCodec(TextCodec):
    """Questions and answers through slot tokens.

    Slots that a question does not have are banned from its answers, as are the padding and start
    tokens: no token can be sampled that would be rendered as nothing.
    """

    def __init__(self, tokenizer: Tokenizer, thoughts: Thoughts = "cut") -> None:
        """Look up the slot tokens, and the start, end and padding tokens, in a tokenizer.

        Args:
            tokenizer: with the slot tokens of this module and start, end and padding tokens.
            thoughts: how thoughts are separated from answers.

        Raises:
            PolicyLoadError: one of these tokens is missing.
        """
        super().__init__(tokenizer, thoughts)
        control = (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token)
        wanted = [
            *SLOT_TOKENS,
            *(token or "a start, end or padding token" for token in control),
        ]
        missing = [token for token in wanted if token not in self._vocabulary]
        if missing:
            raise PolicyLoadError(
                f"the tokenizer at {self._path!r} lacks the tokens {missing!r} that a slot "
                "codec needs; build it with build_tokenizer",
                path=self._path,
            )
        ids = [self._vocabulary[token] for token in wanted]
        *self._slot_ids, self._bos_id, self.eos_token_id, self.pad_token_id = ids
        self.end_token_ids = (self.eos_token_id,)

    def encode_prompt(self, view: Asked) -> EncodedPrompt:
        """Turn the question into a prompt with slots, and ban the slots it does not have."""
        n_slots = len(slot_names(view.question))
        # Slots are of the question alone: names that only the context has are spelled out.
        text = self._encode(view.plain_text, self._slots(view.question), spelled=True)
        return EncodedPrompt(
            (self._bos_id, *text),
            banned_token_ids=(
                self.pad_token_id,
                self._bos_id,
                *self._slot_ids[n_slots:],
            ),
        )

    def encode_answer(self, view: PolicyView, answer: str) -> tuple[int, ...]:
        """Turn an answer into tokens, its backticked names of the question into slots."""
        slots = self._slots(view.question)
        return (
            *self._encode(f" {answer.strip()}", slots, spelled=False),
            self.eos_token_id,
        )

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Turn running text into tokens; its first backticked names become slots.

        Each slot is followed by the name, spelled out at its first use.
        """
        return (self._bos_id, *self._encode(text, self._slots(text), spelled=True))

    def _written(
        self, view: PolicyView, token_ids: Sequence[int], /, *, skip_special: bool
    ) -> str:
        """Turn tokens into text, with the question's names in backticks.

        A slot that the question does not have is shown as it is, `<P6>`, never as nothing.
        """
        names = {slot: f"`{name}`" for name, slot in self._slots(view.question).items()}
        rendered = dict(zip(self._slot_ids, SLOT_TOKENS, strict=True)) | names
        parts: list[str] = []
        for is_slot, tokens in groupby(token_ids, rendered.__contains__):
            run = list(tokens)
            parts += (
                [rendered[token] for token in run]
                if is_slot
                else [self._text(run, skip_special=skip_special)]
            )
        return "".join(parts)

    def save(self, path: Path) -> None:
        """Write the tokenizer's files and the mark that it is read through slots."""
        super().save(path)
        mark = json.dumps({"slot_tokens": SLOT_TOKENS})
        (path / SLOT_FILE).write_text(f"{mark}\n", encoding="utf-8")

    def _slots(self, question: str) -> dict[str, int]:
        return dict(zip(slot_names(question), self._slot_ids, strict=False))

    def _encode(self, text: str, slots: dict[str, int], *, spelled: bool) -> list[int]:
        token_ids: list[int] = []
        pending = ""
        end = 0
        unspelled = set(slots) if spelled else set[str]()
        for match in _NAME.finditer(text):
            name = match[1]
            if name not in slots:
                continue
            token_ids += [*self._ids(pending + text[end : match.start()]), slots[name]]
            pending = f" {name}" if name in unspelled else ""
            end = match.end()
            unspelled.discard(name)
        return token_ids + self._ids(pending + text[end:])

    def _ids(self, text: str) -> list[int]:
        # Slot tokens that stand in the text itself must stay ordinary characters.
        return self._tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
