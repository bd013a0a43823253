"""Faults between a judge and its endpoint, by name, and the calls that they happen to.

Some are texts that break the readers of replies: a set of our own, and any folder of JSON test
files. None of them is a valid reply, so none ever awards anything.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple, cast

from rubric_core.files import read_file, toml_beside

Latency = Callable[[random.Random], float]
"""Draws the seconds before an answer."""


class Fault(StrEnum):
    """A fault of one call."""

    RATE_LIMIT = "rate_limit"
    """429, without Retry-After."""
    RATE_LIMIT_RETRY_AFTER = "rate_limit_retry_after"
    """429, with Retry-After (`FakeEndpoint(retry_after_s=…)`)."""
    SERVER_ERROR = "server_error"
    """500."""
    OVERLOADED = "overloaded"
    """503."""
    UNAUTHORIZED = "unauthorized"
    """401."""
    NOT_FOUND = "not_found"
    """404, as for an unknown model."""
    BAD_REQUEST = "bad_request"
    """400."""
    CONTENT_POLICY = "content_policy"
    """400, because the provider will not have the prompt answered."""
    HANG = "hang"
    """The request is read and never answered."""
    RESET = "reset"
    """The connection is reset before a byte of the answer."""
    HALF_RESPONSE = "half_response"
    """The connection breaks in the middle of the body."""
    SLOW_DRIP = "slow_drip"
    """The body arrives one byte at a time, so that no read ever times out."""
    WRONG_CONTENT_TYPE = "wrong_content_type"
    """200 with an HTML page, as from a proxy."""
    FENCED = "fenced"
    """The JSON stands in a Markdown fence."""
    PROSE = "prose"
    """A sentence instead of JSON."""
    EMPTY = "empty"
    """No text at all."""
    TRUNCATED = "truncated"
    """The text stops in the middle, with finish_reason "length"."""
    REFUSAL = "refusal"
    """The message's `refusal` is set and there is no content."""
    CONTENT_FILTER = "content_filter"
    """finish_reason "content_filter"."""
    MISSING_ID = "missing_id"
    """One criterion has no score."""
    EXTRA_ID = "extra_id"
    """One criterion too many."""
    RENAMED_ID = "renamed_id"
    """One criterion under another name."""
    DUPLICATE_ID = "duplicate_id"
    """One criterion scored twice, first with 0."""
    NAN = "nan"
    """A score is NaN."""
    INFINITE = "infinite"
    """A score is 1e999, which parsers read as infinity."""
    STRING_SCORE = "string_score"
    """A score is a string of digits."""
    NEGATIVE_SCORE = "negative_score"
    """A score is −0.01."""
    EXCESSIVE_SCORE = "excessive_score"
    """A score is its weight + 0.01."""
    HUGE_SCORE = "huge_score"
    """A score is 1e308."""
    WRONG_TOTAL = "wrong_total"
    """The total is 0.1 more than the sum."""
    WRONG_MAX_TOTAL = "wrong_max_total"
    """The maximum is 1 more than the weight."""
    GIANT = "giant"
    """The reasoning is two million characters long."""
    HOSTILE_REPLY = "hostile_reply"
    """The message, or one number in it, is a text that breaks parsers (`HostileText`)."""
    HOSTILE_BODY = "hostile_body"
    """Such a text stands where the whole completion should."""


def log_normal(*, median_s: float, p99_s: float) -> Latency:
    """Draw latencies with a heavy tail.

        t = median · exp(σ z),  σ = ln(p99 / median) / 2.326

    Args:
        median_s: half of the answers are faster, > 0.
        p99_s: one in a hundred is slower, ≥ median.

    Returns:
        The latency of one call.
    """
    z_99 = 2.3263478740408408
    sigma = math.log(p99_s / median_s) / z_99
    return lambda generator: generator.lognormvariate(math.log(median_s), sigma)


Place = Literal["reply", "score", "total", "body"]
"""Where a text stands: as the whole message, as the first score, as the total, or as the body."""


@dataclass(frozen=True)
class HostileText:
    """A text and the place in an answer where it stands.

    A message may hold `@reply@`, where a valid reply goes; `@fields@`, the same without its opening
    brace; or `@quoted@`, the same as a JSON string. A score may hold `@id@`: the criterion's id
    with every character escaped.
    """

    name: str
    """For records and tables."""
    text: str
    """Bytes that are no UTF-8 are held as `surrogateescape` holds them, and sent as they were."""
    place: Place = "reply"

    @property
    def fault(self) -> Fault:
        """The fault that sends it."""
        return Fault.HOSTILE_BODY if self.place == "body" else Fault.HOSTILE_REPLY


def read_json_test_suite(folder: Path) -> tuple[HostileText, ...]:
    """Read the files that a JSON parser must refuse (`n_*`) or may refuse (`i_*`).

    Args:
        folder: `test_parsing` of JSONTestSuite, or a folder with files named like its own.

    Returns:
        Every file three times: as the message, as a score and as the body.

    Raises:
        FileNotFoundError: the folder holds no such file.
        OSError: a file cannot be read.
    """
    files = sorted(
        path for path in folder.iterdir() if path.name.startswith(("n_", "i_"))
    )
    if not files:
        raise FileNotFoundError(
            f"{folder}: no file named n_*.json or i_*.json; give the folder `test_parsing`"
        )
    texts = {
        path.stem: read_file(path).decode(errors="surrogateescape") for path in files
    }
    places: tuple[Place, ...] = ("reply", "score", "body")
    return tuple(text for place in places for text in _at(place, texts))


def _at(place: Place, texts: Mapping[str, str]) -> tuple[HostileText, ...]:
    return tuple(
        HostileText(f"{name} as {place}", text, place) for name, text in texts.items()
    )


_TABLE = toml_beside(__file__, "hostile.toml")
_NO_UTF8 = "bytes that are no UTF-8"
_REPLIES: dict[str, str] = _TABLE["reply"] | {
    _NO_UTF8: "\udcff\udcfe@reply@",
    "overlong slash": "\udcc0\udcaf",
    "many lists": "[" * 100_000,
    "many objects": '{"scores":' * 50_000,
    "many balanced lists": "[" * 20_000 + "]" * 20_000,
}
_NUMBERS: dict[str, str] = _TABLE["number"] | {"five thousand digits": "9" * 5000}
_BODIES: dict[str, str] = _TABLE["body"] | {
    _NO_UTF8: "\udcff\udcfe{}",
    "many lists": "[" * 100_000,
}
HOSTILE_TEXTS: tuple[HostileText, ...] = (
    *_at("reply", _REPLIES),
    *_at("score", _NUMBERS | _TABLE["score"]),
    *_at("total", _NUMBERS),
    *_at("body", _BODIES),
)
"""Our own set, in every place."""


@dataclass(frozen=True)
class FaultMix:
    """Faults drawn at random."""

    probabilities: Mapping[Fault, float]
    """Share of the calls that each fault gets."""
    texts: tuple[HostileText, ...] = HOSTILE_TEXTS
    """Texts of the hostile faults, sent in turn."""


Faults = Iterable[Fault | HostileText | None] | Mapping[Fault, float] | FaultMix
"""The fault of each call in turn, none after the last; or the probability of each."""


class Drawn(NamedTuple):
    """The fault of one call."""

    fault: Fault | None
    text: HostileText | None
    """The text that is sent for a hostile fault."""


def drawn_faults(faults: Faults, generator: random.Random) -> Iterator[Drawn]:
    """Yield the fault of each call of a run, without an end."""
    script: Iterator[Fault | HostileText | None] = iter(())
    mix = FaultMix({})
    if isinstance(faults, FaultMix):
        mix = faults
    elif isinstance(faults, Mapping):
        mix = FaultMix(dict(cast("Mapping[Fault, float]", faults)))
    else:
        script = iter(faults)
    texts: dict[Fault | None, Iterator[HostileText]] = {
        fault: itertools.cycle([text for text in mix.texts if text.fault is fault])
        for fault in (Fault.HOSTILE_REPLY, Fault.HOSTILE_BODY)
    }
    ends = itertools.accumulate(mix.probabilities.values())
    shares = list(zip(mix.probabilities, ends, strict=True))
    while True:
        draw = generator.random()
        fault = next((fault for fault, end in shares if draw < end), None) or next(
            script, None
        )
        if isinstance(fault, HostileText):
            yield Drawn(fault.fault, fault)
        else:
            yield Drawn(fault, next(texts[fault]) if fault in texts else None)
