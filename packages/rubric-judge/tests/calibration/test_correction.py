"""A judge's mean corrected by labels of the same answers: worked numbers, limits, and refusals."""

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubric_core.errors import RewardError, RewardShapeError
from rubric_judge.quality.calibration.correction import (
    CorrectedMean,
    check_population,
    corrected_mean,
    labelled_population,
)
from rubric_judge.quality.calibration.record import (
    Calibration,
    RewardCalibration,
    RewardPair,
)
from rubric_judge.statistics.estimate import UNKNOWN

RNG = np.random.default_rng(7)
F = RNG.uniform(0, 1, 40)
Y = 0.1 + 0.6 * F + 0.1 * RNG.standard_normal(40)


def _pairs(judge: object, label: object, each: int = 1) -> list[RewardPair]:
    rows = zip(np.asarray(judge).tolist(), np.asarray(label).tolist(), strict=True)
    return [
        RewardPair(
            task_id=f"t{i}", document=f"d{i // each}", judge=f, label=y, answer=f"a{i}"
        )
        for i, (f, y) in enumerate(rows)
    ]


def _names(count: int, each: int = 1, kind: str = "a") -> list[str]:
    return [f"{kind}{i // each}" for i in range(count)]


def _corrected(
    pairs: Sequence[RewardPair],
    more: object = (),
    documents_N: Sequence[str] | None = None,
) -> CorrectedMean:
    """Correct the mean of F's answers and of more that have no label."""
    judge_N = np.concatenate([F, np.asarray(more, dtype=np.float64)])
    answers_N = _names(len(judge_N))
    return corrected_mean(judge_N, pairs, answers_N=answers_N, documents_N=documents_N)


def test_worked_numbers() -> None:
    more = np.linspace(0.2, 0.9, 80)
    found = _corrected(_pairs(F, Y), more)
    line = stats.linregress(F, Y)
    assert found.trust == pytest.approx(line.slope)
    assert found.mean == pytest.approx(
        line.intercept + line.slope * np.r_[F, more].mean()
    )
    assert found.raw == pytest.approx(np.r_[F, more].mean())
    assert (found.labelled, found.judged, found.documents) == (40, 120, 40)


def test_where_everything_is_labelled_the_labels_alone_are_left() -> None:
    found = _corrected(_pairs(F, Y))
    assert found.mean == pytest.approx(Y.mean())
    # The jackknife of a mean is its variance; Wilson's limits at the share that it is worth.
    n = Y.mean() * (1 - Y.mean()) / (np.var(Y, ddof=1) / 40)
    for end, sign in ((found.ci_low, -1), (found.ci_high, 1)):
        z2 = n * (Y.mean() - end) ** 2 / (end * (1 - end))
        assert sign * (end - Y.mean()) > 0
        assert stats.norm.ppf(0.975) < np.sqrt(z2) < stats.t.ppf(0.975, 30)


@given(st.lists(st.integers(1, 3), min_size=40, max_size=40), st.floats(0.1, 10))
def test_a_weight_counts_as_so_many_equal_pairs(
    counts: list[int], scale: float
) -> None:
    pairs = _pairs(F, Y)
    weighed = [
        one.model_copy(update={"weight": scale * count})
        for one, count in zip(pairs, counts, strict=True)
    ]
    repeated = [
        one for one, count in zip(pairs, counts, strict=True) for _ in range(count)
    ]
    more = np.linspace(0.3, 0.8, 50)
    found, wanted = _corrected(weighed, more), _corrected(repeated, more)

    for name in ("mean", "ci_low", "ci_high", "trust"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-9)


def test_labels_drawn_by_the_judge_are_made_up_for_by_their_weights() -> None:
    generator = np.random.default_rng(1)
    judge_N = generator.uniform(0, 1, 20_000)
    label_N = judge_N**3 + 0.05 * generator.standard_normal(len(judge_N))
    inclusion_N = 0.002 + 0.05 * (judge_N > 0.8)
    rows = np.flatnonzero(generator.random(len(judge_N)) < inclusion_N)
    every = _pairs(judge_N, label_N)
    plain = [every[row] for row in rows]
    weighed = [
        every[row].model_copy(update={"weight": 1 / inclusion_N[row]}) for row in rows
    ]
    answers_N = _names(len(judge_N))
    found = corrected_mean(judge_N, weighed, answers_N=answers_N)

    assert found.ci_low < 0.25 < found.ci_high
    flattered = corrected_mean(judge_N, plain, answers_N=answers_N)
    assert not flattered.ci_low < 0.25 < flattered.ci_high


def test_a_judge_that_tells_nothing_leaves_the_labels_alone() -> None:
    found = corrected_mean(
        np.full(90, 0.5),
        _pairs(np.full(40, 0.5), Y),
        answers_N=_names(90),
        documents_N=None,
    )
    assert found.trust == 0
    assert found.mean == pytest.approx(Y.mean())


@given(st.integers(2, 4))
def test_a_response_that_is_there_several_times_tells_no_more(times: int) -> None:
    once = _corrected(_pairs(F, Y))
    many = corrected_mean(
        np.repeat(F, times),
        _pairs(np.repeat(F, times), np.repeat(Y, times)),
        answers_N=_names(40 * times),
        documents_N=_names(40 * times, each=times, kind="d"),
    )
    for name in ("mean", "ci_low", "ci_high", "trust"):
        assert getattr(many, name) == pytest.approx(getattr(once, name), rel=1e-9)


@given(st.permutations(range(40)))
def test_the_order_of_labels_is_of_no_account(order: list[int]) -> None:
    pairs = _pairs(F, Y)
    found = _corrected([pairs[i] for i in order], [0.4, 0.7])
    assert found.ci_low == pytest.approx(_corrected(pairs, [0.4, 0.7]).ci_low)


def test_labels_of_other_answers_correct_nothing() -> None:
    """A judge may err otherwise on another model's answers: its labels say nothing of them."""
    others = [
        one.model_copy(update={"answer": f"of another {one.answer}"})
        for one in _pairs(F, Y)
    ]
    with pytest.raises(RewardError, match="0 labelled responses of 0 documents"):
        _corrected(others)
    assert _corrected([*others, *_pairs(F, Y)]) == _corrected(_pairs(F, Y))
    with pytest.raises(RewardError, match="not said which answers"):
        corrected_mean(F, others)


def _calibration(answers: tuple[str, ...], pairs: Sequence[RewardPair]) -> Calibration:
    figures: dict[str, Any] = dict.fromkeys(
        RewardCalibration.model_fields.keys() - {"pairs"}, UNKNOWN
    )
    return Calibration(
        version=1,
        judge="j",
        judge_fingerprint="j",
        rubrics={},
        answers=answers,
        raters=("ann",),
        criteria=(),
        reward=RewardCalibration(pairs=tuple(pairs), **figures),
    )


def test_a_population_is_labelled_where_labels_were_drawn_from_all_of_it() -> None:
    within = np.clip(Y, 0, 1)
    calibration = _calibration(tuple(_names(40)), _pairs(F[:20], within[:20]))
    of_it = {f"t{i}": [f"a{i}", "of another seed"] for i in range(40)}
    assert labelled_population(calibration, of_it) == calibration.reward.pairs
    # Answers that another model happens to share are no sample of its own.
    shares = {
        task: one if i < 30 else ["its own"]
        for i, (task, one) in enumerate(of_it.items())
    }
    with pytest.raises(RewardError, match="one of these to 30 of 40 questions"):
        labelled_population(calibration, shares)
    with pytest.raises(RewardError, match="make it anew"):
        labelled_population(_calibration((), calibration.reward.pairs), of_it)


def test_labels_of_other_answers_tell_whether_the_judge_errs_there_too() -> None:
    won = check_population(F + 0.2, _pairs(F, Y), _pairs(F[:20] + 0.2, Y[:20]))
    assert not won.transfers
    assert "leaves out 0" in won.reason
    trust = _corrected(_pairs(F, Y)).trust
    assert won.difference is not None
    assert won.difference.value == pytest.approx(
        (Y[:20] - (F[:20] + 0.2) * trust).mean() - (Y - F * trust).mean()
    )
    assert check_population(F, _pairs(F, Y), _pairs(F, Y)).transfers
    unseen = check_population(F, _pairs(F, Y))
    assert not unseen.transfers
    assert "no label of these answers" in unseen.reason


def test_without_repeats_the_test_is_welchs() -> None:
    here, there = _pairs(F[:15], Y[:15] + 0.2), _pairs(np.full(40, 0.5), Y)  # λ = 0
    found = check_population(F, there, here).difference
    wanted = stats.ttest_ind(Y[:15] + 0.2, Y, equal_var=False).confidence_interval()
    assert found is not None
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


@pytest.mark.parametrize(
    ("judge_N", "pairs", "told"),
    [
        (F, _pairs(F[:9], Y[:9]), "label 1 more"),
        (F, [], "10 documents or more"),
        ([0.5], _pairs(F, Y), "a spread needs two"),
        ([0.5, float("nan")], _pairs(F, Y), "1 rewards are not finite"),
    ],
)
def test_too_little_is_refused(
    judge_N: list[float], pairs: list[RewardPair], told: str
) -> None:
    with pytest.raises(RewardError, match=told):
        corrected_mean(judge_N, pairs, answers_N=_names(len(judge_N)))


def test_wrong_shapes_are_refused() -> None:
    pairs = _pairs(F, Y)
    with pytest.raises(RewardShapeError, match=r"\(1, 2\)"):
        corrected_mean([[0.5, 0.6]], pairs)
    with pytest.raises(RewardShapeError, match="1 documents for 2 rewards"):
        corrected_mean([0.5, 0.6], pairs, answers_N=["a0", "a1"], documents_N=["a"])
    with pytest.raises(RewardShapeError, match="1 answers for 2 rewards"):
        corrected_mean([0.5, 0.6], pairs, answers_N=["a0"])
    with pytest.raises(RewardError, match="confidence"):
        corrected_mean([0.5, 0.6], pairs, confidence=1.0)


@pytest.mark.parametrize("label", [F + 0.1, F * 0 + 0.3])
def test_residuals_without_a_spread_give_no_interval(label: Any) -> None:
    with pytest.raises(
        RewardError, match=r"in every document of 40 labelled responses: without a"
    ):
        _corrected(_pairs(F, label), [0.2, 0.3])


def test_a_population_check_without_a_spread_is_refused() -> None:
    equal = _pairs(F, np.full(40, 0.3))  # λ = 0: residuals are the labels

    with pytest.raises(
        RewardError, match=r"label − λ·judge is \+0\.300 in every document of 40"
    ):
        check_population(F, equal, _pairs(F[:12], Y[:12]))
    with pytest.raises(RewardError, match="in every document of 3 probes"):
        check_population(F, _pairs(np.full(40, 0.5), Y), _pairs(F[:3], np.full(3, 0.3)))


def test_weights_of_one_response_alone_are_refused() -> None:
    first, *rest = _pairs(F, Y)
    lost = [first, *(one.model_copy(update={"weight": 1e-20}) for one in rest)]

    with pytest.raises(
        RewardError, match="40 labelled responses are worth no more than one"
    ):
        _corrected(lost)


def _shared(path: str) -> Path:
    for parent in Path(__file__).resolve().parents:
        found = parent / "shared/data/judgements" / path
        if found.is_file():
            return found
    pytest.skip("the public judgements are not here")


def _wildbench() -> Iterator[tuple[str, list[RewardPair]]]:
    """Each model: gpt-4o is the judge, gpt-4-turbo stands for people, on texts that are equal."""
    seen: defaultdict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    with gzip.open(_shared("wildbench/scores.csv.gz"), "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["model"], row["session_id"], row["output_sha1"]
            seen[key][row["judge"].partition("-2024")[0]] = (
                float(row["score"]) - 1
            ) / 9
    models: defaultdict[str, list[RewardPair]] = defaultdict(list)
    for (model, task, _), scores in seen.items():
        if {"gpt-4o", "gpt-4-turbo"} <= scores.keys():
            both = scores["gpt-4o"], scores["gpt-4-turbo"]
            models[model].append(_pair(f"{model} {task}", task, *both))
    yield from models.items()


def _newsroom() -> Iterator[tuple[str, list[RewardPair]]]:
    """Each system and criterion: one rater is the judge, the mean of the others the label."""
    instances = json.loads(
        _shared("judge_bench/newsroom.annotations.json").read_text("utf-8")
    )
    seen: defaultdict[str, list[RewardPair]] = defaultdict(list)
    of_article: defaultdict[str, int] = defaultdict(int)
    for one in instances["instances"]:
        article = one["article_key"]
        system = of_article[article]
        of_article[article] += 1
        for name, rated in one["annotations"].items():
            first, *others = [
                (score - 1) / 4 for score in rated["individual_human_scores"]
            ]
            key = f"{name} {system}"
            seen[key].append(
                _pair(f"{key} {article}", article, first, float(np.mean(others)))
            )
    yield from seen.items()


def _pair(answer: str, document: str, judge: float, label: float) -> RewardPair:
    return RewardPair(
        task_id=document, document=document, judge=judge, label=label, answer=answer
    )


@pytest.mark.parametrize("source", [_wildbench, _newsroom])
@pytest.mark.parametrize("labels", [15, 40])
def test_on_public_judgements_corrected_means_hold_the_label_mean(
    source: Callable[[], Iterator[tuple[str, list[RewardPair]]]], labels: int
) -> None:
    """Of every model a few answers are labelled: nine intervals of ten hold the mean of all."""
    generator = np.random.default_rng(labels)
    held: list[bool] = []
    for _, pairs in source():
        if len(pairs) < 2 * labels and len(pairs) < 60:
            continue
        label = np.mean([one.label for one in pairs])
        for _ in range(20):
            some = [pairs[i] for i in generator.permutation(len(pairs))[:labels]]
            found = corrected_mean(
                [one.judge for one in pairs],
                some,
                answers_N=[one.answer for one in pairs],
            )
            held.append(found.ci_low <= label <= found.ci_high)
    assert len(held) >= 40
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize("source", [_wildbench, _newsroom])
def test_on_public_judgements_labels_of_one_model_correct_no_other(
    source: Callable[[], Iterator[tuple[str, list[RewardPair]]]],
) -> None:
    models = [pairs for _, pairs in source()][:8]
    for there in models:
        for here in models:
            if here is not there:
                with pytest.raises(RewardError, match="0 labelled responses"):
                    corrected_mean(
                        [one.judge for one in here],
                        there,
                        answers_N=[one.answer for one in here],
                    )
