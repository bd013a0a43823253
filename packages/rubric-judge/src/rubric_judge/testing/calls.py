"""The calls that a fake endpoint gets: the whole request, or a few words on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast

from rubric_judge.testing.faults import Fault

Keep = Literal["calls", "records", "counts"]
"""How much an endpoint stores: whole requests, a record of each, or only their number."""
_MARK = re.compile(r"\[view (\d+) earns ([0-9.e-]+)\]")


class Mark(NamedTuple):
    """The mark that `marked` wrote into a response."""

    view: int
    share: float


@dataclass(frozen=True, slots=True)
class FakeCall:
    """One request that arrived."""

    number: int
    """0 for the first."""
    at_s: float
    """`time.monotonic()` at its arrival."""
    body: Mapping[str, object]
    headers: Mapping[str, str]
    weights: Mapping[str, float]
    """Weights by criterion id, read from the request's JSON schema."""
    fault: Fault | None
    responses: tuple[str, ...] = ()
    """Names of the responses in a listwise judge's request, read from the schema."""

    def of(self, response: str) -> FakeCall:
        """Return the call as if this one of its `responses` were judged alone.

        Raises:
            ValueError: the prompt does not hold it between its lines.
        """
        pattern = (
            rf"----- BEGIN RESPONSE {response} (\w+) -----\n(.*)\n----- END RESPONSE "
            rf"{response} \1"
        )
        match = re.search(pattern, self.messages[-1]["content"], re.DOTALL)
        if match is None:
            raise ValueError(
                f"call {self.number} does not show the response {response}"
            )
        message = {"role": "user", "content": match[2]}
        return replace(
            self,
            body={**self.body, "messages": [message]},
            responses=(),
        )

    @property
    def messages(self) -> list[dict[str, str]]:
        """The chat messages."""
        return cast("list[dict[str, str]]", self.body["messages"])

    @property
    def mark(self) -> Mark | None:
        """The mark of the response that is judged, None if it has none."""
        text = self.messages[-1]["content"]
        match = _MARK.match(text, text.rfind("[view ")) if "[view " in text else None
        return Mark(int(match[1]), float(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """The record of a call: a few hundred bytes, however long the request."""

    number: int
    at_s: float
    view: int | None
    """Number in the response's mark, which joins the call with what was asked."""
    fault: Fault | None
    hostile: str | None
    """Name of the hostile text that was sent."""
    awarded: Mapping[str, float] | None
    """Scores that the answer awards by the contract: none, unless it is valid. None if the test
    gave the reply's text, of which the endpoint knows nothing."""


Award = Callable[[FakeCall], Mapping[str, float] | float | str]
"""Scores by criterion id, one share z of every weight, or the reply's text itself. In a
listwise judge's call it is of one response (`FakeCall.of`), and a text is the whole reply."""


def marked(response: str, *, view: int, share: float) -> str:
    """Write into a response which one it is and what it earns, for `marked_share`.

    Args:
        response: any text.
        view: its number.
        share: z of every criterion, in [0, 1].

    Returns:
        The response with a mark at its end.
    """
    return f"{response} [view {view} earns {share!r}]"


def marked_share(call: FakeCall) -> float:
    """Award what the response's mark says: an `Award` for whole runs, and across processes.

    Raises:
        ValueError: a response is judged that has no mark.
    """
    mark = call.mark
    if not call.weights and mark is None:
        return 0.0  # no judgement is asked for: a command sees whether anybody answers
    if mark is None:
        raise ValueError(
            f"call {call.number} judges a response without a mark: use `marked`"
        )
    return mark.share


def numbered_share(call: FakeCall) -> float:
    """Award what nearly every other call is not awarded: 101 shares, in turn."""
    return call.number * 37 % 101 / 101
