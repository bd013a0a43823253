from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rubric_eval import ComparisonError, paired_interval
from rubric_eval.comparison import CompareSettings, EvalComparison, compare_measured
from rubric_eval.heldout.table import judge_pairs
from rubric_eval.statistics import (
    Correction,
    mcnemar_p,
    score_interval,
    wilson_interval,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_eval.records.run import Measured

QUICK = CompareSettings(resamples=499)


def _rewards(n: int, *, shift: float = 0.0, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    return list(np.clip(rng.random(n) * 0.8 + shift, 0, 1))


def _right(n: int, share: float, *, seed: int = 0) -> list[float]:
    return list((np.random.default_rng(seed).random(n) < share).astype(float))


def test_scores_and_differences_of_rewards(
    make_measured: Callable[..., Measured],
) -> None:
    base, grpo = _rewards(60), _rewards(60, shift=0.1, seed=1)
    found = compare_measured([make_measured("base", base), make_measured("grpo", grpo)])
    wanted = score_interval(
        base, clusters_N=[f"d{n}" for n in range(60)], is_accuracy=False, answers=1
    )
    score = found.scores[0]
    assert (score.model, score.mean, score.ci_low, score.ci_high) == (
        "base",
        wanted.mean,
        wanted.ci_low,
        wanted.ci_high,
    )
    (difference,) = found.differences
    paired = paired_interval(grpo, base)
    assert (difference.a, difference.b) == ("grpo", "base")
    assert difference.test == "BCa bootstrap, Student's t and sign flips"
    assert difference.mean == pytest.approx(paired.mean)
    assert (difference.ci_low, difference.ci_high) == pytest.approx(
        (paired.ci_low, paired.ci_high), abs=5e-3
    )
    assert difference.a_mean - difference.b_mean == pytest.approx(difference.mean)
    assert difference.won + difference.lost == 60


def test_accuracies_have_wilsons_interval_and_mcnemars_test(
    make_accuracy: Callable[..., Measured],
) -> None:
    a, b = _right(200, 0.7), _right(200, 0.5, seed=1)
    found = compare_measured(
        [make_accuracy("base", b, chance=0.25), make_accuracy("grpo", a, chance=0.25)],
        QUICK,
    )
    wanted = wilson_interval(int(sum(b)), 200)
    assert found.scores[0].ci_low == wanted.ci_low
    assert found.scores[0].is_above_chance is True
    (difference,) = found.differences
    won = sum(x > y for x, y in zip(a, b, strict=True))
    lost = sum(x < y for x, y in zip(a, b, strict=True))
    assert (difference.won, difference.lost) == (won, lost)
    assert difference.p == mcnemar_p(won, lost)
    assert difference.test == "exact McNemar"
    assert difference.detectable is not None


def test_several_seeds_are_averaged_and_flipped_by_question(
    make_accuracy: Callable[..., Measured],
) -> None:
    rng = np.random.default_rng(0)
    base, grpo = (rng.random((80, 3)) < share for share in (0.4, 0.6))
    found = compare_measured(
        [
            make_accuracy("base", base.astype(float).tolist()),
            make_accuracy("grpo", grpo.astype(float).tolist()),
        ],
        QUICK,
    )
    (difference,) = found.differences
    assert difference.test == "cluster sign-flip permutation"
    assert difference.mean == pytest.approx(grpo.mean() - base.mean())
    assert difference.n == difference.clusters == 80
    assert found.scores[0].answers == 3


def test_all_answers_right_over_several_seeds_are_no_certainty(
    make_accuracy: Callable[..., Measured],
) -> None:
    ones, zeros = [[1.0, 1.0]] * 20, [[0.0, 0.0]] * 20
    found = compare_measured(
        [make_accuracy("a", zeros), make_accuracy("b", ones)], QUICK
    )
    assert found.scores[0].ci_low == 0.0
    # Wilson's limit with Student's t of 19 degrees of freedom.
    assert found.scores[1].ci_low == pytest.approx(20 / (20 + 2.093**2), abs=1e-3)
    assert (found.scores[1].mean, found.scores[1].n) == (1.0, 20)


def test_questions_are_matched_by_id_and_not_by_place(
    make_measured: Callable[..., Measured],
) -> None:
    base, grpo = _rewards(30), _rewards(30, seed=1)
    straight = compare_measured(
        [make_measured("base", base), make_measured("grpo", grpo)], QUICK
    )
    turned = make_measured("base", base[::-1], ids=[f"q{at}" for at in range(30)][::-1])
    assert (
        compare_measured([turned, make_measured("grpo", grpo)], QUICK).differences
        == straight.differences
    )


def test_questions_of_a_document_are_resampled_together(
    make_measured: Callable[..., Measured],
) -> None:
    documents = [f"d{at // 6}" for at in range(60)]
    rng = np.random.default_rng(0)
    base = rng.random(60) * 0.5
    grpo = base + np.repeat(rng.normal(0.1, 0.1, 10), 6)
    alone, together = (
        compare_measured(
            [make_measured("base", base, **how), make_measured("grpo", grpo, **how)]
        ).differences[0]
        for how in ({}, {"clusters": documents})
    )
    assert (alone.clusters, together.clusters, together.n) == (60, 10, 60)
    assert alone.ci_low is not None
    assert together.ci_low is not None
    assert together.ci_low < alone.ci_low
    assert together.p > alone.p


def test_each_model_is_set_against_the_first_and_the_one_before(
    make_measured: Callable[..., Measured],
) -> None:
    models = [
        make_measured(name, _rewards(10, seed=at)) for at, name in enumerate("abcd")
    ]
    found = compare_measured(models, QUICK)
    assert [(one.a, one.b) for one in found.differences] == [
        ("b", "a"),
        ("c", "a"),
        ("c", "b"),
        ("d", "a"),
        ("d", "c"),
    ]
    chosen = compare_measured(models, QUICK.model_copy(update={"pairs": (("b", "d"),)}))
    assert [(one.a, one.b) for one in chosen.differences] == [("b", "d")]


@pytest.mark.parametrize("correction", Correction)
def test_benchmarks_of_a_pair_are_decided_together(
    make_accuracy: Callable[..., Measured],
    make_measured: Callable[..., Measured],
    correction: Correction,
) -> None:
    shares = {"one": 0.75, "two": 0.66, "three": 0.6, "four": 0.5}
    measured = [
        make_accuracy(model, _right(150, share, seed=seed), benchmark=name)
        for seed, (name, gained) in enumerate(shares.items())
        for model, share in (("base", 0.5), ("grpo", gained))
    ]
    # Other draws for base than for grpo.
    measured = [
        one
        if one.model == "grpo"
        else make_accuracy(
            "base", _right(150, 0.5, seed=9 + at), benchmark=one.benchmark
        )
        for at, one in enumerate(measured)
    ]
    rewards = [
        make_measured(name, _rewards(20, seed=at))
        for at, name in enumerate(("base", "grpo"))
    ]
    settings = QUICK.model_copy(update={"correction": correction})
    found = compare_measured([*measured, *rewards], settings)
    by_name = {one.benchmark: one for one in found.differences}
    assert by_name["heldout"].p_adjusted == by_name["heldout"].p
    assert {one.is_significant for one in found.differences} == {True, False}
    for one in found.differences:
        assert one.decided_low is not None
        assert one.decided_high is not None
        assert one.is_significant == (one.decided_low > 0 or one.decided_high < 0)
        assert one.is_significant == (one.p_adjusted < 0.05)
    if correction is Correction.HOLM:
        assert by_name["one"].level == pytest.approx(0.05 / 4)
    together = compare_measured(
        [*measured, *rewards], settings.model_copy(update={"family": "all"})
    )
    adjusted = {one.benchmark: one.p_adjusted for one in together.differences}
    if correction is not Correction.NONE:
        assert adjusted["heldout"] > by_name["heldout"].p_adjusted


def test_average_delta_weighs_benchmarks_alike(
    make_accuracy: Callable[..., Measured],
) -> None:
    measured = [
        make_accuracy(model, _right(n, share, seed=n + at), benchmark=name)
        for name, n in (("small", 100), ("large", 400))
        for at, (model, share) in enumerate((("base", 0.4), ("grpo", 0.6)))
    ]
    found = compare_measured(measured, QUICK)
    (average,) = found.averages
    assert average.benchmarks == ("small", "large")
    assert average.mean == pytest.approx(
        np.mean([one.mean for one in found.differences])
    )
    assert average.ci_low is not None
    assert average.ci_high is not None
    spread = np.sqrt(0.48 / 100 + 0.48 / 400) / 2
    assert average.ci_high - average.ci_low == pytest.approx(2 * 1.96 * spread, rel=0.2)


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_an_average_of_answers_that_are_all_wrong_is_no_certainty(
    make_accuracy: Callable[..., Measured], seeds: tuple[int, ...]
) -> None:
    measured = [
        make_accuracy(
            model,
            np.zeros((8, len(seeds))).tolist(),
            ids=[f"{benchmark}-{number}" for number in range(8)],
            benchmark=benchmark,
            seeds=seeds,
        )
        for model in ("base", "grpo")
        for benchmark in ("one", "other")
    ]
    found = compare_measured(measured, QUICK)
    for one in found.differences:
        assert (one.ci_low, one.ci_high) == pytest.approx((-0.324, 0.324), abs=1e-3)
        assert one.p == 1
    (average,) = found.averages
    assert (average.mean, average.n) == (0.0, 2)
    assert (average.ci_low, average.ci_high) == pytest.approx((-0.229, 0.229), abs=1e-3)


def test_answers_that_are_all_right_with_several_seeds_have_the_interval_of_one_seed(
    make_accuracy: Callable[..., Measured],
) -> None:
    def limits(seeds: tuple[int, ...]) -> tuple[float | None, float | None]:
        (one,) = compare_measured(
            [
                make_accuracy(
                    model, np.full((12, len(seeds)), right).tolist(), seeds=seeds
                )
                for model, right in (("base", 0.0), ("grpo", 1.0))
            ],
            QUICK,
        ).differences
        assert (one.mean, one.p < 0.05) == (1.0, True)
        return one.ci_low, one.ci_high

    assert limits((0, 1, 2)) == limits((0,))


def test_the_average_delta_knows_of_shared_items(
    make_accuracy: Callable[..., Measured],
) -> None:
    main, diamond = 448, 198  # GPQA's, the second a part of the first
    base, grpo = _right(main, 0.4, seed=1), _right(main, 0.6, seed=2)
    measured = [
        make_accuracy(model, values[:n], benchmark=name)
        for name, n in (("main", main), ("diamond", diamond))
        for model, values in (("base", base), ("grpo", grpo))
    ]
    (average,) = compare_measured(measured, CompareSettings(resamples=4999)).averages
    d_N = np.array(grpo) - np.array(base)
    in_diamond_N = np.arange(main) < diamond
    off_N = (d_N - d_N.mean()) / main
    off_N += in_diamond_N * (d_N - d_N[:diamond].mean()) / diamond
    spread = np.sqrt(np.sum((off_N / 2) ** 2))
    assert average.mean == pytest.approx((d_N.mean() + d_N[:diamond].mean()) / 2)
    assert average.ci_low is not None
    assert average.ci_high is not None
    # As if they were independent, the interval would be a fifth narrower.
    assert average.ci_high - average.ci_low == pytest.approx(
        2 * 1.96 * spread, rel=0.06
    )


def test_criteria_and_fields_are_exploratory_parts(
    make_measured: Callable[..., Measured],
) -> None:
    fields = ["physics"] * 6 + ["chemistry"] * 6 + ["rare"] * 2
    z = [
        {"purpose": 0.5, "unit": 1.0} if at < 3 else {"purpose": 0.5}
        for at in range(14)
    ]
    better = [{name: value / 2 + 0.5 for name, value in one.items()} for one in z]
    found = compare_measured(
        [
            make_measured("base", _rewards(14), fields=fields, criteria_z_N=z),
            make_measured(
                "grpo", _rewards(14, seed=1), fields=fields, criteria_z_N=better
            ),
        ],
        QUICK,
    )
    parts = {(part.kind, part.name): part for part in found.exploratory}
    assert set(parts) == {
        ("field", "physics"),
        ("field", "chemistry"),
        ("criterion", "purpose"),
    }
    assert parts["criterion", "purpose"].mean == pytest.approx(0.25)
    assert parts["field", "physics"].n == 6
    assert found.scores[0].criteria == {"purpose": 0.5}
    assert "2 criteria or fields with fewer than 5 questions" in found.notes[-1]


def test_notes_say_what_to_beware_of(
    make_accuracy: Callable[..., Measured], make_measured: Callable[..., Measured]
) -> None:
    rewards = _rewards(20)
    found = compare_measured(
        [
            make_measured("base", rewards, fingerprint="same"),
            make_measured("copy", [None, *rewards[1:]], fingerprint="same"),
            make_accuracy(
                "base", _right(50, 0.25), chance=0.25, benchmark="rubric_gpqa_main"
            ),
            make_accuracy(
                "copy",
                _right(50, 0.25, seed=2),
                chance=0.25,
                benchmark="rubric_gpqa_main",
            ),
            make_accuracy("base", _right(20, 0.9), benchmark="rubric_gpqa_diamond"),
            make_accuracy(
                "copy", _right(20, 0.9, seed=2), benchmark="rubric_gpqa_diamond"
            ),
        ],
        QUICK,
    )
    text = "\n".join(found.notes)
    assert "copy and base are the same model" in text
    assert "base on rubric_gpqa_main is not shown to be above chance (25 %)" in text
    assert (
        "copy − base on heldout: questions left out because a side has no value for them: 1"
        in text
    )
    assert "heldout has questions from 19 documents" in text
    assert "rubric_gpqa_main and rubric_gpqa_diamond share 20 items" in text


def test_a_comparison_is_read_as_it_was_written(
    make_measured: Callable[..., Measured],
) -> None:
    found = compare_measured(
        [make_measured("base", _rewards(9)), make_measured("grpo", [0.5, *[None] * 8])],
        QUICK,
    )
    assert found.differences[0].ci_low is None
    assert EvalComparison.model_validate_json(found.model_dump_json()) == found


def test_a_model_that_a_judge_has_not_judged_has_no_place_in_its_order(
    make_measured: Callable[..., Measured],
) -> None:
    rewards = {
        ("base", "a"): [0.2, 0.4], ("base", "b"): [0.1, 0.3],
        ("grpo", "a"): [0.6, 0.8], ("grpo", "b"): [0.5, 0.6],
        ("lost", "a"): [0.9, 1.0], ("lost", "b"): [None, None],
    }  # fmt: skip
    measured = {
        key: make_measured(key[0], values, judge=key[1])
        for key, values in rewards.items()
    }

    (pair,) = judge_pairs(measured, ("a", "b"))

    assert pair.same_order
    assert pair.answers == 4


def test_pairs_must_be_of_known_models(make_measured: Callable[..., Measured]) -> None:
    two = [make_measured("a", _rewards(9)), make_measured("b", _rewards(9))]
    with pytest.raises(ComparisonError, match="no model 'c'; there are a, b"):
        compare_measured(two, CompareSettings(pairs=(("a", "c"),)))
    with pytest.raises(ComparisonError, match="'a' is compared with itself"):
        compare_measured(two, CompareSettings(pairs=(("a", "a"),)))
    with pytest.raises(ComparisonError, match=r"two models or more, there is a$"):
        compare_measured(two[:1])
    with pytest.raises(ComparisonError, match="there is none"):
        compare_measured([])
    with pytest.raises(
        ComparisonError, match="'a' has two sets of values on 'heldout'"
    ):
        compare_measured([*two, two[0]])
    apart = [two[0], make_measured("b", _rewards(9), benchmark="other")]
    with pytest.raises(ComparisonError, match="no two models"):
        compare_measured(apart)


def test_a_model_that_does_not_say_how_it_is_asked_is_named_where_others_do(
    make_measured: Callable[..., Measured],
) -> None:
    said = [
        make_measured(name, [0.1, 0.2], prompt_form="chat") for name in ("base", "grpo")
    ]
    silent = make_measured("plugin", [0.3, 0.4])
    (note,) = [
        one
        for one in compare_measured([*said, silent]).notes
        if "questions are put" in one
    ]
    assert note.startswith("plugin does not say")
    assert "(chat)" in note
    assert not [
        one for one in compare_measured(said).notes if "questions are put" in one
    ]


def test_each_suite_has_an_average_of_its_own(
    make_accuracy: Callable[..., Measured],
) -> None:
    suites = {
        "paper": {"rubric_gsm8k": (1, 0, 0, 0), "rubric_math": (1, 1, 0, 0)},
        "stock": {"gsm8k_cot_llama": (1, 1, 1, 1), "hendrycks_math": (1, 1, 1, 0)},
    }
    measured = [
        make_accuracy(
            model, list(right if model == "grpo" else (0, 0, 0, 0)), benchmark=name
        )
        for model in ("base", "grpo")
        for benchmarks in suites.values()
        for name, right in benchmarks.items()
    ]
    found = compare_measured(measured, QUICK)
    assert {one.suite: one.mean for one in found.averages} == {
        "paper": 0.375,
        "stock": 0.875,
    }
    assert {one.suite: one.benchmarks for one in found.averages} == {
        suite: tuple(benchmarks) for suite, benchmarks in suites.items()
    }
    (note,) = (
        one
        for one in found.notes
        if one.startswith("rubric_gsm8k and gsm8k_cot_llama share 4")
    )
    assert note.endswith("are averaged apart, each with its suite")
