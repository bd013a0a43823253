"""Who answered a call, and whether it is the same model as before."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from rubric_core import Answerer, Reason, Usage
from rubric_judge.errors import JudgeTransportError

_LONGEST_NAME = 200


def answerer(model: object, *, deployment: str = "", fallback: str = "") -> Answerer:
    """Return who answered.

    Args:
        model: what the server says of it, which may be anything; kept where it is a name.
        deployment: where it answered.
        fallback: the group that answered in place of another.
    """
    is_name = isinstance(model, str) and len(model) <= _LONGEST_NAME and model.isprintable()
    return _answerer(str(model) if is_name else "", deployment, fallback)


@lru_cache(maxsize=256)
def _answerer(model: str, deployment: str, fallback: str) -> Answerer:
    # A few answer all calls of a run, and to validate one takes a twentieth of a call.
    return Answerer(model=model, deployment=deployment, fallback=fallback)


def server_of(address: object) -> str:
    """Return host and port of an address, or "" for none: nothing that may hold a key."""
    if not isinstance(address, str):
        return ""
    try:
        return urlsplit(address).netloc.rpartition("@")[2]
    except ValueError:
        return ""


class OneModel:
    """Refuses an answer of another model than the first of the same deployment.

    A name is compared only where the server says one: hosted providers name a new version of a
    model where they serve it under the old name.
    """

    def __init__(self) -> None:
        """Begin without a model."""
        self._first: dict[tuple[str, str], str] = {}

    def check(self, by: Answerer, *, usage: Usage | None, attempts: int) -> None:
        """Compare who answered with who answered first.

        Raises:
            JudgeTransportError: it is another model; with what its answer consumed.
        """
        if not by.model:
            return
        first = self._first.setdefault((by.deployment, by.fallback), by.model)
        if first == by.model:
            return
        where = f" at {by.deployment}" if by.deployment else ""
        detail = (
            f"{by.model!r} answered{where} where {first!r} did before: start again with one model, "
            "or set allow_fallback_models: true"
        )
        raise JudgeTransportError(Reason.OTHER_MODEL, detail, usage=usage, attempts=attempts)
