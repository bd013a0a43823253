"""Evaluations side by side: every model's score, every paired difference, and what to beware of."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Final

from rubric_eval.comparison.breakdown import averages, breakdown
from rubric_eval.comparison.found import CompareSettings, EvalComparison, Part
from rubric_eval.comparison.pairing import FEWEST_QUESTIONS, pair, paired_results, score
from rubric_eval.errors import ComparisonError
from rubric_eval.records import Measure
from rubric_eval.transfer.suites import suite_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rubric_eval.comparison.found import ModelScore, PairedResult
    from rubric_eval.comparison.pairing import Pair
    from rubric_eval.records import Measured

_FEW_CLUSTERS: Final = 30
_Column = tuple[str, str | None]
"""Benchmark and judge."""


def compare_measured(
    measured: Sequence[Measured], settings: CompareSettings | None = None
) -> EvalComparison:
    """Compare models on each benchmark, by each judge.

    Args:
        measured: values of every model on every benchmark; the order of the models is that of
            their training.
        settings: pairs, level, correction, power.

    Returns:
        Scores, tested differences, averages over benchmarks, exploratory parts, and notes.

    Raises:
        ComparisonError: fewer than two models, values given twice, an unknown pair, or two sides
            that do not match: other questions, prompts, protocols or judges.
        EvalShapeError: no question of a model has a value.
    """
    settings = settings or CompareSettings()
    columns = _columns(measured)
    chosen = _chosen_pairs(list(dict.fromkeys(one.model for one in measured)), settings)
    pairs = [
        pair(models[a], models[b])
        for models in columns.values()
        for a, b in chosen
        if a in models and b in models
    ]
    if not pairs:
        there = "; ".join(
            f"{', '.join(models)} on {benchmark}{f' by {judge}' if judge else ''}"
            for (benchmark, judge), models in columns.items()
        )
        raise ComparisonError(
            f"no two models were evaluated on one benchmark by one judge: there is {there}"
        )
    scores = [score(one, settings) for models in columns.values() for one in models.values()]
    results = paired_results(pairs, settings)
    parts, small = _parts(pairs, settings)
    return EvalComparison(
        settings=settings,
        scores=tuple(scores),
        differences=tuple(results),
        averages=tuple(averages(pairs, settings)),
        exploratory=tuple(parts),
        notes=tuple(_notes(measured, pairs, scores, results, small=small)),
    )


def _columns(measured: Sequence[Measured]) -> dict[_Column, dict[str, Measured]]:
    columns: dict[_Column, dict[str, Measured]] = {}
    for one in measured:
        models = columns.setdefault((one.benchmark, one.judge), {})
        if one.model in models:
            raise ComparisonError(
                f"{one.model!r} has two sets of values on {one.benchmark!r}; name one evaluation "
                "of each benchmark"
            )
        models[one.model] = one
    return columns


def _chosen_pairs(models: Sequence[str], settings: CompareSettings) -> list[tuple[str, str]]:
    if len(models) <= 1:
        raise ComparisonError(
            f"a comparison needs two models or more, there is {', '.join(models) or 'none'}"
        )
    for name in (name for names in settings.pairs for name in names):
        if name not in models:
            raise ComparisonError(f"no model {name!r}; there are {', '.join(models)}")
    if alone := [a for a, b in settings.pairs if a == b]:
        raise ComparisonError(f"{alone[0]!r} is compared with itself; name two models")
    if settings.pairs:
        return list(dict.fromkeys(settings.pairs))
    return [
        (a, models[at])
        for place, a in enumerate(models)
        for at in sorted({0, place - 1})
        if 0 <= at < place
    ]


def _parts(pairs: Sequence[Pair], settings: CompareSettings) -> tuple[list[Part], int]:
    found = [breakdown(one, settings) for one in pairs]
    return [part for parts, _ in found for part in parts], max(small for _, small in found)


def _notes(
    measured: Sequence[Measured],
    pairs: Sequence[Pair],
    scores: Sequence[ModelScore],
    results: Sequence[PairedResult],
    *,
    small: int,
) -> list[str]:
    notes = [
        f"{a} and {b} are the same model: their difference is noise"
        for a, b in dict.fromkeys(
            (one.a.model, one.b.model) for one in pairs if one.a.fingerprint == one.b.fingerprint
        )
    ]
    notes += _unknown_forms(measured)
    notes += [
        f"{one.model} on {one.benchmark} is not shown to be above chance ({100 * one.chance:g} %)"
        for one in scores
        if one.chance is not None and not one.is_above_chance
    ]
    notes += [
        f"{one.a} − {one.b} on {one.benchmark}: questions left out because a side has no value "
        f"for them: {one.left_out}"
        for one in results
        if one.left_out
    ]
    few = {one.benchmark: one.clusters for one in results if one.clusters < _FEW_CLUSTERS}
    notes += [
        f"{benchmark} has questions from {clusters} documents: intervals from so few are rough"
        for benchmark, clusters in few.items()
        if any(one.benchmark == benchmark and one.measure is Measure.REWARD for one in results)
    ]
    notes += _not_judged(measured)
    notes += _shared(measured)
    if small:
        notes.append(
            f"{small} criteria or fields with fewer than {FEWEST_QUESTIONS} questions are not "
            "shown by themselves"
        )
    return notes


def _unknown_forms(measured: Sequence[Measured]) -> list[str]:
    """Name the models that do not say how they are asked, where others do."""
    forms = {one.model: one.prompt_form for one in measured}
    known = sorted({form for form in forms.values() if form is not None})
    return [
        f"{model} does not say how questions are put to it: whether it got the others' prompts "
        f"({', '.join(known)}) is not known"
        for model, form in forms.items()
        if form is None and known
    ]


def _not_judged(measured: Sequence[Measured]) -> list[str]:
    """A table by a judge that lacks a model looks like all that there is."""
    judged = _columns(measured)
    models = list(dict.fromkeys(one.model for one in measured if one.judge is not None))
    return [
        f"{judge} has not judged {', '.join(missing)}: `rubric-eval rejudge` judges what is there"
        for (_, judge), held in judged.items()
        if judge is not None and (missing := [name for name in models if name not in held])
    ]


def _shared(measured: Sequence[Measured]) -> list[str]:
    ids: Mapping[str, set[str]] = {
        one.benchmark: set(one.ids) for one in measured if one.measure is Measure.ACCURACY
    }
    shared = Counter({(a, b): len(ids[a] & ids[b]) for a, b in combinations(ids, 2)})
    return [
        f"{a} and {b} share {count} items: they are not independent evidence, and "
        + (
            "an average counts these twice; its interval draws them together"
            if suite_of(a) is suite_of(b)
            else "are averaged apart, each with its suite"
        )
        for (a, b), count in shared.items()
        if count
    ]
