import math

import pytest
from pydantic import ValidationError

from rubric_train_openrlhf.objective import (
    IcePop,
    NoImportance,
    ObjectiveConfig,
    SeqMaskTruncated,
    Truncated,
)


def test_defaults_are_the_main_run() -> None:
    assert ObjectiveConfig().model_dump() == {
        "surrogate": {"type": "clipped"},
        "clip_low": 0.2,
        "clip_high": 0.2,
        "dual_clip": None,
        "kl_coef": 0.01,
        "kl": {"type": "k3"},
        "kl_input_clamp": 20.0,
        "kl_output_clamp": None,
        "ratio": "token",
        "importance": {"type": "none"},
        "aggregation": "token",
    }


@pytest.mark.parametrize(
    ("given", "variant"),
    [
        ({"type": "none"}, NoImportance()),
        ({"type": "tis"}, Truncated(cap=2.0, level="token")),
        ({"type": "tis", "cap": math.inf}, Truncated(cap=math.inf)),
        ({"type": "icepop"}, IcePop(low=0.5, high=5.0)),
        ({"type": "seq_mask_tis"}, SeqMaskTruncated(low=0.999, high=1.002)),
    ],
)
def test_correction_is_chosen_by_its_type(
    given: dict[str, object], variant: object
) -> None:
    assert ObjectiveConfig.model_validate({"importance": given}).importance == variant


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip_low": -0.1},
        {"clip_low": 1.1},
        {"clip_high": math.nan},
        {"dual_clip": 1.0},
        {"kl_coef": -0.01},
        {"kl_input_clamp": 0.0},
        {"kl_output_clamp": 0.0},
        {"ratio": "word"},
        {"aggregation": "none"},
        {"clip": 0.2},
        {"importance": {"type": "tis", "cap": 0.0}},
        {"importance": {"type": "tis", "cap": math.nan}},
        {"importance": {"type": "tis", "low": 0.5}},
        {"importance": {"type": "icepop", "low": 2.0, "high": 2.0}},
        {"importance": {"type": "seq_mask_tis", "low": 1.1, "high": 1.0}},
        {"importance": {"type": "clip"}},
        {"importance": {}},
    ],
)
def test_setting_outside_its_range_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ObjectiveConfig.model_validate(wrong)


def test_every_setting_is_described() -> None:
    for model in (ObjectiveConfig, Truncated, IcePop, SeqMaskTruncated):
        undescribed = [
            name
            for name, field in model.model_fields.items()
            if name != "type" and not field.description
        ]
        assert undescribed == []
