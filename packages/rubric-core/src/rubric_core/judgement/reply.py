"""Reading of a judge's reply by the contract: every departure from it has a named reason.

Nothing is repaired or clipped: a reply is either wholly valid or it earns nothing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from rubric_core.errors import NotJsonError, RepeatedKeyError, ReplyError, SchemaError
from rubric_core.outcome import Reason
from rubric_core.schema.rubric import Rubric
from rubric_core.strict_json import breaks_off, decode

TOTAL_TOLERANCE = 1e-6
"""Slack of `total` and `max_total`, relative to max(1, W): judges print few digits."""

_REQUIRED = frozenset({"scores", "total", "max_total"})
_KEYS = _REQUIRED | {"reasoning", "evidence"}


class ValidReply(NamedTuple):
    """A valid reply; its totals agree with the scores and the rubric."""

    scores: dict[str, float]
    reasoning: str
    quotes: dict[str, str]
    """The reply's quote for each criterion, unverified; empty unless asked for."""


def read_reply(rubric: Rubric, text: str, *, with_evidence: bool = False) -> ValidReply:
    """Read `{"scores": {id: s_j}, "total": Σ s_j, "max_total": W, "reasoning": …}`.

    Valid means: every criterion id exactly once and no other; 0 ≤ s_j ≤ w_j, finite numbers;
    |total − Σ s_j| and |max_total − W| ≤ 1e-6·max(1, W); `reasoning` text, or left out; no other
    key; one JSON object and nothing around it. `with_evidence`, there is also `evidence`, an object
    of one quote per criterion, text and possibly empty; without it, that is a key too many.

    Raises:
        ReplyError: the first departure found, with its reason. The detail holds no reply text.
        SchemaError: the reply is not a text at all, which is no fault of the judge's.

    Source: paper, §3.1, Eq. judge_scores.
    """
    required = _REQUIRED
    if with_evidence:
        required |= {"evidence"}
    reply = _object(rubric, text, required=required)
    scores = _scores(rubric, reply["scores"])
    total = _number(reply["total"], "total")
    max_total = _number(reply["max_total"], "max_total")
    reasoning = _string(reply.get("reasoning", ""), "reasoning")
    slack = TOTAL_TOLERANCE * max(1.0, rubric.total_weight)
    awarded = math.fsum(scores.values())
    if abs(total - awarded) > slack:
        raise ReplyError(
            f"total {total!r}, scores add up to {awarded!r}",
            reason=Reason.TOTAL_MISMATCH,
        )
    if abs(max_total - rubric.total_weight) > slack:
        raise ReplyError(
            f"max_total {max_total!r}, the rubric's weight is {rubric.total_weight!r}",
            reason=Reason.MAX_TOTAL_MISMATCH,
        )
    quotes = _quotes(rubric, reply["evidence"]) if with_evidence else {}
    return ValidReply(scores, _writable(reasoning), quotes)


class ValidGroupReply(NamedTuple):
    """A valid reply on several responses."""

    scores: dict[str, dict[str, float]]
    """Scores by response and criterion."""
    reasoning: str


def read_group_reply(
    rubric: Rubric, responses: Sequence[str], text: str
) -> ValidGroupReply:
    """Read `{"scores": {response: {id: s_j}}, "reasoning": …}`.

    Valid means: every response exactly once and no other; for each, every criterion id exactly once
    and no other; 0 ≤ s_j ≤ w_j, finite numbers; `reasoning` text, or left out; no other key; one
    JSON object and nothing around it. No part of a reply that departs from it is kept.

    Args:
        rubric: the criteria that each response was scored on.
        responses: names of the responses in the reply.
        text: the reply.

    Raises:
        ReplyError: the first departure found, with its reason; an unknown or missing response has
            the reason of an unknown or missing criterion. The detail holds no reply text.
        SchemaError: the reply is not a text at all, which is no fault of the judge's.
    """
    reply = _object(rubric, text, required=frozenset({"scores"}))
    by_response = _mapping(reply["scores"], "scores")
    unknown = by_response.keys() - set(responses)
    if unknown:
        raise ReplyError(
            f"scores of {len(unknown)} responses that there are not",
            reason=Reason.UNKNOWN_CRITERION,
        )
    scores: dict[str, dict[str, float]] = {}
    for name in responses:
        if name not in by_response:
            raise ReplyError(
                f"response {name}: no scores", reason=Reason.MISSING_CRITERION
            )
        try:
            scores[name] = _scores(rubric, by_response[name])
        except ReplyError as error:
            raise ReplyError(f"response {name}: {error}", reason=error.reason) from None
    reasoning = _string(reply.get("reasoning", ""), "reasoning")
    return ValidGroupReply(scores, _writable(reasoning))


def _writable(text: str) -> str:
    # A lone surrogate, which JSON escapes can spell, would make every later UTF-8 write fail.
    return text.encode("utf-8", "replace").decode()


def _object(
    rubric: Rubric, text: str, *, required: frozenset[str]
) -> Mapping[str, object]:
    fields = _mapping(_decoded(rubric, text), "the reply")
    missing = required - fields.keys()
    if missing:
        raise ReplyError(f"the reply has no {min(missing)!r}", reason=Reason.WRONG_TYPE)
    extra = fields.keys() - required - {"reasoning"}
    if extra:
        raise ReplyError(
            f"the reply has {len(extra)} keys beyond the contract",
            reason=Reason.WRONG_TYPE,
        )
    return fields


def _decoded(rubric: Rubric, text: str) -> object:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a boundary
        raise SchemaError(
            f"a reply is a str, not {type(text).__name__}: a fault of the caller"
        )
    if not text.strip():
        raise ReplyError("the reply is empty", reason=Reason.EMPTY)
    try:
        return decode(text)
    except RepeatedKeyError as error:
        among_scores = error.key in rubric.ids or error.key not in _KEYS
        reason = Reason.DUPLICATE_CRITERION if among_scores else Reason.NOT_JSON
        raise ReplyError(f"the reply is {error}", reason=reason) from None
    except NotJsonError as error:
        reason = Reason.TRUNCATED if breaks_off(text) else Reason.NOT_JSON
        raise ReplyError(f"the reply is {error}", reason=reason) from None


def _by_criterion(
    rubric: Rubric, value: object, *, key: str, each: str
) -> Mapping[str, object]:
    values = _mapping(value, key)
    unknown = values.keys() - set(rubric.ids)
    if unknown:
        raise ReplyError(
            f"{len(unknown)} ids are not in the rubric", reason=Reason.UNKNOWN_CRITERION
        )
    for name in rubric.ids:
        if name not in values:
            raise ReplyError(f"no {each} for {name!r}", reason=Reason.MISSING_CRITERION)
    return values


def _quotes(rubric: Rubric, value: object) -> dict[str, str]:
    values = _by_criterion(rubric, value, key="evidence", each="quote")
    quotes: dict[str, str] = {}
    for name in rubric.ids:
        quote = _string(values[name], f"the quote of {name!r}")
        quotes[name] = _writable(quote)
    return quotes


def _scores(rubric: Rubric, value: object) -> dict[str, float]:
    values = _by_criterion(rubric, value, key="scores", each="score")
    scores: dict[str, float] = {}
    for criterion in rubric:
        score = _number(values[criterion.id], f"the score of {criterion.id!r}")
        if not 0 <= score <= criterion.weight:
            raise ReplyError(
                f"the score of {criterion.id!r} is {score!r}, not in [0, {criterion.weight!r}]",
                reason=Reason.SCORE_OUT_OF_RANGE,
            )
        scores[criterion.id] = score
    return scores


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _wrong_type(value, what, "an object")
    return cast("dict[str, object]", value)


def _string(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise _wrong_type(value, what, "a string")
    return value


def _number(value: object, what: str) -> float:
    if not isinstance(value, float):
        raise _wrong_type(value, what, "a number")
    if not math.isfinite(value):
        raise ReplyError(f"{what} is {value!r}", reason=Reason.NOT_FINITE)
    return value + 0.0  # −0.0 becomes 0.0


def _wrong_type(value: object, what: str, wanted: str) -> ReplyError:
    return ReplyError(
        f"{what} is {_kind(value)}, not {wanted}", reason=Reason.WRONG_TYPE
    )


def _kind(value: object) -> str:
    names = {
        "dict": "an object",
        "list": "a list",
        "str": "a string",
        "float": "a number",
    }
    return names.get(type(value).__name__, "a boolean or null")
