"""What can go wrong between a judge and its endpoint, by name, and how long an answer takes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from enum import StrEnum

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
