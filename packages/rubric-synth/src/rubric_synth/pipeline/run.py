"""Collected documents to a dataset: what is done already, what is to be done, and the writing."""

from __future__ import annotations

import hashlib
import itertools
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from rubric_core import FolderLockError, RubricError
from rubric_synth.collect import read_collected
from rubric_synth.config import ExtractiveConfig, SynthConfig
from rubric_synth.dataset import Provenance, SynthReport, write_dataset
from rubric_synth.engines import LocalEngine, OwnStages, WorkerSpec, make_engine
from rubric_synth.errors import OutputError, UnfinishedError, WorkFolderError
from rubric_synth.events import log_warning
from rubric_synth.extractive import extractive_stages
from rubric_synth.files import remove_leftovers
from rubric_synth.pipeline.collection import Collection
from rubric_synth.pipeline.collector import seldom_collected
from rubric_synth.pipeline.ending import (
    DATASET_FILES,
    Stop,
    note_written,
    spent_so_far,
    stopped_because,
    unanswered,
    watch_signals,
    written_before,
    written_on_read_only,
)
from rubric_synth.pipeline.recorder import Recorder, Watchers
from rubric_synth.pipeline.replay import replay
from rubric_synth.pipeline.settings import Settings, settings_of
from rubric_synth.pipeline.spending import Prices, Spending
from rubric_synth.stages import Stages
from rubric_synth.work import WorkFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from rubric_core import Judge
    from rubric_synth.engines import Engine, Pending
    from rubric_synth.pipeline.collection import CollectedLine
    from rubric_synth.pipeline.progress import Progress
    from rubric_synth.stages import StagesFactory

WORK_FOLDER: Final = "work"
_TICK_S: Final = 0.5
_COLLECTED: Final = "collected"


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
    killed is gone on with by the same call, which asks nothing again that was answered, and ends
    with the same bytes. Finished documents are not worked on again; those that got no answer from
    a model or judge are. The dataset is written when the work ends; see `write_dataset`.

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
        CollectedFolderError: The collected folder cannot be read.
        OutputError: A file cannot be written; make room and call again.
        FolderLockError: `OUT/work` is in use or cannot be written.
        WorkFolderError: It is damaged or of another version.
        UnfinishedError: The run stopped early, or documents got no answer; what is done is
            written. Call again to go on.
        JudgeSetupError: Model or judge do not answer at all.
    """
    config = config or SynthConfig()
    collection = Collection(collected, limit=limit)
    settings = settings_of(config, collected_sha256=collection.sha256, stages=stages, judge=judge)
    making = _making(config, collection, settings)
    try:
        opened = WorkFolder(out / WORK_FOLDER)
    except FolderLockError:
        # A finished dataset is one on a disk that cannot be written, too.
        if (report := written_on_read_only(out, out / WORK_FOLDER, making)) is None:
            raise
        return report
    with opened as folder:
        remove_leftovers(out, DATASET_FILES)
        if (report := written_before(out, folder, making)) is not None:
            return report
        run = _Run(collection, settings, config, folder, making)
        spec = WorkerSpec(config, _factory(stages), judge)
        with closing(collection):
            return run.go_on(out, spec, Watchers(on_document, on_progress))


def _making(config: SynthConfig, collection: Collection, settings: Settings) -> str:
    """Return a digest of all that the bytes of the dataset depend on."""
    parts = (
        settings.digest.hex(),
        collection.sha256,
        collection.to_do,
        config.model_dump_json(),
        repr(collection.config),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _factory(stages: Stages | StagesFactory | None) -> StagesFactory | None:
    return OwnStages(stages) if isinstance(stages, Stages) else stages


class _Counts(NamedTuple):
    settled: int
    """Documents to do that are done."""
    unanswered: int
    """Documents to do that got no answer."""
    with_outcome: int
    """All documents that something came of."""


class _Run:
    """One call of `synthesise`, its work folder open."""

    def __init__(
        self,
        collection: Collection,
        settings: Settings,
        config: SynthConfig,
        folder: WorkFolder,
        making: str,
    ) -> None:
        self._collection = collection
        self._settings = settings
        self._config = config
        self._folder = folder
        self._making = making
        self._stop = Stop()

    def go_on(self, out: Path, spec: WorkerSpec, watchers: Watchers) -> SynthReport:
        """Work on what is not settled, and write what is done."""
        with self._stop.letting_end():
            self._warn_of_gone_documents()
            counts = self._counts()
            failure: RubricError | None = None
            if counts.settled < self._collection.to_do:
                failure = self._work(spec, counts.settled, watchers)
            if isinstance(failure, OutputError | WorkFolderError):
                raise failure
            if self._stop.is_left:
                raise KeyboardInterrupt
            self._folder.flush()
            return self._end(out, self._counts(), failure)

    def _end(self, out: Path, counts: _Counts, failure: RubricError | None) -> SynthReport:
        """Write what is done, and say what is not."""
        pending = self._collection.to_do - counts.settled
        if failure is not None:
            failure.add_note(f"{pending} documents are pending: the same command goes on with them")
            if not counts.with_outcome:
                raise failure
        if self._stop.cause is not None and not counts.with_outcome:
            raise self._unfinished(pending, "nothing was written yet")
        report = self._write(out, counts.with_outcome)
        if not pending:
            note_written(report, self._folder, self._making)
        if failure is not None:
            raise failure
        written = f"what is done is in {str(out)!r}"
        if self._stop.cause == "interrupted" or (self._stop.cause is not None and pending):
            raise self._unfinished(pending, written)
        if counts.unanswered:
            self._stop.cause = "unavailable"
            raise self._unfinished(pending, written, why=unanswered(counts.unanswered))
        return report

    def _counts(self) -> _Counts:
        settled = unanswered = with_outcome = 0
        lines = self._collection.lines(self._settings.digest)
        for number, (_, state) in enumerate(self._folder.settled(lines)):
            if number < self._collection.to_do:
                settled += state is True
                unanswered += state is False
            with_outcome += state is not None
        return _Counts(settled, unanswered, with_outcome)

    def _warn_of_gone_documents(self) -> None:
        """Say how many documents of the earlier dataset the collection does not hold any more."""
        before = self._folder.note(_COLLECTED)
        if before == self._collection.sha256:
            return
        if before is not None:
            gone = self._folder.documents() - self._collection.hashes()
            if gone:
                log_warning(
                    "synth.run.documents_gone",
                    documents=len(gone),
                    meaning="worked on before, not in this collection, left out of the dataset",
                )
        self._folder.set_note(_COLLECTED, self._collection.sha256)

    def _to_do(self) -> Iterator[CollectedLine]:
        lines = self._collection.lines(self._settings.digest)
        return itertools.islice(lines, self._collection.to_do)

    def _work(self, spec: WorkerSpec, settled: int, watchers: Watchers) -> RubricError | None:
        recorder = Recorder(
            self._folder, self._config, self._stop, settled=settled, watchers=watchers
        )
        failure: list[Exception] = []

        async def work() -> None:
            async with anyio.create_task_group() as group:
                await group.start(watch_signals, self._stop)
                group.start_soon(self._tell, recorder, watchers)
                try:
                    with self._stop.scope():
                        await self._work_on(spec, recorder)
                except Exception as error:  # noqa: BLE001 - raised as itself, not as a group
                    failure.append(error)
                group.cancel_scope.cancel()

        with seldom_collected():
            anyio.run(work)
        if watchers.on_progress is not None:
            watchers.on_progress(recorder.progress(self._collection.to_do))
        for error in failure:
            if isinstance(error, RubricError):
                return error
            raise error
        return None

    async def _tell(self, recorder: Recorder, watchers: Watchers) -> None:
        if watchers.on_progress is not None:
            while True:
                watchers.on_progress(recorder.progress(self._collection.to_do))
                await anyio.sleep(_TICK_S)

    async def _work_on(self, spec: WorkerSpec, recorder: Recorder) -> None:
        may_replay = spec.stages is None and recorder.spent.calls > 0
        if spec.stages is None and isinstance(self._config.synthesiser, ExtractiveConfig):
            documents = read_collected(self._collection.folder)
            stages = extractive_stages(documents, self._config.synthesiser)
            spec = replace(spec, stages=OwnStages(stages))
        worker = spec.build()
        try:
            if may_replay:
                await replay(worker, recorder.answered(self._to_do()), recorder)
                self._folder.flush()
            if recorder.done < self._collection.to_do and spec.may_cost:
                recorder.check_prices()
            if self._stop.cause is not None:
                return
            if recorder.done < self._collection.to_do:
                await worker.check()
        finally:
            with anyio.CancelScope(shield=True):
                await worker.aclose()
        pending = recorder.pending(self._to_do())
        if spec.may_cost:
            await self._find_price(spec, pending, recorder)
        await self._run_engine(make_engine(self._config, spec), pending, recorder)

    async def _find_price(
        self, spec: WorkerSpec, pending: Iterator[Pending], recorder: Recorder
    ) -> None:
        """Work on documents one by one until a call has told what calls cost."""
        engine = LocalEngine(self._config, spec)
        while recorder.needs_price and recorder.may_call():
            item = next(pending, None)
            if item is None:
                return
            await self._run_engine(engine, [item], recorder)

    async def _run_engine(
        self, engine: Engine, pending: Iterable[Pending], recorder: Recorder
    ) -> None:
        recorder.engine = engine
        await engine.run(pending, recorder)

    def _write(self, out: Path, with_outcome: int) -> SynthReport:
        provenance = Provenance(
            collected_sha256=self._collection.sha256,
            documents=self._collection.documents,
            pending=self._collection.documents - with_outcome,
            collect=self._collection.config,
            spent=Spending(self._folder, Prices(self._config)).by_stage,
            prompts=self._settings.prompts,
            model=self._settings.model,
            judge=self._settings.judge,
        )
        outcomes = self._folder.outcomes(self._collection.lines(self._settings.digest))
        return write_dataset(out, outcomes, config=self._config, provenance=provenance)

    def _unfinished(self, pending: int, written: str, *, why: str | None = None) -> UnfinishedError:
        assert self._stop.cause is not None  # noqa: S101 - only called where there is one
        spent = Spending(self._folder, Prices(self._config))
        why = why or stopped_because(self._stop.cause, self._config, spent)
        done = self._collection.to_do - pending
        goes_on = ": the same command goes on with them" if pending else ""
        calls = f"; {spent_so_far(spent)}" if spent.calls else ""
        message = (
            f"{why}. {done} of {self._collection.to_do} documents are done, {pending} are "
            f"pending{goes_on}; {written}{calls}"
        )
        return UnfinishedError(message, cause=self._stop.cause, pending=pending)
