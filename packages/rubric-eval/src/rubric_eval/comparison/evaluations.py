"""Evaluations side by side: every model's score, every paired difference, in parts too."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations, pairwise
from typing import Literal

from rubric_eval.comparison import pairing
from rubric_eval.comparison.pairing import Pair
from rubric_eval.comparison.results import (
    AverageDelta,
    CompareSettings,
    EvalComparison,
    PairedResult,
    Part,
)
from rubric_eval.errors import ComparisonError
from rubric_eval.records.run import Measure, Measured
from rubric_eval.statistics import mean_interval
from rubric_eval.statistics.intervals import (
    FEWEST_QUESTIONS,
    ModelScore,
    criterion_values,
    score,
)
from rubric_eval.transfer.suites import SuiteName, suite_of
from rubric_judge.statistics.means import mean_of_estimates, shared_correlations
from rubric_judge.ui.page.tables import counted

_MOST_RESAMPLES = 1999
"""Most draws for a part: parts are many, and nothing is decided by them."""


def breakdown(pair: Pair, settings: CompareSettings) -> tuple[list[Part], int]:
    """Return a − b on parts of a benchmark.

    Returns:
        The parts with enough questions, and the number of parts that were too small.
    """
    clusters = dict(zip(pair.ids, pair.clusters, strict=True))
    parts: list[Part] = []
    small = 0
    differences = _field_differences(pair) | _criterion_differences(pair)
    for (kind, name), by_question in differences.items():
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
        parts.append(Part(**interval.model_dump(), **pair.named, kind=kind, name=name))
    return parts, small


_Parts = dict[tuple[Literal["criterion", "field"], str], dict[str, float]]


def _field_differences(pair: Pair) -> _Parts:
    fields = dict(zip(pair.a.ids, pair.a.fields, strict=False))
    by_field: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for question, difference in zip(pair.ids, pair.differences_N, strict=True):
        field = fields.get(question)
        if field:
            by_field[field][question] = float(difference)
    return {("field", field): by_field[field] for field in sorted(by_field)}


def _criterion_differences(pair: Pair) -> _Parts:
    a_values = criterion_values(pair.a)
    b_values = criterion_values(pair.b)
    paired = set(pair.ids)
    parts: _Parts = {}
    for name in a_values:
        if name not in b_values:
            continue
        parts["criterion", name] = {
            question: z - b_values[name][question]
            for question, z in a_values[name].items()
            if question in b_values[name] and question in paired
        }
    return parts


_Group = tuple[str, str, SuiteName | None]
"""Two models, and a suite of benchmarks."""
_Tested = tuple[Pair, PairedResult]


def averages(
    pairs: Sequence[Pair], tested: Sequence[PairedResult]
) -> list[AverageDelta]:
    """Average a − b over the benchmarks of each two models that have several of one suite.

    The suites ask the same items in other words: together they would be an average over prompts.

    Args:
        pairs: pairs on all benchmarks.
        tested: the difference of each pair.
    """
    groups: defaultdict[_Group, list[_Tested]] = defaultdict(list)
    for pair, result in zip(pairs, tested, strict=True):
        if pair.a.measure is Measure.ACCURACY:
            group = pair.a.model, pair.b.model, suite_of(pair.a.benchmark)
            groups[group].append((pair, result))
    return [
        _average(group, members)
        for group, members in groups.items()
        if len(members) > 1
    ]


def _average(group: _Group, members: Sequence[_Tested]) -> AverageDelta:
    a, b, suite = group
    values = [(pair.differences_N, pair.clusters) for pair, _ in members]
    average = mean_of_estimates(
        [result.estimate for _, result in members],
        correlations_BB=shared_correlations(values),
    )
    return AverageDelta.of(
        average,
        a=a,
        b=b,
        suite=suite or "",
        benchmarks=tuple(pair.a.benchmark for pair, _ in members),
    )


_FEW_CLUSTERS = 30
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
    names = list(dict.fromkeys(values.model for values in measured))
    chosen = _chosen_pairs(names, settings)
    pairs = [
        pairing.pair(models[a], models[b])
        for models in columns.values()
        for a, b in chosen
        if a in models and b in models
    ]
    if not pairs:
        listed = "; ".join(map(_column_models, columns, columns.values()))
        raise ComparisonError(
            f"no two models were evaluated on one benchmark by one judge: there is {listed}"
        )
    every = chain.from_iterable(models.values() for models in columns.values())
    scores = tuple(score(values, confidence=settings.confidence) for values in every)
    tested = pairing.paired_results(pairs, settings)
    exploratory: list[Part] = []
    small = 0
    for pair in pairs:
        parts, small_parts = breakdown(pair, settings)
        exploratory += parts
        small = max(small, small_parts)
    return EvalComparison(
        settings=settings,
        scores=scores,
        differences=tuple(tested),
        averages=tuple(averages(pairs, tested)),
        exploratory=tuple(exploratory),
        notes=tuple(_notes(measured, pairs, scores, tested, small=small)),
    )


def _column_models(column: _Column, models: Iterable[str]) -> str:
    benchmark, judge = column
    text = f"{', '.join(models)} on {benchmark}"
    if judge:
        text += f" by {judge}"
    return text


def _columns(measured: Sequence[Measured]) -> dict[_Column, dict[str, Measured]]:
    columns: dict[_Column, dict[str, Measured]] = {}
    for values in measured:
        models = columns.setdefault((values.benchmark, values.judge), {})
        if values.model in models:
            raise ComparisonError(
                f"{values.model!r} has two sets of values on {values.benchmark!r}; name one "
                "evaluation of each benchmark"
            )
        models[values.model] = values
    return columns


def _chosen_pairs(
    models: Sequence[str], settings: CompareSettings
) -> list[tuple[str, str]]:
    if len(models) <= 1:
        listed = ", ".join(models) or "none"
        raise ComparisonError(
            f"a comparison needs two models or more, there is {listed}"
        )
    for name in chain.from_iterable(settings.pairs):
        if name not in models:
            raise ComparisonError(f"no model {name!r}; there are {', '.join(models)}")
    for a, b in settings.pairs:
        if a == b:
            raise ComparisonError(f"{a!r} is compared with itself; name two models")
    if settings.pairs:
        return list(dict.fromkeys(settings.pairs))
    pairs: list[tuple[str, str]] = []
    for before, name in pairwise(models):
        pairs.append((name, models[0]))
        if before != models[0]:
            pairs.append((name, before))
    return pairs


def _notes(
    measured: Sequence[Measured],
    pairs: Sequence[Pair],
    scores: Sequence[ModelScore],
    tested: Sequence[PairedResult],
    *,
    small: int,
) -> list[str]:
    notes: dict[str, None] = {}
    for pair in pairs:
        if pair.a.fingerprint == pair.b.fingerprint:
            both = f"{pair.a.model} and {pair.b.model}"
            notes[f"{both} are the same model: their difference is noise"] = None
    by_model = [*notes, *_unknown_forms(measured)]
    by_model += [
        f"{score.model} on {score.benchmark} is not shown to be above chance "
        f"({100 * score.chance:g} %)"
        for score in scores
        if score.chance is not None and not score.is_above_chance
    ]
    by_benchmark = _few_documents(tested)
    by_pair = [
        f"{pair.a} − {pair.b} on {pair.benchmark}: questions left out because a side has "
        f"no value for them: {pair.left_out}"
        for pair in tested
        if pair.left_out
    ]
    rest = [*_not_judged(measured), *_shared(measured)]
    if small:
        rest.append(
            f"{small} criteria or fields with fewer than {FEWEST_QUESTIONS} questions are "
            "not shown by themselves"
        )
    return [*by_model, *by_pair, *by_benchmark, *rest]


def _few_documents(tested: Sequence[PairedResult]) -> list[str]:
    """Note the benchmarks whose rewards are of few documents."""
    few = {
        result.benchmark: result.clusters
        for result in tested
        if result.clusters < _FEW_CLUSTERS and result.measure is Measure.REWARD
    }
    return [
        f"{name} has questions from {counted(documents, 'document')}: intervals from so "
        "few are rough"
        for name, documents in few.items()
    ]


def _unknown_forms(measured: Sequence[Measured]) -> list[str]:
    """Name the models that do not say how they are asked, where others do."""
    forms = {values.model: values.prompt_form for values in measured}
    known = sorted({form for form in forms.values() if form is not None})
    if not known:
        return []
    unknown = [model for model, form in forms.items() if form is None]
    return [
        f"{model} does not say how questions are put to it: whether it got the others' "
        f"prompts ({', '.join(known)}) is not known"
        for model in unknown
    ]


def _not_judged(measured: Sequence[Measured]) -> list[str]:
    """Note the models that a judge has not judged: its table would look complete."""
    judged = [values.model for values in measured if values.judge is not None]
    models = list(dict.fromkeys(judged))
    notes: list[str] = []
    for (_, judge), by_model in _columns(measured).items():
        missing = ", ".join(name for name in models if name not in by_model)
        if judge is not None and missing:
            notes.append(
                f"{judge} has not judged {missing}: `rubric-eval rejudge` judges what is "
                "there"
            )
    return notes


def _shared(measured: Sequence[Measured]) -> list[str]:
    ids: Mapping[str, set[str]] = {
        values.benchmark: set(values.ids)
        for values in measured
        if values.measure is Measure.ACCURACY
    }
    notes: list[str] = []
    for a, b in combinations(ids, 2):
        count = len(ids[a] & ids[b])
        if not count:
            continue
        shared = (
            f"{a} and {b} share {count} items: they are not independent evidence, and"
        )
        if suite_of(a) is suite_of(b):
            notes.append(
                f"{shared} an average counts these twice; its interval takes that into "
                "account"
            )
        else:
            notes.append(f"{shared} are averaged apart, each with its suite")
    return notes
