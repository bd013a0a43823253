"""The tokens that end an answer, which the parts of a model may name differently.

For example, a GGUF file's tokenizer names `<|im_start|>` where the chat template writes
`<|im_end|>`; a model that learned the template then never ends with the tokenizer's token.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from rubric_core.data.model_files import read_settings

_ANSWER = "An answer."
_TURNS = (
    {"role": "user", "content": "A question."},
    {"role": "assistant", "content": _ANSWER},
)


class EndTokens(NamedTuple):
    """The end tokens that each part of a model names."""

    tokenizer: int | None
    """The end-of-sequence token of the tokenizer."""
    template: int | None
    """The special token that the chat template writes after an answer; None without one."""
    settings: tuple[int, ...]
    """The end tokens in generation_config.json, or else in config.json."""

    @property
    def ids(self) -> tuple[int, ...]:
        """All tokens that end an answer; the first is the one to train on."""
        tokens = (self.template, self.tokenizer, *self.settings)
        known = [token for token in tokens if token is not None]
        return tuple(dict.fromkeys(known))

    @property
    def disagree(self) -> bool:
        """Whether the tokenizer or the settings lack the token to train on."""
        ids = self.ids
        trained = ids[0] if ids else None
        if self.tokenizer != trained:
            return True
        return bool(self.settings) and trained not in self.settings

    def described(self, tokenizer: Any) -> dict[str, str]:
        """Return each part's tokens, as text and number, for a log."""
        parts = {
            "tokenizer": (self.tokenizer,),
            "chat_template": (self.template,),
            "settings": self.settings,
        }
        names: dict[str, str] = {}
        for part, ids in parts.items():
            tokens = [
                f"{tokenizer.convert_ids_to_tokens(token)} ({token})"
                for token in ids
                if token is not None
            ]
            names[part] = ", ".join(tokens)
        return names


def end_tokens(tokenizer: Any, settings: Sequence[int] = ()) -> EndTokens:
    """Return the end tokens that each part of a model names.

    Args:
        tokenizer: a tokenizer of transformers.
        settings: as `settings_end` reads them.
    """
    return EndTokens(tokenizer.eos_token_id, _template_end(tokenizer), tuple(settings))


def settings_end(folder: Path) -> tuple[int, ...]:
    """Read the end tokens of a model folder's generation settings, as transformers would.

    Raises:
        OSError: a file cannot be read.
    """
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.is_file():
            value = read_settings(path).get("eos_token_id")
            ids = cast("list[object]", value) if isinstance(value, list) else [value]
            return tuple(token for token in ids if isinstance(token, int))
    return ()


def _template_end(tokenizer: Any) -> int | None:
    if not tokenizer.chat_template:
        return None
    try:
        text: str = tokenizer.apply_chat_template(list(_TURNS), tokenize=False)
    # A template is third-party code; any error it raises is handled here. The first real question
    # raises it again.
    except Exception:  # noqa: BLE001
        return None
    _, answer, after = text.rpartition(_ANSWER)
    if not answer:
        return None
    ids: list[int] = tokenizer.encode(after, add_special_tokens=False)
    added = tokenizer.added_tokens_decoder
    if ids and ids[0] in added and added[ids[0]].special:
        return ids[0]
    return None
