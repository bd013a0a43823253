"""Two models' values on the same questions, or a refusal that says what differs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from rubric_eval.errors import ComparisonError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_eval.records import Measured
    from rubric_eval.statistics.intervals import FloatArray

_SAME: Final = {
    "benchmark": "compare them on one benchmark",
    "measure": "compare rewards with rewards",
    "judge": "judge both by one judge",
    "protocol": "evaluate both with the same decoding, template, judge and extraction",
    "seeds": "answer with the same seeds",
}
"""Fields that two sides must share, and what to do where they do not."""


_SHOWN_CHARS: Final = 40


@dataclass(frozen=True)
class Pair:
    """a and b on the questions that both have a value for, in the order of a."""

    a: Measured
    b: Measured
    ids: tuple[str, ...]
    clusters: tuple[str, ...]
    a_N: FloatArray
    b_N: FloatArray

    @property
    def differences_N(self) -> FloatArray:
        """Of each question, a − b."""
        return self.a_N - self.b_N

    @property
    def left_out(self) -> int:
        """Questions that a side has no value for."""
        return len(self.a.ids) - len(self.ids)

    @property
    def answers(self) -> int:
        """K of each side."""
        return len(self.a.values_NK[0])


def pair(a: Measured, b: Measured) -> Pair:
    """Match questions by id.

    Raises:
        ComparisonError: another benchmark, measure, judge, protocol, number of answers, set of
            questions, prompt or document; or no question that both have a value for.
    """
    _check_same(a, b)
    place = {name: at for at, name in enumerate(b.ids)}
    order = [place[name] for name in a.ids]
    _check_each(a, b, order)
    a_N, b_N = question_means(a), question_means(b)[order]
    is_both_N = ~np.isnan(a_N) & ~np.isnan(b_N)
    both = [at for at, is_both in enumerate(is_both_N) if is_both]
    if not both:
        raise ComparisonError(
            f"{_of(a, b)}: no question has a value from both; evaluate again what is unavailable"
        )
    return Pair(
        a=a,
        b=b,
        ids=tuple(a.ids[at] for at in both),
        clusters=tuple(a.clusters[at] for at in both),
        a_N=a_N[both],
        b_N=b_N[both],
    )


def question_means(measured: Measured) -> FloatArray:
    """Mean over the values that a question has; NaN where it has none."""
    return np.array([_mean(values_K) for values_K in measured.values_NK], dtype=np.float64)


def _mean(values_K: Sequence[float | None]) -> float:
    present = [value for value in values_K if value is not None]
    return sum(present) / len(present) if present else float("nan")


def _check_same(a: Measured, b: Measured) -> None:
    for field, remedy in _SAME.items():
        first, second = getattr(a, field), getattr(b, field)
        if first != second:
            said = _differing_parts(first, second) or f"{_shown(first)} and {_shown(second)}"
            raise ComparisonError(f"{_of(a, b)}: {field} differs, {said}; {remedy}")
    forms = a.prompt_form, b.prompt_form
    if None not in forms and forms[0] != forms[1]:
        why = (
            "one tokenizer has a chat template and the other none, so that the same questions were "
            "put in other words; give both the same template (chat_template.jinja)"
            if set(forms) == {"chat", "plain"}
            else "the same questions were put in other words; compare models that are asked alike"
        )
        raise ComparisonError(
            f"{_of(a, b)}: prompts differ, {forms[0]} and {forms[1]}: {why}, and evaluate again"
        )
    sizes = len(a.values_NK[0]), len(b.values_NK[0])
    if sizes[0] != sizes[1]:
        raise ComparisonError(
            f"{_of(a, b)}: {sizes[0]} and {sizes[1]} answers a question; sample as many for both"
        )
    if unpaired := sorted(set(a.ids) ^ set(b.ids)):
        raise ComparisonError(
            f"{_of(a, b)}: {len(unpaired)} questions have only one of both, first "
            f"{unpaired[0]!r}; evaluate both on the same questions"
        )


def _check_each(a: Measured, b: Measured, order: Sequence[int]) -> None:
    """Refuse questions that share an id and nothing else."""
    what = {"prompts": "was put in other words", "clusters": "is from another document"}
    for field, said in what.items():
        firsts, seconds = getattr(a, field), getattr(b, field)
        differ = [at for at, there in enumerate(order) if firsts[at] != seconds[there]]
        if differ:
            raise ComparisonError(
                f"{_of(a, b)}: {len(differ)} of {len(order)} questions differ in {field}: "
                f"{a.ids[differ[0]]!r} {said}; evaluate both on the same files with the same "
                "template"
            )


def _differing_parts(first: Any, second: Any) -> str:  # noqa: ANN401  # of any field
    """Name what differs between two JSON objects; nothing where they are none."""
    a, b = (_parts(one) for one in (first, second))
    return ", ".join(
        f"{name.replace('_', '-')} {_shown(a[name])} and {_shown(b[name])}"
        for name in sorted(a.keys() & b.keys())
        if a[name] != b[name]
    )


def _parts(value: Any) -> dict[str, Any]:  # noqa: ANN401  # of any field
    try:
        found = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _of(a: Measured, b: Measured) -> str:
    return f"{a.model!r} and {b.model!r} on {a.benchmark!r}"


def _shown(value: Any) -> str:  # noqa: ANN401  # of any field
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:17]}…{text[-4:]}"
