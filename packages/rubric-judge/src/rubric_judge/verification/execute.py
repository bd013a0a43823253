"""From a directive and a response to the share of the weight that it earns."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import anyio.from_thread
import anyio.to_thread

from rubric_core import Criterion
from rubric_judge.config import HybridConfig
from rubric_judge.errors import VerificationError
from rubric_judge.verification.boundary import note_of_failure
from rubric_judge.verification.directive import ProgramCheck, parse_verification
from rubric_judge.verification.numeric import NumericCheck, states_number
from rubric_judge.verification.pattern import RegexCheck, matches_pattern
from rubric_judge.verification.phrases import ContainsCheck, contains
from rubric_judge.verification.python_tests import PythonTests, response_code
from rubric_judge.verification.sandbox.launch import check_isolation, run_tests
from rubric_judge.verification.schema import SchemaCheck, matches_schema
from rubric_judge.verification.scope import SentenceScope, StructureChecks

__all__ = ["Programs", "Verdict", "check_executable"]

QuickCheck = ContainsCheck | RegexCheck | NumericCheck | SchemaCheck

_LONGEST_CODE = 100_000
"""Characters of a response's code; more of it could keep the tester from starting at all."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check found."""

    share: float
    """Of the criterion's weight, in [0, 1]."""
    note: str = ""
    """What else there is to say; no text of the response or the rubric."""


def check_executable(criterion: Criterion, *, python_tests: bool = False) -> ProgramCheck | None:
    """Read what a program can decide a criterion by.

    Args:
        criterion: the criterion.
        python_tests: whether unit tests are run.

    Returns:
        The check; None where a judge has to read: free text, `sentences:` and `structure:`, which
        only weigh words, and unit tests that are not run.

    Raises:
        VerificationError: a directive that cannot run; names the criterion.
    """
    try:
        directive = parse_verification(criterion.verification_method)
    except VerificationError as error:
        raise VerificationError(error.problem, criterion_id=criterion.id) from None
    match directive:
        case None | SentenceScope() | StructureChecks():
            return None
        case PythonTests() if not python_tests:
            return None
        case _:
            return directive


class Programs:
    """Runs checks, off the event loop, and unit tests a bounded number at a time."""

    def __init__(self, config: HybridConfig) -> None:
        """Make the limiter, and try the sandbox where it is switched on.

        Args:
            config: limits and isolation.

        Raises:
            SandboxError: unit tests are switched on and this machine cannot confine them.
        """
        self._config = config
        self._limiter = anyio.CapacityLimiter(config.sandbox.at_once)
        if config.python_tests:
            check_isolation(config.sandbox)

    async def run(self, check: ProgramCheck, response: str) -> Verdict:
        """Execute one check.

        Args:
            check: from `check_executable`.
            response: the policy's text.

        Returns:
            The verdict; a check that runs past its time, or fails on this text, gives no credit.

        Raises:
            SandboxError: unit tests could not be started: the machine's doing, not the response's.
        """
        if isinstance(check, PythonTests):
            return await anyio.to_thread.run_sync(
                self._run_tests, check, response, limiter=self._limiter
            )
        return await anyio.to_thread.run_sync(self._run_quick, check, response)

    def _run_tests(self, check: PythonTests, response: str) -> Verdict:
        code = response_code(response)
        if code is None:
            return Verdict(0.0, "the response has no block of Python")
        if len(code) > _LONGEST_CODE:
            return Verdict(0.0, f"its code has more than {_LONGEST_CODE} characters")
        tally = run_tests(
            code,
            check.source,
            config=self._config.sandbox,
            check=anyio.from_thread.check_cancelled,
        )
        counted = f"{min(tally.passed, check.n_tests)} of {check.n_tests} tests passed"
        share = min(1.0, tally.passed / check.n_tests)
        return Verdict(share, f"{counted}; {tally.note}" if tally.note else counted)

    def _run_quick(self, check: QuickCheck, response: str) -> Verdict:
        try:
            return self._decide(check, response)
        # The named boundary of a response's text.
        except Exception as error:  # noqa: BLE001
            return Verdict(0.0, note_of_failure(error))

    def _decide(self, check: QuickCheck, response: str) -> Verdict:
        match check:
            case ContainsCheck():
                return Verdict(float(contains(check, response)))
            case NumericCheck():
                return Verdict(float(states_number(check, response)))
            case SchemaCheck():
                passed, note = matches_schema(check, response)
                return Verdict(float(passed), note)
            case RegexCheck():
                limit_s = self._config.regex_timeout_s
                try:
                    found = matches_pattern(check.pattern, response, timeout_s=limit_s)
                except TimeoutError:
                    return Verdict(0.0, f"its pattern ran past {limit_s} s")
                return Verdict(float(found))
