"""What a second run into the same folder does, and what it leaves alone."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from rubric_judge.testing import FailingJudge
from rubric_synth import (
    Draft,
    ExtractiveConfig,
    Stages,
    SynthConfig,
    UnfinishedError,
    check_dataset,
    collect,
    extractive_stages,
    load_config,
    read_collected,
    synthesise,
)
from rubric_synth.errors import CollectedFolderError
from rubric_synth.run.dataset.folder import WORK_FOLDER, read_manifest
from rubric_synth.run.pipeline.collection import Collection, settings_of
from rubric_synth.run.pipeline.recording import Progress
from rubric_synth.run.work.folder import WorkFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rubric_core import DocumentAnalysis
    from rubric_synth import Document


def _times(out: Path) -> dict[str, int]:
    return {
        path.name: path.stat().st_mtime_ns for path in out.iterdir() if path.is_file()
    }


def test_a_finished_run_is_recognised_and_touches_nothing(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
) -> None:
    collected, out, config = generated(5), tmp_path / "data", load_config(configured())
    first = synthesise(collected, out, config=config)
    before = _times(out)
    model.endpoint.calls.clear()
    seen: list[int] = []
    assert synthesise(collected, out, config=config, on_document=seen.append) == first
    assert _times(out) == before
    assert model.endpoint.calls == []
    assert seen == []


def test_a_dataset_that_was_changed_is_written_again(
    tmp_path: Path,
    collected: Callable[[], Path],
    final_files: Callable[[Path], dict[str, bytes]],
) -> None:
    source, out = collected(), tmp_path / "data"
    synthesise(source, out)
    before = final_files(out)
    (out / "train.jsonl").write_text("changed\n")
    (out / "rejected.jsonl").unlink()
    synthesise(source, out)
    assert final_files(out) == before


def test_another_threshold_asks_nothing_again_and_applies(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
) -> None:
    collected, out = generated(5), tmp_path / "data"
    assert sum(
        synthesise(collected, out, config=load_config(configured())).tasks.values()
    )
    model.endpoint.calls.clear()
    strict = load_config(configured(quality={"min_criteria": 10, "max_criteria": 10}))
    report = synthesise(collected, out, config=strict)
    assert set(report.rejected) == {"too_few_criteria"}
    assert model.endpoint.calls == []


def test_new_documents_are_worked_on_and_old_ones_kept(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
) -> None:
    out, config = tmp_path / "data", load_config(configured())
    few = synthesise(generated(4), out, config=config)
    before = model.questions
    counts: list[int] = []
    many = synthesise(generated(7), out, config=config, on_document=counts.append)
    assert (few.documents, many.documents) == (4, 7)
    assert counts == [5, 6, 7]
    assert set(model.questions.values()) == {1}
    assert model.questions.keys() > before.keys()


def test_documents_without_an_answer_are_tried_again(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    source, out = collected(), tmp_path / "data"
    counts: list[int] = []
    for _ in range(2):
        counts.clear()
        with pytest.raises(
            UnfinishedError, match="11 documents got no answer"
        ) as stopped:
            synthesise(source, out, judge=FailingJudge(), on_document=counts.append)
        assert (stopped.value.cause, stopped.value.pending) == ("unavailable", 11)
        assert counts == list(range(1, 12))
    manifest = read_manifest(out)
    assert set(manifest.rejected) == {"judge_unavailable"}
    assert (manifest.pending_documents, manifest.unanswered_documents) == (11, 11)
    assert manifest.rejected_documents == 0
    problems = check_dataset(out, collected=source).problems
    assert [problem.partition(";")[0] for problem in problems] == [
        "there is no task at all"
    ]
    assert sum(synthesise(source, out).tasks.values()) >= 10


def test_a_limit_leaves_the_other_documents_pending(
    tmp_path: Path,
    collected: Callable[[], Path],
    final_files: Callable[[Path], dict[str, bytes]],
) -> None:
    source = collected()
    report = synthesise(source, tmp_path / "data", limit=4)
    assert (report.documents, report.pending_documents) == (11, 7)
    assert synthesise(source, tmp_path / "data", limit=2).pending_documents == 7
    assert synthesise(source, tmp_path / "data").pending_documents == 0
    synthesise(source, tmp_path / "whole")
    assert final_files(tmp_path / "data") == final_files(tmp_path / "whole")


class _Counting:
    """A synthesiser that counts its documents."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self.documents = 0

    async def synthesise(
        self, document: Document, analysis: DocumentAnalysis
    ) -> Sequence[Draft]:
        self.documents += 1
        found = await self._stages.synthesiser.synthesise(document, analysis)
        return [draft for draft in found if isinstance(draft, Draft)]


class _Named(_Counting):
    fingerprint = "counting 1"


def test_only_stages_with_a_fingerprint_are_not_run_again(
    tmp_path: Path, collected: Callable[[], Path]
) -> None:
    source = collected()
    stages = extractive_stages(read_collected(source), ExtractiveConfig())
    for number, (kind, runs) in enumerate([(_Counting, 22), (_Named, 11)]):
        counting = kind(stages)
        own = stages._replace(
            analyst=_named(stages.analyst),
            synthesiser=counting,
            enricher=_named(stages.enricher),
        )
        for _ in range(2):
            synthesise(source, tmp_path / str(number), stages=own)
        assert counting.documents == runs


def _named(stage: object) -> object:
    """Give a stage a fingerprint."""

    class Fingerprinted(type(stage)):
        fingerprint = "1"

    stage.__class__ = Fingerprinted
    return stage


def test_progress_tells_rate_cost_and_remaining_time(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
) -> None:
    seen: list[Progress] = []
    config = load_config(configured())
    report = synthesise(
        generated(5), tmp_path / "data", config=config, on_progress=seen.append
    )
    assert model.questions
    assert seen[0].done == 0
    assert (seen[-1].done, seen[-1].total, seen[-1].calls_in_flight) == (5, 5, 0)
    assert round(seen[-1].cost_usd - report.usage.cost_usd, 9) == 0
    assert seen[-1].eta_s == 0


@pytest.mark.usefixtures("model")
def test_any_work_done_before_a_stop_gives_the_same_bytes(
    tmp_path: Path,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    final_files: Callable[[Path], dict[str, bytes]],
) -> None:
    source, config = generated(5), load_config(configured(max_concurrency=3))
    synthesise(source, tmp_path / "whole", config=config)
    collection = Collection(source)
    of_run = settings_of(
        config, collected_sha256=collection.sha256, stages=None, judge=None
    )
    lines = list(collection.lines(of_run.digest))
    numbers = itertools.count()

    @given(
        st.lists(
            st.sampled_from(["finished", "half", "begun", "new"]),
            min_size=5,
            max_size=5,
        )
    )
    @examples(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    def same_bytes(states: list[str]) -> None:
        out = tmp_path / f"again-{next(numbers)}"
        with (
            WorkFolder(tmp_path / "whole" / WORK_FOLDER) as whole,
            WorkFolder(out / WORK_FOLDER) as work,
        ):
            for line, state in zip(lines, states, strict=True):
                calls = whole.calls_of(line.doc_hash)
                kept = {"finished": len(calls), "half": 2, "begun": 1, "new": 0}[state]
                for record in calls[:kept]:
                    work.add_call(line.doc_hash, record)
                outcome = next(whole.outcomes([line]), None)
                if state == "finished" and outcome is not None:
                    work.add_outcome(outcome, line.settings)
        synthesise(source, out, config=config)
        assert final_files(out) == final_files(tmp_path / "whole")

    same_bytes()


@pytest.mark.parametrize("when", ["before the lines", "before a document"])
def test_a_collection_that_is_replaced_under_a_run_is_named(
    generated: Callable[[int], Path], when: str
) -> None:
    source, other = generated(3), generated(5)
    collection = Collection(source)
    lines = [] if when == "before the lines" else list(collection.lines(b"s" * 16))
    (other / "documents.jsonl").replace(source / "documents.jsonl")

    with pytest.raises(CollectedFolderError, match="was replaced meanwhile"):
        lines[0].document() if lines else list(collection.lines(b"s" * 16))


def test_another_collection_is_another_corpus_for_the_extractive_stages(
    tmp_path: Path,
    folder: Path,
    package: str,
    settings: SynthConfig,
    final_files: Callable[[Path], dict[str, bytes]],
) -> None:
    out = tmp_path / "data"
    collect([f"python:{package}"], tmp_path / "c", config=settings.collect)
    synthesise(tmp_path / "c", out)
    collect([folder, f"python:{package}"], tmp_path / "c", config=settings.collect)
    synthesise(tmp_path / "c", out)
    synthesise(tmp_path / "c", tmp_path / "whole")
    assert final_files(out) == final_files(tmp_path / "whole")
