"""The log events of this package: one for each judge call. Numbers, names and ids; never a text.

structlog is loaded at the first event, because it loads rich; it is configured by command lines
and applications, not here. Until one does, calls are not logged: structlog would print a line for
each, in the middle of whatever a trainer prints. Warnings and errors always are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from rubric_core import Answerer, JudgeResult, Usage

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


@lru_cache(maxsize=1)
def _log() -> FilteringBoundLogger:
    import structlog

    return structlog.get_logger("rubric_judge")


_SAID_OF_A_CALL = {
    "judge",
    "outcome",
    "reason",
    "detail",
    "latency_s",
    "attempts",
    "passage_truncated",
}


def call_finished(result: JudgeResult, *, task_id: str) -> None:
    """Log a call of a language-model judge, whatever became of it."""
    import structlog

    if not structlog.is_configured():
        return
    log = _log().bind()
    is_enabled_for = getattr(
        log, "is_enabled_for", None
    )  # other wrappers may have none
    if is_enabled_for is not None and not is_enabled_for(logging.INFO):
        return
    said = result.model_dump(mode="json", include=_SAID_OF_A_CALL)
    usage = dict(result.usage) if result.usage else dict.fromkeys(Usage.model_fields)
    log.info("judge.call.finished", task_id=task_id, **said, **usage)


def turns_in_one_text(*, stack: str) -> None:
    """Log that a stack hands over all turns as one text, what tools returned included."""
    _log().warning(
        "judge.reward.turns_in_one_text",
        stack=stack,
        what_to_do="what tools returned is judged as the policy's own words, and may earn: use an "
        "adapter that reads traces, or let no tool return what a criterion asks for",
    )


def litellm_settings_ignored(*, path: str, keys: Sequence[str]) -> None:
    """Log which settings of a litellm file are the judge's own, or the proxy's."""
    _log().warning("judge.litellm_config.ignored", path=path, keys=list(keys))


def fallback_answered(by: Answerer, *, model: str) -> None:
    """Log that a fallback answers for a model; once for each model that is asked."""
    _log().warning("judge.fallback.answered", asked=model, **dict(by))


def replica_rests(*, replica: str, rest_s: float) -> None:
    """Log that one of several servers is left alone, and for how long; again after each trial."""
    _log().warning(
        "judge.replica.rests",
        replica=replica,
        rest_s=rest_s,
        what_to_do="see that it runs; its calls go to the others, and one will try it again",
    )


def replica_back(*, replica: str) -> None:
    """Log that a server that was left alone has answered."""
    _log().warning("judge.replica.back", replica=replica)


def probe_out_of_schema(*, role: str, model: str, server: str, why: str) -> None:
    """Log that a model does not keep to the schema that goes along, as the check found."""
    _log().warning(
        "judge.check.out_of_schema",
        role=role,
        model=model,
        server=server,
        why=why,
        what_to_do="look whether the server enforces `response_format`; a reply outside of its "
        "schema is invalid, and earns 0",
    )


def probe_without_verdict(*, model: str, server: str, why: str) -> None:
    """Log that a model hardly answers with a verdict where one is asked for, as the check found."""
    _log().warning(
        "judge.check.few_verdicts",
        model=model,
        server=server,
        why=why,
        what_to_do="try another model or `verdict: sampled`; a judgement without a verdict is "
        "invalid, and earns 0",
    )


def decoding_filled_in(
    *, model: str, owner: str, fields: Sequence[str], refused: bool
) -> None:
    """Log which fields a server fills in itself, because it does not take them of a request."""
    _log().warning(
        "judge.decoding.filled_in",
        model=model,
        owner=owner,
        fields=list(fields),
        why="the server refuses them" if refused else "requests cannot say them",
        what_to_do="see that the server's own values are neutral, or that all of a comparison are "
        "served alike",
    )


def unexpected_exception(*, judge: str, task_id: str, error: str, where: str) -> None:
    """Log an exception that a judge let out: its type and place, not its message."""
    _log().error(
        "judge.pool.unexpected", judge=judge, task_id=task_id, error=error, where=where
    )


def loop_blocked(*, judge: str, where: str, deadline_s: float) -> None:
    """Log that a judge does not let its step end at the deadline, and the line that it is at."""
    _log().error(
        "judge.pool.blocked",
        judge=judge,
        where=where,
        deadline_s=deadline_s,
        remedy="it must wait with `await`: let it compute in a thread or a process",
    )


def ledger_unwritten(*, path: str, error: str) -> None:
    """Log the first judgement that a ledger could not write; the others are only counted."""
    _log().error("judge.ledger.unwritten", path=path, error=error)


def judgements_missing(
    *, lost: int, of: int, reason: str, detail: str, policy: str
) -> None:
    """Log that judgements begin to be missing for a reason: once, until the judge is back."""
    _log().warning(
        "judge.reward.missing",
        lost=lost,
        of=of,
        reason=reason,
        detail=detail,
        on_unavailable=policy,
        what_to_do="see that the judge answers; on_unavailable='raise' ends the training instead",
    )


def judgements_back(*, missing: int) -> None:
    """Log that judgements are no longer missing, and how many were."""
    _log().warning("judge.reward.back", missing=missing)


def judgements_invalid(*, lost: int, of: int, reason: str, detail: str) -> None:
    """Log that judgements begin to be invalid for a reason: once, until all are valid again."""
    _log().warning(
        "judge.reward.invalid",
        invalid=lost,
        of=of,
        reason=reason,
        detail=detail,
        what_to_do="each earns 0; where they do not end, see that the judge keeps to its format",
    )


def judgements_valid(*, missing: int) -> None:
    """Log that judgements are no longer invalid, and how many were."""
    _log().warning("judge.reward.valid", invalid=missing)


def thoughts_unclosed(*, unclosed: int, of: int) -> None:
    """Log, once, that most of a batch are thoughts that do not end."""
    _log().warning(
        "judge.reward.thoughts_unclosed",
        unclosed=unclosed,
        of=of,
        what_to_do="such a completion has no answer and earns 0: give the policy more tokens, or "
        "switch its thinking off (chat_template_kwargs: {enable_thinking: false}); docs/answer.md",
    )


def prompt_of_other_task(*, task_id: str, question_of: str) -> None:
    """Log that a prompt holds the question of another task than the one it is judged by."""
    _log().warning(
        "judge.prompt.other_task",
        task_id=task_id,
        question_of=question_of,
        what_to_do="give each prompt the id of its own task; this is said once, of the first",
    )


def reward_failed(*, stack: str, error: str, detail: str) -> None:
    """Log why a reward could not be given to a stack that hides it; the errors hold no text."""
    _log().error("judge.reward.failed", stack=stack, error=error, detail=detail)
