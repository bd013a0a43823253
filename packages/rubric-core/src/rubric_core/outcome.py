"""What became of one judgement: the outcome, and the reason for a failure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """The three things that can become of a judgement."""

    SCORED = "scored"
    """Every criterion has a valid score."""

    INVALID = "invalid"
    """The judge answered, but not by the contract: reward 0, the reason kept."""

    UNAVAILABLE = "unavailable"
    """The judge could not be reached: no reward, the sample is masked by default."""


class Reason(StrEnum):
    """Why a judgement has no scores."""

    NOT_JSON = "not_json"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    MISSING_CRITERION = "missing_criterion"
    UNKNOWN_CRITERION = "unknown_criterion"
    DUPLICATE_CRITERION = "duplicate_criterion"
    SCORE_OUT_OF_RANGE = "score_out_of_range"
    NOT_FINITE = "not_finite"
    WRONG_TYPE = "wrong_type"
    TOTAL_MISMATCH = "total_mismatch"
    MAX_TOTAL_MISMATCH = "max_total_mismatch"
    EMPTY = "empty"
    EVIDENCE_NOT_FOUND = "evidence_not_found"

    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    AUTH = "auth"
    BAD_REQUEST = "bad_request"
    CANCELLED = "cancelled"
    JUDGE_ERROR = "judge_error"
    OTHER_MODEL = "other_model"
    """Another model answered than the one that the run is judged by."""
    NO_RESPONSE = "no_response"
    """The policy's engine did not finish the response, so that there is nothing to judge."""

    @property
    def outcome(self) -> Outcome:
        """The outcome that this reason belongs to."""
        return Outcome.UNAVAILABLE if self in _UNAVAILABLE else Outcome.INVALID


_UNAVAILABLE: Final = frozenset(
    {
        Reason.TIMEOUT,
        Reason.RATE_LIMITED,
        Reason.SERVER_ERROR,
        Reason.CONNECTION,
        Reason.AUTH,
        Reason.BAD_REQUEST,
        Reason.CANCELLED,
        Reason.JUDGE_ERROR,
        Reason.OTHER_MODEL,
        Reason.NO_RESPONSE,
    }
)
