"""How likely a server's model finds a fixed text: whether it is still the model that it was.

A server names its model, and what it was started from; weights that were replaced under both names
are found by nothing else. Servers that no one restarts under one's hands are not asked.
"""

from __future__ import annotations

import hashlib
import json
import math
from statistics import fmean
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, model_validator

from rubric_eval.records.run import FROZEN

if TYPE_CHECKING:
    from typing import Self

    from rubric_judge import ModelServer

_OWNER: Final = "vllm"
"""The server that is known to answer."""
TEXT: Final = """\
Question: Why does a compiler move a loop-invariant expression out of a loop?
Answer: The value is the same in every pass, so that it has to be computed only once. First, the \
compiler finds expressions whose operands do not change in the loop; then it checks that nothing \
between them has a side effect. For example, `n * n` below is computed 100 times, or once:
for i in range(100): total += i + n * n
Eine Funktion, die 0.25 zurückgibt, ist kein Fehler. In short: \\(x^2 - 1 = (x - 1)(x + 1)\\).
"""
"""Prose, steps, code, another language and a formula: training that changes a model changes what
it expects of some of them."""
_DIGITS: Final = 5

SAME: Final = 0.005
"""Greatest mean difference, in nats a token, of which nothing is said."""
OTHER: Final = 0.05
"""From this difference on it is another model; one model on other hardware, or in another batch,
differs by less in 16-bit numbers."""


class Weights(BaseModel):
    """What a server's model makes of the text."""

    model_config = FROZEN

    text_sha256: str
    """Of the text, which another version may change."""

    tokens_sha256: str
    """Of the text's tokens: another tokenizer is another model."""

    logprobs_T: tuple[float, ...]
    """Of each token after those before it."""

    @model_validator(mode="after")
    def _has_tokens(self) -> Self:
        if not self.logprobs_T:
            raise ValueError("no token")
        return self

    def difference(self, other: Weights) -> float | None:
        """Return the mean difference of the tokens' log-probabilities, in nats.

        Returns:
            Infinity for other tokens; None where the two are of different texts.
        """
        if self.text_sha256 != other.text_sha256:
            return None
        if self.tokens_sha256 != other.tokens_sha256:
            return math.inf
        pairs = zip(self.logprobs_T, other.logprobs_T, strict=True)
        return fmean(abs(one - another) for one, another in pairs)


async def weights_of(server: ModelServer, owner: str | None) -> Weights | None:
    """Ask a server; None where it is not vLLM, or does not say.

    Args:
        server: the model's.
        owner: who serves, as it says itself.
    """
    if owner != _OWNER or (scored := await server.score(TEXT)) is None:
        return None
    return Weights(
        text_sha256=_sha256(TEXT),
        tokens_sha256=_sha256(json.dumps(scored.token_ids)),
        logprobs_T=tuple(round(one, _DIGITS) for one in scored.logprobs),
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
