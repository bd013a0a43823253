"""The documentation of numpy and scipy: what the quickstart trains on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rubric_synth import check_dataset, collect, dataset_statistics, synthesise


@pytest.mark.slow
def test_numpy_and_scipy_give_enough_sound_tasks_in_time(tmp_path: Path) -> None:
    start = time.process_time()
    collect(["python:numpy", "python:scipy"], tmp_path / "c")
    report = synthesise(tmp_path / "c", tmp_path / "d")
    assert time.process_time() - start <= 40
    assert report.tasks["train"] >= 450
    assert report.tasks["validation"] >= 80
    assert report.tasks["test"] >= 80
    assert check_dataset(tmp_path / "d").problems == ()
    controls = dataset_statistics(tmp_path / "d").controls
    assert controls["reference"] >= 0.85
    assert controls["fixed_template"] <= 0.45
    assert controls["other_reference"] <= 0.2
    assert controls["passage_start"] <= 0.35
    assert controls["keyword_spam"] <= 0.05
