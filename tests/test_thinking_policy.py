"""A policy that thinks before it answers is trained and evaluated by its answers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import Ask, Decoding, PolicyView
from rubric_train_openrlhf.responder import policy_responder

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

GREEDY = Decoding(max_tokens=64)
