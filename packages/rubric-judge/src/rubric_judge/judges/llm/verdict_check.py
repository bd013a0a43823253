"""The check of a judge by probability: whether its server says how probable a verdict is."""

from typing import Literal

from rubric_core import Criterion, Grounding, JudgeView, Rubric
from rubric_judge import events
from rubric_judge.config import JudgeConfig
from rubric_judge.errors import JudgeSetupError, LogprobsError
from rubric_judge.judges.llm.failures import SEPARATED_THOUGHT
from rubric_judge.judges.llm.verdicts import (
    LEAST_VERDICT_MASS,
    WORDS,
    Listed,
    Word,
    first_alternatives,
    listed,
    most_listed,
    too_little,
)
from rubric_judge.models.chat import ChatReply, server_of
from rubric_judge.models.served import ModelServer

QUESTION_OF_CHECK = JudgeView(
    task_id="check",
    question="At which temperature does water boil at sea level?",
    grounding=Grounding("At sea level water boils at 100 degrees Celsius."),
    response="At 100 degrees Celsius.",
    rubric=Rubric(
        criteria=(
            Criterion(
                id="temperature",
                weight=1,
                description="Says that water boils at 100 degrees Celsius.",
            ),
        )
    ),
)
"""A question like those to come, which every judge can answer."""


async def check_verdicts(config: JudgeConfig, address: str, answer: ChatReply) -> None:
    """Refuse a server whose answers hold no probability of a verdict.

    A server that counts tokens is asked whether each verdict is one; of any other, the list of the
    first token shows it. A model that merely says something else is logged as a warning.

    Args:
        config: the judge's configuration.
        address: the server's address.
        answer: its answer to `QUESTION_OF_CHECK`.

    Raises:
        JudgeSetupError: there are no log-probabilities, or they cannot be read; the reply begins
            with a thought; or a verdict is no single token. Says what to do.
    """
    where = f"the judge {config.model!r} at {address!r} cannot be read by probability"
    if answer.beside == "reasoning":
        raise JudgeSetupError(f"{where}: {SEPARATED_THOUGHT}")
    try:
        alternatives = first_alternatives(answer.logprobs)
    except LogprobsError as error:
        raise JudgeSetupError(f"{where}: {error}") from None
    figures = listed(alternatives, most=most_listed(config.parameters))
    parted = await _parted(config, address)
    if parted is None:
        parted = _seen_parted(figures)
    if parted:
        raise JudgeSetupError(
            f"{where}: {parted!r} is no single token of the model's tokenizer, in any spelling; "
            "judge with another model, or with `verdict: sampled`"
        )
    if figures.mass >= LEAST_VERDICT_MASS:
        return
    if figures.is_thought:
        raise JudgeSetupError(f"{where}: {too_little(figures)}")
    events.probe_without_verdict(
        model=config.model, server=server_of(address), why=too_little(figures)
    )


async def _parted(config: JudgeConfig, address: str) -> Word | Literal[""] | None:
    """Return the first verdict that is no single token; "" if all are, None if it is not known."""
    async with ModelServer(config, address) as server:
        for word in WORDS:
            for spelling in (word.capitalize(), word, f" {word.capitalize()}"):
                tokens = await server.text_tokens(spelling)
                if tokens is None:
                    return None
                if tokens == 1:
                    break
            else:
                return word
    return ""


def _seen_parted(figures: Listed) -> Word | None:
    """Return the verdict of which only a beginning is probable, so that it has several tokens."""
    for word in WORDS:
        beginning = figures.beginnings[word]
        if beginning >= LEAST_VERDICT_MASS and beginning > figures.mass:
            return word
    return None
