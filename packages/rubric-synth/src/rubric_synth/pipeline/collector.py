"""How often Python looks for cycles of garbage while documents are in work."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

_SELDOM: Final = (20_000, 20, 50)


@contextmanager
def seldom_collected() -> Generator[None]:
    """Look for cycles seldom, and not among what is there already: modules, schemas, prompts.

    Looking through these time and again was a tenth of a run. Few cycles are made by a document,
    and they are small. What the caller has frozen stays so: Python can only unfreeze everything.
    """
    before = gc.get_threshold()
    is_frozen = gc.get_freeze_count() > 0
    if not is_frozen:
        gc.collect()
        gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not is_frozen:
            gc.unfreeze()
