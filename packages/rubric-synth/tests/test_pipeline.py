import errno
import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from rubric_core import DocumentAnalysis, Task, read_tasks, split_of
from rubric_judge.testing import FailingJudge
from rubric_synth import (
    CollectedFolderError,
    Document,
    Draft,
    ExtractiveConfig,
    OutputError,
    Stages,
    SynthConfig,
    UnfinishedError,
    collect,
    extractive_stages,
    read_collected,
    synthesise,
)
from rubric_synth.run.dataset.folder import read_manifest

_SPLITS = ("train", "validation", "test")


def _jsonl(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json*")}


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _rejected(folder: Path) -> list[dict[str, object]]:
    return [
        json.loads(line)
        for line in (folder / "rejected.jsonl").read_text().splitlines()
    ]


def _tasks(folder: Path) -> dict[str, list[Task]]:
    return {split: list(read_tasks(folder / f"{split}.jsonl")) for split in _SPLITS}


def test_every_document_ends_as_tasks_or_as_counted_rejections(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    source, out = collected(), tmp_path / "data"
    counts: list[int] = []
    report = synthesise(source, out, on_document=counts.append)
    tasks = [task for found in _tasks(out).values() for task in found]
    refused = _rejected(out)
    ended = {task.doc_hash for task in tasks} | {
        str(row["doc_hash"]) for row in refused
    }
    assert ended == {document.doc_hash for document in read_collected(source)}
    assert report.documents == 11
    assert counts == list(range(1, 12))
    assert report.accepted_documents == len({task.doc_hash for task in tasks}) >= 10
    assert sum(report.tasks.values()) == len(tasks)
    assert sum(report.rejected.values()) == len(refused)


def test_the_split_is_that_of_the_document_hash(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    for split, tasks in _tasks(tmp_path / "data").items():
        assert all(split_of(task.doc_hash) == split for task in tasks)


def test_more_documents_move_none_of_the_old_ones(
    tmp_path: Path, folder: Path, package: str, settings: SynthConfig
) -> None:
    def splits(sources: Sequence[str | Path]) -> dict[str, str]:
        collect(sources, tmp_path / "c", config=settings.collect)
        synthesise(tmp_path / "c", tmp_path / "d")
        found = _tasks(tmp_path / "d").items()
        return {task.doc_hash: split for split, tasks in found for task in tasks}

    few = splits([f"python:{package}"])
    many = splits([folder, f"python:{package}"])
    assert len(many) > len(few)
    assert few.items() <= many.items()


def test_the_same_input_gives_the_same_bytes(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    source = collected()
    one = SynthConfig(max_concurrency=1)
    synthesise(source, tmp_path / "a")
    synthesise(source, tmp_path / "b")
    synthesise(source, tmp_path / "c", config=one)
    synthesise(source, tmp_path / "a")
    assert _jsonl(tmp_path / "a") == _jsonl(tmp_path / "b")
    for name in (*(f"{split}.jsonl" for split in _SPLITS), "rejected.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (
            tmp_path / "c" / name
        ).read_bytes()


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow")
def test_parquet_stands_beside_the_splits(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    for split, tasks in _tasks(tmp_path / "data").items():
        assert list(read_tasks(tmp_path / "data" / f"{split}.parquet")) == tasks


def test_the_manifest_holds_hashes_versions_counts_and_the_configuration(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    source = collected()
    report = synthesise(source, tmp_path / "data")
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert manifest["tasks"] == report.tasks
    collection = json.loads((source / "manifest.json").read_text())["config"]
    assert (
        manifest["config"]["collect"] == collection
    )  # what was used, not what a run is told
    assert collection != SynthConfig().collect.model_dump(mode="json")
    rest = {**manifest["config"], "collect": {}}
    assert SynthConfig.model_validate(rest) == SynthConfig()
    assert set(manifest["versions"]) == {"rubric-core", "rubric-judge", "rubric-synth"}
    assert set(manifest["sha256"]) >= {
        "rejected.jsonl",
        *(f"{s}.jsonl" for s in _SPLITS),
    }


def test_a_refused_draft_is_kept_with_its_reason(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    with pytest.raises(UnfinishedError, match="11 documents got no answer"):
        synthesise(collected(), tmp_path / "data", judge=FailingJudge())
    manifest = read_manifest(tmp_path / "data")
    assert set(manifest.rejected) == {"judge_unavailable"}
    assert not any(manifest.tasks.values())
    row = _rejected(tmp_path / "data")[0]
    assert row["stage"] == "quality"
    Draft.model_validate(row["draft"])


class _Broken:
    """A synthesiser with a fault for one document, and one question for all others."""

    def __init__(self, stages: Stages, source: str) -> None:
        self._stages = stages
        self._source = source
        self._first: Draft | None = None

    async def synthesise(
        self, document: Document, analysis: DocumentAnalysis
    ) -> Sequence[Draft]:
        if document.source == self._source:
            raise ZeroDivisionError
        if self._first is None:
            (self._first,) = await self._stages.synthesiser.synthesise(
                document, analysis
            )
        return [self._first]


def test_a_fault_of_a_stage_and_a_repeated_question_are_counted(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    source = collected()
    stages = extractive_stages(read_collected(source), ExtractiveConfig())
    broken = _Broken(stages, "articles/steel.md")
    report = synthesise(
        source, tmp_path / "data", stages=stages._replace(synthesiser=broken)
    )
    assert report.rejected == {"duplicate_question": 9, "stage_failed": 1}
    assert sum(report.tasks.values()) == 1
    (fault,) = (
        row for row in _rejected(tmp_path / "data") if row["reason"] == "stage_failed"
    )
    assert str(fault["detail"]).startswith("ZeroDivisionError at test_pipeline.py:")


def test_a_full_disk_leaves_the_older_dataset_whole(
    tmp_path: Path, collected: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = collected(), tmp_path / "data"
    synthesise(source, out)
    before = _files(out)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        synthesise(source, out, config=SynthConfig(max_concurrency=3))
    assert _files(out) == before


def test_a_damaged_collection_writes_nothing(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    source = collected()
    stages = extractive_stages(read_collected(source), ExtractiveConfig())
    with (source / "documents.jsonl").open("a") as file:
        file.write("{broken\n")
    with pytest.raises(CollectedFolderError, match="line 12"):
        synthesise(source, tmp_path / "data", stages=stages)
    assert not (tmp_path / "data").exists()


def test_no_task_leaks_and_no_rubric_reaches_the_policy_side(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    synthesise(collected(), tmp_path / "data")
    for tasks in _tasks(tmp_path / "data").values():
        for task in tasks:
            shown = json.dumps(task.to_json()) + repr(task)
            assert task.reference_answer is not None
            assert task.reference_answer not in shown
            assert task.rubric.criteria[0].description not in shown
