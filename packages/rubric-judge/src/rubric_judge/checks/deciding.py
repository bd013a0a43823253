"""Decide a check that runs no code of the response, within bounds of time and of steps."""

from dataclasses import dataclass

from rubric_judge.checks.numeric import NumericCheck, states_number
from rubric_judge.checks.pattern import ProcessorTime, RegexCheck, matches_pattern
from rubric_judge.checks.phrases import ContainsCheck, contains
from rubric_judge.checks.schema import (
    MOST_STEPS,
    PATTERNS_S,
    SchemaCheck,
    matches_schema,
)
from rubric_judge.checks.validation import StepsError
from rubric_judge.errors import VerificationError

QuickCheck = ContainsCheck | RegexCheck | NumericCheck | SchemaCheck

_SHORT_TEXT = 10_000
"""Characters. So many, with a number at every second one, are read in a hundredth of a second."""
_SHORT_SEARCH = 200_000
"""Characters times phrases that are looked for in them."""
_SHORT_S = 0.005
"""Processor time of a pattern."""
_FEW_STEPS = 5_000
"""Steps of a schema."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check."""

    share: float
    """Earned share of the criterion's weight, in [0, 1]."""
    note: str = ""
    """A remark on the result; no text of the response or the rubric."""


class PastBoundError(Exception):
    """A check may take longer than a hundredth of a second, and belongs in another process."""


def decide(check: QuickCheck, text: str, *, regex_timeout_s: float) -> CheckResult:
    """Decide a check within the bounds of every check; blocks for up to some seconds.

    Args:
        check: what to look for.
        text: the response.
        regex_timeout_s: processor time for the search of a `regex:`.

    Returns:
        The verdict. No credit for a text on which the check goes past its bounds, or fails.
    """
    of_schema = isinstance(check, SchemaCheck)
    patterns_s = PATTERNS_S if of_schema else regex_timeout_s
    try:
        return _decided(
            check, text, time_left=ProcessorTime(patterns_s), steps=MOST_STEPS
        )
    except TimeoutError:
        pattern = "a pattern of its schema" if of_schema else "its pattern"
        return CheckResult(0.0, f"{pattern} ran past {patterns_s} s")
    except StepsError:
        return CheckResult(
            0.0, f"its JSON takes more than {MOST_STEPS} steps of its schema"
        )


def decide_shortly(check: QuickCheck, text: str) -> CheckResult:
    """Decide a check as `decide` does, if that takes about a hundredth of a second at most.

    Args:
        check: what to look for.
        text: the response.

    Returns:
        The verdict.

    Raises:
        PastBoundError: it may take longer.
    """
    phrases = len(check.phrases) if isinstance(check, ContainsCheck) else 0
    longest = _SHORT_SEARCH // phrases if phrases else _SHORT_TEXT
    if len(text) > longest and not isinstance(check, RegexCheck):
        raise PastBoundError
    try:
        return _decided(
            check, text, time_left=ProcessorTime(_SHORT_S, tries=1), steps=_FEW_STEPS
        )
    except (TimeoutError, StepsError):
        raise PastBoundError from None


def _decided(
    check: QuickCheck, text: str, *, time_left: ProcessorTime, steps: int
) -> CheckResult:
    """Decide a check; a bound that it passes is raised, as TimeoutError or StepsError."""
    try:
        match check:
            case ContainsCheck():
                return CheckResult(float(contains(check, text)))
            case NumericCheck():
                return CheckResult(float(states_number(check, text)))
            case RegexCheck():
                return CheckResult(
                    float(matches_pattern(check.pattern, text, time_left=time_left))
                )
            case SchemaCheck():
                passed, note = matches_schema(
                    check, text, steps=steps, time_left=time_left
                )
                return CheckResult(float(passed), note)
    # A response is untrusted text: any error means that the check is not passed.
    except Exception as error:  # noqa: BLE001
        return CheckResult(0.0, note_of_failure(error))


def note_of_failure(error: Exception) -> str:
    """Say that a check failed on a response, which then earns nothing.

    An exception that left the judge would make the result `unavailable`, and a masked reward is a
    way out of a 0.

    Args:
        error: what the check raised.

    Returns:
        The note; its kind and no text.

    Raises:
        VerificationError: the rubric is at fault, not the response. Like all others here, the error
            is raised as it came.
        StepsError: a bound that the caller set was passed; likewise a TimeoutError.
        OSError, ImportError: the machine is at fault.
    """
    if isinstance(error, (VerificationError, StepsError, ImportError, OSError)):
        raise error
    return f"its check ended in {type(error).__name__}"
