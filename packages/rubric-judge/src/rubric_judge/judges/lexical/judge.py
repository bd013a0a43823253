"""A `Judge` that needs no model: it scores the words of a response.

It guards against lists, loops, copies, words out of order and denials of the passage. The guards
are rules, and miss some cases: read samples of a policy that was trained on it for a long time.
"""

from collections.abc import Iterator
from functools import lru_cache

from rubric_core import JudgeResult, JudgeView
from rubric_core.files import text_sha256
from rubric_judge.checks.deciding import (
    CheckResult,
    QuickCheck,
    decide,
    note_of_failure,
)
from rubric_judge.checks.execute import run_check
from rubric_judge.checks.numeric import NumericCheck
from rubric_judge.checks.pattern import RegexCheck
from rubric_judge.checks.schema import SchemaCheck
from rubric_judge.config import LexicalConfig
from rubric_judge.errors import SandboxError, VerificationError
from rubric_judge.judges.capabilities import no_judgement, refuse_tool_use
from rubric_judge.judges.lexical import polarity, scoring

_RUBRICS_KEPT = 128
"""Number of compiled rubrics cached, about 40 kB each.

A small cache is enough because responses to one task are judged close together.
"""


class LexicalJudge:
    """Scores surface features of a response: terms, places, order, numbers, patterns.

        z_j = credited units / units,    s_j = w_j z_j (1 − repeated share)

    Units are the required elements (as written), the expected keywords and concepts (by stem) and
    the checks of `verification_method` (see `rubric_judge.checks.directive`), of which it
    runs all but `python_tests:`. It reads English, at most 100,000 characters. From the passage
    it takes what is affirmed and denied there. It does not know whether a sentence is true:
    use it to run and test a pipeline, and as a control beside a judge that reads.
    """

    name = "lexical_v3"
    reads_claims = False

    def __init__(self, config: LexicalConfig | None = None) -> None:
        """Start with an empty cache of compiled rubrics.

        Args:
            config: settings; by default, those of `LexicalConfig()`.
        """
        self._config = config or LexicalConfig()
        self._compile = lru_cache(maxsize=_RUBRICS_KEPT)(scoring.compile_rubric)
        self._statements = lru_cache(maxsize=_RUBRICS_KEPT)(polarity.Statements)

    @property
    def fingerprint(self) -> str:
        """The name, and a hash of the settings."""
        digest = text_sha256(self._config.model_dump_json())
        return f"{self.name} {digest[:16]}"

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return why a part of a trace cannot be judged: the use of tools is no text."""
        return refuse_tool_use(self, view)

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Score one response; slow checks run in another process.

        Args:
            view: question, response, rubric, and the passage, for its statements.

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
            return no_judgement(self, str(error))
        return self._scored(view, compiled, verdicts)

    def judge_now(self, view: JudgeView) -> JudgeResult:
        """Score one response without an event loop and in this process, with the same result.

        Args:
            view: question, response, rubric, and the passage, for its statements.

        Returns:
            As `judge`.
        """
        timeout_s = self._config.regex_timeout_s
        try:
            compiled = self._compile(view.rubric)
        except VerificationError as error:
            return no_judgement(self, str(error))
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
        problem = self.refuse_excerpt(view)
        if problem:
            return no_judgement(self, problem)
        reason = view.unwritten
        if reason is not None:
            return JudgeResult.without_answer(view.rubric, reason, judge=self.name)
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
            # The response is untrusted: any error costs this criterion, not the judgement.
            except Exception as error:  # noqa: BLE001
                credit = scoring.Credit(0, 1, note=note_of_failure(error))
            share = credit.earned / credit.units if credit.units else 0.0
            scores[criterion.id] = criterion.weight * share * reading.original_share
            credits_by_id[criterion.id] = credit
        return JudgeResult.scored(
            view.rubric,
            scores,
            judge=self.name,
            reasoning=_explanation(credits_by_id, reading),
        )


def _checks(compiled: scoring.CompiledRubric) -> Iterator[tuple[str, QuickCheck]]:
    """Yield the checks that do not work sentence by sentence."""
    for criterion in compiled.criteria:
        if isinstance(criterion.directive, NumericCheck | RegexCheck | SchemaCheck):
            yield criterion.id, criterion.directive


def _explanation(
    credits_by_id: dict[str, scoring.Credit], reading: scoring.Reading
) -> str:
    shares: list[str] = []
    for name, credit in credits_by_id.items():
        if not credit.units:
            shares.append(f"{name} has nothing that a program can look for")
            continue
        share = f"{name} {credit.earned}/{credit.units}"
        shares.append(f"{share} ({credit.note})" if credit.note else share)
    sentences = (
        f"{len(reading.live)} of {len(reading.sentences)} sentences can earn credit"
    )
    if reading.flaws:
        flaws = ", ".join(f"{count} {flaw}" for flaw, count in reading.flaws.items())
        sentences += f" (others: {flaws})"
    if len(reading.text) > scoring.LONGEST_RESPONSE:
        sentences += (
            f"; only {scoring.LONGEST_RESPONSE} of {len(reading.text)} characters "
            "were read"
        )
    repeated = 1 - reading.original_share
    units = ", ".join(shares)
    return f"Units: {units}. {sentences}; repeated share {repeated:.2f}."
