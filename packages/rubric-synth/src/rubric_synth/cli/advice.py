"""What to tell whoever ran a command: whether its result can be used, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from rubric_synth.collect.collection import CollectReport
from rubric_synth.dataset.writing import SynthReport
from rubric_synth.rejection import remedies

_NAMED_REASONS: Final = 3


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
    done = report.documents - report.pending_documents
    if not done:
        return f"no task was accepted: none of {report.documents} documents is finished yet"
    of = f"{done} documents"
    if report.pending_documents:
        of += f" worked on, of {report.documents} collected"
    return f"no task was accepted out of {of}; {_main(report.rejected)}"


def few_accepted(report: SynthReport) -> str:
    """Warn, in one line, where most documents gave no task; "" where most did."""
    done = report.documents - report.pending_documents
    left_out = done - report.accepted_documents
    if left_out <= done // 2:
        return ""
    return f"{left_out} of {done} documents gave no task; {_main(report.rejected)}"


def few_collected(report: CollectReport) -> str:
    """Warn, in one line, where most documents were left out; "" where most were kept."""
    left_out = sum(report.rejected.values())
    if left_out <= report.documents:
        return ""
    read = left_out + report.documents
    return f"{left_out} of {read} documents were left out; {_main(report.rejected)}"


def _main(rejected: Mapping[str, int]) -> str:
    main = dict(islice(rejected.items(), _NAMED_REASONS))
    reasons = ", ".join(f"{reason} ({count})" for reason, count in main.items())
    advice = remedies(main) or "rejected.jsonl gives a detail for each"
    return f"main reasons: {reasons}. What to do: {advice}"


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


def unanswered(report: SynthReport) -> str:
    """Warn, in one line, of documents that another run goes on with; "" where there are none."""
    if not report.pending_documents:
        return ""
    why = ""
    if report.unanswered_documents:
        why = f", {report.unanswered_documents} of them without an answer from a model or judge"
    return f"{report.pending_documents} documents are pending{why}: another run goes on with them"


def spent(report: SynthReport) -> str:
    """Say in one line what the calls took; "" where there were none."""
    usage = report.usage
    if not usage.attempts:
        return ""
    cost = f"{usage.cost_usd:.4g} USD"
    if usage.unpriced_calls:
        cost += f" and {usage.unpriced_calls} calls without a known price"
        if usage.unpriced_calls >= usage.calls:
            cost = "cost not known (no `prices:`)"
    return (
        f"{usage.calls} calls over all runs: {usage.prompt_tokens} tokens read, "
        f"{usage.completion_tokens} written, {cost}"
    )
