"""The run folder: where everything lies, and how rows are written, read back and cut off.

With it goes what the run was made with: versions, machine, seed, and digests of its model.
"""

import contextlib
import json
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from rubric_core import RubricFileError
from rubric_core.artifact import Artifact, differences
from rubric_core.data.model_files import model_files
from rubric_core.files import open_file, read_file, text_sha256
from rubric_train_openrlhf.errors import ResumeError
from rubric_train_openrlhf.run import writing
from rubric_train_openrlhf.run.records import (
    AdmissionFile,
    AuditRow,
    DistillationRow,
    HeldoutRow,
    JudgementRow,
    MetricsRow,
    RolloutRow,
    RunSummary,
)

_Row = TypeVar("_Row", bound=BaseModel)


class RunFolder(Artifact[RunSummary]):
    """The files of one run, and the only code that writes its rows.

    A step is written in the order rollouts, judgements, audits, metrics, held-out, checkpoint, so a
    checkpoint on disk means that every row up to its step is on disk too.
    """

    def __init__(self, path: Path) -> None:
        """Name the folder; nothing is created before the first write."""
        super().__init__(path, "summary.json", RunSummary)
        self.config = path / "config.resolved.yaml"
        self.environment = path / "environment.json"
        self.admission = path / "admission.json"
        self.metrics = path / "metrics.jsonl"
        self.distillation = path / "distillation.jsonl"
        self.heldout = path / "heldout.jsonl"
        self.audit = path / "audit.jsonl"
        self.summary = path / "summary.json"
        self.rollouts = path / "rollouts"
        self.judgements = path / "judgements"
        self.ledger = path / "ledger.sqlite"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.trackers = path / "trackers"

    @property
    def holds_run(self) -> bool:
        """Whether a run was started here."""
        return self.config.exists()

    @property
    def names_taken(self) -> list[str]:
        """Names of a run folder that exist here, whoever wrote them.

        The summary of a start that was killed while it read its input counts for none.
        """
        ours = [path for path in vars(self).values() if isinstance(path, Path)]
        present = self.names()
        names = [
            path.name for path in ours if path != self.path and path.name in present
        ]
        summary = self.told if names == [self.summary.name] else None
        if summary is not None and summary.pid:
            has_begun = (summary.status, summary.steps) != ("running", 0)
            return names if has_begun else []
        return names

    @property
    def holds_rows(self) -> bool:
        """Whether a step or a held-out pass was written here."""
        files = (self.metrics, self.distillation, self.heldout)
        folders = (self.rollouts, self.judgements)
        with _reading(self.path):
            return any(
                path.is_dir() and any(path.iterdir()) for path in folders
            ) or any(path.exists() and path.stat().st_size for path in files)

    @property
    def steps_done(self) -> int:
        """Steps whose rows are whole, from the first on."""
        return len(_leading_rows(*self._steps, last_step=sys.maxsize)[0])

    @property
    def _steps(self) -> tuple[Path, type[MetricsRow | DistillationRow]]:
        """The file of the steps, by the method of the run, and the type of its rows."""
        if self.distillation.exists():
            return self.distillation, DistillationRow
        return self.metrics, MetricsRow

    def write_step(
        self,
        row: MetricsRow,
        *,
        rollouts: Iterable[RolloutRow],
        judgements: Iterable[JudgementRow],
    ) -> None:
        """Write all rows of one step; the metrics come last and mark it as done."""
        self.write_rollouts(row.step, rollouts)
        self.write_judgements(row.step, judgements)
        self.write_metrics(row)

    def write_distilled(
        self, row: DistillationRow, rollouts: Iterable[RolloutRow]
    ) -> None:
        """Write all rows of one step of self-distillation; its figures mark it as done."""
        self.write_rollouts(row.step, rollouts)
        writing.append_line(self.distillation, row.model_dump_json())

    def write_rollouts(self, step: int, rows: Iterable[RolloutRow]) -> None:
        """Write what the policy was asked and answered."""
        _write_rows(self.rollouts, step, rows)

    def write_judgements(self, step: int, rows: Iterable[JudgementRow]) -> None:
        """Write what the judge said; on a cluster its side does, which alone has it."""
        _write_rows(self.judgements, step, rows)

    def write_metrics(self, row: MetricsRow) -> None:
        """Add the figures of a step, after all its other rows: they mark it as done."""
        writing.append_line(self.metrics, row.model_dump_json())

    def write_heldout(self, row: HeldoutRow) -> None:
        """Add one pass over the held-out questions."""
        writing.append_line(self.heldout, row.model_dump_json())

    def write_audit(self, row: AuditRow) -> None:
        """Add the audits of a step or pass; on a cluster the judge's side does."""
        writing.append_line(self.audit, row.model_dump_json())

    def write_summary(self, summary: RunSummary) -> None:
        """Replace summary.json."""
        writing.write_text(self.summary, summary.model_dump_json(indent=2) + "\n")

    def read_summary(self) -> RunSummary:
        """How the run stands.

        Raises:
            ResumeError: there is no summary, or it is damaged.
        """
        try:
            with _reading(self.summary):
                return self.read_manifest(remedy="write it again")
        except RubricFileError as exc:
            raise ResumeError(
                f"{str(self.summary)!r} is damaged", path=self.path
            ) from exc

    def read_metrics(self) -> list[MetricsRow]:
        """All steps written so far."""
        return _read_rows(self.metrics, MetricsRow)

    def read_distillation(self) -> list[DistillationRow]:
        """All steps of self-distillation written so far; none in a run of rewards."""
        return _read_rows(self.distillation, DistillationRow)

    def read_heldout(self) -> list[HeldoutRow]:
        """All held-out passes written so far."""
        return _read_rows(self.heldout, HeldoutRow)

    def read_audit(self) -> list[AuditRow]:
        """All audits written so far; none without an audit judge."""
        return _read_rows(self.audit, AuditRow)

    def cut_back(self, step: int, *, heldout: Collection[int] = ()) -> None:
        """Delete everything after this step, so that it can be done again.

        Args:
            step: of the checkpoint to go on from.
            heldout: steps whose held-out pass must be there.

        Raises:
            ResumeError: a row up to this step is missing or damaged; nothing was deleted then.
        """
        figures, row_type = self._steps
        steps, figures_size = _leading_rows(figures, row_type, last_step=step)
        if steps != list(range(1, step + 1)):
            raise ResumeError(
                f"{str(figures)!r} does not hold every step from 1 to {step}, to which the "
                f"last checkpoint belongs: line {len(steps) + 1} is missing or damaged; bring it "
                "back from a copy, or start again in another `out`",
                path=self.path,
            )
        passes, heldout_size = _leading_rows(self.heldout, HeldoutRow, last_step=step)
        if missing := sorted(set(heldout).difference(passes)):
            raise ResumeError(
                f"{str(self.heldout)!r} lacks the held-out pass of step {missing[0]}: line "
                f"{len(passes) + 1} is missing or damaged; bring it back from a copy, or start "
                "again in another `out`",
                path=self.path,
            )
        audit_size = self._audit_size(step)
        with writing.disk_errors(self.path):
            writing.remove_unfinished(self.path)
            for file, size in (
                (figures, figures_size),
                (self.heldout, heldout_size),
                (self.audit, audit_size),
            ):
                if file.exists():
                    os.truncate(file, size)
            for folder in (self.rollouts, self.judgements):
                for file in list(folder.glob("step_*.jsonl")):
                    # Other names are not ours.
                    named = re.fullmatch(r"step_(\d{6,})\.jsonl", file.name)
                    if named and int(named[1]) > step:
                        file.unlink()

    def _audit_size(self, step: int) -> int:
        """Bytes of the audits up to a step, which all must be there."""
        audited, size = _leading_rows(self.audit, AuditRow, last_step=step)
        expected = sorted(
            row.step
            for path, row_type in (
                (self.metrics, MetricsRow),
                (self.heldout, HeldoutRow),
            )
            for row, _ in _rows(path, row_type)
            if row is not None and row.step <= step and row.audit is not None
        )
        if lost := Counter(expected) - Counter(audited):
            raise ResumeError.lost(
                f"{str(self.audit)!r} lacks the audits of step {min(lost)}: line "
                f"{len(audited) + 1} is missing or damaged",
                path=self.path,
            )
        return size

    def read_admission(self) -> dict[str, float]:
        """Factors other than 1 of criteria's weights; none without a calibration.

        Raises:
            ResumeError: the file is damaged.
        """
        if not self.admission.exists():
            return {}
        try:
            return AdmissionFile.model_validate_json(read_file(self.admission)).factors
        except (OSError, ValidationError) as exc:
            raise ResumeError(
                f"{str(self.admission)!r} is damaged", path=self.path
            ) from exc

    @property
    def told(self) -> RunSummary | None:
        """Summary of the run; None where there is no whole one."""
        try:
            return self.read_summary()
        except ResumeError:
            return None


def _write_rows(folder: Path, step: int, rows: Iterable[BaseModel]) -> None:
    writing.write_lines(
        folder / f"step_{step:06d}.jsonl", (row.model_dump_json() for row in rows)
    )


@contextlib.contextmanager
def _reading(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        raise ResumeError(
            f"cannot read {str(path)!r}: {exc.strerror}; repair it, or choose another `out`",
            path=path,
        ) from exc


def _rows(path: Path, row_type: type[_Row]) -> Iterator[tuple[_Row | None, bytes]]:
    """Each line with its row; None for one that is damaged."""
    if not path.exists():
        return
    with _reading(path), open_file(path) as file:
        for line in file:
            try:
                row = row_type.model_validate_json(line)
            except ValidationError:
                row = None
            yield row, line


def _read_rows(path: Path, row_type: type[_Row]) -> list[_Row]:
    rows: list[_Row] = []
    for row, _ in _rows(path, row_type):
        if row is None:
            raise ResumeError.lost(
                f"line {len(rows) + 1} of {str(path)!r} is damaged", path=path
            )
        rows.append(row)
    return rows


def _leading_rows(
    path: Path,
    row_type: type[MetricsRow | DistillationRow | HeldoutRow | AuditRow],
    *,
    last_step: int,
) -> tuple[list[int], int]:
    """Steps and bytes of the whole rows up to a step; a kill can leave half a line at the end."""
    steps: list[int] = []
    size = 0
    for row, line in _rows(path, row_type):
        if row is None or row.step > last_step or not line.endswith(b"\n"):
            break
        steps.append(row.step)
        size += len(line)
    return steps, size


def first_changed(folder: Path, before: Mapping[str, object]) -> str | None:
    """Name the first file of a model folder that is missing or another.

    Args:
        folder: of the model.
        before: what `model_files` returned of it.

    Raises:
        ConfigError: there is no such folder, no weights in it, or a file that cannot be read.
    """
    changes = differences(before, model_files(folder))
    return min((file.name for file in changes if file.name in before), default=None)


_DISTRIBUTIONS = (
    "rubric-core",
    "rubric-judge",
    "rubric-train-openrlhf",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "pydantic",
)


def describe_environment(
    *,
    seed: int,
    config_text: str,
    tasks_sha256: Mapping[str, Mapping[str, str]],
    model_files: Mapping[str, object],
    prompting: Mapping[str, object],
) -> str:
    """Lay out for a reader what another machine would need to repeat the run.

    Args:
        seed: of the run.
        config_text: its resolved configuration.
        tasks_sha256: of each task file, by part.
        model_files: digests of the model that it starts from, where a resumed run reads it again.
        prompting: what the tokens of its prompts follow from, beside model and questions.
    """
    # Seconds of import, which reading a run folder does without.
    import torch

    environment = {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "cuda": torch.version.cuda,
        "versions": {name: _version(name) for name in _DISTRIBUTIONS},
        "git_sha": git_sha(),
        "seed": seed,
        "config_sha256": text_sha256(config_text),
        "tasks_sha256": {name: dict(parts) for name, parts in tasks_sha256.items()},
        "model_files": dict(model_files),
        "prompting": dict(prompting),
    }
    return json.dumps(environment, indent=2, sort_keys=True) + "\n"


def git_sha() -> str | None:
    """Revision of the repository that this package is run from, None outside of one."""
    try:
        done = subprocess.run(
            ("git", "rev-parse", "HEAD"),  # noqa: S607  # whichever git the user has
            cwd=Path(__file__).parent,
            capture_output=True,
            check=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
