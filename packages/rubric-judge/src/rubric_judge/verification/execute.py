"""From a directive and a response to the share of the weight that it earns."""

from __future__ import annotations

import anyio
import anyio.from_thread
import anyio.to_thread

from rubric_core import Criterion
from rubric_judge.config import HybridConfig
from rubric_judge.errors import VerificationError
from rubric_judge.verification.deciding import Verdict
from rubric_judge.verification.directive import (
    ProgramCheck,
    SentenceScope,
    StructureChecks,
    parse_verification,
)
from rubric_judge.verification.python_tests import PythonTests, response_code
from rubric_judge.verification.sandbox.launch import check_isolation, run_tests
from rubric_judge.verification.workers import run_check

_LONGEST_CODE = 100_000
"""Characters of a response's code; more of it could keep the tester from starting at all."""


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
    """Runs checks, off the event loop where they may take long, and a few unit tests at a time."""

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
            SandboxError: a process could not be started: the machine's doing, not the response's.
        """
        if isinstance(check, PythonTests):
            return await anyio.to_thread.run_sync(
                self._run_tests, check, response, limiter=self._limiter
            )
        return await run_check(check, response, regex_timeout_s=self._config.regex_timeout_s)

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
