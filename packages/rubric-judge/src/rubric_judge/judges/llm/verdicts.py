"""Verdicts by probability: one criterion, one word, read off the reply's first token.

    met = p(yes) / (p(yes) + p(no)),   s_j = w_j · met

Nothing is drawn, so that the same question has the same score. There are two verdicts and no
"partly" between them: no word for it is one token everywhere, and a probability is a scale already.

Servers list the alternatives of a reply's first token in OpenAI's form, with `token`, `logprob` and
`bytes` in `choices[0].logprobs.content[0].top_logprobs`. What is outside of that form is refused
with a reason, and is never read as a number.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, cast

from pydantic import JsonValue

from rubric_core import KNOWN_TAGS, JudgeResult, JudgeView, Reason, VerdictProbability
from rubric_judge.errors import LogprobsError
from rubric_judge.models.chat import listing, mapping

Word = Literal["yes", "no"]
WORDS: tuple[Word, ...] = ("yes", "no")

LEAST_VERDICT_MASS = 0.5
"""Least probability of the listed verdict tokens together. Below it the model would more likely
say something else, and the judgement is invalid, as a reply outside the contract is."""
READING = "probability_v1"
"""Name of this way to read a verdict, in the judge's fingerprint."""
_LISTED = 20
"""Tokens that a server is asked to list."""
_SPACES = " \t\r\n\u0120\u010a\u2581"
"""White space, and what tokenizers write for it where a server shows a token as it is stored."""
_OPENINGS = tuple(
    tags.open.casefold() for tags in KNOWN_TAGS if not tags.open[0].isalpha()
)
_TELLING_CHARS = 3
"""Fewest characters of a token that tell the opening of a thought from any other bracket."""
_THOUGHT = (
    "the reply begins with a thought: switch thinking off, where the template can (`parameters: "
    "{chat_template_kwargs: {enable_thinking: false}}`), or judge with `verdict: sampled`"
)

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


class Listed(NamedTuple):
    """The probabilities of a reply's first token, by what the tokens say."""

    words: Mapping[Word, float]
    """Probability of each verdict, in all its spellings."""
    beginnings: Mapping[Word, float]
    """Probability of the tokens that are only the beginning of one."""
    unlisted: float
    """1 − the probability of all tokens in the list."""
    is_thought: bool
    """Whether the most probable token opens a thought."""

    @property
    def mass(self) -> float:
        """Probability of both verdicts together."""
        return math.fsum(self.words.values())


def asked_fields(parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a judge's own `parameters` with the fields that ask for log-probabilities.

    Asked for are the 20 most probable tokens, the most that OpenAI and vLLM list, unless
    `parameters` has its own `top_logprobs`.

    Args:
        parameters: those of the configuration.
    """
    return {"logprobs": True, "top_logprobs": _LISTED, **parameters}


def most_listed(parameters: Mapping[str, JsonValue]) -> int:
    """Return the number of tokens that the server is asked to list."""
    most = asked_fields(parameters)["top_logprobs"]
    return most if isinstance(most, int) else _LISTED


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
    entries = listing(mapping(content[0]).get("top_logprobs")) if content else []
    if not entries:
        raise LogprobsError(_NO_LIST)
    alternatives = {_alternative(entry) for entry in entries}
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
        decoded = bytes(int(cast("float", number)) for number in numbers).decode()
    except (OverflowError, TypeError, ValueError):
        decoded = ""
    if decoded:
        return decoded
    return token if isinstance(token, str) else None


def spelled(text: str) -> str:
    """Return what a token says, whatever its case and the white space around it."""
    return text.strip(_SPACES).casefold()


def listed(alternatives: Sequence[Alternative], *, most: int) -> Listed:
    """Add up the probabilities of a reply's first token by what the tokens say.

    If the list is as long as was asked for, its last entry is left out: there vLLM puts the token
    that was drawn if it is none of the most probable, and a reading must not depend on a draw.

    Args:
        alternatives: the tokens, the most probable first.
        most: number of entries that were asked for.
    """
    kept = alternatives[: most - 1] if len(alternatives) >= most else alternatives
    words: dict[Word, float] = dict.fromkeys(WORDS, 0.0)
    beginnings: dict[Word, float] = dict.fromkeys(WORDS, 0.0)
    for alternative in kept:
        said = spelled(alternative.text)
        for word in WORDS:
            if said == word:
                words[word] += alternative.probability
            elif said and word.startswith(said):
                beginnings[word] += alternative.probability
    total = math.fsum(alternative.probability for alternative in kept)
    first = spelled(kept[0].text) if kept else ""
    return Listed(
        words,
        beginnings,
        unlisted=max(0.0, 1.0 - total),
        is_thought=any(
            first.startswith(opening)
            or (len(first) >= _TELLING_CHARS and opening.startswith(first))
            for opening in _OPENINGS
        ),
    )


def read_verdict(view: JudgeView, logprobs: object, *, most: int) -> JudgeResult:
    """Judge one criterion by the probabilities of the reply's first token.

    Args:
        view: a view whose rubric is that one criterion.
        logprobs: the log-probabilities of the reply, as they came.
        most: number of tokens that the server was asked to list.

    Returns:
        Scored, with the reading; invalid with `no_verdict` where too little of the probability is
        on a verdict; or unavailable with `no_probabilities` where the server did not say.
    """
    try:
        figures = listed(first_alternatives(logprobs), most=most)
    except LogprobsError as error:
        return JudgeResult.unavailable(Reason.NO_PROBABILITIES, detail=str(error))
    if figures.mass < LEAST_VERDICT_MASS:
        return JudgeResult.invalid(Reason.NO_VERDICT, detail=too_little(figures))
    (criterion,) = view.rubric
    reading = VerdictProbability.of(
        yes=figures.words["yes"], no=figures.words["no"], unlisted=figures.unlisted
    )
    scores = {criterion.id: criterion.weight * reading.met}
    result = JudgeResult.scored(view.rubric, scores, judge="")
    return result.with_fields(probabilities={criterion.id: reading})


def too_little(figures: Listed) -> str:
    """Say that too little of the probability is on a verdict, with the cause if it shows."""
    if figures.is_thought:
        return _THOUGHT
    return (
        f"{figures.mass:.3f} of the first token's probability is on yes or no, less than "
        f"{LEAST_VERDICT_MASS}; {figures.unlisted:.3f} is on tokens that are not listed"
    )
