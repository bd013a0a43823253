"""A model's reply, read by the contract: nothing is repaired, and what departs from it is counted.

A reply is one JSON object with nothing around it, as a judge's reply is: no fence, no thoughts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError

from rubric_core.errors import RepeatedKeyError
from rubric_core.strict_json import decode
from rubric_synth.rejection import RejectionReason
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from rubric_judge import ChatReply

LONGEST_REPLY_CHARS: Final = 1_000_000
"""No model writes as much in its tokens."""

_LONGEST_PATH: Final = 4
_Model = TypeVar("_Model", bound=BaseModel)


def decoded(answer: ChatReply) -> object:
    """Return what a reply's JSON holds.

    Raises:
        StageRefusal: it was refused, cut off, or is not one JSON document without repeated keys.
    """
    text = answer.text
    match answer.finish:
        case "refused":
            raise StageRefusal(RejectionReason.MODEL_REFUSED)
        case "truncated":
            raise _cut_off(f"cut off at {len(text)} characters; raise max_tokens")
        case "oversized":
            raise _not_json("larger than what is read of an answer")
        case "complete":
            return _json(text)


def _json(text: str) -> object:
    if len(text) > LONGEST_REPLY_CHARS:
        raise _not_json(f"{len(text)} characters, more than {LONGEST_REPLY_CHARS}")
    if not text.strip():
        raise _not_json("empty")
    try:
        return decode(text)
    except RepeatedKeyError:
        refusal = _not_json("an object holds a key twice")
    except json.JSONDecodeError as error:
        if _ends_early(text, error):
            refusal = _cut_off(f"breaks off at {len(text)} characters")
        else:
            refusal = _not_json(f"{error.msg.removesuffix(' at')} at character {error.pos}")
    except RecursionError:
        refusal = _not_json("nested too deeply")
    # Out here: the error that `from None` would hide holds the whole reply.
    raise refusal


def checked(model: type[_Model], value: object) -> _Model:
    """Return a decoded value as the model it should be.

    Raises:
        StageRefusal: it is not; names the first field that is wrong.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    first = problems[0]
    # The name of an unknown field is text of the reply.
    known = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
    path = ".".join(str(part) for part in known[:_LONGEST_PATH]) or "the reply"
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    raise StageRefusal(RejectionReason.REPLY_OFF_SCHEMA, f"{path}: {first['type']}{more}")


def items_of(value: object, *, name: str) -> list[object]:
    """Return the list that a reply holds under its only key.

    Raises:
        StageRefusal: it is not such an object.
    """
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    found = fields.get(name)
    if not isinstance(found, list) or len(fields) != 1:
        raise StageRefusal(RejectionReason.REPLY_OFF_SCHEMA, f"no object with only a list {name!r}")
    return cast("list[object]", found)


def _ends_early(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the reply begins as an object and is well formed as far as it goes."""
    at_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    return at_end and text.lstrip().startswith("{")


def _cut_off(detail: str) -> StageRefusal:
    return StageRefusal(RejectionReason.REPLY_TRUNCATED, detail)


def _not_json(detail: str) -> StageRefusal:
    return StageRefusal(RejectionReason.REPLY_NOT_JSON, detail)
