"""A judge's reply, read by the contract: everything that departs from it has a named reason.

Nothing is repaired or clipped: a reply is either wholly valid or it earns nothing.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from rubric_core.outcome import Reason
from rubric_core.strict_json import RepeatedKeyError, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_core.rubric import Rubric

TOTAL_TOLERANCE: Final = 1e-6
"""Slack of `total` and `max_total`, relative to max(1, W): judges print few digits."""

_REQUIRED: Final = frozenset({"scores", "total", "max_total"})
_KEYS: Final = _REQUIRED | {"reasoning"}


class ReplyError(ValueError):
    """A reply outside the contract.

    Attributes:
        reason: the machine-readable reason.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Reply(NamedTuple):
    """The content of a valid reply."""

    scores: dict[str, float]
    total: float
    max_total: float
    reasoning: str


def read_reply(rubric: Rubric, text: str) -> Reply:
    """Read `{"scores": {id: s_j}, "total": Σ s_j, "max_total": W, "reasoning": …}`.

    Valid means: every criterion id exactly once and no other; 0 ≤ s_j ≤ w_j, finite numbers;
    |total − Σ s_j| and |max_total − W| ≤ 1e-6·max(1, W); `reasoning` text, or left out; no other
    key; one JSON object and nothing around it.

    Raises:
        ReplyError: the first departure found, with its reason. The detail holds no reply text.

    Source: paper, §3.1, Eq. judge_scores.
    """
    reply = _object(rubric, text)
    scores = _scores(rubric, reply["scores"])
    total = _number(reply["total"], "total")
    max_total = _number(reply["max_total"], "max_total")
    reasoning = reply.get("reasoning", "")
    if not isinstance(reasoning, str):
        raise ReplyError(Reason.WRONG_TYPE, f"reasoning is {_kind(reasoning)}, not a string")
    slack = TOTAL_TOLERANCE * max(1.0, rubric.total_weight)
    awarded = math.fsum(scores.values())
    if abs(total - awarded) > slack:
        raise ReplyError(Reason.TOTAL_MISMATCH, f"total {total!r}, scores add up to {awarded!r}")
    if abs(max_total - rubric.total_weight) > slack:
        detail = f"max_total {max_total!r}, the rubric's weight is {rubric.total_weight!r}"
        raise ReplyError(Reason.MAX_TOTAL_MISMATCH, detail)
    # A lone surrogate, which JSON escapes can spell, would make every later UTF-8 write fail.
    return Reply(scores, total, max_total, reasoning.encode("utf-8", "replace").decode())


def _object(rubric: Rubric, text: str) -> Mapping[str, object]:
    if not text.strip():
        raise ReplyError(Reason.EMPTY, "the reply is empty")
    try:
        reply = decode(text)
    except RepeatedKeyError as error:
        among_scores = error.key in rubric.ids or error.key not in _KEYS
        reason = Reason.DUPLICATE_CRITERION if among_scores else Reason.NOT_JSON
        raise ReplyError(reason, str(error)) from None
    except json.JSONDecodeError as error:
        cut_off = text.lstrip().startswith("{") and (
            error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        )
        reason = Reason.TRUNCATED if cut_off else Reason.NOT_JSON
        raise ReplyError(reason, f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ReplyError(Reason.NOT_JSON, "the reply is nested too deeply") from None
    if not isinstance(reply, dict):
        raise ReplyError(Reason.WRONG_TYPE, f"the reply is {_kind(reply)}, not an object")
    fields = cast("dict[str, object]", reply)
    if missing := _REQUIRED - fields.keys():
        raise ReplyError(Reason.WRONG_TYPE, f"the reply has no {min(missing)!r}")
    if extra := fields.keys() - _KEYS:
        raise ReplyError(Reason.WRONG_TYPE, f"the reply has {len(extra)} keys beyond the contract")
    return fields


def _scores(rubric: Rubric, value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ReplyError(Reason.WRONG_TYPE, f"scores is {_kind(value)}, not an object")
    given = cast("dict[str, object]", value)
    if unknown := given.keys() - set(rubric.ids):
        raise ReplyError(Reason.UNKNOWN_CRITERION, f"{len(unknown)} ids are not in the rubric")
    scores: dict[str, float] = {}
    for criterion in rubric:
        if criterion.id not in given:
            raise ReplyError(Reason.MISSING_CRITERION, f"no score for {criterion.id!r}")
        score = _number(given[criterion.id], f"the score of {criterion.id!r}")
        if not 0 <= score <= criterion.weight:
            detail = f"the score of {criterion.id!r} is {score!r}, not in [0, {criterion.weight!r}]"
            raise ReplyError(Reason.SCORE_OUT_OF_RANGE, detail)
        scores[criterion.id] = score
    return scores


def _number(value: object, what: str) -> float:
    if not isinstance(value, float):
        raise ReplyError(Reason.WRONG_TYPE, f"{what} is {_kind(value)}, not a number")
    if not math.isfinite(value):
        raise ReplyError(Reason.NOT_FINITE, f"{what} is {value!r}")
    return value + 0.0  # −0.0 becomes 0.0


def _kind(value: object) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a string", "float": "a number"}
    return names.get(type(value).__name__, "a boolean or null")
