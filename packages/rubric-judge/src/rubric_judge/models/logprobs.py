"""The alternatives of a reply's first token, with their log-probabilities, as servers list them.

OpenAI's form: `choices[0].logprobs.content[0].top_logprobs`, a list of `token`, `logprob` and
`bytes`. What is outside of that form is refused with a reason, and is never read as a number.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, cast

from rubric_judge.errors import LogprobsError
from rubric_judge.models.chat import listing, mapping

_ROUNDING = 1e-3
"""Log-probabilities above 0, and sums of probabilities above 1, by no more than this are rounding:
servers compute them in 16 or 32 bits."""
_LEAST_TOTAL = 1e-6
"""Least probability of a list: the most probable token of a vocabulary of a million has more."""
_NO_LIST = (
    "the reply has no log-probabilities of its first token (`top_logprobs`): serve the model with "
    "vLLM, SGLang or llama-server, which list them (llama-cpp-python: --logits_all true)"
)
_NO_NUMBERS = (
    "the log-probabilities of the first token are malformed ({why}); see what stands before the "
    "server"
)
_NO_TEXTS = (
    "the server lists tokens by their numbers and not by their texts; start it without "
    "--return-tokens-as-token-ids"
)
_NUMBERED = "token_id:"
_NO_LOGPROBS = (
    "what the server gives are no log-probabilities ({why}); start it so that they are "
    "(vLLM: --logprobs-mode raw_logprobs)"
)


class Alternative(NamedTuple):
    """A token that could have been the first of the reply."""

    text: str
    """The token's text; its bytes where the server gives them and they are UTF-8."""
    logprob: float
    """Natural logarithm of its probability, at most 0."""

    @property
    def probability(self) -> float:
        """Its probability; 0 for a server's floor, such as −9999."""
        return math.exp(self.logprob)


def first_alternatives(logprobs: object) -> tuple[Alternative, ...]:
    """Read the alternatives of the first token, the most probable first.

    Different tokens may have the same text, as spellings that a server does not tell apart; the
    same token that is listed twice, with the same text and figure, counts once.

    Args:
        logprobs: the `logprobs` of a chat completion's choice, as it was decoded.

    Raises:
        LogprobsError: there is no list, an entry is malformed, or the figures are no
            log-probabilities.
    """
    content = listing(mapping(logprobs).get("content"))
    listed = listing(mapping(content[0]).get("top_logprobs")) if content else []
    if not listed:
        raise LogprobsError(_NO_LIST)
    alternatives = {_alternative(entry) for entry in listed}
    if all(alternative.text.startswith(_NUMBERED) for alternative in alternatives):
        raise LogprobsError(_NO_TEXTS)
    total = math.fsum(alternative.probability for alternative in alternatives)
    if not _LEAST_TOTAL <= total <= 1 + _ROUNDING:
        raise LogprobsError(_NO_LOGPROBS.format(why=f"they add up to {total:.4g}"))
    return tuple(sorted(alternatives, key=lambda token: (-token.logprob, token.text)))


def _alternative(entry: object) -> Alternative:
    fields = mapping(entry)
    logprob = fields.get("logprob")
    if isinstance(logprob, bool) or not isinstance(logprob, int | float):
        why = "an entry without a `logprob` that is a number"
        raise LogprobsError(_NO_NUMBERS.format(why=why))
    if math.isnan(logprob) or logprob == math.inf:
        raise LogprobsError(_NO_NUMBERS.format(why=f"a `logprob` of {logprob}"))
    if logprob > _ROUNDING:
        raise LogprobsError(_NO_LOGPROBS.format(why=f"one is {logprob:.4g}, above 0"))
    text = _text(fields)
    if text is None:
        why = "an entry with neither `token` nor `bytes`"
        raise LogprobsError(_NO_NUMBERS.format(why=why))
    return Alternative(text, min(float(logprob), 0.0))


def _text(fields: Mapping[str, object]) -> str | None:
    """Return a token's text by its bytes, which are right where the text is a number of a token."""
    token = fields.get("token")
    numbers = listing(fields.get("bytes"))
    try:
        # A strictly read answer holds only floats; what is no byte raises.
        spelled = bytes(int(cast("float", number)) for number in numbers).decode()
    except (OverflowError, TypeError, ValueError):
        spelled = ""
    if spelled:
        return spelled
    return token if isinstance(token, str) else None
