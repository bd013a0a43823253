"""Scores by criterion in the row of another stack's log: our record, our metrics, or its own."""

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from rubric_core import Outcome, Pooling, RubricFileError, Task
from rubric_core.rows import row_error
from rubric_judge.quality.criteria.groups import JudgedAnswer
from rubric_judge.quality.criteria.record import RECORD, JudgementRecord

SWITCH = "log_judgements=True"
"""Option of the adapters that writes the record."""
_SHARES = frozenset(
    {"score", "invalid", "unavailable", "thought", "unclosed_thought", "empty_answer"}
)
"""Names of the adapters' metrics that are no criteria."""
LOOKED_FOR = (
    f"`rubric/{RECORD}` ({SWITCH} of the adapter), numbers `rubric/<criterion>`"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a row, and what the row says of its group, prompt and step."""

    path: Path
    line: int
    group: object
    prompt: object
    step: int = 0
    response: object = None


@dataclass
class Fields:
    """Reader of the rows of one log."""

    tasks: Mapping[str, Task]
    own: str
    """Name of a score by criterion in the stack, for the error."""
    notes: list[str] = field(default_factory=list[str])
    only: frozenset[str] = frozenset()
    """Names of the stack's own scores that are criteria; all numbers if empty."""
    weighed_alike: bool = False
    """Whether some rows named no weights."""
    avoided: set[str] = field(default_factory=set[str])
    """Names of scores with a negative weight."""
    keeps_texts: bool = False
    """Whether answers get their texts."""
    most: int = 0
    """Most of the stack's own scores that an answer had as criteria."""
    _pooling: Pooling | None = None

    def answer(
        self,
        place: Place,
        row: Mapping[str, object],
        *,
        own: Mapping[str, object],
        weights: Mapping[str, float] | None = None,
        failed: bool = False,
        task_id: str | None = None,
    ) -> JudgedAnswer:
        """Return the judged answer of a row.

        Args:
            place: where it stands.
            row: fields among which our record or metrics may be.
            own: the stack's own scores by criterion, for rows with neither.
            weights: their weights; all alike if None.
            failed: whether the stack says that the judgement failed.
            task_id: id of the task, where the row names it.

        Raises:
            RubricFileError: there are no scores by criterion, or a record that is broken.
        """
        for name, value in row.items():
            if name.rpartition("/")[2] == RECORD and isinstance(value, str | Mapping):
                record = _record(cast("object", value), place)
                return JudgedAnswer(
                    group=place.group,
                    task_id=record.task_id,
                    step=place.step,
                    outcome=record.outcome,
                    shares=record.shares,
                    z=record.z,
                    tokens=record.tokens,
                    pools=record.pools,
                    texts=self._texts(place),
                )
        if self.only:
            own = {name: value for name, value in own.items() if name in self.only}
        prefix = _prefix(row)
        outcome = Outcome.UNAVAILABLE if failed else Outcome.SCORED
        scores = _numbers(own.items())
        if prefix is not None:
            outcome = _outcome(row, prefix)
            scores = _numbers(
                (name.removeprefix(f"{prefix}/"), value)
                for name, value in row.items()
                if name.startswith(f"{prefix}/")
                and name.removeprefix(f"{prefix}/") not in _SHARES
            )
        elif not scores and own and not failed:
            outcome = Outcome.UNAVAILABLE  # each of the stack's scores is null
        if not scores and outcome is Outcome.SCORED:
            raise self._without_scores(row, place)
        if outcome is not Outcome.SCORED:
            scores = {}
        names: Collection[str] = scores
        if scores and prefix is None:
            # A score that is null is missing, but its criterion counts among the weights.
            names = [
                name for name, value in own.items() if name in scores or value is None
            ]
            self.most = max(self.most, len(names))
        name = task_id or prompt_id(place.prompt)
        if prefix is None and weights:
            # More is better of 1 − z, where the stack's weight is negative.
            turned = {name for name in scores if weights.get(name, 1.0) < 0}
            self.avoided |= turned
            scores |= {name: 1.0 - scores[name] for name in turned}
        return JudgedAnswer(
            group=place.group,
            task_id=name,
            step=place.step,
            outcome=outcome,
            shares=self._shares(name, names, weights if prefix is None else None),
            z=scores,
            texts=self._texts(place),
        )

    def _texts(self, place: Place) -> tuple[str, str] | None:
        if not self.keeps_texts:
            return None
        return plain_text(place.prompt), plain_text(place.response)

    def _shares(
        self, task_id: str, names: Collection[str], own: Mapping[str, float] | None
    ) -> dict[str, float]:
        """Return each criterion's share of the weight: by the task, by the stack, or all alike."""
        if not names:
            return {}
        weights = {name: (own or {}).get(name, 1.0) for name in names}
        task = self.tasks.get(task_id)
        if task is not None:
            by_name = self._weights(task)
            if by_name.keys() >= set(names):
                weights = {name: by_name[name] for name in names}
                own = by_name
        if own is None:
            self.weighed_alike = True
        total = sum(abs(weight) for weight in weights.values())
        if not total:
            return {}
        return {name: abs(weight) / total for name, weight in weights.items()}

    def _weights(self, task: Task) -> dict[str, float]:
        """Return the weights of a task's criteria by id, and by the name of their pool."""
        if self._pooling is None:
            self._pooling = Pooling.of(self.tasks.values())
        weights: dict[str, float] = {}
        for criterion in task.rubric:
            pool = self._pooling.pool(criterion).name
            weights[pool] = weights.get(pool, 0.0) + criterion.weight
        for criterion in task.rubric:
            weights.setdefault(criterion.id, criterion.weight)
        return weights

    def _without_scores(
        self, row: Mapping[str, object], place: Place
    ) -> RubricFileError:
        names = ", ".join(sorted(map(repr, row))[:12]) or "none"
        return RubricFileError(
            f"holds no scores by criterion: its fields are {names}; looked for {LOOKED_FOR}, "
            f"and {self.own}",
            path=place.path,
            line=place.line,
        )


def prompt_id(prompt: object) -> str:
    """Return a short name of a prompt whose row names no task."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
    return f"prompt-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def plain_text(value: object) -> str:
    """Return what a person reads of a prompt or a response: its text, or that of its messages.

    A message that asks for a tool or holds no text is shown as JSON.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        parts = [
            part for part in cast("list[object]", value) if not _is_reasoning(part)
        ]
        turn = plain_text if len(parts) == 1 else _turn
        return "\n\n".join(map(turn, parts))
    if isinstance(value, Mapping):
        message = cast("Mapping[str, object]", value)
        if "content" in message and not message.get("tool_calls"):
            return plain_text(message["content"])
        if isinstance(text := message.get("text"), str):
            return text
    return json.dumps(value, ensure_ascii=False, default=str)


def _is_reasoning(part: object) -> bool:
    """Tell whether a part of a response is what the model thought before it."""
    if not isinstance(part, Mapping):
        return False
    return cast("Mapping[str, object]", part).get("type") == "reasoning"


def _turn(part: object) -> str:
    if not isinstance(part, Mapping):
        return plain_text(part)
    message = cast("Mapping[str, object]", part)
    role = message.get("role")
    return f"{role}: {plain_text(message)}" if role else plain_text(message)


def _record(value: object, place: Place) -> JudgementRecord:
    """Read our own record of a judgement."""
    try:
        if isinstance(value, str):
            return JudgementRecord.model_validate_json(value)
        return JudgementRecord.model_validate(value)
    except ValidationError as error:
        raise row_error(
            error,
            f"`{RECORD}` must be as the adapter writes it",
            path=place.path,
            line=place.line,
        ) from None


def _prefix(row: Mapping[str, object]) -> str | None:
    """Return what the names of our metrics begin with; None where there are none."""
    for name in row:
        prefix, _, last = name.rpartition("/")
        if (
            last == "invalid"
            and {f"{prefix}/score", f"{prefix}/unavailable"} <= row.keys()
        ):
            return prefix
    return None


def _outcome(row: Mapping[str, object], prefix: str) -> Outcome:
    if row[f"{prefix}/unavailable"]:
        return Outcome.UNAVAILABLE
    return Outcome.INVALID if row[f"{prefix}/invalid"] else Outcome.SCORED


def _numbers(items: Iterable[tuple[str, object]]) -> dict[str, float]:
    """Return the finite numbers among the values; None and NaN are no scores."""
    return {
        name: float(value)
        for name, value in items
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    }
