"""What the model is told about each kind of question: one prompt file for each."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_synth.config import TaskType


_VERSION = "v1"
_SEVERAL = "several"


def instructions(task_types: Sequence[TaskType]) -> str:
    """Return the part of the prompt of stage 2 on the kinds of questions.

    Args:
        task_types: kinds to ask for, in the order of the configuration.

    Returns:
        The text of their files, in order.
    """
    return "\n\n".join(_read(name).strip() for name in _names(task_types))


def type_prompt_hashes(task_types: Sequence[TaskType]) -> dict[str, str]:
    """Return the files behind `instructions` with their SHA-256.

    Args:
        task_types: kinds to ask for.

    Returns:
        Hash by file name, such as `types/quantitative_v1.txt`.
    """
    return {
        f"types/{name}_{_VERSION}.txt": hashlib.sha256(_read(name).encode()).hexdigest()
        for name in _names(task_types)
    }


def _names(task_types: Sequence[TaskType]) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(task_types))
    return kinds if len(kinds) == 1 else (_SEVERAL, *kinds)


@lru_cache
def _read(name: str) -> str:
    file = resources.files("rubric_synth") / "prompts" / "types" / f"{name}_{_VERSION}.txt"
    return file.read_text("utf-8")
