"""`rubric-synth run`: what it can be told, and how it ends."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest
import structlog
import yaml

from rubric_judge.ui.console.progress import Phase
from rubric_judge.ui.console.snapshot import phase_line
from rubric_synth.cli import main, running
from rubric_synth.run.pipeline.recording import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class _Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., _Done]]:
    def call(*arguments: object) -> _Done:
        status = 0
        try:
            main(["run", *map(str, arguments)])
        except SystemExit as stop:
            status = int(stop.code or 0)
        return _Done(status, *capsys.readouterr())

    yield call
    structlog.reset_defaults()


def test_a_limit_and_then_the_rest(
    tmp_path: Path, collected: Callable[[], Path], run: Callable[..., _Done]
) -> None:
    source, out = collected(), tmp_path / "data"
    first = run(source, "--out", out, "--limit", 6)
    assert first.status == 0, first.err
    assert "5 documents are pending: another run goes on with them" in first.err
    assert "pending" not in run(source, "--out", out).err
    assert run(source, "--out", out, "--limit", 0).status == 2


@pytest.mark.parametrize(
    "name", ["README.md", "train.jsonl", "manifest.json", "stats.json"]
)
def test_files_that_no_run_wrote_are_left_alone(
    tmp_path: Path, collected: Callable[[], Path], run: Callable[..., _Done], name: str
) -> None:
    source, out = collected(), tmp_path / "own"
    out.mkdir()
    (out / name).write_text('{"sha256": {"documents.jsonl": ""}}')
    for folder in (out, source):
        before = {path: path.read_bytes() for path in folder.iterdir()}
        refused = run(source, "--out", folder)
        assert refused.status == 2
        assert (
            "was not written by `rubric-synth run`, which would replace it"
            in refused.err
        )
        assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_a_collection_beside_an_unfinished_run_is_left_alone(
    tmp_path: Path, collected: Callable[[], Path], run: Callable[..., _Done]
) -> None:
    source, out = collected(), tmp_path / "data"
    run(source, "--out", out)
    for path in out.glob("*.*"):
        path.unlink()
    shutil.copytree(source, out, dirs_exist_ok=True)
    assert run(source, "--out", out).status == 2
    assert (out / "manifest.json").read_bytes() == (
        source / "manifest.json"
    ).read_bytes()


def test_a_run_goes_on_where_a_killed_one_had_put_some_files_in_place(
    tmp_path: Path, collected: Callable[[], Path], run: Callable[..., _Done]
) -> None:
    source, out = collected(), tmp_path / "data"
    run(source, "--out", out)
    before = {path: path.read_bytes() for path in out.glob("*.*")}
    (out / "manifest.json").unlink()
    assert run(source, "--out", out).status == 0
    assert before == {path: path.read_bytes() for path in out.glob("*.*")}


@pytest.mark.usefixtures("model")
def test_a_run_with_a_model_tells_calls_tokens_and_cost(
    tmp_path: Path,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    run: Callable[..., _Done],
) -> None:
    done = run(generated(3), "--out", tmp_path / "data", "--config", configured())
    usage = json.loads((tmp_path / "data" / "manifest.json").read_text())["usage"][
        "total"
    ]
    shown = " ".join(done.out.split())
    assert (
        f"{usage['calls']} calls over all runs: {usage['prompt_tokens']} tokens read"
        in shown
    )
    assert f"{usage['cost_usd']:.4g} USD" in shown
    assert "no language model" not in shown


@pytest.mark.usefixtures("model")
def test_each_way_to_stop_has_its_status(
    tmp_path: Path,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    run: Callable[..., _Done],
) -> None:
    source, out = generated(3), tmp_path / "data"
    cost = run(
        source, "--out", out, "--config", configured(), "--max-cost-usd", "0.000001"
    )
    assert (cost.status, "3 are pending" in cost.err) == (3, True), cost.err
    unpriced = configured("unpriced", prices=False)
    assert (
        run(
            source, "--out", tmp_path / "d", "--config", unpriced, "--max-cost-usd", 1
        ).status
        == 5
    )
    content = yaml.safe_load(configured().read_text())
    content["synthesiser"]["model"]["api_base"] = "http://127.0.0.1:9/v1"
    (tmp_path / "nobody.yaml").write_text(yaml.safe_dump(content))
    nobody = run(source, "--out", tmp_path / "e", "--config", tmp_path / "nobody.yaml")
    assert nobody.status == 4
    assert "does not answer" in nobody.err
    assert "3 documents are pending" in nobody.err


def test_an_override_is_checked_as_the_configuration_is(
    tmp_path: Path, collected: Callable[[], Path], run: Callable[..., _Done]
) -> None:
    done = run(collected(), "--out", tmp_path / "data", "--max-cost-usd", "-1")
    assert done.status == 2
    assert "max_cost_usd" in done.err


def test_a_look_tells_rate_cost_remaining_time_and_what_was_left_out() -> None:
    phase = Phase("making tasks", total=None, unit="documents", now_s=0.0)
    show = running._shown_by(phase)  # pyright: ignore[reportPrivateUsage]
    show(Progress(40, 100, 3, 16, 1.5, 0.5))
    show(Progress(50, 100, 3, 16, 1.5, 0.5))
    assert phase_line(phase.snapshot(now_s=20.0)) == (
        "making tasks: 50 of 100 documents, 0.5/s, 1 min 40 s left; "
        "16 in flight, 1.50 USD, 3 left out"
    )
    show(Progress(100, 100, 3, 0, 0.0, 0.5))
    assert "writing the dataset" in phase.snapshot(now_s=21.0).note
