"""A run in MLflow."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from rubric_core.files import text_sha256
from rubric_train_openrlhf.config.trackers import MlflowTracker
from rubric_train_openrlhf.run.records import Status
from rubric_train_openrlhf.tracking.tracker import ANSWERS, Entry, Opening

_NAMES = {
    "failed": "FAILED",
    "diverged": "FAILED",
    "interrupted": "KILLED",
    "running": "KILLED",
}
"""MLflow's words for runs that did not end well."""
_MOST_METRICS = 1000
_MOST_PARAMS = 100
_LONGEST_PARAM = 6000
"""Most that a store takes in one request, and the length of a value."""
_REFUSED = re.compile(r"[^\w./ -]")
"""Characters that a name there may not hold."""
_LONGEST_NAME_BYTES = 250
"""Bound of a name, of which a store of files makes a file."""
_DIGEST_CHARS = 8

_Part = TypeVar("_Part")


class MlflowRun:
    """Shows a run in MLflow: on a server, or in a store of files or a database."""

    def __init__(self, config: MlflowTracker, opening: Opening) -> None:
        """Begin a run there, or go on with it."""
        self._client = client = MlflowClient(tracking_uri=config.uri)
        if opening.run_id is not None:
            self.run_id = opening.run_id
            client.update_run(self.run_id, status="RUNNING")
            return
        experiment = client.get_experiment_by_name(config.experiment)
        experiment_id = (
            client.create_experiment(config.experiment)
            if experiment is None
            else experiment.experiment_id
        )
        self.run_id = client.create_run(
            experiment_id, run_name=opening.name
        ).info.run_id
        params = [
            Param(_name(key), str(value)[:_LONGEST_PARAM])
            for key, value in opening.settings.items()
        ]
        for part in _parts(params, _MOST_PARAMS):
            client.log_batch(self.run_id, params=part)

    def last_step(self, group: str) -> int:
        """Return the last step of a group; −1 before any."""
        history = self._client.get_metric_history(self.run_id, f"{group}/step")
        return max((metric.step for metric in history), default=-1)

    def log(self, entry: Entry) -> None:
        """Add metrics of a step, and its table as an artifact."""
        if entry.table is not None:
            columns, rows = entry.table
            text = json.dumps({"columns": columns, "data": rows}, ensure_ascii=False)
            place = f"{ANSWERS}/step_{entry.step:06d}.json"
            self._client.log_text(self.run_id, text, place)
        now_ms = int(time.time() * 1000)
        # The mark comes last: a step of which only a part is there is shown again.
        figures = {**entry.figures, f"{entry.group}/step": entry.step}
        metrics = [
            Metric(_name(tag), number, now_ms, entry.step)
            for tag, number in figures.items()
        ]
        for part in _parts(metrics, _MOST_METRICS):
            self._client.log_batch(self.run_id, metrics=part)

    def finish(self, status: Status) -> None:
        """End the run."""
        self._client.set_terminated(self.run_id, _NAMES.get(status, "FINISHED"))


def _name(tag: str) -> str:
    """Return a name that every store takes: the id of a criterion may be any text."""
    parts = _REFUSED.sub("_", tag).split("/")
    # A part that is empty or of dots alone is none of a path.
    name = "/".join(part if part.strip(".") else f"_{part}" for part in parts)
    text = name.encode()
    if len(text) <= _LONGEST_NAME_BYTES:
        return name
    kept = text[: _LONGEST_NAME_BYTES - _DIGEST_CHARS - 1].decode(errors="ignore")
    return f"{kept}-{text_sha256(tag)[:_DIGEST_CHARS]}"


def _parts(things: Sequence[_Part], most: int) -> Iterator[Sequence[_Part]]:
    for start in range(0, len(things), most):
        yield things[start : start + most]
