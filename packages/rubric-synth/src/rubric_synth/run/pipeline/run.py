"""A run from collected documents to a dataset: find finished work, do the rest, write it."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import anyio
import anyio.lowlevel

from rubric_core import FolderLockError, Judge, RubricError, read_tasks
from rubric_synth import calls, files
from rubric_synth.collect.folder import DOCUMENTS_FILE, read_collected, read_settings
from rubric_synth.config import ExtractiveConfig, SynthConfig
from rubric_synth.errors import (
    CallsStoppedError,
    OutputError,
    UnfinishedCause,
    UnfinishedError,
    WorkFolderError,
)
from rubric_synth.lookup.sections import Lookup, check_sections
from rubric_synth.run import engines
from rubric_synth.run.dataset.folder import (
    DATASET_FILES,
    LINES_FILES,
    STATISTICS_FILES,
    WORK_FOLDER,
    Provenance,
)
from rubric_synth.run.dataset.writing import SynthReport, write_dataset
from rubric_synth.run.engines.processes import Process, started
from rubric_synth.run.engines.worker import (
    LocalEngine,
    Worker,
    WorkerSpec,
    plain_task_group,
    rare_garbage_collection,
)
from rubric_synth.run.pipeline import recording
from rubric_synth.run.pipeline.collection import Collection, Settings, settings_of
from rubric_synth.run.pipeline.recording import Progress, Recorder, Spending, Stop
from rubric_synth.run.work.folder import WorkFolder, is_work_folder
from rubric_synth.run.work.index import CollectedLine, note_of_finished
from rubric_synth.stages.extractive.prose_tasks import extractive_stages
from rubric_synth.stages.stages import Stages, StagesFactory

_COLLECTED = "collected"
_NOTE = "dataset"


def synthesise(  # noqa: PLR0913 - what to replace of a run, and who watches it
    collected: Path,
    out: Path,
    *,
    config: SynthConfig | None = None,
    stages: Stages | StagesFactory | None = None,
    judge: Judge | None = None,
    limit: int | None = None,
    on_document: Callable[[int], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> SynthReport:
    """Turn a collected folder into a dataset folder, going on where an earlier run ended.

    Every answer and every finished document is kept in `OUT/work`: a run that is stopped or
    killed is continued by the same call, which asks nothing again that was answered, works again
    on none but unanswered documents, and ends with the same bytes. See `write_dataset`.

    At an interrupt (SIGINT, SIGTERM) no further document is begun, calls in flight get a few
    seconds, and what is done is written, whole; a second one leaves at once.

    Args:
        collected: Folder written by `collect`.
        out: Folder to write; made if missing.
        config: The defaults if None.
        stages: Those of the configuration if None. What stages without a `fingerprint` make is
            made again by each run.
        judge: Tries out each rubric; the one of the configuration if None.
        limit: Work on the first so many documents only; the others stay pending.
        on_document: Told the number of finished documents, for progress.
        on_progress: Told how far the run is, twice a second.

    Raises:
        CollectedFolderError: The collected folder cannot be read, or has too few sections for
            contexts.
        OutputError: A file cannot be written, or is one that no run wrote.
        FolderLockError: `OUT/work` is in use or cannot be written.
        WorkFolderError: It is damaged, of another version, or of another collection.
        UnfinishedError: It stopped early, or documents got no answer; a further call goes on.
        JudgeSetupError: Model or judge do not answer at all.
    """
    config = config or SynthConfig()
    collection = Collection(collected, limit=limit)
    _refuse_unknown(out)
    settings = settings_of(
        config, collected_sha256=collection.sha256, stages=stages, judge=judge
    )
    making = collection.making(config, settings)
    work = out / WORK_FOLDER
    try:
        opened = WorkFolder(work)
    except FolderLockError:
        # A finished dataset counts as finished even on a read-only disk.
        if report := _report_of(out, note_of_finished(work, _NOTE), making):
            return report
        raise
    with opened as folder, closing(collection):
        if report := _written_before(out, folder, collection, making):
            return report
        if config.context is not None:  # before there is work that would be for nothing
            check_sections(collected, config.context)
        parts = out, collection, settings, WorkerSpec(config, stages, judge), folder
        return _Run(*parts, on_document or _ignored, on_progress or _ignored).go_on(
            making
        )


def _written_before(
    out: Path,
    folder: WorkFolder,
    collection: Collection,
    making: str,
) -> SynthReport | None:
    """Return what an earlier run of the same wrote, once what it left behind is gone."""
    _refuse_another(out, folder, collection)
    files.remove_leftovers(out, DATASET_FILES)
    return _report_of(out, folder.index.note(_NOTE), making)


def _report_of(
    out: Path,
    note: str | None,
    making: str,
) -> SynthReport | None:
    """Return the report of a finished dataset that is there untouched; None where it is not.

    Args:
        out: Dataset folder.
        note: What its work folder holds under `_NOTE`.
        making: Digest of all that the bytes of the dataset depend on.
    """
    content: dict[str, Any] = {} if note is None else json.loads(note)
    if content.get("making") != making or content["files"] != _states(out):
        return None
    return SynthReport.model_validate({**content["report"], "out": out})


def _states(out: Path) -> dict[str, list[int]]:
    """Return size and time of the last change of each file of a dataset."""
    states = {
        name: (out / name).stat() for name in DATASET_FILES if (out / name).is_file()
    }
    return {name: [state.st_size, state.st_mtime_ns] for name, state in states.items()}


def _note_written(report: SynthReport, folder: WorkFolder, making: str) -> None:
    """Remember a finished dataset, so that another run need not write it again."""
    content = {
        "making": making,
        "files": _states(report.out),
        "report": report.model_dump(mode="json", exclude={"out", "gone_documents"}),
    }
    folder.index.set_note(_NOTE, json.dumps(content))


def _refuse_unknown(out: Path) -> None:
    """Refuse a folder where files would be replaced or removed that no run wrote.

    A run that is killed as files take their places leaves some without a manifest.
    """
    present = [
        out / name
        for name in (*DATASET_FILES, *STATISTICS_FILES)
        if (out / name).exists()
    ]
    if not present or read_settings(out, of=LINES_FILES[0]) is not None:
        return
    if (out / DOCUMENTS_FILE).exists() or not is_work_folder(out / WORK_FOLDER):
        raise OutputError(
            f"{str(present[0])!r} was not written by `rubric-synth run`, which would replace "
            "it; choose another folder",
            path=present[0],
        )


def _refuse_another(out: Path, folder: WorkFolder, collection: Collection) -> None:
    """Refuse a folder none of whose documents is in the collection: all of it would be replaced."""
    if folder.index.note(_COLLECTED) == collection.sha256:
        return
    doc_hashes = folder.index.documents() or _documents_of(out)
    if doc_hashes and doc_hashes.isdisjoint(collection.hashes()):
        source = folder.first_source()
        such = f", such as {source!r}" if source else ""
        raise WorkFolderError(
            f"{str(out)!r} holds what was made of another collection, {len(doc_hashes)} "
            f"documents{such}; none of them is in {str(collection.folder)!r}. Nothing of it "
            "was changed: give this collection an --out of its own, or move that folder away "
            "first",
            path=out,
        )


def _documents_of(out: Path) -> set[str]:
    """Return the hashes of documents with a task in a dataset whose work folder was deleted."""
    doc_hashes: set[str] = set()
    for name in LINES_FILES:
        with suppress(RubricError, OSError):
            doc_hashes |= {task.doc_hash for task in read_tasks(out / name)}
    return doc_hashes


def _ignored(_: object) -> None:
    """Nobody watches."""


class _Counts(NamedTuple):
    settled: int
    """Documents to do that are done."""
    unanswered: int
    """Documents to do that got no answer."""
    with_outcome: int
    """All documents that something came of."""


@dataclass
class _Run:
    """One call of `synthesise`, its work folder open."""

    out: Path
    collection: Collection
    settings: Settings
    spec: WorkerSpec
    folder: WorkFolder
    on_document: Callable[[int], None]
    on_progress: Callable[[Progress], None]
    stop: Stop = field(default_factory=Stop)

    def go_on(self, making: str) -> SynthReport:
        """Work on what is not settled, and write what is done."""
        with self.stop.at_interrupts():
            counts = self._counts()
            failure: RubricError | None = None
            if counts.settled < self.collection.to_do:
                failure = self._work(counts.settled)
            if isinstance(failure, OutputError | WorkFolderError):
                raise failure
            if self.stop.is_left:
                raise KeyboardInterrupt(self.stop.signal)
            self.folder.index.flush()
            return self._end(self._counts(), failure, making)

    def _end(
        self,
        counts: _Counts,
        failure: RubricError | None,
        making: str,
    ) -> SynthReport:
        """Write what is done, and say what is not."""
        pending = self.collection.to_do - counts.settled
        stop = self.stop
        if failure is not None:
            failure.add_note(
                f"{pending} documents are pending: the same command goes on with them"
            )
            if not counts.with_outcome:
                raise failure
        if stop.cause is not None and not counts.with_outcome:
            raise self._unfinished(stop.cause, pending, "nothing was written yet")
        gone = self._gone_documents()
        report = self._write(counts.with_outcome)
        report = report.model_copy(update={"gone_documents": gone})
        self.folder.index.set_note(_COLLECTED, self.collection.sha256)
        if not pending:
            _note_written(report, self.folder, making)
        if failure is not None:
            raise failure
        without = f", without {gone} documents of an earlier collection" if gone else ""
        written = f"what is done is in {str(self.out)!r}{without}"
        if stop.cause == "interrupted" or (stop.cause is not None and pending):
            raise self._unfinished(stop.cause, pending, written)
        if counts.unanswered:
            got = "document got" if counts.unanswered == 1 else "documents got"
            why = f"{counts.unanswered} {got} no answer from a model or judge: check that both run"
            raise self._unfinished("unavailable", pending, written, why=why)
        return report

    def _counts(self) -> _Counts:
        settled = unanswered = with_outcome = 0
        lines = self.collection.lines(self.settings.digest)
        for number, (_, state) in enumerate(self.folder.settled(lines)):
            if number < self.collection.to_do:
                settled += state is True
                unanswered += state is False
            with_outcome += state is not None
        return _Counts(settled, unanswered, with_outcome)

    def _gone_documents(self) -> int:
        """Count those of the earlier dataset that the collection does not hold any more."""
        if self.folder.index.note(_COLLECTED) in {None, self.collection.sha256}:
            return 0
        return len(self.folder.index.documents() - self.collection.hashes())

    def _to_do(self) -> Iterator[CollectedLine]:
        lines = self.collection.lines(self.settings.digest)
        return itertools.islice(lines, self.collection.to_do)

    def _work(self, settled: int) -> RubricError | None:
        parts = self.folder, self.spec.config, self.stop, self.on_document
        recorder = Recorder(*parts, done=settled)

        def show() -> None:
            self.on_progress(recorder.progress(self.collection.to_do))

        async def work() -> None:
            async with plain_task_group() as group:
                group.start_soon(tell)
                pending = self.collection.to_do - recorder.done
                with self.stop.scope(), started(self.spec, pending) as processes:
                    await self._work_in(processes, recorder)
                group.cancel_scope.cancel()

        async def tell() -> None:
            while True:
                show()
                await anyio.sleep(0.5)

        try:
            with rare_garbage_collection():
                anyio.run(work)
        except RubricError as error:
            return error
        finally:
            show()
        return None

    async def _work_in(self, processes: Sequence[Process], recorder: Recorder) -> None:
        spec = self.spec
        may_replay = spec.stages is None and recorder.spent.total.calls > 0
        if spec.stages is None and isinstance(
            spec.config.synthesiser, ExtractiveConfig
        ):
            documents = read_collected(self.collection.folder)
            spec = replace(
                spec, stages=extractive_stages(documents, spec.config.synthesiser)
            )
        worker = spec.build()
        try:
            if may_replay:
                await self._replay(worker, recorder)
                self.folder.index.flush()
            if recorder.done < self.collection.to_do and spec.may_cost:
                recorder.check_prices()
            if self.stop.cause is not None:
                return
            if recorder.done < self.collection.to_do:
                await worker.check()
        finally:
            with anyio.CancelScope(shield=True):
                await worker.aclose()
        pending = recorder.pending(self._to_do())
        if spec.may_cost:
            # One document after another, until the price of a call is known.
            recorder.engine = LocalEngine(spec)
            while recorder.needs_price and recorder.may_call():
                item = next(pending, None)
                if item is None:
                    break
                await recorder.engine.run([item], recorder)
        recorder.engine = engines.make_engine(spec, processes)
        await recorder.engine.run(pending, recorder)

    async def _replay(self, worker: Worker, recorder: Recorder) -> None:
        """Finish the documents that need no further call; put back the others."""

        def refuse() -> NoReturn:
            raise CallsStoppedError("only what was answered before is used")

        for document, known in recorder.pending(self._to_do(), only_answered=True):
            known_calls = calls.DocumentCalls(known, permit=refuse)
            try:
                outcome = await worker.process(document, known_calls)
            except CallsStoppedError:
                recorder.put_back(document.doc_hash)
            else:
                recorder.on_outcome(outcome)
            if self.stop.cause is not None:
                return
            await anyio.lowlevel.checkpoint()

    def _write(self, with_outcome: int) -> SynthReport:
        config = self.spec.config
        provenance = Provenance(
            **dict(self.settings.origin),
            documents=self.collection.documents,
            pending=self.collection.documents - with_outcome,
            collect=self.collection.config,
            spent=Spending(self.folder, config).by_stage,
        )
        outcomes = self.folder.outcomes(self.collection.lines(self.settings.digest))
        collected = self.collection.folder
        with ExitStack() as stack:
            lookup = config.context and Lookup(collected, config, config.context)
            if lookup is not None:
                stack.callback(lookup.close)
            return write_dataset(
                self.out,
                outcomes,
                config=config,
                provenance=provenance,
                lookup=lookup,
            )

    def _unfinished(
        self,
        cause: UnfinishedCause,
        pending: int,
        written: str,
        *,
        why: str | None = None,
    ) -> UnfinishedError:
        spent = Spending(self.folder, self.spec.config).total
        why = why or recording.why_stopped(cause, self.spec.config, spent)
        done = self.collection.to_do - pending
        goes_on = ": the same command goes on with them" if pending else ""
        took = f"; {spent.calls} calls so far, {spent.cost}" if spent.calls else ""
        return UnfinishedError(
            f"{why}. {done} of {self.collection.to_do} documents are done, {pending} are "
            f"pending{goes_on}; {written}{took}",
            cause=cause,
            pending=pending,
            signal=self.stop.signal,
        )
