"""Models' scores and paired differences on the same questions, or a refusal that says why."""

import json
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_eval import statistics
from rubric_eval.comparison.results import CompareSettings, PairedResult
from rubric_eval.errors import ComparisonError
from rubric_eval.records.run import Measure, Measured

_SHARED = {
    "benchmark": "compare them on one benchmark",
    "measure": "compare rewards with rewards",
    "judge": "judge both by one judge",
    "protocol": "evaluate both with the same decoding, template, judge and extraction",
    "seeds": "answer with the same seeds",
}
"""Fields that two sides must share, with the remedies where they do not."""
_SHARED_BY_QUESTION = {
    "prompts": "was put in other words",
    "clusters": "is from another document",
}
"""Fields that must be equal for each question, with the problem where they are not."""
_SHOWN_CHARS = 40


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
        """Difference a − b of each question."""
        return self.a_N - self.b_N

    @property
    def named(self) -> dict[str, Any]:
        """Both models, the benchmark and the judge, as fields of a record of a difference."""
        a = self.a
        return {
            "a": a.model,
            "b": self.b.model,
            "benchmark": a.benchmark,
            "judge": a.judge,
        }

    @property
    def left_out(self) -> int:
        """Number of questions that a side has no value for."""
        return len(self.a.ids) - len(self.ids)


def pair(a: Measured, b: Measured) -> Pair:
    """Match questions by id.

    Raises:
        ComparisonError: another benchmark, measure, judge, protocol, number of answers, set of
            questions, prompt or document; or no question that both have a value for.
    """
    _check_same(a, b)
    places = {name: place for place, name in enumerate(b.ids)}
    order = [places[name] for name in a.ids]
    _check_each(a, b, order)
    # A missing value becomes NaN.
    a_N = np.array(a.means_N, dtype=np.float64)
    b_N = np.array(b.means_N, dtype=np.float64)[order]
    both: list[int] = np.flatnonzero(~np.isnan(a_N - b_N)).tolist()
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


def _check_same(a: Measured, b: Measured) -> None:
    for field, remedy in _SHARED.items():
        first = getattr(a, field)
        second = getattr(b, field)
        if first != second:
            parts = _differing_parts(first, second)
            if not parts:
                parts = f"{_shown(first)} and {_shown(second)}"
            raise ComparisonError(f"{_of(a, b)}: {field} differs, {parts}; {remedy}")
    _check_forms(a, b)
    if a.answers != b.answers:
        raise ComparisonError(
            f"{_of(a, b)}: {a.answers} and {b.answers} answers a question; sample as many for both"
        )
    unpaired = sorted(set(a.ids) ^ set(b.ids))
    if unpaired:
        raise ComparisonError(
            f"{_of(a, b)}: {len(unpaired)} questions have only one of both, first "
            f"{unpaired[0]!r}; evaluate both on the same questions"
        )


def _check_forms(a: Measured, b: Measured) -> None:
    """Refuse prompts that are known to differ in form."""
    forms = {a.prompt_form, b.prompt_form}
    if None in forms or len(forms) == 1:
        return
    if forms == {"chat", "plain"}:
        raise ComparisonError(
            f"{_of(a, b)}: prompts differ, {a.prompt_form} and {b.prompt_form}: one tokenizer has "
            "a chat template and the other none, so that the same questions were put in other "
            "words; give both the same template (chat_template.jinja), and evaluate again"
        )
    raise ComparisonError(
        f"{_of(a, b)}: prompts differ, {a.prompt_form} and {b.prompt_form}: the same questions "
        "were put in other words; compare models that are asked alike, and evaluate again"
    )


def _check_each(a: Measured, b: Measured, order: Sequence[int]) -> None:
    """Refuse questions that share an id and nothing else."""
    for field, problem in _SHARED_BY_QUESTION.items():
        firsts = getattr(a, field)
        seconds = [getattr(b, field)[place] for place in order]
        different = [
            name
            for name, first, second in zip(a.ids, firsts, seconds, strict=True)
            if first != second
        ]
        if different:
            raise ComparisonError(
                f"{_of(a, b)}: {len(different)} of {len(order)} questions differ in {field}: "
                f"{different[0]!r} {problem}; evaluate both on the same files with the same "
                "template"
            )


def _differing_parts(first: Any, second: Any) -> str:
    """Return the differences between two JSON objects; "" for anything else."""
    a = _parts(first)
    b = _parts(second)
    differences: list[str] = []
    for name in sorted(a.keys() & b.keys()):
        if a[name] != b[name]:
            values = f"{_shown(a[name])} and {_shown(b[name])}"
            differences.append(f"{name.replace('_', '-')} {values}")
    return ", ".join(differences)


def _parts(value: Any) -> dict[str, Any]:
    if not isinstance(value, str):
        return {}
    try:
        content = json.loads(value)
    except ValueError:
        return {}
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _of(a: Measured, b: Measured) -> str:
    """Return what a message is about: two models and their benchmark."""
    return f"{a.model!r} and {b.model!r} on {a.benchmark!r}"


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) <= _SHOWN_CHARS:
        return text
    return f"{text[:17]}…{text[-4:]}"


def paired_results(
    pairs: Sequence[Pair], settings: CompareSettings
) -> list[PairedResult]:
    """Test each pair, decide over its family, and return the results in the order of the pairs."""
    tests = [paired_test(pair, settings) for pair in pairs]
    families: defaultdict[Hashable, list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        family = None
        if settings.family == "benchmarks":
            family = (pair.a.model, pair.b.model, pair.a.measure)
        families[family].append(index)
    alpha = 1 - settings.confidence
    decisions: dict[int, statistics.Decision] = {}
    for members in families.values():
        p_values = [tests[index].p_value for index in members]
        decided = statistics.decide(p_values, settings.correction, alpha=alpha)
        decisions |= zip(members, decided, strict=True)
    return [
        _result(pair, test, decisions[index], settings)
        for index, (pair, test) in enumerate(zip(pairs, tests, strict=True))
    ]


def paired_test(pair: Pair, settings: CompareSettings) -> statistics.PairedTest:
    """Return the test of a pair: bootstrap for rewards, McNemar or sign flips for accuracies."""
    values = (pair.differences_N, pair.clusters)
    draws = settings.draws
    if pair.a.measure is Measure.REWARD:
        return statistics.reward_test(*values, **draws)
    return statistics.accuracy_test(*values, answers=pair.a.answers, **draws)


def _result(
    pair: Pair,
    test: statistics.PairedTest,
    decision: statistics.Decision,
    settings: CompareSettings,
) -> PairedResult:
    low, high = test.limits(settings.confidence) or (None, None)
    decided_low, decided_high = test.limits(1 - decision.level) or (None, None)
    differences_N = np.round(pair.differences_N, 12)
    return PairedResult(
        mean=test.mean,
        ci_low=low,
        ci_high=high,
        n=test.n,
        **pair.named,
        measure=pair.a.measure,
        a_mean=float(pair.a_N.mean()),
        b_mean=float(pair.b_N.mean()),
        clusters=test.clusters,
        left_out=pair.left_out,
        won=int(np.sum(differences_N > 0)),
        lost=int(np.sum(differences_N < 0)),
        test=test.name,
        p=test.p_value,
        **asdict(decision),
        decided_low=decided_low,
        decided_high=decided_high,
        detectable=test.detectable(alpha=decision.level, power=settings.power),
    )
