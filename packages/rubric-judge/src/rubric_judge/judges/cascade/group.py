"""The cascade of a group: a strong judge where its verdict changes the advantages most."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from rubric_core import (
    CascadeTrace,
    Criterion,
    Evidence,
    GroupTrace,
    JudgeResult,
    JudgeView,
    Outcome,
)
from rubric_core.arrays import BoolArray
from rubric_core.effective import shares
from rubric_core.files import text_sha256
from rubric_judge.judges.capabilities import (
    check_group,
    group_identity,
    wants_warm_call,
)
from rubric_judge.judges.cascade.asking import strong_costs
from rubric_judge.judges.cascade.deciding import GroupDecision, Rule
from rubric_judge.judges.cascade.in_turn import JudgesInTurn
from rubric_judge.judges.cascade.parts import is_audited
from rubric_judge.judges.cascade.posterior import Readings
from rubric_judge.judges.cascade.queue import ask_for_labels
from rubric_judge.judges.cascade.record import GroupCalibration
from rubric_judge.judges.cascade.uncertainty import agree, measured
from rubric_judge.judges.several import at_once

_CHEAP = 0
_STRONG = 1
_ID_DIGITS = 16


@dataclass(slots=True)
class _Response:
    """One response of the group, and what both judges answered about it."""

    view: JudgeView
    read: dict[int, JudgeResult] = field(default_factory=dict[int, JudgeResult])
    """Answers of the cheap judge, by number of the call."""
    strong: list[JudgeResult] = field(default_factory=list[JudgeResult])
    """Answers of the strong judge, in the order of the calls."""
    asked: set[str] = field(default_factory=set[str])
    """Criteria that the strong judge was asked for."""
    audited: set[str] = field(default_factory=set[str])
    """Criteria that it is asked for whatever they are worth."""
    failure: JudgeResult | None = None
    """The strong judge's failure, which is the response's."""

    @property
    def cheap(self) -> list[JudgeResult]:
        """The cheap judge's answers, in order."""
        return [self.read[sample] for sample in sorted(self.read)]

    @property
    def every(self) -> list[JudgeResult]:
        """All answers of both judges."""
        return [*self.cheap, *self.strong]

    @property
    def is_read(self) -> bool:
        """Whether the cheap judge gave scores."""
        answers = self.read.values()
        return bool(answers) and all(
            answer.outcome is Outcome.SCORED for answer in answers
        )


class _Judged(NamedTuple):
    """All that the results of a judged group have in common."""

    identity: str
    criteria: Sequence[Criterion]
    """The criteria with weight, in the order of the decision's columns."""
    decision: GroupDecision
    rows: Mapping[int, int]
    """The decision's row of each response that did not fail, by Python's `id` of it."""
    started_s: float


class GroupCascadeJudge(JudgesInTurn):
    """Judge of whole groups: a cheap judge for all, a strong one where it matters; a `GroupJudge`.

        next cell: the greatest α_j² p_ij (1 − p_ij) for its price
        stop: expected correlation ≥ target,  budget spent,  or expected spread < least_spread

    p is the cheap judge's reading, by the calibration of these two judges. A cell that the strong
    judge scored has its score; any other has its expected value w_j · p_ij. Audited cells go to the
    strong judge whatever they are worth: their differences say, without bias, how far p is off.

    A response that the cheap judge gives no scores for goes to the strong judge as a whole. Where
    the strong judge's answer about a response is invalid or unavailable, so is that response's
    result, and the others are judged as a group without it. A response alone has no group, and goes
    to the strong judge.
    """

    _version = "cascade_group_v1"
    _settings = frozenset(
        {"uncertainty", "k", "audit_frac", "target", "budget", "least_spread"}
    )
    max_group = 4096
    """Most different responses at once; each prompt holds one of them."""
    fails_apart = True
    """Responses of a group may end with different outcomes: each has its own calls."""

    @property
    def _maps(self) -> GroupCalibration:
        if self._calibration.group is None:  # `require` lets none through
            raise ValueError("the calibration has no probabilities")
        return self._calibration.group

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response alone: by the strong judge."""
        (result,) = await self.judge_group([view])
        return result

    async def judge_group(self, views: Sequence[JudgeView]) -> list[JudgeResult]:
        """Judge different responses to one task; see `GroupJudge.judge_group`.

        Returns:
            A result for each view: scored, or the strong judge's failure for that response; or all
            `unavailable` with reason `judge_error`, when the label queue cannot be written.

        Raises:
            JudgeSetupError, ValueError: as `check_group`.
        """
        check_group(self, views)
        started_s = time.perf_counter()
        in_order = [_Response(view) for view in views]
        # Of cells that are worth the same, the first is asked for: whichever way the group came.
        group = sorted(in_order, key=lambda asked: text_sha256(asked.view.identity))
        if len(group) > 1:
            readings = [
                partial(self._read, response, sample)
                for response in group
                for sample in range(self._config.k)
            ]
            await at_once(readings, warm=wants_warm_call(self._judges[_CHEAP]))
        criteria = [criterion for criterion in views[0].rubric if criterion.weight]
        decision = self._decision(group, criteria)
        live = list(group)
        while (chosen_GM := decision.choose()).any():
            live = await self._round(live, criteria, chosen_GM, decision)
            if not live:
                break
        try:
            self._queue(live, criteria, decision)
        except OSError as error:
            for response in live:
                response.failure = self._unqueued(error)
        judged = _Judged(
            _group_id(views),
            criteria,
            decision,
            {id(response): row for row, response in enumerate(live)},
            started_s,
        )
        return [self._result(response, judged) for response in in_order]

    async def _read(self, response: _Response, sample: int) -> None:
        """Ask the cheap judge for all criteria of a response, once more."""
        view = response.view
        rubric = self._parts(view.rubric).turned(self._config, sample)
        response.read[sample] = await self._answer(_CHEAP, view, rubric, sample)

    def _decision(
        self, group: Sequence[_Response], criteria: Sequence[Criterion]
    ) -> GroupDecision:
        """Return the decision by the cheap answers, with the cells to ask for in any case."""
        shape = len(group), len(criteria)
        mean_GM = np.full(shape, np.nan)
        first_GM = np.zeros(shape, bool)
        is_alone = len(group) == 1
        for row, response in enumerate(group):
            if is_alone or not response.is_read:
                first_GM[row] = True
                continue
            for column, criterion in enumerate(criteria):
                reading = measured(response.cheap, criterion, "margin").score
                share = min(reading / criterion.weight, 1.0)
                mean_GM[row, column] = self._maps.map_of(criterion).value(share)
                if is_audited(
                    response.view, criterion.id, share=self._config.audit_frac
                ):
                    response.audited.add(criterion.id)
                    first_GM[row, column] = True
        maps = [self._maps.map_of(criterion) for criterion in criteria]
        config = self._config
        rule = Rule(
            target=config.target,
            budget=config.budget,
            least_spread=config.least_spread,
            costs=strong_costs(config, [response.view for response in group]),
        )
        readings = Readings(
            mean_GM,
            base_M=np.array([known.base for known in maps]),
            dispersion_M=np.array([known.dispersion for known in maps]),
            alike=self._maps.alike,
            shared=self._maps.shared,
            together=self._maps.together,
        )
        alpha_M = shares([criterion.weight for criterion in criteria])
        return GroupDecision(readings, alpha_M, rule, first_GM=first_GM)

    async def _round(
        self,
        live: list[_Response],
        criteria: Sequence[Criterion],
        chosen_GM: BoolArray,
        decision: GroupDecision,
    ) -> list[_Response]:
        """Ask the strong judge for some cells; return the responses that are left."""
        ids = np.array([criterion.id for criterion in criteria])
        asked = [
            partial(self._ask_strong, response, set(ids[chosen_M].tolist()))
            for response, chosen_M in zip(live, chosen_GM, strict=True)
            if chosen_M.any()
        ]
        await at_once(asked, warm=wants_warm_call(self._judges[_STRONG]))
        known_GM = np.full(chosen_GM.shape, np.nan)
        for row, response in enumerate(live):
            if response.failure is not None:
                continue
            for column, criterion in enumerate(criteria):
                if chosen_GM[row, column]:
                    score = response.strong[-1].scores[criterion.id]
                    known_GM[row, column] = min(score / criterion.weight, 1.0)
        decision.learn(known_GM)
        is_live_G = np.array([response.failure is None for response in live])
        if not is_live_G.all():
            decision.keep(is_live_G)
        return [response for response in live if response.failure is None]

    async def _ask_strong(self, response: _Response, criteria: set[str]) -> None:
        """Ask the strong judge for some criteria, in one call."""
        view = response.view
        part = self._parts(view.rubric).of(criteria)
        answer = await self._answer(_STRONG, view, part)
        response.strong.append(answer)
        response.asked |= criteria
        if answer.outcome is not Outcome.SCORED:
            response.failure = answer

    def _queue(
        self,
        live: Sequence[_Response],
        criteria: Sequence[Criterion],
        decision: GroupDecision,
    ) -> None:
        """Ask people for labels where the two judges differ, if there is a queue."""
        if self._config.label_queue is None:
            return
        for row, response in enumerate(live):
            differing = [
                criterion.id
                for column, criterion in enumerate(criteria)
                if response.is_read
                and criterion.id in response.asked
                and not agree(
                    float(decision.read_GM[row, column]),
                    float(decision.known_GM[row, column]),
                    tolerance=None,
                )
            ]
            if differing:
                ask_for_labels(self._config.label_queue, response.view, differing)

    def _result(self, response: _Response, judged: _Judged) -> JudgeResult:
        """Return the result of one response, with how it came about."""
        if response.failure is not None:
            trace = self._trace(response)
            return self._whole(
                response.failure, response.every, judged.started_s, trace
            )
        rubric = response.view.rubric
        decision = judged.decision
        row = judged.rows[id(response)]
        names = [criterion.id for criterion in judged.criteria]
        values = dict(zip(names, decision.values_GM[row].tolist(), strict=True))
        scores = {c.id: c.weight * values.get(c.id, 0.0) for c in rubric}
        expected = dict(zip(names, decision.read_GM[row].tolist(), strict=True))
        known = dict(zip(names, decision.known_GM[row].tolist(), strict=True))
        audited = [name for name in names if name in response.audited]
        group = GroupTrace(
            id=judged.identity,
            responses=len(decision.read_GM),
            correlation=decision.correlation,
            spent_frac=decision.spent_frac,
            stop=decision.stop or "all",
            expected=expected if response.is_read else {},
            gaps={name: known[name] - expected[name] for name in audited},
        )
        tolerance = self._calibration.tolerance
        trace = self._trace(
            response,
            decided_by={
                name: self.names[_STRONG if name in response.asked else _CHEAP]
                for name in names
            },
            audits={
                name: agree(expected[name], known[name], tolerance=tolerance)
                for name in audited
            },
            group=group,
        )
        scored = JudgeResult.scored(
            rubric, scores, judge=self.name, reasoning=self._account(response)
        )
        evidence = self._evidence(response)
        ordered = {name: evidence[name] for name in rubric.ids if name in evidence}
        scored = scored.with_fields(evidence=ordered)
        return self._whole(scored, response.every, judged.started_s, trace)

    def _trace(
        self,
        response: _Response,
        *,
        decided_by: Mapping[str, str] | None = None,
        audits: Mapping[str, bool] | None = None,
        group: GroupTrace | None = None,
    ) -> CascadeTrace:
        """Return who decided what about a response, with the calls of each judge."""
        weighty = sum(1 for criterion in response.view.rubric if criterion.weight)
        levels = [
            self._level(number, answers, criteria)
            for number, answers, criteria in (
                (_CHEAP, response.cheap, weighty),
                (_STRONG, response.strong, len(response.asked)),
            )
            if answers
        ]
        return CascadeTrace(
            judges=self.names,
            decided_by=dict(decided_by or {}),
            audits=dict(audits or {}),
            levels=levels,
            group=group,
        )

    def _evidence(self, response: _Response) -> dict[str, Evidence]:
        """Return the quotes for each criterion, of the judge that decided it."""
        quotes: dict[str, Evidence] = {}
        if response.is_read:
            quotes |= response.cheap[0].evidence
        for answer in response.strong:
            for name in answer.scores:
                quotes.pop(name, None)
            quotes |= answer.evidence
        return quotes

    def _account(self, response: _Response) -> str:
        """Return what both judges wrote, each under its name."""
        parts: list[str] = []
        for number, answers in (
            (_CHEAP, response.cheap[:1]),
            (_STRONG, response.strong),
        ):
            words = [answer.reasoning for answer in answers if answer.reasoning]
            if words:
                parts.append("\n".join([f"By {self.names[number]}:", *words]))
        return "\n\n".join(parts)


def _group_id(views: Sequence[JudgeView]) -> str:
    """Return a short name of a group, by its task and responses."""
    responses = group_identity(view.identity for view in views)
    return text_sha256(f"{views[0].task_id} {responses}")[:_ID_DIGITS]
