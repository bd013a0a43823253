"""The views of a judge on a trace: criteria by what they judge, and one judgement of all of them.

    view of a part = (x, g, the policy's text in the part, its criteria)
    s_j = the score of the view that c_j is in;  for `every_turn` the lowest of all turns

A trace of one reply without tools has one view, which is that of the response alone: same prompt,
same key, same reward.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from typing import Literal, NamedTuple

from rubric_core.errors import SchemaError
from rubric_core.judgement.result import JudgeResult, first_failure, one_call
from rubric_core.outcome import Outcome
from rubric_core.schema.answer import Answer, Unanswered
from rubric_core.schema.judged import (
    EVERY_TURN,
    FULL_TRACE,
    LAST_REPLY,
    TOOL_USE,
    turn_of,
)
from rubric_core.schema.trace import Excerpt, ExcerptPart, PartKind, Trace, TraceStep
from rubric_core.schema.views import JudgeView

MissingTurn = Literal["raise", "zero"]
"""The lot of a criterion whose turn the trace does not have: an error, or 0."""
_Key = tuple[Answer, str]


class _Cut(NamedTuple):
    """A part of a trace: what the policy wrote in it, and the excerpt if that is not all."""

    answer: Answer
    excerpt: Excerpt | None

    @property
    def key(self) -> _Key:
        """Its place in its trace: excerpts of one name are of the same part."""
        return self.answer, "" if self.excerpt is None else self.excerpt.judges


class PartView(NamedTuple):
    """A view that is judged at once."""

    view: JudgeView
    """Its criteria name nothing that they judge: the view is it."""
    judges: str
    """The part of the trace, for people."""


@dataclass(frozen=True, slots=True)
class TraceViews:
    """The views of one trace, and how their judgements become one."""

    whole: JudgeView
    """The last reply with all criteria, as records show it."""
    parts: tuple[PartView, ...]
    """The views to judge, each with some of the criteria."""
    missing: tuple[str, ...] = ()
    """Criteria whose turn is not there; they score 0."""

    @property
    def views(self) -> list[JudgeView]:
        """The views to judge."""
        return [part.view for part in self.parts]

    def joined(self, results: Sequence[JudgeResult]) -> JudgeResult:
        """Return one judgement of all criteria.

        Args:
            results: one for each of `views`.

        Returns:
            The result itself where there is one view with all criteria. Scored if all are; if one
            is invalid, the whole is, with its reason; otherwise unavailable if one is. Usage and
            attempts are summed. What a cascade decided stays with the results of the parts.
        """
        pairs = list(zip(self.parts, results, strict=True))
        if len(pairs) == 1 and len(self.parts[0].view.rubric) == len(self.whole.rubric):
            return pairs[0][1]
        times = [result.latency_s for result in results if result.latency_s is not None]
        call = one_call(
            results,
            judge=results[0].judge if results else None,
            latency_s=max(times, default=None),
        )
        whole = first_failure([(part.judges, result) for part, result in pairs])
        return (whole or self._scored(pairs)).with_call(**call)

    def judged(self, results: Sequence[JudgeResult]) -> dict[str, str]:
        """Return the part of the trace that the score of each criterion is of.

        Args:
            results: one for each of `views`.

        Returns:
            `last_reply`, `turn_2`, `tool_use` or `full_trace` by criterion. For `every_turn` the
            turn with the lowest score, the first of several; `every_turn` where one was not scored.
            A criterion whose turn is not there is left out, and one without a weight.
        """
        pairs = list(zip(self.parts, results, strict=True))
        lowest = _lowest(pairs)
        names: dict[str, str] = {}
        for criterion in self.whole.rubric:
            own = [pair for pair in pairs if criterion.id in pair[0].view.rubric.ids]
            scored = lowest.get(criterion.id)
            if all(result.outcome is Outcome.SCORED for _, result in own):
                parts = [part.judges for part, result in own if result is scored]
            else:
                parts = [EVERY_TURN if len(own) > 1 else own[0][0].judges]
            if parts:
                names[criterion.id] = parts[0]
        return names

    def _scored(self, pairs: Sequence[tuple[PartView, JudgeResult]]) -> JudgeResult:
        rubric = self.whole.rubric
        lowest = _lowest(pairs)
        scores = {
            name: lowest[name].scores[name] if name in lowest else 0.0
            for name in rubric.ids
        }
        whys = {result.unanswered for _, result in pairs}
        if len(whys) == 1 and None not in whys and not any(scores.values()):
            (why,) = whys
            return JudgeResult.without_answer(
                rubric, why or Unanswered.EMPTY, judge=pairs[0][1].judge
            )
        reasons = [
            f"{part.judges}: {result.reasoning}"
            for part, result in pairs
            if result.reasoning
        ]
        reasons += [f"{name}: its turn is not there" for name in self.missing]
        whole = JudgeResult.scored(
            rubric, scores, judge="", reasoning="\n".join(reasons)
        )
        readings = {
            field: {
                name: getattr(result, field)[name]
                for name, result in lowest.items()
                if name in getattr(result, field)
            }
            for field in ("evidence", "probabilities")
        }
        return JudgeResult.model_validate({**dict(whole), **readings})


def joined_results(
    traces: Sequence[TraceViews], results: Iterable[JudgeResult]
) -> list[JudgeResult]:
    """Return one judgement of each trace.

    Args:
        traces: the views that were judged.
        results: one for each view of each trace, in this order.
    """
    following = iter(results)
    return [trace.joined(list(islice(following, len(trace.parts)))) for trace in traces]


def _lowest(pairs: Sequence[tuple[PartView, JudgeResult]]) -> dict[str, JudgeResult]:
    """Return the result that scores a criterion lowest, by criterion."""
    lowest: dict[str, JudgeResult] = {}
    for _, result in pairs:
        for name, score in result.scores.items():
            kept = lowest.get(name)
            if kept is None or score < kept.scores[name]:
                lowest[name] = result
    return lowest


def trace_views(
    whole: JudgeView, trace: Trace, *, missing_turn: MissingTurn = "raise"
) -> TraceViews:
    """Cut a trace into the views that its criteria name.

    Criteria that judge the same are in one view; those of a part that holds the last reply alone
    are in that of the last reply.

    Args:
        whole: the last reply with all criteria: `task.whole_view(trace.answer)`.
        trace: the trace; the messages before the policy's first turn are the prompt, for which the
            question stands.
        missing_turn: "raise" refuses a criterion whose turn is not there; "zero" gives it 0, for
            policies that decide themselves how many turns they take.

    Raises:
        SchemaError: a criterion names a turn that is not there.
    """
    turns = len(trace.turns)
    last = Answer(whole.response, whole.thought)
    missing: list[str] = []
    cutter = _Cutter(trace, last)
    cuts: dict[_Key, tuple[_Cut, str]] = {}
    ids: defaultdict[_Key, list[str]] = defaultdict(list)
    for criterion in whole.rubric:
        number = turn_of(criterion.judges)
        if number is not None and number > turns:
            if missing_turn == "raise":
                raise SchemaError(
                    f"criterion {criterion.id!r} judges turn {number}, and the trace has {turns}: "
                    "name a turn that is there, or let a turn that the policy did not take score "
                    "0 by missing_turn='zero'",
                    field=f"criteria.{criterion.id}.judges",
                )
            missing.append(criterion.id)
            continue
        for cut in cutter.cuts(criterion.judges):
            cuts.setdefault(cut.key, (cut, _named(cut, criterion.judges)))
            ids[cut.key].append(criterion.id)
    parts = [
        PartView(_view(whole, cut, ids[key]), name)
        for key, (cut, name) in cuts.items()
        if any(whole.rubric[name].weight for name in ids[key])
    ]
    return TraceViews(whole, tuple(parts), tuple(missing))


def answer_view(view: JudgeView) -> TraceViews:
    """Return the one view of a response that is no trace.

    Raises:
        SchemaError: a criterion judges a later turn, or the use of tools.
    """
    return TraceViews(view, (PartView(view.of_answer(), LAST_REPLY),))


def _view(whole: JudgeView, cut: _Cut, ids: Sequence[str]) -> JudgeView:
    rubric = whole.rubric
    if len(ids) < len(rubric) or rubric.judges_traces:
        rubric = rubric.of_replies(frozenset(ids))
    update = {
        "rubric": rubric,
        "response": cut.answer.text,
        "thought": cut.answer.thought,
        "excerpt": cut.excerpt,
    }
    return whole.model_copy(update=update)


def _named(cut: _Cut, judges: str | None) -> str:
    if cut.excerpt is not None:
        return cut.excerpt.judges
    return judges if judges and turn_of(judges) else LAST_REPLY


class _Cutter:
    """A trace that is cut; what came before a turn is read once for all turns."""

    def __init__(self, trace: Trace, last: Answer) -> None:
        self._trace = trace
        self._turns = trace.turns
        self._last = last

    def cuts(self, judges: str | None) -> Iterator[_Cut]:
        """Yield the parts of the trace that a criterion judges: one, or one for each turn."""
        if judges is None:
            yield _Cut(self._last, None)
        elif judges == EVERY_TURN:
            for number in each_turn(self._trace):
                yield self._turn(number)
        elif judges == TOOL_USE:
            yield _tool_use(self._trace)
        elif judges == FULL_TRACE:
            yield _full(self._trace)
        else:
            yield self._turn(turn_of(judges) or 1)

    def _turn(self, number: int) -> _Cut:
        """Return one turn, with all that came before it after the prompt."""
        own = self._turns[number - 1]
        answer = Answer(own.text, own.thought)
        if number == 1 and not own.calls:
            return _Cut(answer, None)
        earlier, begins = self._history
        before = earlier[: begins[number - 1]]
        parts = (*before, *_parts(own, number, judged=True))
        return _Cut(answer, Excerpt(judges=f"turn_{number}", parts=parts))

    @cached_property
    def _history(self) -> tuple[list[ExcerptPart], list[int]]:
        """All parts after the prompt as what came earlier, and where each turn's begin."""
        parts: list[ExcerptPart] = []
        begins: list[int] = []
        for step in _paired(self._trace.steps):
            if step.sampled:
                begins.append(len(parts))
            if begins:
                parts += _parts(step, len(begins), judged=False)
        return parts, begins


def each_turn(trace: Trace) -> Sequence[int]:
    """Return the turns that `every_turn` judges one by one: those that do not only call tools.

    Each is shown with all before it, so that the views take memory by the square of their number.
    """
    spoken = [
        number
        for number, own in enumerate(trace.turns, 1)
        if own.text.strip() or not own.calls
    ]
    return spoken or range(1, len(trace.turns) + 1)


def full_excerpt(trace: Trace) -> Excerpt:
    """Return all turns of a trace, with what users and tools said after the prompt."""
    parts: list[ExcerptPart] = []
    turn = 0
    for step in _paired(trace.steps):
        turn += step.sampled
        if turn:
            parts += _parts(step, turn, judged=step.sampled)
    return Excerpt(judges=FULL_TRACE, parts=tuple(parts))


def _full(trace: Trace) -> _Cut:
    whole = full_excerpt(trace)
    parts = whole.parts
    turns = trace.turns
    if len(turns) == 1 and all(part.kind is PartKind.REPLY for part in parts):
        return _Cut(trace.answer, None)
    text = "\n\n".join(step.text for step in turns if step.text.strip())
    answer = Answer(text, turns[-1].thought)
    return _Cut(answer, whole)


def _tool_use(trace: Trace) -> _Cut:
    """Return the calls of the policy and what they returned."""
    parts: list[ExcerptPart] = []
    turn = 0
    for step in _paired(trace.steps):
        turn += step.sampled
        if turn:
            parts += [
                part
                for part in _parts(step, turn, judged=step.sampled)
                if part.kind in (PartKind.CALL, PartKind.RESULT)
            ]
    return _Cut(Answer(""), Excerpt(judges=TOOL_USE, parts=tuple(parts)))


def _paired(steps: Sequence[TraceStep]) -> Iterator[TraceStep]:
    """Yield the steps with the results of each turn in the order of its calls.

    Tools that run at once return in any order, and a judge reads the first result as that of the
    first call.
    """
    order: dict[str, int] = {}
    for is_tool, run in groupby(steps, key=lambda step: step.role == "tool"):
        if is_tool:
            last = len(order)
            yield from sorted(run, key=lambda step: order.get(step.call_id, last))
            continue
        for step in run:
            order = {call.id: place for place, call in enumerate(step.calls)}
            yield step


def _parts(step: TraceStep, turn: int, *, judged: bool) -> Iterator[ExcerptPart]:
    if step.role == "tool":
        yield ExcerptPart(kind=PartKind.RESULT, turn=turn, text=step.text)
        return
    if step.role != "assistant":
        yield ExcerptPart(kind=PartKind.USER, turn=turn, text=step.text)
        return
    reply = PartKind.EARLIER
    call = PartKind.EARLIER_CALL
    if judged and step.sampled:
        reply = PartKind.REPLY
        call = PartKind.CALL
    if step.text.strip():
        yield ExcerptPart(kind=reply, turn=turn, text=step.text)
    for item in step.calls:
        yield ExcerptPart(kind=call, turn=turn, text=item.text)
