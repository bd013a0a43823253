"""A calibration.json that was changed by hand, or by another version, is refused with its place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rubric_core import ConfigError
from rubric_judge.quality.calibration.measure import Settings, calibrate
from rubric_judge.quality.calibration.pairing import Paired
from rubric_judge.quality.calibration.record import Verdict, read_calibration

_ABSENT = object()


@pytest.fixture(scope="module")
def calibrated(planted: Callable[..., Paired]) -> str:
    """calibration.json of two criteria, the first masked, the second admitted."""
    paired = planted({"good": (0.95, 0.05), "wrong": (0.2, 0.8)}, tasks=40)
    return calibrate(
        paired, fingerprint="x", settings=Settings(resamples=20)
    ).model_dump_json()


@pytest.fixture
def written(calibrated: str, tmp_path: Path) -> Path:
    path = tmp_path / "calibration.json"
    path.write_text(calibrated, encoding="utf-8")
    return path


def _change(path: Path, place: str, value: object) -> None:
    whole: Any = json.loads(path.read_text("utf-8"))
    at: Any = whole
    *parents, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    for key in parents:
        at = at[key]
    if value is _ABSENT:
        del at[last]
    else:
        at[last] = value
    path.write_text(json.dumps(whole), encoding="utf-8")


def test_what_calibrate_writes_is_read_to_the_letter(written: Path) -> None:
    found = read_calibration(written)

    assert [one.verdict for one in found.criteria] == [Verdict.MASK, Verdict.ADMIT]
    assert found.model_dump_json() == written.read_text("utf-8")


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("version", _ABSENT, r"version: is missing"),
        ("version", 2, r"version: needs 1, not 2"),
        ("criteria.1.factor", _ABSENT, r"criteria\.1\.factor: is missing"),
        ("criteria.1.factor", 0.5, r"factor is 0\.5; under verdict 'admit' it is 1"),
        ("criteria.0.factor", 1.0, r"factor is 1; under verdict 'mask' it is 0"),
        ("criteria.0.verdict", "more_labels", None),
        (
            "criteria.1.verdict",
            "more_labels",
            r"factor is 1; under verdict 'more_labels' it is 0",
        ),
        ("criteria.1.verdict", "weigh_down", None),
        ("criteria.1.factor", "1", r"criteria\.1\.factor: .*not '1'"),
        ("criteria.1.factor", True, r"criteria\.1\.factor: .*not true"),
        ("criteria.1.factor", -0.5, r"criteria\.1\.factor: .*not -0\.5"),
        ("criteria.1.labels", -1, r"criteria\.1\.labels: .*not -1"),
        ("criteria.1.labels", 3, r"criteria\.1: positives is \d+, of 3 labels"),
        ("criteria.1.labels", "80", r"criteria\.1\.labels: .*not '80'"),
        (
            "criteria.1.tpr.value",
            1.5,
            r"criteria\.1\.tpr: its value is 1\.5 and must be from 0 to",
        ),
        ("criteria.1.fpr.low", -0.1, r"criteria\.1\.fpr: its low is -0\.1"),
        ("criteria.1.tpr.value", 0.5, r"criteria\.1: youden_j is .*; TPR − FPR is"),
        ("criteria.1.youden_j.high", 1.2, r"criteria\.1\.youden_j: its high is 1\.2"),
        ("criteria.1.bias.low", -1.5, r"criteria\.1\.bias: its low is -1\.5"),
        ("criteria.1.criterion", "wrong", r"its pool is 'good', and criterion 'wrong'"),
        (
            "criteria.1.pool",
            {"id": "good", "tone": 1},
            r"unknown key 'criteria\.1\.pool\.tone'",
        ),
        ("criteria.1.pool.kind", "reason", r"criteria\.1\.pool\.kind: "),
        ("criteria.1.pool.is_any", True, None),
        (
            "reward.pairs.3.judge",
            1.5,
            r"reward\.pairs\.3: its judge is 1\.5 and must be from 0",
        ),
        ("reward.pairs.3.label", -0.5, r"reward\.pairs\.3: its label is -0\.5"),
        ("reward.pairs.3.label", "0.5", r"reward\.pairs\.3\.label: .*not '0\.5'"),
        ("confidence", 1.0, r"confidence: .*not 1\.0"),
        ("confidence", True, r"confidence: .*not true"),
        ("surprise", 1, r"unknown key 'surprise'"),
    ],
)
def test_wrong_and_missing_facts_are_named(
    written: Path, place: str, value: object, told: str | None
) -> None:
    _change(written, place, value)

    if told is None:
        read_calibration(written)
        return
    with pytest.raises(ConfigError, match=told) as caught:
        read_calibration(written)
    assert str(caught.value).startswith(
        f"{written}: this is no calibration as `rubric-judge cal"
    )


def test_several_wrong_facts_have_one_preface(written: Path) -> None:
    _change(written, "confidence", 1.0)
    _change(written, "seed", "0")

    with pytest.raises(ConfigError) as caught:
        read_calibration(written)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{written}: this is no calibration as `rubric-judge cal")
    assert second == "  seed: needs a whole number, not '0'"


def test_of_another_version_nothing_else_is_told(written: Path) -> None:
    _change(written, "version", 2)
    _change(written, "surprise", 1)

    with pytest.raises(ConfigError, match=r": version: needs 1, not 2$"):
        read_calibration(written)


def test_the_calibration_of_a_cascade_is_known_as_one(tmp_path: Path) -> None:
    path = tmp_path / "cascade.json"
    path.write_text('{"version": 2, "judges": ["a", "b"], "uncertainty": "margin"}')

    told = rf"^{path}: this is a cascade's calibration: name it as `calibration` in the .* YAML$"
    with pytest.raises(ConfigError, match=told):
        read_calibration(path)


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ('"version":1', '"version":1,"version":1', "holds the same key twice"),
        ('"factor":1.0', '"factor":0.0,"factor":1.0', "holds the same key twice"),
        ('"seed":0', '"seed":NaN', "NaN is no number in JSON"),
        ('"version":1', '"version":1,,', "not JSON: .* at column"),
    ],
)
def test_what_is_no_json_of_ours_is_refused(
    written: Path, was: str, becomes: str, told: str
) -> None:
    text = written.read_text("utf-8")
    assert was in text
    written.write_text(text.replace(was, becomes, 1), encoding="utf-8")

    with pytest.raises(ConfigError, match=told):
        read_calibration(written)
