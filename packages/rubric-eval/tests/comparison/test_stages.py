from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rubric_eval import ComparisonError, compare, mean_interval, paired_interval
from rubric_eval.statistics import score_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_eval import Heldout

BASE = (0.1, 0.0, 0.2, 0.1, 0.05)
SFT = (0.4, 0.3, 0.5, 0.35, 0.45)
GRPO = (0.5, 0.45, 0.55, 0.5, 0.6)
TEMPLATE = (0.45, 0.4, 0.5, 0.4, 0.45)


def test_rows_and_differences_are_those_of_the_questions(
    make_heldout: Callable[..., Heldout],
) -> None:
    comparison = compare(
        {
            "base": make_heldout(BASE),
            "sft": make_heldout(SFT),
            "grpo": make_heldout(GRPO),
        },
        controls={"fixed_template": make_heldout(TEMPLATE)},
    )
    assert list(comparison.stages) == ["base", "sft", "grpo"]
    assert comparison.stages["sft"].mean == pytest.approx(mean_interval(SFT).mean)
    assert [(item.a, item.b) for item in comparison.differences] == [
        ("sft", "base"),
        ("grpo", "sft"),
        ("grpo", "fixed_template"),
    ]
    wanted = paired_interval(GRPO, SFT)
    found = comparison.difference("grpo", "sft")
    assert (found.mean, found.ci_low, found.ci_high, found.n) == (
        wanted.mean,
        wanted.ci_low,
        wanted.ci_high,
        5,
    )


def test_questions_of_a_document_are_drawn_together(
    make_heldout: Callable[..., Heldout],
) -> None:
    documents = [f"d{number // 2}" for number in range(8)]
    grpo = [0.9, 0.8, 0.1, 0.2, 0.6, 0.7, 0.3, 0.3]
    sft = [0.5, 0.5, 0.2, 0.2, 0.4, 0.3, 0.3, 0.2]
    stages = {
        "sft": make_heldout(sft, documents=documents),
        "grpo": make_heldout(grpo, documents=documents),
    }

    found = compare(stages)

    wanted = paired_interval(grpo, sft, clusters_N=documents)
    difference = found.difference("grpo", "sft")
    assert (difference.ci_low, difference.ci_high) == (wanted.ci_low, wanted.ci_high)
    assert difference.ci_low != paired_interval(grpo, sft).ci_low
    alone = score_interval(grpo, clusters_N=documents)
    assert (found.stages["grpo"].ci_low, found.stages["grpo"].ci_high) == (
        alone.ci_low,
        alone.ci_high,
    )


def test_questions_are_matched_by_id_and_not_by_place(
    make_heldout: Callable[..., Heldout],
) -> None:
    ids = [f"q{i}" for i in range(5)]
    straight = compare({"sft": make_heldout(SFT), "grpo": make_heldout(GRPO)})
    turned = compare(
        {"sft": make_heldout(SFT[::-1], task_ids=ids[::-1]), "grpo": make_heldout(GRPO)}
    )
    assert turned.differences == straight.differences


def test_a_question_that_one_side_lacks_is_left_out_of_the_pair(
    make_heldout: Callable[..., Heldout],
) -> None:
    comparison = compare(
        {"a": make_heldout((0.1, None, 0.3)), "b": make_heldout((0.2, 0.5, 0.6))}
    )
    assert comparison.differences[0].n == 2
    assert comparison.stages["a"].n == 2
    assert comparison.stages["b"].n == 3


def test_json_keeps_the_controls_beside_the_stages(
    make_heldout: Callable[..., Heldout],
) -> None:
    comparison = compare(
        {"base": make_heldout(BASE), "grpo": make_heldout(GRPO)},
        controls={"fixed_template": make_heldout(TEMPLATE)},
        labels={"grpo": "GRPO"},
        claim="One sentence.",
    )
    document = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    told = {"result", "caution", "claim", "not_rivals"}
    assert (
        set(document)
        == {"judge", "confidence", "samples", "heldout", "differences"} | told
    )
    assert list(document["heldout"]) == ["base", "grpo", "controls"]
    row = document["heldout"]["grpo"]
    assert set(row) == {
        "mean",
        "ci_low",
        "ci_high",
        "n",
        "no_interval",
        "label",
        "zero_frac",
        "criteria",
    }
    assert row["label"] == "GRPO"
    assert (
        document["heldout"]["controls"]["fixed_template"]["label"] == "fixed template"
    )
    assert set(document["differences"][0]) == {
        "a",
        "b",
        "mean",
        "ci_low",
        "ci_high",
        "n",
        "no_interval",
    }
    assert document["claim"] == "One sentence."
    careful = comparison.model_copy(update={"caution": "It means nothing."})
    assert careful.markdown().startswith(f"It means nothing. {comparison.result}\n")
    assert careful.to_json()["result"] == f"It means nothing. {comparison.result}"


def test_markdown_shows_per_cent_and_signed_points(
    make_heldout: Callable[..., Heldout],
) -> None:
    text = compare(
        {"sft": make_heldout((0.4,) * 5), "grpo": make_heldout((0.55,) * 5)},
        controls={"one": make_heldout((0.9,) * 5)},
        labels={"grpo": "GRPO | tuned"},
        claim="It is so.",
    ).markdown()
    assert "| **GRPO \\| tuned** | 55.0 % | 13.1 to 90.8 | 25.0 % | 5 |" in text
    assert "| GRPO \\| tuned − sft | +15.0 | +15.0 to +15.0 | 5 |" in text
    assert "| one | 90.0 % |" in text
    assert text.endswith("It is so.\n")


def test_the_result_is_the_last_stage_against_the_best_other_and_the_strongest_control(
    make_heldout: Callable[..., Heldout],
) -> None:
    found = compare(
        {
            "base": make_heldout((0.1,) * 5),
            "sft": make_heldout((0.4,) * 5),
            "grpo": make_heldout((0.55,) * 5),
        },
        controls={
            "fixed": make_heldout((0.3,) * 5),
            "learned": make_heldout((0.45,) * 5),
            "sft_cooled": make_heldout((0.6,) * 5),
            "grpo_greedy": make_heldout((0.7,) * 5),
            "reference": make_heldout((0.9,) * 5),
        },
        labels={"grpo": "GRPO: rewarded", "sft_cooled": "SFT at its best temperature"},
    ).model_copy(update={"not_rivals": ("reference", "grpo_greedy")})
    assert found.result == (
        "GRPO 55.0 % against sft 40.0 %: +15.0 points (15.0 to 15.0) on 5 unseen questions; "
        "strongest control, SFT at its best temperature: 60.0 %."
    )
    assert found.to_json()["result"] == found.result
    assert found.markdown().startswith(found.result)


def test_a_result_whose_interval_reaches_zero_says_that_no_gain_is_shown(
    make_heldout: Callable[..., Heldout],
) -> None:
    worse = compare({"sft": make_heldout((0.4,) * 5), "grpo": make_heldout((0.3,) * 5)})
    assert (
        "−10.0 points (−10.0 to −10.0), which shows no gain, on 5 unseen"
        in worse.result
    )
    alone = compare({"grpo": make_heldout((0.3,) * 5)})
    assert alone.result == "grpo 30.0 % on 5 unseen questions."


def test_one_question_has_no_interval_in_the_table(
    make_heldout: Callable[..., Heldout],
) -> None:
    assert "| too few to say |" in compare({"sft": make_heldout((0.4,))}).markdown()


def test_evaluations_on_other_questions_are_refused(
    make_heldout: Callable[..., Heldout],
) -> None:
    with pytest.raises(ComparisonError, match="differ in 2 questions"):
        compare(
            {
                "a": make_heldout((0.1, 0.2)),
                "b": make_heldout((0.1, 0.2), task_ids=["q0", "other"]),
            }
        )


def test_a_control_may_answer_some_of_the_questions(
    make_heldout: Callable[..., Heldout],
) -> None:
    stages = {
        "sft": make_heldout((0.1, 0.2, 0.3)),
        "grpo": make_heldout((0.2, 0.3, 0.4)),
    }
    written = make_heldout((0.9, 0.8))
    found = compare(
        stages, controls={"right": written, "all": make_heldout((0.1,) * 3)}
    )
    assert (found.controls["right"].n, found.controls["all"].n) == (2, 3)
    assert [(one.a, one.b) for one in found.differences] == [
        ("grpo", "sft"),
        ("grpo", "all"),
    ]
    assert "| right | 85.0 % |" in found.markdown()
    with pytest.raises(
        ComparisonError, match="'sft' and 'right' differ in 1 questions"
    ):
        compare(stages, controls={"right": written}, differences=[("grpo", "right")])
    other = make_heldout((0.9, 0.8), task_ids=["q0", "other"])
    with pytest.raises(
        ComparisonError, match="'sft' and 'right' differ in 1 questions"
    ):
        compare(stages, controls={"right": other})


def test_another_judge_is_refused(make_heldout: Callable[..., Heldout]) -> None:
    with pytest.raises(ComparisonError, match="'lexical' and 'b' by 'llm'"):
        compare({"a": make_heldout((0.1,)), "b": make_heldout((0.1,), judge="llm")})


def test_names_must_be_known_and_stand_for_one_thing(
    make_heldout: Callable[..., Heldout],
) -> None:
    one = make_heldout((0.1,))
    with pytest.raises(ComparisonError, match="no stage"):
        compare({})
    with pytest.raises(ComparisonError, match="stand for two things"):
        compare({"a": one}, controls={"a": one})
    with pytest.raises(ComparisonError, match="stand for two things"):
        compare({"controls": one})
    with pytest.raises(ComparisonError, match="no evaluation named 'b'"):
        compare({"a": one}, differences=[("a", "b")])
    with pytest.raises(ComparisonError, match="no difference 'a' − 'b'"):
        compare({"a": one}).difference("a", "b")
