"""What to tell whoever ran `rubric-synth run`: whether the dataset can be used, and what to do."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from rubric_synth.rejection import RejectionReason

if TYPE_CHECKING:
    from rubric_synth.pipeline import SynthReport

_NAMED_REASONS: Final = 3
_REMEDIES: Final = {
    RejectionReason.NO_PARAMETERS: (
        "document parameters in the docstrings (numpydoc, Google or Sphinx), "
        "or choose a package that does"
    ),
    RejectionReason.NO_SUMMARY: "begin each docstring with a sentence",
    RejectionReason.NO_PASSAGE: (
        "collect longer documents, or lower synthesiser.min_passage_words in the configuration"
    ),
    RejectionReason.NO_QUESTION: "collect documents in complete English sentences",
    RejectionReason.TOO_FEW_CRITERIA: (
        "collect documents that say more, or lower quality.min_criteria in the configuration"
    ),
    RejectionReason.LOW_REFERENCE_REWARD: (
        "lower quality.min_reference_reward in the configuration, or repair the synthesiser"
    ),
    RejectionReason.JUDGE_UNAVAILABLE: "see that the judge answers",
    RejectionReason.STAGE_FAILED: "see rejected.jsonl for the place of the fault",
}


def fatal_shortfall(report: SynthReport) -> str:
    """Say why nothing can be trained on a dataset and what to do; "" where something can."""
    if report.tasks["train"]:
        return ""
    total = sum(report.tasks.values())
    if total:
        return (
            f"no task for training: all {total} fell into validation and test, which documents "
            f"do by their hash; {report.documents} documents are too few, collect more"
        )
    if not report.documents:
        return "no task was accepted: there was no document; collect more sources"
    main = list(islice(report.rejected.items(), _NAMED_REASONS))
    reasons = ", ".join(f"{reason} ({count})" for reason, count in main)
    remedies = [_REMEDIES[RejectionReason(r)] for r, _ in main if RejectionReason(r) in _REMEDIES]
    advice = "; ".join(remedies) or "rejected.jsonl in the dataset gives a detail for each"
    return (
        f"no task was accepted out of {report.documents} documents; "
        f"main reasons: {reasons}. What to do: {advice}"
    )


def empty_splits(report: SynthReport) -> str:
    """Warn, in one line, of held-out splits without a task; "" where there are none."""
    empty = [split for split in ("validation", "test") if not report.tasks[split]]
    if not empty:
        return ""
    verb = "has" if len(empty) == 1 else "have"
    return (
        f"{' and '.join(empty)} {verb} no task: {report.accepted_documents} documents are too few "
        "to fill every split; collect more"
    )
