"""Rows of a run folder, with the place of a broken one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import ConfigError, RubricFileError
from rubric_core.files import read_file
from rubric_core.locks import is_locked
from rubric_core.nearest import near
from rubric_core.rows import read_growing, rising_steps, row_error
from rubric_judge.ui.yaml_files import yaml_value
from rubric_train_openrlhf.report.contrast import Contrast
from rubric_train_openrlhf.run import records

_Row = TypeVar("_Row", bound=BaseModel)
_Step = TypeVar(
    "_Step", records.MetricsRow, records.DistillationRow, records.HeldoutRow
)
_REPAIR = "repair or remove the row"


class Summary(BaseModel):
    """Fields of summary.json that the page shows; the file may hold more."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    status: str = "unknown"
    """Status that the run wrote, or "killed" where it wrote that it runs and does not."""
    wall_s: float | None = None
    error: str | None = None
    warning: str | None = None


@dataclass(frozen=True)
class Run:
    """A run folder, read."""

    config_text: str
    config: Mapping[str, Any]
    environment_text: str
    summary: Summary
    metrics: tuple[records.MetricsRow, ...]
    distilled: tuple[records.DistillationRow, ...]
    """Steps of self-distillation, which a run has in the place of `metrics`."""
    heldout: tuple[records.HeldoutRow, ...]
    contrast: Contrast | None
    admission: records.AdmissionFile | None
    """Criteria that a calibration keeps from the reward; None without a calibration."""
    notes: list[str]
    """Notes on the files for the reader, such as a row that is still being written."""

    @property
    def best(self) -> records.HeldoutRow | None:
        """The validation pass that chose the checkpoint, else that of the highest reward."""
        passes = [row for row in self.heldout if isfinite(row.reward_mean)]
        if chosen := [row for row in passes if row.best]:
            return chosen[-1]
        return max(passes, key=lambda row: row.reward_mean, default=None)


def read_run(path: Path) -> Run:
    """Read everything but the rollouts.

    Raises:
        RubricFileError: no such folder, no run in it, or a broken row; names file, line and field.
    """
    if not path.is_dir():
        raise RubricFileError(
            f"no such run folder; give the `out` of a run{near(path)}", path=path
        )
    if not any(
        (path / name).exists() for name in ("config.resolved.yaml", "metrics.jsonl")
    ):
        raise RubricFileError(
            "this folder holds no run; give the `out` of one", path=path
        )
    summary = _document(path / "summary.json", Summary) or Summary()
    if summary.status == "running" and not is_locked(path):
        summary = summary.model_copy(update={"status": "killed"})
    notes: list[str] = []
    config_text = _content(path / "config.resolved.yaml").decode(errors="replace")
    return Run(
        config_text=config_text,
        config=_mapping(path / "config.resolved.yaml", config_text),
        environment_text=_content(path / "environment.json").decode(errors="replace"),
        summary=summary,
        metrics=_by_step(path / "metrics.jsonl", records.MetricsRow, notes),
        distilled=_by_step(path / "distillation.jsonl", records.DistillationRow, notes),
        heldout=_by_step(path / "heldout.jsonl", records.HeldoutRow, notes),
        contrast=_document(path / "comparison.json", Contrast),
        admission=_document(path / "admission.json", records.AdmissionFile),
        notes=notes,
    )


def read_config(path: Path) -> Mapping[str, Any]:
    """Return the resolved configuration of a run; empty where the folder has none.

    Raises:
        RubricFileError: no such folder, or a file that is no configuration.
    """
    if not path.is_dir():
        raise RubricFileError(
            f"no such run folder; give the `out` of a run{near(path)}", path=path
        )
    file = path / "config.resolved.yaml"
    return _mapping(file, _content(file).decode(errors="replace"))


def _by_step(path: Path, model: type[_Step], notes: list[str]) -> tuple[_Step, ...]:
    return rising_steps(read_growing(path, model, notes=notes), path=path)


def _content(path: Path) -> bytes:
    """Return the content of a file; nothing where there is no such file."""
    try:
        return read_file(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RubricFileError(f"cannot be read: {error.strerror}", path=path) from None


def _mapping(path: Path, text: str) -> Mapping[str, Any]:
    try:
        document = yaml_value(text, source=path.name)
    except ConfigError as error:
        problem = f"{error}; write the resolved configuration again"
        raise RubricFileError(problem, path=path) from None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _document(path: Path, model: type[_Row]) -> _Row | None:
    """Read a file that holds one JSON object; None where there is no such file."""
    if not path.exists():
        return None
    content = _content(path)
    try:
        return model.model_validate(json.loads(content))
    except ValidationError as exc:
        raise row_error(exc, _REPAIR, path=path) from None
    except ValueError as exc:
        line = exc.lineno if isinstance(exc, json.JSONDecodeError) else None
        problem = "not a whole JSON document; write it again"
        raise RubricFileError(problem, path=path, line=line) from None
