"""Real runs shown in real trackers, which keep their data on this disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import structlog

from rubric_core import ConfigError, MissingExtraError
from rubric_train_openrlhf.config.train import dump_config
from rubric_train_openrlhf.local.plan import describe_plan
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.tracking import running
from rubric_train_openrlhf.tracking.figures import row_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rubric_judge.testing import ScriptedJudge
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.run.records import MetricsRow

    MakeConfig = Callable[..., TrainConfig]
    Series = dict[str, list[tuple[int, float]]]

TYPES = ("wandb", "mlflow", "trackio")
KEY = "sk-hush-hush-hush-0123456789"
PASSAGE_WORD = "quokka"
"""Stands in every passage of these tasks, and nowhere else."""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that a tracker writes is below a folder of the test; nothing is sent."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("JUDGE_API_KEY", KEY)


def tracker(kind: str, tmp_path: Path, **settings: Any) -> dict[str, Any]:
    places = {
        "wandb": {"mode": "offline"},
        "mlflow": {"uri": f"file:{tmp_path / 'mlflow'}"},
        "trackio": {},
    }
    return {"type": kind, "tables_every": 2, **places[kind], **settings}


def all_three(tmp_path: Path, **settings: Any) -> list[dict[str, Any]]:
    return [tracker(kind, tmp_path, **settings) for kind in TYPES]


class Shown:
    """What each tracker shows of the run, read as its own users read it."""

    def __init__(
        self, config: TrainConfig, tmp_path: Path, read_wandb: Callable[[Path], Any]
    ) -> None:
        self.wandb = read_wandb(RunFolder(config.out).trackers)
        self._uri = f"file:{tmp_path / 'mlflow'}"
        self._folder = tmp_path / "trackio"

    def series(self, kind: str) -> Series:
        return {
            "wandb": self.wandb.figures,
            "mlflow": self._mlflow,
            "trackio": self._trackio,
        }[kind]()

    def mlflow_run(self) -> Any:
        client = self.mlflow_client()
        experiment = client.get_experiment_by_name("rubric-train")
        [run] = client.search_runs([experiment.experiment_id])
        return run

    def mlflow_client(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self._uri)

    def _mlflow(self) -> Series:
        run = self.mlflow_run()
        return {
            name: [
                (metric.step, metric.value)
                for metric in self.mlflow_client().get_metric_history(
                    run.info.run_id, name
                )
            ]
            for name in run.data.metrics
        }

    def trackio_rows(self) -> list[dict[str, Any]]:
        import sqlite3

        [file] = self._folder.glob("rubric-train.db")
        with sqlite3.connect(file) as connection:
            rows = connection.execute("SELECT step, metrics FROM metrics ORDER BY id")
            return [{"step": step, **json.loads(text)} for step, text in rows]

    def _trackio(self) -> Series:
        series: Series = defaultdict(list)
        for row in self.trackio_rows():
            for tag, value in row.items():
                if isinstance(value, int | float) and tag != "step":
                    series[tag].append((row["step"], value))
        return dict(series)


def expected_series(folder: RunFolder) -> Series:
    """All numbers of the run folder under the tags of TensorBoard, and spreads worked out anew."""
    series: Series = defaultdict(list)
    for group, path in (("train", folder.metrics), ("heldout", folder.heldout)):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            for tag, value in row_figures(group, row).items():
                series[tag].append((row["step"], value))
            if group == "train":
                for name, value in row["criteria"].items():
                    series[f"criterion/{name}/mean"].append((row["step"], value))
    for file in sorted(folder.judgements.iterdir()):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for name in rows[0]["z"]:
            z_PG = np.array([row["z"][name] for row in rows]).reshape(4, 4)
            spread = float(z_PG.std(axis=1).mean())
            series[f"criterion/{name}/spread"].append((rows[0]["step"], spread))
    return dict(series)


def same_series(shown: Series, folder: RunFolder) -> None:
    expected = expected_series(folder)
    assert {f"criterion/{name}/spread" for name in ("named", "returns")} < set(expected)
    shown = {tag: rows for tag, rows in shown.items() if not tag.endswith("/step")}
    assert shown.keys() == expected.keys()
    for tag, rows in expected.items():
        assert [step for step, _ in shown[tag]] == [step for step, _ in rows], tag
        values = [value for _, value in shown[tag]]
        assert values == pytest.approx([value for _, value in rows], rel=1e-12), tag


def files_with(word: str, *folders: Path) -> list[str]:
    return [
        path.name
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and word.encode() in path.read_bytes()
    ]


def test_all_that_tensorboard_has_is_in_each_tracker_once_and_nothing_hidden(
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    tmp_path: Path,
    read_wandb: Callable[[Path], Any],
) -> None:
    spec = {
        "type": "llm",
        "model": "openai/served",
        "api_base": "http://127.0.0.1:9/v1",
        "api_key_env": "JUDGE_API_KEY",
        "parameters": {"user": f"with {KEY}"},
    }
    judge = {"max_invalid_frac": 0.625, "spec": spec}
    config = make_config(trackers=all_three(tmp_path), judge=judge)

    with structlog.testing.capture_logs() as events:
        run_grpo(config, judge=spread_judge)

    warned = [event for event in events if event["event"] == "train.tracker.stopped"]
    assert warned == []
    folder = RunFolder(config.out)
    shown = Shown(config, tmp_path, read_wandb)
    for kind in TYPES:
        same_series(shown.series(kind), folder)
    # Run configuration, and how it ended.
    assert shown.wandb.exits == [0]
    assert shown.wandb.config["judge.max_invalid_frac"] == 0.625
    assert shown.wandb.config["judge.spec.parameters.user"] == "with (hidden)"
    run = shown.mlflow_run()
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run")
    assert run.data.params["judge.max_invalid_frac"] == "0.625"
    # Answers of every second step, without the judge's side.
    answers = [
        json.loads(line)["response"]
        for step in (2, 4)
        for line in (folder.rollouts / f"step_{step:06d}.jsonl")
        .read_text()
        .splitlines()
    ]
    tables = [
        (row["step"], row["answers"]["_value"])
        for row in shown.trackio_rows()
        if "answers" in row
    ]
    assert [step for step, _ in tables] == [2, 4]
    assert [row["answer"] for _, rows in tables for row in rows] == answers
    client = shown.mlflow_client()
    place = client.download_artifacts(run.info.run_id, "answers/step_000002.json")
    table = json.loads(Path(place).read_text())
    assert table["columns"] == ["id", "question", "answer", "reward", "outcome"]
    assert [row[2] for row in table["data"]] == answers[:16]
    everywhere = (folder.trackers, tmp_path / "mlflow", tmp_path / "trackio")
    assert files_with("answers", *everywhere)
    assert files_with(PASSAGE_WORD, *everywhere) == []
    assert files_with(KEY, *everywhere) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_the_judge_s_side_is_shown_where_that_was_said(
    kind: str, make_config: MakeConfig, spread_judge: ScriptedJudge, tmp_path: Path
) -> None:
    config = make_config(
        trackers=[tracker(kind, tmp_path, tables_every=1, judge_side=True)], steps=1
    )

    run_grpo(config, judge=spread_judge)

    places = [RunFolder(config.out).trackers, tmp_path / "mlflow", tmp_path / "trackio"]
    assert files_with(PASSAGE_WORD, *(place for place in places if place.exists()))


@pytest.mark.slow
def test_a_run_that_goes_back_goes_on_in_the_same_tracker_run_without_a_step_twice(
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    tmp_path: Path,
    read_wandb: Callable[[Path], Any],
) -> None:
    config = make_config(trackers=all_three(tmp_path), steps=3)
    run_grpo(config, judge=spread_judge)
    # What a kill in step 4 leaves: rows of step 3, and a checkpoint of step 2.
    shutil.rmtree(config.out / "checkpoints/step_000003")
    before = Shown(config, tmp_path, read_wandb)
    first_s = {kind: before.series(kind)["train/step_s"] for kind in TYPES}
    longer = make_config(trackers=all_three(tmp_path), steps=5)

    run_grpo(longer, judge=spread_judge, resume=True)

    shown = Shown(config, tmp_path, read_wandb)
    for kind in TYPES:
        steps = [step for step, _ in shown.series(kind)["train/reward_mean"]]
        assert steps == [1, 2, 3, 4, 5], kind
        # The first value of a step that was done again stands.
        assert shown.series(kind)["train/step_s"][:3] == first_s[kind]
        held = [step for step, _ in shown.series(kind)["heldout/reward_mean"]]
        assert held == [0, 2, 3, 4, 5], kind
    assert len(shown.wandb.ids) == 1
    own = [row["_step"] for row in shown.wandb.history]
    assert own == sorted(set(own))
    assert shown.mlflow_run().info.status == "FINISHED"


def test_a_tracker_that_is_not_installed_is_named_before_anything_is_written(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    config = make_config(trackers=all_three(tmp_path))

    with pytest.raises(
        MissingExtraError,
        match=r"trackers\.2\.type='trackio' needs the package 'trackio'.*"
        r"rubric-train-openrlhf\[trackio\]",
    ):
        run_grpo(config)

    assert not config.out.exists()


class Refusing(BaseHTTPRequestHandler):
    """Answers that it cannot, in words that quote a key."""

    def do_GET(self) -> None:
        body = f"no room for {KEY}".encode()
        self.send_response(500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def stopped(config: TrainConfig, judge: ScriptedJudge) -> list[Any]:
    with structlog.testing.capture_logs() as events:
        assert run_grpo(config, judge=judge).status == "finished"
    assert len(RunFolder(config.out).read_metrics()) == config.steps
    return [event for event in events if event["event"] == "train.tracker.stopped"]


@pytest.mark.parametrize(
    "scheme", ["refusing", pytest.param("nobody", marks=pytest.mark.slow)]
)
def test_a_server_that_fails_is_one_warning_and_the_run_goes_on(
    scheme: str,
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    tmp_path: Path,
    refusing: str,
    read_wandb: Callable[[Path], Any],
) -> None:
    uri = refusing if scheme == "refusing" else "http://127.0.0.1:9"
    trackers = [tracker("mlflow", tmp_path, uri=uri), tracker("wandb", tmp_path)]
    config = make_config(trackers=trackers, steps=2)

    [event] = stopped(config, spread_judge)

    assert event["tracker"] == "mlflow"
    assert "MlflowException" in event["error"]
    assert "--resume" in event["todo"]
    assert KEY not in str(event)
    # The other one is not concerned.
    same_series(
        read_wandb(RunFolder(config.out).trackers).figures(), RunFolder(config.out)
    )


def test_a_tracker_whose_process_is_ended_is_one_warning_and_the_run_goes_on(
    make_config: MakeConfig, spread_judge: ScriptedJudge, tmp_path: Path
) -> None:
    config = make_config(trackers=[tracker("wandb", tmp_path)], steps=2)

    def end(row: MetricsRow) -> None:
        if row.step == 1:
            [pid] = processes_of(config.out)
            os.kill(pid, signal.SIGKILL)

    with structlog.testing.capture_logs() as events:
        summary = run_grpo(config, judge=spread_judge, on_step=end)

    assert (summary.status, summary.steps) == ("finished", 2)
    [event] = [one for one in events if one["event"] == "train.tracker.stopped"]
    assert event["error"] == "its process ended by status -9"


def test_a_plan_says_which_tracker_is_not_installed(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = make_config(trackers=all_three(tmp_path))
    needs = "trackers.1.type='mlflow' needs the package 'mlflow'"
    assert needs not in describe_plan(config)

    monkeypatch.setitem(sys.modules, "mlflow", None)

    assert needs in describe_plan(config)


@pytest.mark.slow
def test_what_trackio_only_warns_of_stops_it(
    make_config: MakeConfig, spread_judge: ScriptedJudge, tmp_path: Path
) -> None:
    # Its database cannot be written; its `log` and `finish` raise nothing.
    (tmp_path / "trackio" / "rubric-train.db").mkdir(parents=True)
    config = make_config(trackers=[tracker("trackio", tmp_path)], steps=1)

    [event] = stopped(config, spread_judge)

    assert (event["tracker"], event["error"][:12]) == ("trackio", "TrackioError")


@pytest.mark.slow
def test_a_server_that_never_answers_holds_a_run_up_for_no_longer_than_was_said(
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    tmp_path: Path,
    silent: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "END_S", 10)
    uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
    config = make_config(trackers=[tracker("mlflow", tmp_path, uri=uri)], steps=1)

    [event] = stopped(config, spread_judge)

    asked, _ = silent.accept()  # and is still waited for
    asked.close()
    assert event["error"] == (
        "did not take the last rows within 10 s: it is slow or not there"
    )
    assert processes_of(config.out) == []


@pytest.mark.slow
def test_what_a_tracker_missed_is_shown_when_the_run_is_resumed(
    make_config: MakeConfig,
    spread_judge: ScriptedJudge,
    tmp_path: Path,
    refusing: str,
    read_wandb: Callable[[Path], Any],
) -> None:
    missed = make_config(trackers=[tracker("mlflow", tmp_path, uri=refusing)], steps=2)
    assert len(stopped(missed, spread_judge)) == 1
    config = make_config(trackers=[tracker("mlflow", tmp_path)], steps=2)

    run_grpo(config, judge=spread_judge, resume=True)

    shown = Shown(config, tmp_path, read_wandb).series("mlflow")
    same_series(shown, RunFolder(config.out))


def processes_of(out: Path) -> list[int]:
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        if "tracking.process" in words and str(out) in words:
            found.append(int(path.parent.name))
    return found


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_in_the_same_tracker_runs(
    make_config: MakeConfig,
    tmp_path: Path,
    read_wandb: Callable[[Path], Any],
) -> None:
    config = make_config(
        trackers=all_three(tmp_path), steps=12, checkpoint={"every": 4}
    )
    file = tmp_path / "run.yaml"
    file.write_text(dump_config(config))
    folder = RunFolder(config.out)
    command = [sys.executable, "-m", "rubric_train_openrlhf.cli", "run", str(file)]
    for rows in (2, 7):
        run = subprocess.Popen([*command, "--resume"], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while folder.steps_done < rows and time.monotonic() < deadline:
            time.sleep(0.01)
        run.kill()
        run.wait()

    done = subprocess.run(
        [*command, "--resume"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "tracker.stopped" not in done.stderr
    shown = Shown(config, tmp_path, read_wandb)
    assert len(shown.wandb.ids) == 1
    for kind in TYPES:
        steps = [step for step, _ in shown.series(kind)["train/reward_mean"]]
        assert steps == list(range(1, 13)), kind
    assert processes_of(config.out) == []


def test_a_tracker_stands_there_once_and_shows_the_judge_s_side_in_tables(
    make_config: MakeConfig,
) -> None:
    with pytest.raises(ConfigError, match="'wandb' stands there 2 times"):
        make_config(trackers=[{"type": "wandb"}, {"type": "wandb"}])
    with pytest.raises(ConfigError, match=r"trackers\.0\.judge_side.*set tables_every"):
        make_config(trackers=[{"type": "mlflow", "judge_side": True}])
    with pytest.raises(ConfigError, match="tensorbord"):
        make_config(trackers=[{"type": "tensorbord"}])


def test_a_run_without_trackers_has_no_word_of_them(make_config: MakeConfig) -> None:
    assert "trackers" not in make_config().model_dump()
    assert "\ntrackers:" in dump_config(make_config(trackers=[{"type": "wandb"}]))
    assert "\ntrackers:" not in dump_config(make_config())
