"""Rows of a run folder, as far as it has got, with the place of a broken one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import ConfigError, RubricFileError
from rubric_core.files import open_file
from rubric_core.locks import is_locked
from rubric_judge.yaml_files import yaml_value
from rubric_train_openrlhf.report.contrast import Contrast
from rubric_train_openrlhf.run.records import HeldoutRow, MetricsRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedReader
    from pathlib import Path

_Row = TypeVar("_Row", bound=BaseModel)


class Summary(BaseModel):
    """What the page takes from summary.json; whoever wrote the run may keep more in it."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    status: str = "unknown"
    """As the run says, and "killed" where it says that it runs and does not."""
    steps: int | None = None
    best_step: int | None = None
    wall_s: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class Run:
    """A run folder, read."""

    path: Path
    config_text: str
    config: Mapping[str, Any]
    environment_text: str
    summary: Summary
    metrics: tuple[MetricsRow, ...]
    heldout: tuple[HeldoutRow, ...]
    contrast: Contrast | None
    notes: tuple[str, ...]
    """What a reader should know about the files, such as a row that is still being written."""


def read_run(path: Path) -> Run:
    """Read everything but the rollouts.

    Raises:
        RubricFileError: no such folder, no run in it, or a broken row; names file, line and field.
    """
    if not path.is_dir():
        raise RubricFileError("no such run folder; give the `out` of a run", path=path)
    if not any((path / name).exists() for name in ("config.resolved.yaml", "metrics.jsonl")):
        raise RubricFileError("this folder holds no run; give the `out` of one", path=path)
    notes: list[str] = []
    config_text = _text(path / "config.resolved.yaml")
    return Run(
        path=path,
        config_text=config_text,
        config=_mapping(path / "config.resolved.yaml", config_text),
        environment_text=_text(path / "environment.json"),
        summary=_summary(path),
        metrics=_by_step(path / "metrics.jsonl", MetricsRow, notes),
        heldout=_by_step(path / "heldout.jsonl", HeldoutRow, notes),
        contrast=_document(path / "comparison.json", Contrast),
        notes=tuple(notes),
    )


def _summary(path: Path) -> Summary:
    summary = _document(path / "summary.json", Summary) or Summary()
    if summary.status == "running" and not is_locked(path):
        return summary.model_copy(update={"status": "killed"})
    return summary


def read_rows(path: Path, row_type: type[_Row], notes: list[str]) -> Iterator[_Row]:
    """Read one row a line; a torn last line is noted and left out, since a run may be writing it.

    Raises:
        RubricFileError: a broken row; names the file, line and field.
    """
    if not path.exists():
        return
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = row_type.model_validate_json(line)
            except ValidationError as exc:
                if not line.endswith(b"\n"):
                    notes.append(
                        f"The last line of {path.name} is incomplete and was left out: "
                        "the run was writing it, or was stopped while it did."
                    )
                    return
                raise _broken(path, exc, line=number) from None
            yield row


def _by_step(path: Path, row_type: type[_Row], notes: list[str]) -> tuple[_Row, ...]:
    rows: list[_Row] = []
    last = -1
    for row in read_rows(path, row_type, notes):
        step = cast("MetricsRow | HeldoutRow", row).step
        if step <= last:
            raise RubricFileError(
                f"row {len(rows) + 1} is of step {step}, after one of step {last}; steps must "
                "rise, so remove the rows that a restart has repeated",
                path=path,
                field="step",
            )
        rows.append(row)
        last = step
    return tuple(rows)


def _text(path: Path) -> str:
    if not path.exists():
        return ""
    with _opened(path) as file:
        return file.read().decode(errors="replace")


def _opened(path: Path) -> BufferedReader:
    try:
        return open_file(path)
    except OSError as error:
        raise RubricFileError(f"cannot be read: {error.strerror}", path=path) from None


def _mapping(path: Path, text: str) -> Mapping[str, Any]:
    try:
        document = yaml_value(text, source=path.name)
    except ConfigError as error:
        raise RubricFileError(
            f"{error}; write the resolved configuration again", path=path
        ) from None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _document(path: Path, model: type[_Row]) -> _Row | None:
    """Read a file that holds one JSON object; None where there is no such file."""
    if not path.exists():
        return None
    with _opened(path) as file:
        content = file.read()
    try:
        return model.model_validate(json.loads(content))
    except ValidationError as exc:
        raise _broken(path, exc) from None
    except ValueError as exc:
        line = exc.lineno if isinstance(exc, json.JSONDecodeError) else None
        raise RubricFileError(
            "not a whole JSON document; write it again", path=path, line=line
        ) from None


def _broken(path: Path, exc: ValidationError, *, line: int | None = None) -> RubricFileError:
    first = exc.errors(include_input=False, include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    where = f"field {field!r}: " if field else ""
    return RubricFileError(
        f"{where}{first['msg']} ({exc.error_count()} in all); repair or remove the row",
        path=path,
        line=line,
        field=field or None,
    )
