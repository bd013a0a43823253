"""A training backend from another package, through the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import structlog

from rubric_train_openrlhf.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = """
from pathlib import Path

class Cluster:
    name = "cluster"

    def plan(self, config):
        return f"{config['nodes']} nodes"

    def run(self, config, *, resume=False):
        return Path(f"{config['out']}-{resume}")
"""


@pytest.fixture(autouse=True)
def _logging_is_put_back() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration for a backend that is installed from elsewhere."""
    (tmp_path / "cluster_backend.py").write_text(MODULE, encoding="utf-8")
    metadata = tmp_path / "cluster_backend-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: cluster-backend\nVersion: 1\n"
    )
    (metadata / "entry_points.txt").write_text(
        "[rubric.trainers]\ncluster = cluster_backend:Cluster\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "run.yaml"
    path.write_text("backend: cluster\nnodes: 4\nout: runs/there\n", encoding="utf-8")
    return path


def test_another_backend_plans_and_runs_its_own_configuration(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, printed in (
        (["plan", str(config), "--nodes", "8"], "8 nodes"),
        (["run", str(config), "--resume"], "runs/there-True"),
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        assert capsys.readouterr().out.strip() == printed


def test_an_unknown_backend_is_named_with_the_nearest(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["plan", str(config), "--backend", "clster"])

    told = " ".join(capsys.readouterr().err.split())
    assert "the command line: backend: " in told
    assert "did you mean 'cluster'?" in told
