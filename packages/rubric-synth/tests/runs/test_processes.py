"""Several processes on one machine: the same dataset, and an end that keeps what is done."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from rubric_judge import ClaimConfig, ModelConfig
from rubric_judge.testing import FailingJudge
from rubric_synth import (
    EngineError,
    ExtractiveConfig,
    LLMConfig,
    SynthConfig,
    collect,
    extractive_stages,
    synthesise,
)
from rubric_synth.calls import CallRecord
from rubric_synth.config import QualityConfig
from rubric_synth.document import Document, DocumentOutcome
from rubric_synth.run.engines import make_engine
from rubric_synth.run.engines.processes import ProcessEngine, started
from rubric_synth.run.engines.worker import Pending, WorkerSpec
from rubric_synth.testing import generated_documents

_TWO = SynthConfig(processes=2)
_SCRIPT = """
import sys
from pathlib import Path
from rubric_synth import SynthConfig, synthesise
collected, out = map(Path, sys.argv[1:])
synthesise(collected, out, config=SynthConfig(processes=2))
"""


def _jsonl(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


@pytest.fixture
def collected(tmp_path: Path, articles: dict[str, str]) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    for name, text in articles.items():
        (source / f"{name}.md").write_text(text)
    for number, document in enumerate(generated_documents(20)):
        (source / f"{number}.md").write_text(document.text)
    collect([source], tmp_path / "collected")
    return tmp_path / "collected"


def test_processes_make_the_same_dataset_of_a_script_without_a_main_guard(
    tmp_path: Path, collected: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    outs = [tmp_path / "two", tmp_path / "one"]
    command = [sys.executable, str(script), str(collected), str(outs[0])]
    subprocess.run(command, check=True)
    report = synthesise(collected, outs[1], config=SynthConfig(processes=1))
    assert report.accepted_documents
    assert _jsonl(outs[0]) == _jsonl(outs[1])


class _Kept:
    """A sink that wants no further document once it has an outcome."""

    def __init__(self) -> None:
        self.outcomes: list[DocumentOutcome] = []

    def on_call(self, doc_hash: str, record: CallRecord) -> None:
        raise AssertionError((doc_hash, record))

    def on_outcome(self, outcome: DocumentOutcome) -> None:
        self.outcomes.append(outcome)

    def may_call(self) -> bool:
        return not self.outcomes


def _with_stages(documents: list[Document]) -> WorkerSpec:
    stages = extractive_stages(documents, ExtractiveConfig())
    return replace(WorkerSpec(_TWO), stages=stages)


def test_no_document_is_drawn_once_the_run_stops() -> None:
    documents = list(generated_documents(100))
    drawn: list[Document] = []

    def pending() -> Iterator[Pending]:
        for document in documents:
            drawn.append(document)
            yield Pending(document, ())

    kept = _Kept()
    with started(WorkerSpec(_TWO), len(documents)) as processes:
        engine = make_engine(_with_stages(documents), processes)
        assert isinstance(engine, ProcessEngine)
        anyio.run(engine.run, pending(), kept)
    assert 0 < len(kept.outcomes) == len(drawn) < len(documents)


def test_a_process_that_dies_is_an_error_that_says_what_to_do() -> None:
    documents = list(generated_documents(3))
    with started(WorkerSpec(_TWO), len(documents)) as processes:
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
        engine = make_engine(_with_stages(documents), processes)
        pending = [Pending(document, ()) for document in documents]
        with pytest.raises(EngineError, match=r"ended with status -9.*`processes: 1`"):
            anyio.run(engine.run, pending, _Kept())


@pytest.mark.parametrize(
    ("spec", "documents"),
    [
        (WorkerSpec(_TWO), 1),
        (WorkerSpec(_TWO, judge=FailingJudge()), 50),
        (WorkerSpec(SynthConfig(processes=2, engine="ray")), 50),
        (
            WorkerSpec(
                SynthConfig(
                    processes=2, synthesiser=LLMConfig(model=ModelConfig(model="m"))
                )
            ),
            50,
        ),
        (
            WorkerSpec(
                SynthConfig(
                    processes=2,
                    quality=QualityConfig(judge=ClaimConfig(embedding="model")),
                )
            ),
            50,
        ),
        (WorkerSpec(SynthConfig()), 150),
    ],
    ids=["one document", "own judge", "ray", "a model", "embedding", "few documents"],
)
def test_one_process_does_what_others_cannot_or_need_not(
    spec: WorkerSpec, documents: int
) -> None:
    with started(spec, documents) as processes:
        assert processes == ()


def test_each_cpu_has_a_process_where_there_is_work_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rubric_synth.run.engines.processes._cpus", lambda: 2)
    with started(WorkerSpec(SynthConfig()), 200) as processes:
        assert len(processes) == 2
