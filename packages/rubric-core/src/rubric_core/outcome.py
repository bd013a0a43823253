"""The outcome of a judgement, and the reason for a failure."""

from enum import StrEnum
from typing import Self


class Outcome(StrEnum):
    """The three outcomes of a judgement."""

    SCORED = "scored"
    """Every criterion has a valid score."""

    INVALID = "invalid"
    """The judge answered, but not by the contract: reward 0, the reason kept."""

    UNAVAILABLE = "unavailable"
    """The judge could not be reached: no reward, the sample is masked by default."""


class Reason(StrEnum):
    """Reasons why a judgement has no scores."""

    outcome: Outcome
    """The outcome that this reason belongs to."""

    def __new__(cls, value: str, outcome: Outcome = Outcome.UNAVAILABLE) -> Self:
        """Join a word and its outcome."""
        self = str.__new__(cls, value)
        self._value_ = value
        self.outcome = outcome
        return self

    NOT_JSON = "not_json", Outcome.INVALID
    TRUNCATED = "truncated", Outcome.INVALID
    REFUSED = "refused", Outcome.INVALID
    MISSING_CRITERION = "missing_criterion", Outcome.INVALID
    UNKNOWN_CRITERION = "unknown_criterion", Outcome.INVALID
    DUPLICATE_CRITERION = "duplicate_criterion", Outcome.INVALID
    SCORE_OUT_OF_RANGE = "score_out_of_range", Outcome.INVALID
    NOT_FINITE = "not_finite", Outcome.INVALID
    WRONG_TYPE = "wrong_type", Outcome.INVALID
    TOTAL_MISMATCH = "total_mismatch", Outcome.INVALID
    MAX_TOTAL_MISMATCH = "max_total_mismatch", Outcome.INVALID
    EMPTY = "empty", Outcome.INVALID
    EVIDENCE_NOT_FOUND = "evidence_not_found", Outcome.INVALID
    CONTEXT_FULL = "context_full", Outcome.INVALID
    """Prompt and reply are longer than the judge's model can read; counted as invalid so that a
    long response is no better off than one with a bad score."""
    NO_VERDICT = "no_verdict", Outcome.INVALID
    """Too little of the reply's probability is on a verdict, where it is read off."""

    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    AUTH = "auth"
    OUT_OF_CREDIT = "out_of_credit"
    """The account has no money or quota left; to ask again changes nothing."""
    BAD_REQUEST = "bad_request"
    CANCELLED = "cancelled"
    NOT_WRITTEN = "not_written"
    """Nobody has written the answer to this question yet, where people write the answers."""
    JUDGE_ERROR = "judge_error"
    OTHER_MODEL = "other_model"
    """A model other than the one that judges the run answered."""
    NO_PROBABILITIES = "no_probabilities"
    """The server did not say how probable the verdict is, where it was asked to."""
    NO_RESPONSE = "no_response"
    """The policy's engine did not finish the response, so that there is nothing to judge."""
