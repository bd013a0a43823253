from __future__ import annotations

from pathlib import Path

import pytest

from rubric_core import ConfigError
from rubric_synth import SynthConfig, load_config

_SHIPPED = Path(__file__).parents[3] / "configs" / "synth"


@pytest.mark.parametrize("path", sorted(_SHIPPED.glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_configuration_is_read(path: Path) -> None:
    load_config(path)


def test_the_extractive_configuration_writes_out_the_defaults() -> None:
    assert load_config(_SHIPPED / "extractive.yaml") == SynthConfig()


def _refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return str(caught.value)


def test_an_unknown_key_is_named_with_the_nearest_right_one(tmp_path: Path) -> None:
    message = _refused(tmp_path, "quality:\n  min_criterias: 4\n")
    assert "quality.min_criterias" in message
    assert "'min_criteria'" in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("train_frac: 0.9\nvalidation_frac: 0.2\n", "test split"),
        ("quality: {min_criteria: 9, max_criteria: 5}", "max_criteria 5"),
        ("max_concurrency: 0", "max_concurrency"),
        ("- a list", "c.yaml"),
        ("a: [", "c.yaml:1:5: is not YAML"),
        (
            "train_frac: 0.5\ntrain_frac: 0.6",
            "c.yaml:2:1: the key 'train_frac' stands here a second",
        ),
        ("train_frac: .nan", "train_frac"),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, text: str, part: str) -> None:
    assert part in _refused(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        load_config(tmp_path / "absent.yaml")
