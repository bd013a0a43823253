"""A judge over HTTP: one batch of responses in, one judgement for each out.

Passages and rubrics stay with the server, and no answer and no log line holds one.
"""

from rubric_core.errors import needing_extra
from rubric_core.lazy import attach

_load, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> object:
    with needing_extra("rubric-judge", "serve", by="serving a judge"):
        return _load(name)
