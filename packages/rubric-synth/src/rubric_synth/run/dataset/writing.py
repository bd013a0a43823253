"""Writer of a dataset folder: outcomes are split, checked for repetitions, counted and hashed."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rubric_core.files import read_file
from rubric_synth.calls import CallTotals
from rubric_synth.collect.duplicates.passages import PassageIndex
from rubric_synth.collect.duplicates.question_index import QuestionIndex
from rubric_synth.config import Stage, SynthConfig
from rubric_synth.document import (
    DocumentOutcome,
    Rejection,
    RejectionReason,
    most_first,
    rejected,
)
from rubric_synth.errors import DatasetFolderError
from rubric_synth.events import log_finished
from rubric_synth.files import HashedFile, json_line, json_page, writing
from rubric_synth.lookup.recall import ContextCounts
from rubric_synth.lookup.sections import Lookup
from rubric_synth.run.dataset import folder
from rubric_synth.run.dataset.folder import (
    MANIFEST_FILE,
    PARQUET_FILES,
    SPLITS,
    DatasetCounts,
    Manifest,
    ParquetRows,
    Provenance,
    Usage,
)


def asked_of_models(usage: Usage) -> Usage:
    """Return the usage without the stages that took neither tokens nor money nor an unknown price.

    A judge that is a program is counted like any other, and costs nothing.
    """
    by_stage: dict[Stage, CallTotals] = {
        stage: totals
        for stage, totals in usage.by_stage.items()
        if _asked_a_model(totals)
    }
    if not by_stage:
        if _asked_a_model(usage.total):
            return Usage(total=usage.total)
        return Usage()
    left_out = CallTotals()
    for stage in usage.by_stage.keys() - by_stage:
        left_out += usage.by_stage[stage]
    return Usage(total=usage.total - left_out, by_stage=by_stage)


def _asked_a_model(totals: CallTotals) -> bool:
    tokens = totals.prompt_tokens + totals.completion_tokens
    return bool(tokens or totals.cost_usd or totals.unpriced_calls)


_CARD = read_file(Path(__file__).parent / "templates" / "card.md.j2").decode()
_SIZES = {
    1_000: "n<1K",
    10_000: "1K<n<10K",
    100_000: "10K<n<100K",
    1_000_000: "100K<n<1M",
}


def card_text(manifest: Manifest, *, parquet: bool) -> str:
    """Return the card of a dataset.

    Args:
        manifest: What the dataset holds; the hashes are not looked at.
        parquet: Whether Parquet files stand beside the JSON lines; then these are loaded.
    """
    # Loaded at its first use: `import rubric_synth` stays quick.
    from rubric_judge.ui.page.rendering import text_template

    return text_template(_CARD).render(
        m=manifest,
        size=_size_category(sum(manifest.tasks.values())),
        asked=asked_of_models(manifest.usage).total,
        splits=SPLITS,
        parquet=parquet,
    )


def _size_category(tasks: int) -> str:
    """Return the size of a dataset as a tag of its card."""
    for limit, name in _SIZES.items():
        if tasks < limit:
            return name
    return "n>1M"


class SynthReport(DatasetCounts):
    """Counts of a dataset that was written, its folder and its usage."""

    out: Path
    """Folder of the dataset."""
    usage: CallTotals = CallTotals()
    """Totals of all calls for this dataset, earlier runs and unfinished documents included."""
    gone_documents: int = 0
    """Documents of an earlier run into the folder that the collection does not hold any more."""


_SHORT_HASH = 12


def write_dataset(
    out: Path,
    outcomes: Iterable[DocumentOutcome],
    *,
    config: SynthConfig,
    provenance: Provenance,
    lookup: Lookup | None = None,
) -> SynthReport:
    """Write a dataset folder, row by row, in memory that does not grow with the rows.

    Writes train, validation and test as `.jsonl`, with `.parquet` beside them where pyarrow is
    installed, `rejected.jsonl`, `manifest.json` and the card `README.md`. They take their places
    together, when all are complete and on disk: a run that fails leaves an older dataset whole.
    Statistics of an older dataset are removed then.
    Among questions that are the same or nearly so the first is kept, and so it is with passages
    that different splits would share. No time of day is in any file.

    Args:
        out: Folder to write; made if missing.
        outcomes: One for each document that is not pending, in the order of the collection.
        config: Shares of the splits, and what makes two questions, or two passages, one.
        provenance: Where the outcomes come from.
        lookup: Gives each task its context; None for closed-book tasks.

    Raises:
        OutputError: A file could not be written.
        DatasetFolderError: A row is not a task, or outcomes and pending documents do not add up.
    """
    stale = () if folder.can_write_parquet() else PARQUET_FILES
    names = [name for name in folder.DATASET_FILES if name not in stale]
    with writing([out / name for name in names]) as opened:
        files = dict(zip(names, opened, strict=True))
        rows = _Rows(out, files, config, lookup)
        with contextlib.closing(rows):
            for outcome in outcomes:
                rows.add(outcome)
            manifest = rows.manifest(provenance)
        files[MANIFEST_FILE].write(json_page(manifest.model_dump(mode="json")))
    for name in (*stale, *folder.STATISTICS_FILES):  # of an older run
        (out / name).unlink(missing_ok=True)
    names_of_counts = set(DatasetCounts.model_fields)
    counts = manifest.model_dump(include=names_of_counts)
    report = SynthReport(out=out, usage=manifest.usage.total, **counts)
    log_finished("synth.dataset.written", tasks=report.tasks, rejected=report.rejected)
    return report


class _Rows:
    """The open files of a dataset, and its counts."""

    def __init__(
        self,
        out: Path,
        files: Mapping[str, HashedFile],
        config: SynthConfig,
        lookup: Lookup | None,
    ) -> None:
        self._out = out
        self._lookup = lookup
        self._context = ContextCounts()
        self._files = files
        self._config = config
        self._parquet: dict[str, ParquetRows] = {}
        has_context = lookup is not None
        for split, name in zip(SPLITS, PARQUET_FILES, strict=True):
            if name in files:
                rows = ParquetRows(files[name], out / name, has_context=has_context)
                self._parquet[split] = rows
        self._questions = QuestionIndex(config.quality.near_duplicate_question_jaccard)
        self._passages = PassageIndex(config.quality.near_duplicate_passage_containment)
        self._documents = 0
        self._accepted = 0
        self._unanswered = 0
        self._tasks: dict[str, int] = dict.fromkeys(SPLITS, 0)
        self._rejected: defaultdict[Stage, Counter[str]] = defaultdict(Counter)
        self._used: defaultdict[Stage, CallTotals] = defaultdict(CallTotals)

    def add(self, outcome: DocumentOutcome) -> None:
        """Write the outcome of one document."""
        for rejection in outcome.rejections:
            self._reject(rejection)
        split = self._config.split_of(outcome.doc_hash)
        written = [self._write(task, split, outcome) for task in outcome.tasks]
        for stage, totals in outcome.totals.items():
            self._used[stage] += totals
        self._documents += 1
        self._unanswered += not outcome.is_settled
        self._accepted += outcome.is_settled and any(written)

    def close(self) -> None:
        """Give unfinished files up."""
        for rows in self._parquet.values():
            rows.close()

    def manifest(self, provenance: Provenance) -> Manifest:
        """Complete the Parquet files, write the card, and return the manifest of all of it.

        Raises:
            DatasetFolderError: Outcomes and pending documents are not all of the collection.
        """
        for rows in self._parquet.values():
            rows.finish()
        if self._documents + provenance.pending != provenance.documents:
            raise DatasetFolderError(
                f"{self._documents} documents with an outcome and {provenance.pending} pending "
                f"ones are not the {provenance.documents} collected; run again",
                path=self._out,
            )
        rejected_by_stage: dict[Stage, dict[str, int]] = {}
        for stage, counts in sorted(self._rejected.items()):
            rejected_by_stage[stage] = most_first(counts)
        model = None
        if provenance.model is not None:
            model = folder.published(provenance.model)
        config = folder.published(self._config.model_dump(mode="json"))
        if provenance.collect is not None:
            config["collect"] = provenance.collect
        context = None
        if self._lookup is not None:
            context = self._context
        manifest = Manifest(
            versions=folder.versions(),
            collected_sha256=provenance.collected_sha256,
            documents=provenance.documents,
            accepted_documents=self._accepted,
            rejected_documents=self._documents - self._accepted - self._unanswered,
            pending_documents=provenance.pending + self._unanswered,
            unanswered_documents=self._unanswered,
            tasks=self._tasks,
            rejected=most_first(sum(self._rejected.values(), Counter[str]())),
            rejected_by_stage=rejected_by_stage,
            model=model,
            judge=folder.without_key(provenance.judge),
            prompts=dict(sorted(provenance.prompts.items())),
            usage=self._usage(provenance),
            context=context,
            config=config,
            sha256={},
        )
        card = card_text(manifest, parquet=bool(self._parquet))
        self._files[folder.CARD_FILE].write(card.encode())
        hashes = {name: file.sha256 for name, file in self._files.items()}
        del hashes[MANIFEST_FILE]
        return manifest.model_copy(update={"sha256": hashes})

    def _usage(self, provenance: Provenance) -> Usage:
        """Return the usage of all calls, and how much of it no outcome accounts for."""
        spent: Mapping[Stage, CallTotals] = self._used
        if provenance.spent is not None:
            spent = provenance.spent
        total = sum(spent.values(), CallTotals())
        used = sum(self._used.values(), CallTotals())
        return Usage(
            total=total,
            by_stage=dict(sorted(spent.items())),
            unfinished=_rest(total, used),
        )

    def _write(
        self,
        task: dict[str, Any],
        split: str,
        outcome: DocumentOutcome,
    ) -> bool:
        """Write a task, or its rejection; return whether the task was written."""
        name = outcome.doc_hash[:_SHORT_HASH]
        reason = None
        detail = ""
        twin = self._questions.find_or_add(task["question"], name)
        if twin:
            reason = RejectionReason.DUPLICATE_QUESTION
            detail = f"of a question of document {twin}"
        else:
            twin = self._passages.find_or_add(task["passage"], split, name)
            if twin:
                reason = RejectionReason.DUPLICATE_PASSAGE
                detail = f"of a passage of document {twin}, in another split"
        if self._lookup is not None and reason is None:
            task, counts = self._lookup.add_to(task, split=split)
            self._context += counts
            if not counts.tasks:
                reason = RejectionReason.NO_CONTEXT
                detail = f"{counts.passed_over} sections passed over"
        if reason is not None:
            self._reject(rejected(outcome, "quality", reason, detail))
            return False
        line = json_line(task)
        self._files[f"{split}.jsonl"].write(line)
        if split in self._parquet:
            self._parquet[split].add(line)
        self._tasks[split] += 1
        return True

    def _reject(self, rejection: Rejection) -> None:
        line = json_line(rejection.model_dump(mode="json"))
        self._files[folder.REJECTED_FILE].write(line)
        self._rejected[rejection.stage][str(rejection.reason)] += 1


def _rest(total: CallTotals, used: CallTotals) -> CallTotals:
    """Return what is left of a total; nothing where all calls and tokens were used."""
    left = total - used
    if not (left.calls or left.prompt_tokens or left.completion_tokens):
        return CallTotals()
    return left.model_copy(update={"cost_usd": round(left.cost_usd, 9)})
