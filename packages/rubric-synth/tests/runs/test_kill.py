"""A run that is killed, again and again, ends like one that was left alone."""

# ruff: noqa: PLR0917 - doubles of conftest.py, which no test can import

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from rubric_synth import check_dataset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("documents", "kills"), [(10, 3), pytest.param(40, 10, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(900)
def test_killed_runs_end_with_the_same_bytes_and_ask_nothing_again(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    documents: int,
    kills: int,
    command: Any,
    final_files: Callable[[Path], dict[str, bytes]],
) -> None:
    in_flight = 4
    collected, config = generated(documents), configured(max_concurrency=in_flight)
    whole = command(collected, tmp_path / "whole", config)
    status, errors = whole.wait()
    assert status == 0, errors
    asked = model.questions
    assert set(asked.values()) == {1}

    model.endpoint.calls.clear()
    model.answers.clear()
    generator = random.Random(20)
    noted: list[Any] = []
    seen = sorted(generator.sample(range(1, sum(asked.values())), kills - 1))
    for calls in seen:
        run = command(collected, tmp_path / "killed", config)
        assert run.wait_until(lambda calls=calls: len(model.endpoint.calls) >= calls)
        time.sleep(generator.random() * 0.04)
        run.process.kill()
        run.wait()
        noted.append(model.after_kill(tmp_path / "killed"))
    run = command(
        collected, tmp_path / "killed", config
    )  # once more while the dataset is written
    run.wait_until(lambda: any((tmp_path / "killed").glob(".train*")))
    run.process.kill()
    run.wait()
    noted.append(model.after_kill(tmp_path / "killed"))

    status, errors = command(collected, tmp_path / "killed", config).wait()
    assert status == 0, errors
    assert final_files(tmp_path / "killed") == final_files(tmp_path / "whole")
    assert set(model.questions) == set(asked)
    assert model.asked_twice_without_need(noted) == []
    assert sum(model.questions.values()) <= sum(asked.values()) + in_flight * kills
    assert check_dataset(tmp_path / "killed").problems == ()
