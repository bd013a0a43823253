"""The base of both cascades: judges in turn, with what their readings are worth."""

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import ClassVar

from rubric_core import Judge, JudgeResult, JudgeView, Reason, Rubric
from rubric_core.files import text_sha256
from rubric_core.judgement.result import CascadeLevel, CascadeTrace, total_usage
from rubric_judge.config import CascadeConfig
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.judges.cascade.parts import Parts
from rubric_judge.judges.cascade.record import CascadeCalibration
from rubric_judge.judges.several import SeveralJudges, with_totals

_RUBRICS_KEPT = 4096
"""Rubrics whose parts a cascade keeps."""

Ask = Callable[[Judge, JudgeView, int], Awaitable[JudgeResult]]
"""Asks a judge about a view; the number tells which of its answers this is. A judge that occurs
twice continues its count at the second place: an answer is one draw, at one place."""


class JudgesInTurn(SeveralJudges):
    """Judges that are asked in turn, the cheapest first, by a calibration of just these."""

    _version: ClassVar[str]
    _settings: ClassVar[frozenset[str]]
    """Settings that the judgements depend on, beside the calibration."""

    def __init__(
        self,
        judges: Sequence[Judge],
        config: CascadeConfig,
        calibration: CascadeCalibration,
        *,
        ask: Ask | None = None,
    ) -> None:
        """Take the judges and what their readings are worth.

        Args:
            judges: two or more, the cheapest first; two where whole groups are judged.
            config: rule and audits; `config.judges` are not loaded here.
            calibration: of these judges.
            ask: function that asks a judge; `judge.judge(view)` when left out.

        Raises:
            ConfigError: the calibration is of other judges or settings.
        """
        source = str(config.calibration or "calibration")
        calibration.require(config, judges, source=source)
        super().__init__(judges)
        self._config = config
        self._calibration = calibration
        self._ask: Ask = ask or (lambda judge, view, _: judge.judge(view))
        names = [judge.name for judge in judges]
        self.names = [
            f"{name} ({place})" if names.count(name) > 1 else name
            for place, name in enumerate(names, start=1)
        ]
        """Names of the judges in results, numbered where two are the same."""
        fingerprints = [fingerprint(judge) for judge in judges]
        self._first = [
            config.k * fingerprints[:place].count(own)
            for place, own in enumerate(fingerprints)
        ]
        """Number of each place's first answer."""
        # A group shares one object, so that a judge's caches hold for the parts of a rubric, too.
        self._parts = lru_cache(maxsize=_RUBRICS_KEPT)(Parts)

    @property
    def name(self) -> str:
        """The version and the names of the judges."""
        return f"{self._version}: {' > '.join(self.names)}"

    @property
    def fingerprint(self) -> str:
        """Changes with the judges, the rule, the audits and the calibration."""
        settings = self._config.model_dump(mode="json", include={*self._settings})
        settings["calibration"] = self._calibration.model_dump(mode="json")
        digest = text_sha256(json.dumps(settings, sort_keys=True))[:16]
        judges = " > ".join(fingerprint(judge) for judge in self._judges)
        return f"{self._version} {digest}: {judges}"

    async def _answer(
        self, number: int, view: JudgeView, rubric: Rubric, sample: int = 0
    ) -> JudgeResult:
        """Ask the judge at a place for some criteria."""
        if rubric is not view.rubric:
            view = view.model_copy(update={"rubric": rubric})
        return await self._ask(self._judges[number], view, self._first[number] + sample)

    def _level(
        self, number: int, answers: Sequence[JudgeResult], criteria: int
    ) -> CascadeLevel:
        """Return the calls to the judge at a place for one response."""
        return CascadeLevel(
            judge=self.names[number],
            calls=len(answers),
            criteria=criteria,
            usage=total_usage(answers),
        )

    def _whole(
        self,
        result: JudgeResult,
        answers: Sequence[JudgeResult],
        started_s: float,
        trace: CascadeTrace,
    ) -> JudgeResult:
        """Return a judgement with what all its answers took."""
        latency_s = time.perf_counter() - started_s
        return with_totals(
            result, answers, judge=self.name, latency_s=latency_s, cascade=trace
        )

    def _unqueued(self, error: OSError) -> JudgeResult:
        """Return the failure of a response whose labels could not be asked for."""
        return JudgeResult.unavailable(
            Reason.JUDGE_ERROR,
            judge=self.name,
            detail=f"the label queue cannot be written ({error.strerror})",
        )
