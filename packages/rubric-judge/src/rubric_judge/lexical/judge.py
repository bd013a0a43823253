"""The lexical judge: a `Judge` that needs no model.

Its guards are against lists, loops, copies, words out of order and denials of the passage. They are
rules that miss some: read samples of a policy that was trained on it for long.
"""

import hashlib
from collections.abc import Iterator
from functools import lru_cache

from rubric_core import JudgeResult, JudgeView, Reason
from rubric_judge.config import LexicalConfig
from rubric_judge.errors import SandboxError, VerificationError
from rubric_judge.lexical import polarity, scoring
from rubric_judge.verification.deciding import (
    CheckResult,
    QuickCheck,
    decide,
    note_of_failure,
)
from rubric_judge.verification.execute import run_check
from rubric_judge.verification.numeric import NumericCheck
from rubric_judge.verification.pattern import RegexCheck
from rubric_judge.verification.schema import SchemaCheck

_RUBRICS_KEPT = 128
"""Some 40 kB each, which slow the collection of garbage; a task's responses come close together."""


class LexicalJudge:
    """Scores what can be seen in the words of a response: terms, places, order, numbers, patterns.

        z_j = credited units / units,    s_j = w_j z_j (1 − repeated share)

    Units are the required elements (as written), the expected keywords and concepts (by stem) and
    the checks of `verification_method` (see `rubric_judge.verification.directive`), of which it
    runs all but `python_tests:`. It reads English, and at most 100,000 characters. From the passage
    it takes what is affirmed there and what is denied. It does not know whether a sentence is true:
    use it to run and test a pipeline, and as a control beside a judge that reads.
    """

    name = "lexical_v3"

    def __init__(self, config: LexicalConfig | None = None) -> None:
        """Start with an empty cache of compiled rubrics.

        Args:
            config: settings; the defaults when left out.
        """
        self._config = config or LexicalConfig()
        self._compile = lru_cache(maxsize=_RUBRICS_KEPT)(scoring.compile_rubric)
        self._statements = lru_cache(maxsize=_RUBRICS_KEPT)(polarity.Statements)

    @property
    def fingerprint(self) -> str:
        """The name, and a hash of the settings."""
        digest = hashlib.sha256(self._config.model_dump_json().encode()).hexdigest()
        return f"{self.name} {digest[:16]}"

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Score one response; what may take long is checked in another process.

        Args:
            view: question, response, rubric, and the passage for what it denies.

        Returns:
            A scored result; or `unavailable` with reason `judge_error` when a verification method
            of the rubric cannot be executed, or no process can be started.
        """
        timeout_s = self._config.regex_timeout_s
        try:
            compiled = self._compile(view.rubric)
            verdicts = {
                name: await run_check(check, view.response, regex_timeout_s=timeout_s)
                for name, check in _checks(compiled)
            }
        except (VerificationError, SandboxError) as error:
            return JudgeResult.unavailable(
                Reason.JUDGE_ERROR, judge=self.name, detail=str(error)
            )
        return self._scored(view, compiled, verdicts)

    def judge_now(self, view: JudgeView) -> JudgeResult:
        """Score one response without an event loop and in this process, to the same result.

        Args:
            view: question, response, rubric, and the passage for what it denies.

        Returns:
            As `judge`.
        """
        timeout_s = self._config.regex_timeout_s
        try:
            compiled = self._compile(view.rubric)
        except VerificationError as error:
            return JudgeResult.unavailable(
                Reason.JUDGE_ERROR, judge=self.name, detail=str(error)
            )
        verdicts = {
            name: decide(check, view.response, regex_timeout_s=timeout_s)
            for name, check in _checks(compiled)
        }
        return self._scored(view, compiled, verdicts)

    def _scored(
        self,
        view: JudgeView,
        compiled: scoring.CompiledRubric,
        verdicts: dict[str, CheckResult],
    ) -> JudgeResult:
        if (why := view.unanswered) is not None:
            return JudgeResult.without_answer(view.rubric, why, judge=self.name)
        reading = scoring.read_response(
            compiled,
            question=view.question,
            response=view.response,
            passage=self._statements(view.grounding),
        )
        scores: dict[str, float] = {}
        credits_by_id: dict[str, scoring.Credit] = {}
        for criterion in compiled.criteria:
            try:
                credit = scoring.credit_criterion(
                    criterion, reading, verdict=verdicts.get(criterion.id)
                )
            # The named boundary of a response's text.
            except Exception as error:  # noqa: BLE001
                credit = scoring.Credit(0, 1, note=note_of_failure(error))
            share = credit.earned / credit.units if credit.units else 0.0
            scores[criterion.id] = criterion.weight * share * reading.original_share
            credits_by_id[criterion.id] = credit
        return JudgeResult.scored(
            view.rubric,
            scores,
            judge=self.name,
            reasoning=_account(credits_by_id, reading),
        )


def _checks(compiled: scoring.CompiledRubric) -> Iterator[tuple[str, QuickCheck]]:
    """Yield the checks that are no matter of sentences."""
    for criterion in compiled.criteria:
        if isinstance(criterion.directive, NumericCheck | RegexCheck | SchemaCheck):
            yield criterion.id, criterion.directive


def _account(credits_by_id: dict[str, scoring.Credit], reading: scoring.Reading) -> str:
    shares = ", ".join(
        f"{name} {credit.earned}/{credit.units}" + (credit.note and f" ({credit.note})")
        if credit.units
        else f"{name} has nothing that a program can look for"
        for name, credit in credits_by_id.items()
    )
    sentences = (
        f"{len(reading.live)} of {len(reading.sentences)} sentences can earn credit"
    )
    if reading.flaws:
        sentences += f" (others: {', '.join(f'{n} {flaw}' for flaw, n in reading.flaws.items())})"
    if len(reading.text) > scoring.LONGEST_RESPONSE:
        sentences += (
            f"; only {scoring.LONGEST_RESPONSE} of {len(reading.text)} characters "
            "were read"
        )
    return f"Units: {shares}. {sentences}; repeated share {1 - reading.original_share:.2f}."
