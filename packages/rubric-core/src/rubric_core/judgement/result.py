"""The record of one judgement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Annotated, Self, Unpack

from pydantic import Field, model_validator

from rubric_core.errors import ReplyError, shortened
from rubric_core.judgement.call import Answerer, Call, Usage
from rubric_core.judgement.evidence import Evidence, find_quote
from rubric_core.judgement.probability import VerdictProbability
from rubric_core.judgement.reply import read_reply
from rubric_core.outcome import Outcome, Reason
from rubric_core.schema.answer import Unanswered
from rubric_core.schema.rubric import Rubric
from rubric_core.schema.sealed import Amount, Count, Identifier, Many, Sealed, Text

Difference = Annotated[float, Field(strict=True, ge=-1, le=1)]
"""One share less another."""


class CascadeLevel(Sealed):
    """The calls to one judge of a cascade for one response."""

    judge: Identifier
    """Name of the judge, as in `CascadeTrace.judges`."""

    calls: Count
    """Times that it was asked; each is several calls of a server where criteria have their own."""

    criteria: Count
    """Number of criteria that it was asked about, each counted once."""

    usage: Usage | None = None
    """Usage of all its calls, where it reports it."""


class GroupTrace(Sealed):
    """The decisions of a cascade for all responses of a group at once, and for one of them."""

    id: Identifier
    """Digits that the results of one group share."""

    responses: Count
    """Number of different responses that were judged together."""

    correlation: Amount
    """Correlation expected between the group's advantages and those that the last judge alone would
    give; 1 where it judged everything."""

    spent_frac: Amount
    """The bill of the last judge, as a share of what asking it for everything costs."""

    stop: Text
    """Why it was asked no more: `target`, `budget`, `spread` (the responses are not expected to
    differ: all have the same scores) or `all`."""

    expected: dict[str, Amount] = Field(default_factory=dict)
    """The first judge's calibrated value of each criterion of this response, as a share of its
    weight; nothing where that judge gave no scores."""

    gaps: dict[str, Difference] = Field(default_factory=dict)
    """The last judge's value less the expected one, by id of this response's audited criteria. They
    are drawn with one probability, whatever they hold: their mean is that of all criteria."""


class CascadeTrace(Sealed):
    """The decisions of a cascade of judges for one response, and the bound that it promises."""

    judges: Many[Identifier]
    """Names of all its judges, the cheapest first; numbered where two are the same."""

    decided_by: dict[str, Text] = Field(default_factory=dict)
    """The judge whose score counts, by criterion id; nothing for criteria without weight."""

    audits: dict[str, bool] = Field(default_factory=dict)
    """Whether the last judge gave the same verdict, by id of the audited criteria; only criteria
    that an earlier judge would have decided are audited."""

    levels: Many[CascadeLevel] = ()
    """The judges that were asked, in order."""

    risk: Amount | None = None
    """α: the share of scores that may contradict the labels."""

    confidence: Amount | None = None
    """1 − δ: probability of a calibration that keeps to α."""

    bound: Amount | None = None
    """Upper bound of that share at this confidence, as calibrated; the largest of the criteria."""

    # Left out where there is none, as in files of cascades that decide for each response.
    group: GroupTrace | None = Field(
        default=None, exclude_if=lambda group: group is None
    )
    """The decisions for the whole group; None where each response is decided by itself."""


_DETAIL_CHARS = 200


class JudgeResult(Sealed):
    """Scores, or the reason why there are none. A failure is never a number.

    Make one with `from_reply`, `from_quoting_reply`, `scored`, `without_answer`, `invalid` or
    `unavailable`, which check the scores against the rubric. `repr` leaves out the reasoning and
    the quotes, which may be the passage's; `model_dump` keeps them, for the judgement files that
    only the judge's side reads.
    """

    outcome: Outcome
    """Scored, invalid or unavailable."""

    scores: dict[str, Amount] = Field(default_factory=dict)
    """s_j by criterion id, in the rubric's order; empty unless scored."""

    total: Amount | None = None
    """Σ s_j; None unless scored."""

    max_total: Amount | None = None
    """W; None unless scored."""

    reasoning: Text = Field(default="", repr=False)
    """The judge's own words; for an invalid reply its text, if the judge is set to keep it."""

    evidence: dict[str, Evidence] = Field(default_factory=dict)
    """Quotes by criterion id, in the rubric's order; empty unless scored and asked for."""

    # Left out where there are none: judgements are older than these.
    probabilities: dict[str, VerdictProbability] = Field(
        default_factory=dict, exclude_if=lambda readings: not readings
    )
    """Probabilities of the verdicts by criterion id, in the rubric's order, where the judge reads
    them (`verdict: probability`): s_j = w_j · met. None of a criterion that another one decided."""

    reason: Reason | None = None
    """Reason why there are no scores; None when there are."""

    unanswered: Unanswered | None = None
    """Reason why there was nothing to judge: every score is 0, no judge was asked. Else None."""

    judge: Text = ""
    """Name of the judge."""

    answered_by: Answerer | None = None
    """The deployment and the model that answered; None where no model did."""

    usage: Usage | None = None
    """Tokens and cost, where the judge reports them."""

    latency_s: Amount | None = None
    """Seconds from the first attempt to the answer."""

    attempts: Count = 1
    """Number of calls, retries included; 0 for a judgement that was cancelled before its first, and
    for all but the first of several judgements by one call."""

    passage_truncated: bool = False
    """Whether the judge saw only the first part of the passage."""

    cascade: CascadeTrace | None = None
    """The decisions within a cascade; None where the judge is not a cascade."""

    detail: Text = Field(default="", max_length=_DETAIL_CHARS)
    """One machine-made line on the reason: numbers and ids, no text of the reply."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        scored = self.outcome is Outcome.SCORED
        if self.reason is not None and self.reason.outcome is not self.outcome:
            family = self.reason.outcome.value
            raise ValueError(
                f"reason {self.reason.value!r} belongs to {family!r} results"
            )
        numbers = (
            bool(self.scores),
            self.total is not None,
            self.max_total is not None,
        )
        if numbers != (scored, scored, scored) or (self.reason is None) is not scored:
            raise ValueError(
                "a scored result has scores, total and max_total; any other has only a reason"
            )
        if self.unanswered is not None and (not scored or any(self.scores.values())):
            raise ValueError(
                "a response without an answer has a score of 0 for every criterion"
            )
        readings = {"evidence": self.evidence, "probabilities": self.probabilities}
        for name, by_criterion in readings.items():
            unscored = by_criterion.keys() - self.scores.keys()
            if unscored:
                raise ValueError(
                    f"there is {name} for {len(unscored)} criteria without a score"
                )
        return self

    @classmethod
    def from_reply(cls, rubric: Rubric, text: str, **call: Unpack[Call]) -> Self:
        """Read a judge's reply strictly: scored, or invalid with the first departure found.

        Never raises for what the reply holds; `read_reply` lists the contract.

        Raises:
            SchemaError: `text` is not a str.
        """
        try:
            reply = read_reply(rubric, text)
        except ReplyError as error:
            result = cls.invalid(error.reason, detail=str(error))
        else:
            result = cls.scored(
                rubric, reply.scores, judge="", reasoning=reply.reasoning
            )
        return result.with_call(**call)

    @classmethod
    def from_quoting_reply(
        cls, rubric: Rubric, text: str, *, response: str, passage: str, required: bool
    ) -> Self:
        """Read a reply that also quotes its evidence, and look every quote up.

        As `from_reply`; each quote is kept with the place where it stands. Add the facts about the
        call by `with_call`.

        Args:
            rubric: the criteria that were scored.
            text: the reply.
            response: y, the first place to look for a quote.
            passage: g, as far as the judge saw it.
            required: whether a score above 0 whose quote is found nowhere makes the reply invalid.

        Raises:
            SchemaError: `text` is not a str.
        """
        try:
            reply = read_reply(rubric, text, with_evidence=True)
        except ReplyError as error:
            return cls.invalid(error.reason, detail=str(error))
        evidence: dict[str, Evidence] = {}
        unproven: list[str] = []
        for name, quote in reply.quotes.items():
            place = find_quote(quote, response=response, passage=passage)
            evidence[name] = Evidence(quote=quote, found_in=place)
            if reply.scores[name] and place is None:
                unproven.append(name)
        if required and unproven:
            count = f"{len(unproven)} scores above 0"
            return cls.invalid(
                Reason.EVIDENCE_NOT_FOUND,
                detail=f"{count} without a quote that is found, first {unproven[0]!r}",
            )
        result = cls.scored(rubric, reply.scores, judge="", reasoning=reply.reasoning)
        return result.with_fields(evidence=evidence)

    @classmethod
    def scored(
        cls,
        rubric: Rubric,
        scores: Mapping[str, float],
        *,
        judge: str,
        reasoning: str = "",
        latency_s: float | None = None,
    ) -> Self:
        """Record the scores of a judge that is a program; the totals are computed.

        Raises:
            SchemaError: an id is missing or unknown, or a score is not in [0, w_j]: a fault of
                the program, where a language model's would be an invalid result.
        """
        rubric.check_scores(scores)
        return cls(
            outcome=Outcome.SCORED,
            scores={key: float(scores[key]) for key in rubric.ids},
            total=math.fsum(scores.values()),
            max_total=rubric.total_weight,
            reasoning=reasoning,
            judge=judge,
            latency_s=latency_s,
        )

    @classmethod
    def without_answer(cls, rubric: Rubric, why: Unanswered, *, judge: str) -> Self:
        """Record that a response has no answer: 0 for every criterion, and no judge was asked."""
        scores = dict.fromkeys(rubric.ids, 0.0)
        result = cls.scored(rubric, scores, judge=judge, latency_s=0.0)
        return result.model_copy(update={"unanswered": why, "attempts": 0})

    @classmethod
    def invalid(cls, reason: Reason, *, detail: str = "", **call: Unpack[Call]) -> Self:
        """Record a reply outside the contract: reward 0.

        Raises:
            SchemaError: the reason is one for `unavailable`.
        """
        return cls._failed(Outcome.INVALID, reason, detail, call)

    @classmethod
    def unavailable(
        cls, reason: Reason, *, detail: str = "", **call: Unpack[Call]
    ) -> Self:
        """Record a judgement that did not happen: no reward.

        Raises:
            SchemaError: the reason is one for `invalid`.
        """
        return cls._failed(Outcome.UNAVAILABLE, reason, detail, call)

    def with_call(self, **call: Unpack[Call]) -> Self:
        """Return a copy with facts about the call; None keeps the present value."""
        known = {key: value for key, value in call.items() if value is not None}
        return self.with_fields(**known) if known else self

    def with_fields(self, **fields: object) -> Self:
        """Return a copy with other fields, checked as a new result is.

        Raises:
            SchemaError: the fields do not fit together.
        """
        return type(self).model_validate(dict(self) | fields)

    @classmethod
    def _failed(cls, outcome: Outcome, reason: Reason, detail: str, call: Call) -> Self:
        result = cls(
            outcome=outcome, reason=reason, detail=shortened(detail, _DETAIL_CHARS)
        )
        return result.with_call(**call)


def total_usage(results: Iterable[JudgeResult]) -> Usage | None:
    """Return what several judgements used; None where none of them says."""
    known = [result.usage for result in results if result.usage is not None]
    return reduce(Usage.plus, known) if known else None


def one_call(
    results: Sequence[JudgeResult], *, judge: str | None, latency_s: float | None
) -> Call:
    """Return the facts about the calls of several judgements, as those of one.

    The judge is the one that asked for them, and the latency that of all together.
    """
    answerers = [result.answered_by for result in results]
    is_one = all(answerer == answerers[0] for answerer in answerers)
    return Call(
        judge=judge,
        answered_by=answerers[0] if answerers and is_one else None,
        usage=total_usage(results),
        latency_s=latency_s,
        attempts=sum(result.attempts for result in results),
        passage_truncated=any(result.passage_truncated for result in results),
    )


def first_failure(results: Sequence[tuple[str, JudgeResult]]) -> JudgeResult | None:
    """Return the failure of the first invalid judgement, or else of the first unavailable one.

    Its `detail` holds the judgement's name, it no facts about the call; None if all are scored.
    """
    for outcome in (Outcome.INVALID, Outcome.UNAVAILABLE):
        for name, result in results:
            if result.outcome is outcome and result.reason is not None:
                detail = f"{name}: {result.detail or result.reason.value}"
                return JudgeResult(
                    outcome=outcome,
                    reason=result.reason,
                    reasoning=result.reasoning,
                    detail=shortened(detail, _DETAIL_CHARS),
                )
    return None
