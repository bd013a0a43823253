"""The tokens that end an answer, of which a model's parts may each name others.

A GGUF file's tokenizer, say, names `<|im_start|>` where the chat template writes `<|im_end|>`; a
model that learned the template then never ends by the tokenizer's.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from rubric_core.data.model_files import read_settings

_ANSWER: Final = "An answer."
_TURNS: Final = (
    {"role": "user", "content": "A question."},
    {"role": "assistant", "content": _ANSWER},
)


class EndTokens(NamedTuple):
    """What each part of a model names."""

    tokenizer: int | None
    """Its end-of-sequence token."""
    template: int | None
    """What the chat template writes behind an answer; None without one, or for no special token."""
    settings: tuple[int, ...]
    """Of generation_config.json, or else of config.json."""

    @property
    def ids(self) -> tuple[int, ...]:
        """All of them, each of which ends an answer; the first is the one to train on."""
        named = (self.template, self.tokenizer, *self.settings)
        return tuple(dict.fromkeys(one for one in named if one is not None))

    @property
    def differ(self) -> bool:
        """Whether the tokenizer, or the settings, lack the one to train on."""
        trained = next(iter(self.ids), None)
        return self.tokenizer != trained or trained not in (self.settings or (trained,))

    def named(self, tokenizer: Any) -> dict[str, str]:
        """Each part's tokens, as text and number, for a log."""
        parts = {
            "tokenizer": (self.tokenizer,),
            "chat_template": (self.template,),
            "settings": self.settings,
        }
        return {
            part: ", ".join(
                f"{tokenizer.convert_ids_to_tokens(one)} ({one})"
                for one in ids
                if one is not None
            )
            for part, ids in parts.items()
        }


def end_tokens(tokenizer: Any, settings: Sequence[int] = ()) -> EndTokens:
    """Find out what each part of a model names.

    Args:
        tokenizer: of transformers.
        settings: as `settings_end` reads them.
    """
    return EndTokens(tokenizer.eos_token_id, _of_template(tokenizer), tuple(settings))


def settings_end(folder: Path) -> tuple[int, ...]:
    """Read the end tokens of a model folder's generation settings, as transformers would.

    Raises:
        OSError: a file cannot be read.
    """
    for name in ("generation_config.json", "config.json"):
        if (path := folder / name).is_file():
            ids = read_settings(path).get("eos_token_id")
            listed = cast("list[object]", ids) if isinstance(ids, list) else [ids]
            return tuple(one for one in listed if isinstance(one, int))
    return ()


def _of_template(tokenizer: Any) -> int | None:
    if not tokenizer.chat_template:
        return None
    try:
        text: str = tokenizer.apply_chat_template(list(_TURNS), tokenize=False)
    # The named boundary of a template, which is a program that came with the model: who asks it a
    # question says what is wrong with it.
    except Exception:  # noqa: BLE001
        return None
    _, answer, behind = text.rpartition(_ANSWER)
    ids: list[int] = (
        tokenizer.encode(behind, add_special_tokens=False) if answer else []
    )
    known = tokenizer.added_tokens_decoder
    return ids[0] if ids and ids[0] in known and known[ids[0]].special else None
