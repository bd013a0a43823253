"""A judge over HTTP: one batch of responses in, one judgement for each out.

Passages and rubrics stay with the server, and no answer and no log line holds one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rubric_core.errors import needing_extra
from rubric_judge.serve.config import ServeConfig

if TYPE_CHECKING:
    from rubric_judge.serve.app import build_app
    from rubric_judge.serve.server import serve
    from rubric_judge.serve.service import JudgeService

__all__ = ["JudgeService", "ServeConfig", "build_app", "serve"]

_MODULES = {"JudgeService": "service", "build_app": "app", "serve": "server"}


def __getattr__(name: str) -> object:
    # What needs the extra is loaded when it is asked for; the command line reads the configuration.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needing_extra("rubric-judge", "serve", by="serving a judge"):
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
