"""The part of a trace that a criterion judges: its last reply, a turn, its tool use, or all."""

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from rubric_core.configuration import shown_name

LAST_REPLY = "last_reply"
"""The last reply of the policy, which is judged where a criterion says nothing."""
EVERY_TURN = "every_turn"
"""Each turn of the policy by itself, but those that only call tools; the lowest score counts."""
TOOL_USE = "tool_use"
"""The calls of tools, beside what they returned."""
FULL_TRACE = "full_trace"
"""All turns of the policy, beside what users and tools said."""
_TURN = re.compile(r"turn_([1-9][0-9]{0,3})")


def turn_of(judges: str | None) -> int | None:
    """Return the number of the turn that a criterion names, from 1; None if it names none."""
    match = _TURN.fullmatch(judges or "")
    return None if match is None else int(match[1])


def _known(judges: str) -> str | None:
    if judges == LAST_REPLY:
        return None  # so that a rubric that says the default is the same rubric
    if judges not in (EVERY_TURN, TOOL_USE, FULL_TRACE) and turn_of(judges) is None:
        raise ValueError(
            f"must be {LAST_REPLY!r}, {EVERY_TURN!r}, 'turn_1' or another turn of the policy, "
            f"{TOOL_USE!r} or {FULL_TRACE!r}, not {shown_name(judges)!r}"
        )
    return judges


Judged = Annotated[str, StringConstraints(strict=True), AfterValidator(_known)] | None
"""Type of a field that names a part of a trace; `last_reply` becomes None."""
