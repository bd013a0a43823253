"""The engine of several processes on this machine, for documents about which no model is asked."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, BinaryIO, cast

import anyio
from anyio import to_thread

from rubric_judge.config import is_program
from rubric_synth.calls import DocumentCalls
from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import Document, DocumentOutcome
from rubric_synth.errors import EngineError
from rubric_synth.run.engines.worker import (
    EngineBase,
    Pending,
    Sink,
    Worker,
    WorkerSpec,
    plain_task_group,
    rare_garbage_collection,
)

_MOST = 8
"""Most processes, where the configuration says nothing: each takes about 200 MB."""
_WORTH = 100
"""Fewest documents that are worth the start of a process, a second or two of a CPU."""
_BATCH = 8
"""Documents that a process is given at a time."""
_START = """
import json, os, sys
sys.path[:] = json.loads(sys.argv[1])
sys.modules["torch"] = None
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
from rubric_synth.run.engines.processes import serve
serve()
"""
"""The program of each process.

As it has one CPU, threads of linear algebra would be in the way. Without torch, which spaCy loads
where it is installed and which the grammar does not use, it takes 400 MB less.
"""


class Process:
    """One process, which works on documents as it is told."""

    def __init__(self) -> None:
        """Start it: its modules load while the words of the collection are counted."""
        # The module that this process was started with is not imported there, as that of
        # `multiprocessing` would be: a script may call `synthesise` at its top. A session of its
        # own: an interrupt from the terminal is this process's to handle.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, message: bytes) -> None:
        """Send a pickled message.

        Raises:
            EngineError: The process has ended.
        """
        pipe = cast("BinaryIO", self._process.stdin)
        try:
            pipe.write(message)
            pipe.flush()
        except OSError:
            raise self._ended() from None

    def outcomes_of(self, documents: Sequence[Document]) -> list[DocumentOutcome]:
        """Return the outcomes of documents, in order.

        Raises:
            EngineError: The process has ended.
        """
        self.tell(pickle.dumps(documents))
        try:
            return pickle.load(cast("BinaryIO", self._process.stdout))  # noqa: S301 - our own
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                cast("BinaryIO", pipe).close()

    def _ended(self) -> EngineError:
        status = self._process.wait()
        return EngineError(
            f"a process that worked on documents has ended with status {status}; what was done "
            "is kept, run again, with `processes: 1` where memory is short"
        )


@contextmanager
def started(spec: WorkerSpec, documents: int) -> Generator[tuple[Process, ...]]:
    """Start the processes of a run, and end them; none where this one does as well alone.

    Args:
        spec: The configuration, and the caller's own stages and judge.
        documents: Number of documents that are not done yet.
    """
    count = _count(spec, documents)
    processes: list[Process] = []
    try:
        if count > 1:
            processes += (Process() for _ in range(count))
        yield tuple(processes)
    finally:
        for process in processes:
            process.close()


def _count(spec: WorkerSpec, documents: int) -> int:
    """Return the number of processes that are worth their start."""
    config = spec.config
    is_alone = (
        config.engine != "local" or spec.stages is not None or spec.judge is not None
    )
    # A model of the judge needs torch, and would be in memory once for each process.
    asks_nobody = isinstance(config.synthesiser, ExtractiveConfig) and is_program(
        config.quality.judge
    )
    if is_alone or not asks_nobody or not sys.executable:
        return 1
    if config.processes is not None:
        return min(config.processes, documents)
    return min(_cpus(), _MOST, documents // _WORTH)


def _cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ProcessEngine(EngineBase):
    """Documents in work spread over processes; this one draws them and keeps what comes of them."""

    def __init__(self, spec: WorkerSpec, processes: Sequence[Process]) -> None:
        """Keep the settings, and the processes that `started` has given."""
        super().__init__(spec)
        self._processes = processes

    async def run(self, pending: Iterable[Pending], sink: Sink) -> None:
        """Work on documents; see `LocalEngine.run`.

        Raises:
            EngineError: A process has ended.
            OutputError: The sink could not keep something.
        """
        items = iter(pending)
        message = pickle.dumps(self._spec)
        async with plain_task_group() as group:
            for process in self._processes:
                group.start_soon(self._feed, process, message, items, sink)

    async def _feed(
        self,
        process: Process,
        message: bytes,
        items: Iterator[Pending],
        sink: Sink,
    ) -> None:
        # A thread that is left behind ends with its process.
        await to_thread.run_sync(process.tell, message, abandon_on_cancel=True)
        while sink.may_call() and (batch := list(islice(items, _BATCH))):
            documents = [item.document for item in batch]
            outcomes = await to_thread.run_sync(
                process.outcomes_of, documents, abandon_on_cancel=True
            )
            for outcome in outcomes:
                sink.on_outcome(outcome)


def serve() -> None:
    """Work in one of the processes, until its standard input ends."""
    from rubric_synth.stages.extractive.facts.parsing import NoGrammarError, grammar

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not an answer
    with suppress(NoGrammarError):  # the refusals of documents say so
        grammar()
    with suppress(EOFError, BrokenPipeError), rare_garbage_collection():
        questions = sys.stdin.buffer
        spec: WorkerSpec = pickle.load(questions)  # noqa: S301 - from the process that started this
        anyio.run(_answer, spec.build(), questions, answers)


async def _answer(worker: Worker, questions: BinaryIO, answers: BinaryIO) -> None:
    while True:
        documents: Any = pickle.load(questions)  # noqa: S301 - as in `serve`
        outcomes = [
            await worker.process(document, DocumentCalls()) for document in documents
        ]
        answers.write(pickle.dumps(outcomes))
        answers.flush()
