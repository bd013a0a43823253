"""A panel of judges: one of them drawn for each response, or the mean of all."""

import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from rubric_core import ConfigError, Judge, JudgeResult, JudgeView, Outcome
from rubric_core.files import read_file, text_sha256
from rubric_core.judgement.result import first_failure
from rubric_core.rows import OpenRow
from rubric_judge.config import PanelConfig
from rubric_judge.judges.capabilities import (
    excerpt_refusal,
    fingerprint,
    refuse_groups,
    wants_warm_call,
)
from rubric_judge.judges.several import SeveralJudges, at_once, draw, with_totals

_VERSION = "panel_v1"


class PanelJudge(SeveralJudges):
    """Judge that asks one of several judges, or all of them.

        one:   s_j of judge h(passage, question, response) mod n        mean:   s_j = Σ_k s_kj / n

    The draw follows from a hash of what is judged and the seed: a response goes to the same judge
    whenever it is judged. A mean needs every judge, for a mean of fewer would be another reward: it
    is invalid if any answer is, and otherwise unavailable if any answer is.
    """

    def __init__(self, judges: Sequence[Judge], config: PanelConfig) -> None:
        """Take the judges.

        Args:
            judges: two or more, each of which judges single responses.
            config: draw and seed; `config.judges` and `config.calibrations` are not read here.

        Raises:
            ConfigError: two judges have one fingerprint.
            JudgeSetupError: one judges whole groups.
        """
        for judge in judges:
            refuse_groups(judge, by="a panel asks about each response alone")
        counts = Counter(map(fingerprint, judges))
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise ConfigError(
                f"judges: {twice[0]!r} is in the panel {counts[twice[0]]} times: leave it out but "
                "once; for several answers of one judge there is `rubric-judge reliability`",
                location="judges",
            )
        super().__init__(judges)
        self._config = config

    @property
    def name(self) -> str:
        """The version, the draw and the names of the judges."""
        names = " | ".join(judge.name for judge in self._judges)
        return f"{_VERSION} {self._config.draw} of {names}"

    @property
    def fingerprint(self) -> str:
        """Changes with the judges, their order, the draw and its seed."""
        settings = [self._config.draw, self._config.seed]
        digest = text_sha256(json.dumps(settings))[:16]
        judges = " | ".join(map(fingerprint, self._judges))
        return f"{_VERSION} {digest}: {judges}"

    @property
    def warm_call(self) -> bool:
        """Whether any of the judges wants the first response of a group alone."""
        return any(map(wants_warm_call, self._judges))

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response.

        Args:
            view: everything the judges see.

        Returns:
            The drawn judge's result, or the mean of all; a failure as the class says.
        """
        if self._config.draw == "one":
            drawn = self._judges[self.drawn(view)]
            result = await drawn.judge(view)
            words = f"By {drawn.name}.\n{result.reasoning}".strip()
            update = {"reasoning": words} if result.outcome is Outcome.SCORED else {}
            return result.with_fields(**update).with_call(judge=self.name)
        return await self._mean(view)

    def drawn(self, view: JudgeView) -> int:
        """Return the place, from 0, of the judge that is drawn for a response."""
        judged = (view.grounding.sha256, view.question, view.identity)
        return draw("panel", self._config.seed, *judged) % len(self._judges)

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return why one of the judges cannot judge a part of a trace."""
        problems = (excerpt_refusal(judge, view) for judge in self._judges)
        return next(filter(None, problems), "")

    async def _mean(self, view: JudgeView) -> JudgeResult:
        """Ask all judges at once."""
        started_s = time.perf_counter()
        answers = await at_once(partial(judge.judge, view) for judge in self._judges)
        return self._together(view, answers, time.perf_counter() - started_s)

    def _together(
        self, view: JudgeView, answers: Sequence[JudgeResult], latency_s: float
    ) -> JudgeResult:
        """Return the mean of all answers, or else the first invalid or first unavailable one."""
        whole = first_failure(
            [
                (f"judge {place} of {len(answers)}", answer)
                for place, answer in enumerate(answers, start=1)
            ]
        )
        if whole is None:
            scores = {
                criterion.id: min(
                    math.fsum(answer.scores[criterion.id] for answer in answers)
                    / len(answers),
                    criterion.weight,
                )
                for criterion in view.rubric
            }
            words = [
                f"By {judge.name}: total {answer.total:g}.\n{answer.reasoning}".strip()
                for judge, answer in zip(self._judges, answers, strict=True)
            ]
            whole = JudgeResult.scored(
                view.rubric, scores, judge=self.name, reasoning="\n\n".join(words)
            )
        return with_totals(whole, answers, judge=self.name, latency_s=latency_s)


class _Criterion(OpenRow):
    """A criterion of a calibration, as far as a panel reads it."""

    factor: float


class _Calibration(OpenRow):
    """A judge's calibration.json, as far as a panel reads it."""

    judge_fingerprint: str
    criteria: tuple[_Criterion, ...]


def require_admitted(config: PanelConfig, judges: Sequence[Judge]) -> None:
    """Refuse a panel with a judge that its calibration does not admit.

    Args:
        config: names a calibration for each judge, or none at all.
        judges: its judges, in order.

    Raises:
        ConfigError: a calibration cannot be read, is of another judge, or admits no criterion.
    """
    for place, (path, judge) in enumerate(
        zip(config.calibrations, judges, strict=False), start=1
    ):
        if path is None:
            continue
        calibration = _read_calibration(path)
        current = fingerprint(judge)
        if calibration.judge_fingerprint != current:
            raise ConfigError(
                f"{path}: it is of {calibration.judge_fingerprint!r}, and judge {place} of the "
                f"panel is {current!r}: calibrate this judge, or use the one that was calibrated",
                location="calibrations",
            )
        if not any(criterion.factor > 0 for criterion in calibration.criteria):
            raise ConfigError(
                f"{path}: it admits judge {place} of the panel, {judge.name!r}, on none of its "
                f"{len(calibration.criteria)} criteria: leave the judge out",
                location="calibrations",
            )


def _read_calibration(path: Path) -> _Calibration:
    """Read what a panel needs of a calibration, or raise ConfigError."""
    command = (
        "rubric-judge calibrate TASKS RESPONSES --labels L --judge JUDGE --out FOLDER"
    )
    remedy = f"`{command}` writes one"
    try:
        return _Calibration.model_validate_json(read_file(path))
    except OSError as error:
        problem = f"{path}: cannot be read ({error.strerror}): {remedy}"
    except ValidationError:
        problem = f"{path}: this is no calibration.json of a judge: {remedy}"
    raise ConfigError(problem, location="calibrations")
