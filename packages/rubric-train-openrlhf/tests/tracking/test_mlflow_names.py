"""Names of metrics, of which a criterion's id is a part, and ends in a real store of MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.config.trackers import MlflowTracker
from rubric_train_openrlhf.tracking.mlflow_run import MlflowRun
from rubric_train_openrlhf.tracking.tracker import Entry, Opening

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_train_openrlhf.run.records import Status

LONG = "Does the answer say that heat makes the atoms swing further apart? " * 5


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("criterion/cause/mean", "criterion/cause/mean"),
        ("criterion/kind.cause/mean", "criterion/kind.cause/mean"),
        ("criterion/says: 9?/mean", "criterion/says_ 9_/mean"),
        ("criterion/../mean", "criterion/_../mean"),
        ("criterion/./mean", "criterion/_./mean"),
        ("criterion/a//b/mean", "criterion/a/_/b/mean"),
        ("train/criteria/a/", "train/criteria/a/_"),
        (
            "criterion/熱は原子を遠くへ揺らす/mean",
            "criterion/熱は原子を遠くへ揺らす/mean",
        ),
        (f"criterion/{LONG}/mean", None),
        (f"criterion/{'熱' * 90}/mean", None),
    ],
)
def test_any_id_makes_a_name_that_a_store_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str, name: str | None
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = pytest.importorskip("mlflow")
    uri = f"file:{tmp_path / 'store'}"
    opening = Opening(run_id=None, name="run", settings={}, files=tmp_path)
    run = MlflowRun(MlflowTracker(uri=uri), opening)
    other = f"{tag.removesuffix('mean')}spread"

    run.log(Entry("train", 1, {tag: 0.25, other: 0.5}, 0))

    data = mlflow.MlflowClient(tracking_uri=uri).get_run(run.run_id).data.metrics
    assert sorted(data.values()) == [0.25, 0.5, 1.0]
    if name is not None:
        assert data[name] == 0.25


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ("finished", "FINISHED"),
        ("failed", "FAILED"),
        ("diverged", "FAILED"),
        ("interrupted", "KILLED"),
        ("running", "KILLED"),
    ],
)
def test_a_run_that_an_alarm_ended_is_not_shown_as_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status, ended: str
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = pytest.importorskip("mlflow")
    uri = f"file:{tmp_path / 'store'}"
    opening = Opening(run_id=None, name="run", settings={}, files=tmp_path)
    run = MlflowRun(MlflowTracker(uri=uri), opening)

    run.finish(status)

    client = mlflow.MlflowClient(tracking_uri=uri)
    assert client.get_run(run.run_id).info.status == ended
