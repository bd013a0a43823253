"""The cascade: judges in order, each criterion decided by the first that is sure of it."""

import time
from collections.abc import Mapping, Sequence
from functools import partial

from rubric_core import CascadeTrace, Criterion, JudgeResult, JudgeView, Outcome, Rubric
from rubric_judge.judges.capabilities import excerpt_refusal, wants_warm_call
from rubric_judge.judges.cascade.in_turn import JudgesInTurn
from rubric_judge.judges.cascade.parts import is_audited
from rubric_judge.judges.cascade.queue import ask_for_labels
from rubric_judge.judges.cascade.uncertainty import Measured, agree, measured
from rubric_judge.judges.several import at_once

_ROUNDING = 1e-9


class _Progress:
    """Progress on one response."""

    def __init__(self, rubric: Rubric) -> None:
        self.open = {c.id: c for c in rubric if c.weight}
        self.found: dict[str, list[tuple[int, Measured]]] = {
            name: [] for name in self.open
        }
        """Each judge's reading of a criterion, with the judge's number."""
        self.sure_judge: dict[str, int] = {}
        """Number of the judge that is sure of a criterion."""
        self.answers: dict[int, list[JudgeResult]] = {}
        self.criteria_asked: dict[int, int] = {}
        """Number of criteria that each judge was asked about."""

    @property
    def every(self) -> list[JudgeResult]:
        """All answers of all judges."""
        return [answer for results in self.answers.values() for answer in results]


class CascadeJudge(JudgesInTurn):
    """Judge that asks the first judge for every criterion, and the next for those it is unsure of.

        s_j of the first judge with u_j ≤ λ_j;  of the last judge otherwise, and where audited

    A judge but the last gives k answers, whose mean counts; it decides nothing where one of them is
    invalid or unavailable. Where the last judge's answer is, so is the whole: a total over some of
    the criteria would be another reward. Which criteria are audited follows from a hash of what is
    judged, so that a judgement that is made again audits the same.
    """

    _version = "cascade_v1"
    _settings = frozenset({"uncertainty", "k", "audit_frac"})

    @property
    def warm_call(self) -> bool:
        """Whether the first judge wants the first response of a group alone."""
        return wants_warm_call(self._judges[0])

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response.

        Args:
            view: everything the judges see.

        Returns:
            Scored; the last judge's failure; or `unavailable` with reason `judge_error`, when the
            label queue cannot be written.
        """
        started_s = time.perf_counter()
        state = _Progress(view.rubric)
        last = len(self._judges) - 1
        for number in range(last):
            if state.open:
                await self._decide(number, view, state)
        share = self._config.audit_frac
        audited = [
            name for name in state.sure_judge if is_audited(view, name, share=share)
        ]
        names = {*state.open, *audited}
        if names:
            (result,) = await self._answers(last, view, names, state)
            if result.outcome is not Outcome.SCORED:
                trace = self._trace(state, {}, {})
                return self._whole(result, state.every, started_s, trace)
            for name in names:
                criterion = view.rubric[name]
                reading = measured([result], criterion, "margin")
                state.found[name].append((last, reading))
        decided = {name: readings[-1] for name, readings in state.found.items()}
        audits = {
            name: self._agree(state.found[name], view.rubric[name]) for name in audited
        }
        try:
            self._queue(view, state)
        except OSError as error:
            trace = self._trace(state, {}, {})
            return self._whole(self._unqueued(error), state.every, started_s, trace)
        scores = {
            criterion.id: decided[criterion.id][1].score if criterion.weight else 0.0
            for criterion in view.rubric
        }
        decided_by = {name: number for name, (number, _) in decided.items()}
        trace = self._trace(state, decided_by, audits)
        reasoning = self._account(trace, state)
        scored = JudgeResult.scored(
            view.rubric, scores, judge=self.name, reasoning=reasoning
        )
        # What the first answer of the judge that decided a criterion says of it.
        deciding = {
            name: state.answers[decided_by[name]][0]
            for name in view.rubric.ids
            if name in decided_by
        }
        readings = {
            field: {
                name: getattr(answer, field)[name]
                for name, answer in deciding.items()
                if name in getattr(answer, field)
            }
            for field in ("evidence", "probabilities")
        }
        scored = scored.with_fields(**readings)
        return self._whole(scored, state.every, started_s, trace)

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return why one of the judges cannot judge a part of a trace."""
        problems = (excerpt_refusal(judge, view) for judge in self._judges)
        return next(filter(None, problems), "")

    async def _decide(self, number: int, view: JudgeView, state: _Progress) -> None:
        """Ask a judge, and let it decide the criteria that it is sure of."""
        results = await self._answers(number, view, set(state.open), state)
        if any(result.outcome is not Outcome.SCORED for result in results):
            return
        for name, criterion in list(state.open.items()):
            reading = measured(results, criterion, self._config.uncertainty)
            state.found[name].append((number, reading))
            threshold = self._calibration.threshold(criterion)
            if threshold is not None and reading.uncertainty <= threshold + _ROUNDING:
                state.sure_judge[name] = number
                del state.open[name]

    async def _answers(
        self, number: int, view: JudgeView, criteria: set[str], state: _Progress
    ) -> list[JudgeResult]:
        """Ask a judge for some criteria, k times at once; the last one once."""
        part = self._parts(view.rubric).of(criteria)
        is_last = number == len(self._judges) - 1

        async def ask(sample: int) -> JudgeResult:
            rubric = part if is_last else self._parts(part).turned(self._config, sample)
            return await self._answer(number, view, rubric, sample)

        state.criteria_asked[number] = len(criteria)
        if is_last or self._config.k == 1:
            state.answers[number] = [await ask(0)]
        else:
            samples = range(self._config.k)
            state.answers[number] = await at_once(partial(ask, k) for k in samples)
        return state.answers[number]

    def _queue(self, view: JudgeView, state: _Progress) -> None:
        if self._config.label_queue is None:
            return
        differing = [
            name
            for name, readings in state.found.items()
            if len(
                {reading.is_met(view.rubric[name].weight) for _, reading in readings}
            )
            > 1
        ]
        if differing:
            ask_for_labels(self._config.label_queue, view, differing)

    def _agree(
        self, readings: Sequence[tuple[int, Measured]], criterion: Criterion
    ) -> bool:
        (_, before), (_, final) = readings[-2:]
        return agree(
            before.score / criterion.weight,
            final.score / criterion.weight,
            tolerance=self._calibration.tolerance,
        )

    def _trace(
        self, state: _Progress, decided: Mapping[str, int], audits: Mapping[str, bool]
    ) -> CascadeTrace:
        levels = [
            self._level(number, results, state.criteria_asked[number])
            for number, results in sorted(state.answers.items())
        ]
        return CascadeTrace(
            judges=self.names,
            decided_by={name: self.names[by] for name, by in decided.items()},
            audits=dict(audits),
            levels=levels,
            risk=self._calibration.risk,
            confidence=self._calibration.confidence,
            bound=self._calibration.bound,
        )

    def _account(self, trace: CascadeTrace, state: _Progress) -> str:
        parts: list[str] = []
        for number, results in sorted(state.answers.items()):
            judge = self.names[number]
            own = [name for name, by in trace.decided_by.items() if by == judge]
            if own:
                heading = f"By {judge}: {', '.join(own)}."
                parts.append(f"{heading}\n{results[0].reasoning}".strip())
        return "\n\n".join(parts)
