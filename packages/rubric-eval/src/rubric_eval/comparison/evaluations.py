"""Evaluations side by side: every model's score, every paired difference, in parts too."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final, Literal

from rubric_core.files import toml_beside
from rubric_eval.comparison import pairing, results
from rubric_eval.errors import ComparisonError
from rubric_eval.records.run import Measure, Measured
from rubric_eval.statistics import mean_interval
from rubric_eval.statistics.intervals import mean_of_intervals, shared_correlations
from rubric_eval.statistics.scores import FEWEST_QUESTIONS, ModelScore, criterion_values
from rubric_eval.transfer.suites import SuiteName, suite_of
from rubric_judge.page.tables import counted

_NOTES: Final[dict[str, str]] = toml_beside(__file__, "notes.toml")
_MOST_RESAMPLES: Final = 1999
"""Parts are many, and nothing is decided by them."""


def breakdown(
    pair: pairing.Pair, settings: results.CompareSettings
) -> tuple[list[results.Part], int]:
    """Take a − b apart.

    Returns:
        The parts that enough questions have, and how many parts were too small.
    """
    clusters = dict(zip(pair.ids, pair.clusters, strict=True))
    parts: list[results.Part] = []
    small = 0
    for (kind, name), by_question in {**_fields(pair), **_criteria(pair)}.items():
        if len(by_question) < FEWEST_QUESTIONS:
            small += 1
            continue
        interval = mean_interval(
            list(by_question.values()),
            clusters_N=[clusters[question] for question in by_question],
            confidence=settings.confidence,
            resamples=min(settings.resamples, _MOST_RESAMPLES),
            seed=settings.seed,
        )
        parts.append(
            results.Part(**interval.model_dump(), **pair.named, kind=kind, name=name)
        )
    return parts, small


_Parts = dict[tuple[Literal["criterion", "field"], str], dict[str, float]]


def _fields(pair: pairing.Pair) -> _Parts:
    fields = dict(zip(pair.a.ids, pair.a.fields, strict=False))
    found: _Parts = {
        ("field", name): {} for name in sorted(set(fields.values()) - {""})
    }
    for question, difference in zip(pair.ids, pair.differences_N, strict=True):
        if name := fields.get(question):
            found["field", name][question] = float(difference)
    return {part: by_question for part, by_question in found.items() if by_question}


def _criteria(pair: pairing.Pair) -> _Parts:
    of_a = criterion_values(pair.a)
    of_b = criterion_values(pair.b)
    paired = set(pair.ids)
    return {
        ("criterion", name): {
            question: z - of_b[name][question]
            for question, z in by_question.items()
            if question in of_b[name] and question in paired
        }
        for name, by_question in of_a.items()
        if name in of_b
    }


_Group = tuple[str, str, SuiteName | None]
"""Two models, and a suite of benchmarks."""


def averages(
    pairs: Sequence[pairing.Pair], tested: Sequence[results.PairedResult]
) -> list[results.AverageDelta]:
    """Average a − b over the benchmarks of each two models that have several of one suite.

    The suites ask the same items in other words: together they would be an average over prompts.

    Args:
        pairs: of all benchmarks.
        tested: the difference of each pair.
    """
    groups: defaultdict[_Group, list[tuple[pairing.Pair, results.PairedResult]]] = (
        defaultdict(list)
    )
    for pair, result in zip(pairs, tested, strict=True):
        if pair.a.measure is Measure.ACCURACY:
            group = pair.a.model, pair.b.model, suite_of(pair.a.benchmark)
            groups[group].append((pair, result))
    return [
        _average(group, members)
        for group, members in groups.items()
        if len(members) > 1
    ]


def _average(
    group: _Group, members: Sequence[tuple[pairing.Pair, results.PairedResult]]
) -> results.AverageDelta:
    values = [(pair.differences_N, pair.clusters) for pair, _ in members]
    average = mean_of_intervals(
        [result for _, result in members], correlations_BB=shared_correlations(values)
    )
    return results.AverageDelta(
        **average.model_dump(),
        a=group[0],
        b=group[1],
        suite=group[2] or "",
        benchmarks=tuple(one.a.benchmark for one, _ in members),
    )


_FEW_CLUSTERS: Final = 30
_Column = tuple[str, str | None]
"""Benchmark and judge."""


def compare_measured(
    measured: Sequence[Measured], settings: results.CompareSettings | None = None
) -> results.EvalComparison:
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
    settings = settings or results.CompareSettings()
    columns = _columns(measured)
    chosen = _chosen_pairs(list(dict.fromkeys(one.model for one in measured)), settings)
    pairs = [
        pairing.pair(models[a], models[b])
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
    every = (model for models in columns.values() for model in models.values())
    scores = pairing.scores(every, settings)
    tested = pairing.paired_results(pairs, settings)
    found = [breakdown(pair, settings) for pair in pairs]
    small = max(count for _, count in found)
    return results.EvalComparison(
        settings=settings,
        scores=scores,
        differences=tuple(tested),
        averages=tuple(averages(pairs, tested)),
        exploratory=tuple(part for parts, _ in found for part in parts),
        notes=tuple(_notes(measured, pairs, scores, tested, small=small)),
    )


def _columns(measured: Sequence[Measured]) -> dict[_Column, dict[str, Measured]]:
    columns: dict[_Column, dict[str, Measured]] = {}
    for one in measured:
        models = columns.setdefault((one.benchmark, one.judge), {})
        if one.model in models:
            raise ComparisonError(
                f"{one.model!r} has two sets of values on {one.benchmark!r}; name one "
                "evaluation of each benchmark"
            )
        models[one.model] = one
    return columns


def _chosen_pairs(
    models: Sequence[str], settings: results.CompareSettings
) -> list[tuple[str, str]]:
    if len(models) <= 1:
        there = ", ".join(models) or "none"
        raise ComparisonError(
            f"a comparison needs two models or more, there is {there}"
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


def _notes(
    measured: Sequence[Measured],
    pairs: Sequence[pairing.Pair],
    scores: Sequence[ModelScore],
    tested: Sequence[results.PairedResult],
    *,
    small: int,
) -> list[str]:
    same = [
        (pair.a.model, pair.b.model)
        for pair in pairs
        if pair.a.fingerprint == pair.b.fingerprint
    ]
    lucky = [
        score
        for score in scores
        if score.chance is not None and not score.is_above_chance
    ]
    few = {
        result.benchmark: result.clusters
        for result in tested
        if result.clusters < _FEW_CLUSTERS and result.measure is Measure.REWARD
    }
    return [
        *(_NOTES["same_model"].format(a=a, b=b) for a, b in dict.fromkeys(same)),
        *_unknown_forms(measured),
        *(
            _NOTES["chance"].format(
                of=model_score, chance=100 * (model_score.chance or 0)
            )
            for model_score in lucky
        ),
        *(
            _NOTES["left_out"].format(of=paired_result)
            for paired_result in tested
            if paired_result.left_out
        ),
        *(
            _NOTES["few_documents"].format(of=of, n=counted(few[of], "document"))
            for of in few
        ),
        *_not_judged(measured),
        *_shared(measured),
        *(
            [_NOTES["small"].format(small=small, fewest=FEWEST_QUESTIONS)]
            if small
            else []
        ),
    ]


def _unknown_forms(measured: Sequence[Measured]) -> list[str]:
    """Name the models that do not say how they are asked, where others do."""
    forms = {one.model: one.prompt_form for one in measured}
    known = sorted({form for form in forms.values() if form is not None})
    unknown = [model for model, form in forms.items() if form is None and known]
    return [
        _NOTES["unknown_form"].format(of=one, known=", ".join(known)) for one in unknown
    ]


def _not_judged(measured: Sequence[Measured]) -> list[str]:
    """Note the models that a judge has not judged: its table would look complete."""
    judged = _columns(measured)
    models = list(dict.fromkeys(one.model for one in measured if one.judge is not None))
    return [
        _NOTES["not_judged"].format(judge=judge, missing=", ".join(missing))
        for (_, judge), held in judged.items()
        if judge is not None
        and (missing := [name for name in models if name not in held])
    ]


def _shared(measured: Sequence[Measured]) -> list[str]:
    ids: Mapping[str, set[str]] = {
        one.benchmark: set(one.ids)
        for one in measured
        if one.measure is Measure.ACCURACY
    }
    shared = Counter({(a, b): len(ids[a] & ids[b]) for a, b in combinations(ids, 2)})
    return [
        _NOTES["shared" if suite_of(a) is suite_of(b) else "shared_apart"].format(
            a=a, b=b, n=count
        )
        for (a, b), count in shared.items()
        if count
    ]
