"""The part of a Hugging Face tokenizer that codecs use, with types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


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
