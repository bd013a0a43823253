"""The call of a judgement: who answered, its tokens, cost, time and attempts."""

from __future__ import annotations

from typing import TypedDict, TypeVar

from rubric_core.schema.sealed import Amount, Count, Sealed, Text


class Usage(Sealed):
    """Tokens and cost of one judge call."""

    prompt_tokens: Count = 0
    """Tokens read, cached ones included."""

    completion_tokens: Count = 0
    """Tokens written."""

    cached_tokens: Count | None = None
    """Prompt tokens that the server had in its prefix cache; None where it does not say."""

    cost_usd: Amount | None = None
    """Price of the call, or None when it is not known."""

    def plus(self, other: Usage | None) -> Usage:
        """Add the usage of another attempt of the same call; an unknown figure adds nothing."""
        if other is None:
            return self
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=_sum_known(self.cached_tokens, other.cached_tokens),
            cost_usd=_sum_known(self.cost_usd, other.cost_usd),
        )


_Figure = TypeVar("_Figure", int, float)


def _sum_known(first: _Figure | None, second: _Figure | None) -> _Figure | None:
    if first is None:
        return second
    if second is None:
        return first
    return first + second


class Answerer(Sealed):
    """The model and server that answered a judge call; other models' scores are other rewards."""

    model: Text
    """Name of the model by the server; by the configuration where the server gives none."""

    deployment: Text = ""
    """Host and port of the server, or the `id` of its deployment in a `litellm_config`; empty for
    the provider's own address. Never a key."""

    fallback: Text = ""
    """The group of a `litellm_config` that answered in place of the one that was asked."""


class Call(TypedDict, total=False):
    """Facts about the call that a result came from; the fields of `JudgeResult`."""

    judge: str | None
    answered_by: Answerer | None
    usage: Usage | None
    latency_s: float | None
    attempts: int | None
    passage_truncated: bool | None


def call_shares(call: Call, count: int) -> list[Call]:
    """Divide the costs of one call among the judgements that it brought, so that the parts add up.

    Args:
        call: the facts about the call.
        count: number of judgements, at least 1.

    Returns:
        For each, its share of tokens, cost and attempts; everything else is that of the call.
    """
    usage = call.get("usage")
    attempts = call.get("attempts")
    shares: list[Call] = []
    for place in range(count):
        share = call.copy()
        if attempts is not None:
            share["attempts"] = _part(attempts, place, count)
        if usage is not None:
            share["usage"] = _usage_part(usage, place, count)
        shares.append(share)
    return shares


def _part(amount: int, place: int, count: int) -> int:
    """Return one of `count` parts of an amount; the first parts take the remainder."""
    return amount // count + (place < amount % count)


def _usage_part(usage: Usage, place: int, count: int) -> Usage:
    cached_tokens = None
    if usage.cached_tokens is not None:
        cached_tokens = _part(usage.cached_tokens, place, count)
    cost_usd = None
    if usage.cost_usd is not None:
        cost_usd = usage.cost_usd / count
    return Usage(
        prompt_tokens=_part(usage.prompt_tokens, place, count),
        completion_tokens=_part(usage.completion_tokens, place, count),
        cached_tokens=cached_tokens,
        cost_usd=cost_usd,
    )
