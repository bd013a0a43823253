from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rubric_eval import ComparisonError
from rubric_eval.comparison.pairing import pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_eval.records.run import Measured


def test_a_question_that_a_side_lacks_is_left_out(
    make_measured: Callable[..., Measured],
) -> None:
    found = pair(
        make_measured("a", [[0.2, 0.4], [None, None], [1.0, None]]),
        make_measured("b", [[0.1, 0.1], [0.5, 0.5], [0.5, 0.7]]),
    )
    assert found.ids == ("q0", "q2")
    assert found.left_out == 1
    assert found.a.answers == found.b.answers == 2
    assert found.differences_N == pytest.approx(np.array([0.2, 0.4]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ids": ["q0", "other"]}, "2 questions have only one of both, first 'other'"),
        (
            {"prompts": ["prompt q0", "x"]},
            "1 of 2 questions differ in prompts: 'q1' was put in",
        ),
        (
            {"clusters": ["d", "q1"]},
            "1 of 2 questions differ in clusters: 'q0' is from another",
        ),
        (
            {"protocol": "other"},
            "protocol differs, 'p' and 'other'; evaluate both with the same",
        ),
        (
            {"protocol": "f" * 64},
            "protocol differs, 'p' and 'ffffffffffffffff…fff'; evaluate",
        ),
        (
            {"judge": "llm"},
            "judge differs, 'lexical' and 'llm'; judge both by one judge",
        ),
        ({"benchmark": "other"}, "benchmark differs"),
        ({"measure": "accuracy"}, "measure differs"),
        ({"seeds": (7,)}, r"seeds differs, \(0,\) and \(7,\)"),
    ],
)
def test_what_does_not_match_is_refused(
    make_measured: Callable[..., Measured], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ComparisonError, match=said):
        pair(make_measured("a", [0.1, 0.2]), make_measured("b", [0.1, 0.2], **changes))


def test_what_differs_in_how_models_were_asked_is_named(
    make_measured: Callable[..., Measured],
) -> None:
    a, b = (
        make_measured(name, [0.1, 0.2], protocol=json.dumps(asked))
        for name, asked in (
            ("a", {"judge": "one", "temperature": 0.0, "top_p": 1.0}),
            ("b", {"judge": "other", "temperature": 0.5, "top_p": 1.0}),
        )
    )
    said = "protocol differs, judge 'one' and 'other', temperature 0.0 and 0.5; evaluate both"
    with pytest.raises(ComparisonError, match=said):
        pair(a, b)


def test_a_chat_template_on_one_side_alone_is_refused(
    make_measured: Callable[..., Measured],
) -> None:
    plain, chat, unknown = (
        make_measured(name, [0.1, 0.2], prompt_form=form)
        for name, form in (("base", "plain"), ("sft", "chat"), ("policy", None))
    )
    with pytest.raises(
        ComparisonError, match="prompts differ, plain and chat: one tokenizer"
    ):
        pair(plain, chat)
    slots = make_measured("tiny", [0.1, 0.2], prompt_form="slots")
    with pytest.raises(
        ComparisonError, match="prompts differ, slots and chat: the same questions"
    ):
        pair(slots, chat)
    assert pair(plain, unknown).ids == pair(unknown, chat).ids == pair(chat, chat).ids


def test_another_number_of_answers_is_refused(
    make_measured: Callable[..., Measured],
) -> None:
    with pytest.raises(ComparisonError, match="1 and 2 answers a question"):
        pair(make_measured("a", [0.1]), make_measured("b", [[0.1, 0.2]], seeds=(0,)))


def test_nothing_in_common_is_refused(make_measured: Callable[..., Measured]) -> None:
    with pytest.raises(ComparisonError, match="no question has a value from both"):
        pair(make_measured("a", [0.1, None]), make_measured("b", [None, 0.2]))


def test_refusals_hold_names_and_no_values(
    make_measured: Callable[..., Measured],
) -> None:
    with pytest.raises(ComparisonError, match=r"^'a' and 'b' on 'heldout': "):
        pair(make_measured("a", [0.1]), make_measured("b", [0.1], judge="other"))
