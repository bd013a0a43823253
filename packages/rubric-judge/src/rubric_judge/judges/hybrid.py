"""Programs for what a program can check, and another judge for the rest."""

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial

from rubric_core import (
    Criterion,
    Judge,
    JudgeResult,
    JudgeView,
    Outcome,
    Rubric,
)
from rubric_core.files import text_sha256
from rubric_judge.checks import deciding, directive, execute
from rubric_judge.config import HybridConfig
from rubric_judge.errors import SandboxError, VerificationError
from rubric_judge.judges.capabilities import (
    excerpt_refusal,
    fingerprint,
    no_judgement,
    refuse_tool_use,
    wants_warm_call,
)
from rubric_judge.judges.several import SeveralJudges

_VERSION = "hybrid_v2"
_RUBRICS_KEPT = 4096
_OF_ALL = {"scores", "total", "max_total", "reasoning", "judge"}
"""Fields of a result that are about all criteria, whoever judged them."""


@dataclass(frozen=True)
class _Plan:
    """A rubric, split in two: checks by criterion id, and the criteria that have to be read."""

    checks: dict[str, directive.ProgramCheck]
    rest: tuple[Criterion, ...]
    read: Rubric | None
    """The rubric of the other judge; None when no weight is left for it."""


class HybridJudge(SeveralJudges):
    """Executes the verification methods that are executable, and asks a judge once for the rest.

        s_j = w_j · share_j   (a program)      s_j of the other judge, on the rubric of the rest

    Without an executable criterion it is the other judge; where all are executable, it makes no
    call. Where the other judge's answer is invalid or unavailable, so is the whole: a total over
    some of the criteria would be another reward.
    """

    def __init__(
        self,
        judge: Judge,
        config: HybridConfig,
        *,
        programs: execute.Programs | None = None,
    ) -> None:
        """Try the sandbox, where unit tests are switched on.

        Args:
            judge: reads the criteria that no program can check.
            config: limits and isolation; `config.judge` is not loaded here.
            programs: shared with other replicas of this judge; its own when left out.

        Raises:
            SandboxError: unit tests are switched on and this machine cannot confine them.
            MissingExtraError, ConfigError, PluginError: they are switched on, and no sandbox is
                installed, or it is not clear which to use.
        """
        super().__init__((judge,))
        self._judge = judge
        self._config = config
        self._programs = programs or execute.Programs(config)
        # One object for a group: what the other judge keeps for a rubric is kept for its rest.
        plan = partial(_planned, python_tests=config.python_tests)
        self._plan = lru_cache(maxsize=_RUBRICS_KEPT)(plan)

    @property
    def name(self) -> str:
        """The version of the programs and the other judge's name."""
        return f"{_VERSION} + {self._judge.name}"

    @property
    def fingerprint(self) -> str:
        """Changes with the programs, their limits, the sandbox and the other judge."""
        settings = self._config.model_dump_json(
            exclude={"judge": True, "sandbox": {"at_once", "name", "options"}}
        )
        digest = text_sha256(settings + self._programs.identity)[:16]
        return f"{_VERSION} {digest} + {fingerprint(self._judge)}"

    @property
    def warm_call(self) -> bool:
        """Whether the other judge wants the first response of a group alone."""
        return wants_warm_call(self._judge)

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response.

        Args:
            view: everything the judge sees.

        Returns:
            Scored; the other judge's failure; or `unavailable` with reason `judge_error`, when a
            verification method cannot run or unit tests could not be started.
        """
        problem = self.refuse_excerpt(view) if view.excerpt is not None else ""
        if problem:
            return no_judgement(self, problem)
        try:
            plan = self._plan(view.rubric)
            verdicts = await self._verdicts(plan, view)
        except (VerificationError, SandboxError) as error:
            return no_judgement(self, str(error))
        # Not `rubric[name]` for each verdict: that looks through the criteria every time.
        decided = (c for c in view.rubric if c.id in verdicts)
        scores = {c.id: c.weight * verdicts[c.id].share for c in decided}
        account = _account(verdicts)
        if plan.read is None:
            scores |= {c.id: 0.0 for c in plan.rest}
            return JudgeResult.scored(
                view.rubric, scores, judge=self.name, reasoning=account
            )
        result = await self._judge.judge(view.model_copy(update={"rubric": plan.read}))
        if result.outcome is not Outcome.SCORED or not verdicts:
            return result.with_call(judge=self.name)
        reasoning = "\n\n".join(filter(None, (account, result.reasoning)))
        whole = JudgeResult.scored(
            view.rubric, result.scores | scores, judge=self.name, reasoning=reasoning
        )
        # Usage, latency, attempts and evidence are the other judge's.
        return result.with_fields(**whole.model_dump(include=_OF_ALL))

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return why a part of a trace cannot be judged: programs read text alone."""
        problem = refuse_tool_use(self, view)
        with suppress(VerificationError):  # said by the judgement
            plan = self._plan(view.rubric)
            if plan.checks and problem:
                return f"{problem}, which {next(iter(plan.checks))!r} would check"
            if plan.read is None:
                return ""
        return excerpt_refusal(self._judge, view)

    async def _verdicts(
        self, plan: _Plan, view: JudgeView
    ) -> dict[str, deciding.CheckResult]:
        if view.unwritten is not None and view.excerpt is not None:
            # A turn that only calls tools has no text, which some checks would pass.
            return dict.fromkeys(plan.checks, deciding.CheckResult(0.0, "no text"))
        return {
            name: await self._programs.run(check, view.response)
            for name, check in plan.checks.items()
        }


def _planned(rubric: Rubric, *, python_tests: bool) -> _Plan:
    """Split a rubric; unit tests count as checks if they are switched on."""
    checks: dict[str, directive.ProgramCheck] = {}
    for criterion in rubric:
        check = directive.check_executable(criterion, python_tests=python_tests)
        if check is not None:
            checks[criterion.id] = check
    if not checks:
        return _Plan({}, tuple(rubric), rubric)
    rest = tuple(criterion for criterion in rubric if criterion.id not in checks)
    weighs = any(criterion.weight for criterion in rest)
    return _Plan(checks, rest, Rubric(criteria=rest) if weighs else None)


def _account(verdicts: dict[str, deciding.CheckResult]) -> str:
    """Say what share of each criterion's weight a program gave; empty without any."""
    shares = ", ".join(
        f"{name} {verdict.share:.3g}" + (f" ({verdict.note})" if verdict.note else "")
        for name, verdict in verdicts.items()
    )
    return f"By program: {shares}." if shares else ""
