"""Between text and tokens: what a policy is asked, and what its tokens say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rubric_train_openrlhf.errors import PolicyLoadError
from rubric_train_openrlhf.policy.rollouts import EncodedPrompt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rubric_core import PolicyView


class Tokenizer(Protocol):
    """What `transformers.PreTrainedTokenizerBase` does, as far as it is used here."""

    name_or_path: str
    chat_template: str | None
    bos_token: str | None
    eos_token: str | None
    pad_token: str | None

    def __len__(self) -> int:
        """Count the tokens of the vocabulary, added ones included."""
        ...

    def get_vocab(self) -> Mapping[str, int]:
        """Map every token to its id."""
        ...

    def encode(
        self, text: str, *, add_special_tokens: bool = ..., split_special_tokens: bool = ...
    ) -> list[int]:
        """Turn text into token ids."""
        ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = ...) -> str:
        """Turn token ids into text."""
        ...

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, str]],
        *,
        add_generation_prompt: bool = ...,
        tokenize: bool = ...,
    ) -> str:
        """Render a conversation as the text the model was trained on."""
        ...

    def save_pretrained(self, save_directory: Path) -> object:
        """Write the tokenizer's files."""
        ...


class TextCodec(Protocol):
    """A policy's way of reading questions and writing answers."""

    @property
    def eos_token_id(self) -> int:
        """Token that ends an answer."""
        ...

    @property
    def pad_token_id(self) -> int:
        """Token that fills rectangles; never read."""
        ...

    def encode_prompt(self, view: PolicyView) -> EncodedPrompt:
        """Turn what the policy may see into the prompt its answer follows."""
        ...

    def encode_answer(self, view: PolicyView, answer: str) -> tuple[int, ...]:
        """Turn an answer into the tokens that should follow the prompt, the end token last."""
        ...

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Turn running text into tokens for language-model training, without an end token."""
        ...

    def decode(self, view: PolicyView, token_ids: Sequence[int]) -> str:
        """Turn response tokens into the answer they stand for."""
        ...

    def save(self, path: Path) -> None:
        """Write everything that `load_policy` needs to a checkpoint folder."""
        ...


class ChatCodec:
    """Questions and answers through a Hugging Face tokenizer.

    The question is one user message of the tokenizer's chat template; a tokenizer without a
    template gets "Question: …" and "Answer:" on two lines.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Take a tokenizer as it is.

        Args:
            tokenizer: with an end token.

        Raises:
            PolicyLoadError: the tokenizer has no end token.
        """
        if tokenizer.eos_token is None:
            message = (
                f"the tokenizer at {tokenizer.name_or_path!r} has no end-of-sequence token; set "
                "eos_token in its tokenizer_config.json"
            )
            raise PolicyLoadError(message, path=tokenizer.name_or_path)
        self._tokenizer = tokenizer
        vocabulary = tokenizer.get_vocab()
        self._eos_token_id = vocabulary[tokenizer.eos_token]
        self._pad_token_id = vocabulary[tokenizer.pad_token or tokenizer.eos_token]
        # "A" is one token in every vocabulary: what stands before it was added.
        added = self.encode_text("A")[: -len(self._ids("A"))]
        self._lead = tokenizer.decode(list(added), skip_special_tokens=False)

    @property
    def eos_token_id(self) -> int:
        """Token that ends an answer."""
        return self._eos_token_id

    @property
    def pad_token_id(self) -> int:
        """The tokenizer's padding token, or its end token where it has none."""
        return self._pad_token_id

    def encode_prompt(self, view: PolicyView) -> EncodedPrompt:
        """Turn the question into the prompt its answer follows."""
        if self._tokenizer.chat_template:
            return EncodedPrompt(self._ids(self.prompt_text(view)))
        return EncodedPrompt(self.encode_text(self._plain(view)))

    def prompt_text(self, view: PolicyView) -> str:
        """Write the prompt as text, for programs that tokenize it themselves.

        Returns:
            What tokenizes to the prompt where no special token is added: those that the tokenizer
            would put first are in it already.

        Raises:
            PolicyLoadError: the chat template is none, or refuses a user's question.
        """
        if self._tokenizer.chat_template:
            return self._rendered(view)
        return f"{self._lead}{self._plain(view)}"

    def encode_answer(self, view: PolicyView, answer: str) -> tuple[int, ...]:
        """Turn an answer into the tokens that should follow the prompt, the end token last."""
        del view
        return (*self._ids(self.answer_text(answer)), self._eos_token_id)

    def answer_text(self, answer: str) -> str:
        """Write an answer as it follows the prompt's text, without the end token."""
        lead = "" if self._tokenizer.chat_template else " "
        return f"{lead}{answer.strip()}"

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Turn running text into tokens, with the tokenizer's start token and no end token."""
        token_ids = tuple(self._tokenizer.encode(text, add_special_tokens=True))
        return token_ids[:-1] if token_ids[-1:] == (self._eos_token_id,) else token_ids

    def decode(self, view: PolicyView, token_ids: Sequence[int]) -> str:
        """Turn response tokens into the answer they stand for, special tokens left out."""
        del view
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=True).strip()

    def save(self, path: Path) -> None:
        """Write the tokenizer's files."""
        self._tokenizer.save_pretrained(path)

    def _rendered(self, view: PolicyView) -> str:
        try:
            return self._tokenizer.apply_chat_template(
                [{"role": "user", "content": view.question}],
                add_generation_prompt=True,
                tokenize=False,
            )
        # The named boundary of a template, which is a program that came with the model.
        except Exception as error:
            path = self._tokenizer.name_or_path
            message = (
                f"the chat template of {path!r} cannot render a question ({type(error).__name__}); "
                "repair chat_template in the tokenizer's files"
            )
            raise PolicyLoadError(message, path=path) from error

    def _plain(self, view: PolicyView) -> str:
        return f"Question: {view.question}\nAnswer:"

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))
