"""Modules of other stacks, imported when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rubric_core import MissingExtraError

__all__ = ["stack_module"]


def stack_module(name: str, *, install: str) -> Any:  # no stack is typed here
    """Import a module of a stack.

    Args:
        name: the module.
        install: what to give to `pip install` for it.

    Raises:
        MissingExtraError: the stack, or something that it needs, is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{name!r} cannot be imported ({error}): pip install {install}"
        ) from error
