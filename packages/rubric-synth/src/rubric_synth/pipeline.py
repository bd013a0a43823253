"""Collected documents to a dataset: analyse, synthesise, enrich, check, split, write."""

from __future__ import annotations

import traceback
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
from pydantic import BaseModel, ConfigDict
from structlog import get_logger

from rubric_core import read_tasks, split_of, write_tasks
from rubric_judge import LexicalJudge
from rubric_synth.collect import DOCUMENTS_FILE, read_collected
from rubric_synth.config import SynthConfig
from rubric_synth.extractive import extractive_stages
from rubric_synth.files import file_sha256, json_line, write_json, writing
from rubric_synth.ordered import map_in_order
from rubric_synth.quality import check_rewards, to_checked_task
from rubric_synth.rejection import Rejection, RejectionReason, count_reasons
from rubric_synth.stages import StageRefusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from rubric_core import DocumentAnalysis, Judge, Task
    from rubric_synth.document import Document
    from rubric_synth.rejection import Stage
    from rubric_synth.stages import Draft, Stages

_log = get_logger(__name__)

SPLITS: Final = ("train", "validation", "test")
REJECTED_FILE: Final = "rejected.jsonl"
MANIFEST_FILE: Final = "manifest.json"


class SynthReport(BaseModel):
    """What a dataset holds and what was left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    out: Path
    """The folder."""
    documents: int
    """Documents read."""
    accepted_documents: int
    """Documents with at least one task."""
    tasks: dict[str, int]
    """Tasks by split."""
    rejected: dict[str, int]
    """Documents and drafts left out, by reason."""


class _Outcome(NamedTuple):
    """All that came of one document."""

    document: Document
    tasks: tuple[Task, ...]
    rejections: tuple[Rejection, ...]


def synthesise(
    collected: Path,
    out: Path,
    *,
    config: SynthConfig | None = None,
    stages: Stages | None = None,
    judge: Judge | None = None,
    on_document: Callable[[int], None] | None = None,
) -> SynthReport:
    """Turn a collected folder into a dataset folder.

    Writes train, validation, test and rejected `.jsonl` and `manifest.json`, with Parquet beside
    the splits where pyarrow is installed. Rows are written as they come, in the order of the
    documents; the files appear when all is done, so a failed run leaves an older dataset whole,
    and the same input gives the same bytes.

    Args:
        collected: Folder written by `collect`.
        out: Folder to write; made if missing.
        config: The defaults if None.
        stages: The extractive stages if None.
        judge: Checks reference, empty and echoed answers; the lexical judge if None.
        on_document: Told the number of finished documents, for progress.

    Raises:
        CollectedFolderError: The collected folder cannot be read.
        OutputError: The dataset folder cannot be written.
    """
    config = config or SynthConfig()
    if stages is None:
        stages = extractive_stages(read_collected(collected), config.synthesiser)
    worker = _Worker(stages, judge or LexicalJudge(), config)
    paths = [out / f"{split}.jsonl" for split in SPLITS] + [out / REJECTED_FILE]
    with writing(paths) as files:
        dataset = _Dataset(files, config, on_document)
        anyio.run(_run, worker, collected, dataset)
    report = dataset.report(out)
    _write_parquet(out)
    _write_manifest(report, collected, config)
    _log.info("synth.run.finished", tasks=report.tasks, rejected=report.rejected)
    return report


async def _run(worker: _Worker, collected: Path, dataset: _Dataset) -> None:
    limit = worker.config.max_concurrency
    await map_in_order(worker.process, read_collected(collected), dataset.add, limit=limit)


class _Worker:
    """The five steps for one document."""

    def __init__(self, stages: Stages, judge: Judge, config: SynthConfig) -> None:
        self.config = config
        self._stages = stages
        self._judge = judge

    async def process(self, document: Document) -> _Outcome:
        """Return tasks and rejections; a stage's fault is a rejection, never an exception.

        Stages may be third-party code: this is the boundary where any exception of theirs
        becomes a counted reason.
        """
        stage: Stage = "analyse"
        try:
            analysis = await self._stages.analyst.analyse(document)
            stage = "synthesise"
            drafts = await self._stages.synthesiser.synthesise(document, analysis)
            if not drafts:
                raise StageRefusal(RejectionReason.NO_QUESTION)  # noqa: TRY301 - one place makes rejections
        except Exception as error:  # noqa: BLE001 - see the docstring
            return _Outcome(document, (), (_rejection(document, stage, error),))
        found = [await self._finish(document, analysis, draft) for draft in drafts]
        rejections = tuple(item for item in found if isinstance(item, Rejection))
        tasks = tuple(item for item in found if not isinstance(item, Rejection))
        return _Outcome(document, tasks, rejections)

    async def _finish(
        self, document: Document, analysis: DocumentAnalysis, draft: Draft
    ) -> Task | Rejection:
        """Enrich and check one draft; the same boundary as `process`."""
        stage: Stage = "enrich"
        try:
            draft = await self._stages.enricher.enrich(document, analysis, draft)
            stage = "quality"
            task = to_checked_task(document, analysis, draft, self.config.quality)
            await check_rewards(task, self._judge, self.config.quality)
        except Exception as error:  # noqa: BLE001 - see the docstring
            return _rejection(document, stage, error, draft)
        return task


class _Dataset:
    """The open files of a dataset, and its counts."""

    def __init__(
        self,
        files: list[IO[str]],
        config: SynthConfig,
        on_document: Callable[[int], None] | None,
    ) -> None:
        self._files = dict(zip((*SPLITS, "rejected"), files, strict=True))
        self._config = config
        self._on_document = on_document
        self._questions: set[str] = set()
        self._documents = self._accepted = 0
        self._tasks: dict[str, int] = dict.fromkeys(SPLITS, 0)
        self._rejections: list[Rejection] = []

    def add(self, outcome: _Outcome) -> None:
        """Write what came of one document."""
        for rejection in outcome.rejections:
            self._reject(rejection)
        written = [self._write(task, outcome.document) for task in outcome.tasks]
        self._documents += 1
        self._accepted += any(written)
        if self._on_document is not None:
            self._on_document(self._documents)

    def report(self, out: Path) -> SynthReport:
        """Return the counts."""
        return SynthReport(
            out=out,
            documents=self._documents,
            accepted_documents=self._accepted,
            tasks=self._tasks,
            rejected=count_reasons(self._rejections),
        )

    def _write(self, task: Task, document: Document) -> bool:
        if task.question in self._questions:
            self._reject(_rejection(document, "quality", _duplicate(task)))
            return False
        self._questions.add(task.question)
        split = split_of(
            task.doc_hash, train=self._config.train_frac, validation=self._config.validation_frac
        )
        self._files[split].write(json_line(task.to_json(reveal_grounding=True)))
        self._tasks[split] += 1
        return True

    def _reject(self, rejection: Rejection) -> None:
        self._files["rejected"].write(json_line(rejection.model_dump(mode="json")))
        self._rejections.append(rejection.model_copy(update={"draft": None}))


def _duplicate(task: Task) -> StageRefusal:
    return StageRefusal(RejectionReason.DUPLICATE_QUESTION, f"task {task.task_id}")


def _rejection(
    document: Document, stage: Stage, error: Exception, draft: Draft | None = None
) -> Rejection:
    if isinstance(error, StageRefusal):
        reason, detail = error.reason, error.detail
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        reason = RejectionReason.STAGE_FAILED
        detail = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
    return Rejection(
        source=document.source,
        stage=stage,
        reason=reason,
        detail=detail,
        doc_hash=document.doc_hash,
        draft=draft.model_dump(mode="json") if draft is not None else None,
    )


def _write_parquet(out: Path) -> None:
    """Write the splits as Parquet too, where that can be written at all."""
    if find_spec("pyarrow") is None:
        return
    for split in SPLITS:
        write_tasks(out / f"{split}.parquet", read_tasks(out / f"{split}.jsonl"))


def _write_manifest(report: SynthReport, collected: Path, config: SynthConfig) -> None:
    names = [f"{split}.jsonl" for split in SPLITS] + [REJECTED_FILE]
    manifest: dict[str, object] = {
        "versions": {
            name: version(name) for name in ("rubric-core", "rubric-judge", "rubric-synth")
        },
        "collected_sha256": file_sha256(collected / DOCUMENTS_FILE),
        "config": config.model_dump(mode="json"),
        **report.model_dump(mode="json", exclude={"out"}),
        "sha256": {name: file_sha256(report.out / name) for name in names},
    }
    write_json(report.out / MANIFEST_FILE, manifest)
