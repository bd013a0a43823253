"""A judge with `verdict: probability`: what a run asks for before it trains on its rewards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rubric_train_openrlhf.config.train import (
    TrainConfig,
    dump_config,
    load_config,
    parse_config,
)
from rubric_train_openrlhf.errors import TrainConfigError

READ = {
    "type": "llm",
    "model": "openai/judge",
    "api_base": "http://127.0.0.1:9/v1",
    "verdict": "probability",
}
Make = Callable[..., TrainConfig]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def parsed(backend: str = "local", **judge: Any) -> TrainConfig:
        return parse_config(
            {
                "backend": backend,
                "model": {"type": "path", "path": tmp_path},
                "data": {"train": tmp_path / "t.jsonl"},
                "judge": judge,
                "steps": 1,
                "out": tmp_path / "run",
            }
        )

    return parsed


@pytest.mark.parametrize("backend", ["local", "openrlhf"])
@pytest.mark.parametrize("spec", [READ, {"type": "hybrid", "judge": READ}])
def test_it_is_refused_without_a_calibration_and_told_why(
    make: Make, backend: str, spec: dict[str, Any]
) -> None:
    with pytest.raises(TrainConfigError, match=r"needs judge\.calibration") as refused:
        make(backend, spec=spec)

    assert "rubric-judge calibrate" in str(refused.value)


def test_it_is_refused_where_what_was_not_calibrated_would_count(make: Make) -> None:
    with pytest.raises(TrainConfigError, match="by an untried probability"):
        make(spec=READ, calibration="c.json", uncalibrated="admit")


@pytest.mark.parametrize("uncalibrated", ["refuse", "mask"])
def test_with_a_calibration_it_is_taken_and_reads_back_the_same(
    make: Make, tmp_path: Path, uncalibrated: str
) -> None:
    config = make(spec=READ, calibration="c.json", uncalibrated=uncalibrated)
    file = tmp_path / "run.yaml"
    file.write_text(dump_config(config))

    assert load_config(file) == config


def test_sampled_verdicts_need_none(make: Make) -> None:
    assert make(spec=READ | {"verdict": "sampled"}).judge.calibration is None
    assert "verdict:" not in dump_config(make(spec=READ | {"verdict": "sampled"}))
