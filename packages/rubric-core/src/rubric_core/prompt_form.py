"""Whether a model's folder says how a chat is written.

`model_files` has the hash of each file that is looked at.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from rubric_core.files import read_file

if TYPE_CHECKING:
    from pathlib import Path

PromptForm: TypeAlias = Literal["chat", "plain"]

_FILES: Final = ("chat_template.jinja", "additional_chat_templates/default.jinja")


def prompt_form(folder: Path) -> PromptForm:
    """Return how questions are put to the model of a tokenizer's folder.

    Args:
        folder: that the tokenizer is read from; `model_files` has the hash of each of its files.
    """
    if any((folder / name).is_file() for name in _FILES):
        return "chat"
    try:
        content = json.loads(read_file(folder / "tokenizer_config.json"))
    except (OSError, ValueError):  # what is wrong is said when the tokenizer loads
        return "plain"
    settings = cast("dict[str, object]", content) if isinstance(content, dict) else {}
    return "chat" if settings.get("chat_template") else "plain"
