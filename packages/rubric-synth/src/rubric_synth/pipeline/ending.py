"""How a run ends: why it stopped, and whether its dataset is what another run would write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rubric_synth.dataset import CARD_FILE, MANIFEST_FILE, REJECTED_FILE, SPLITS, SynthReport
from rubric_synth.work import note_of_finished

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_synth.config import SynthConfig
    from rubric_synth.errors import UnfinishedCause
    from rubric_synth.pipeline.spending import Spending
    from rubric_synth.work import WorkFolder

_NOTE: Final = "dataset"
DATASET_FILES: Final = (
    *(f"{split}.{kind}" for split in SPLITS for kind in ("jsonl", "parquet")),
    REJECTED_FILE,
    CARD_FILE,
    MANIFEST_FILE,
)


def stopped_because(cause: UnfinishedCause, config: SynthConfig, spent: Spending) -> str:
    """Say why a run stopped and what to do."""
    match cause:
        case "cost":
            return (
                f"another call is expected to pass max_cost_usd={config.max_cost_usd:g}: "
                f"{spent.calls} calls have cost {spent.cost_usd:.4g} USD; raise it to go on"
            )
        case "unpriced":
            return (
                f"max_cost_usd={config.max_cost_usd:g} is set, and what {spent.unpriced_calls} of "
                f"{spent.calls} calls cost is not known: "
                "set `prices:` of the model, and of the judge where it is one, or leave out "
                "max_cost_usd"
            )
        case "unavailable":
            return (
                f"{config.max_unavailable_in_a_row} documents after each other got no answer "
                "(max_unavailable_in_a_row): see that model and judge answer"
            )
        case "interrupted":
            return "interrupted"


def spent_so_far(spent: Spending) -> str:
    """Say what all calls took, as the manifest does."""
    cost = f"{spent.cost_usd:.4g} USD"
    if spent.unpriced_calls:
        cost += f" and {spent.unpriced_calls} without a known price"
    return f"{spent.calls} calls so far, {cost}"


def unanswered(documents: int) -> str:
    """Say that documents got no answer, and what to do."""
    got = "document got" if documents == 1 else "documents got"
    return f"{documents} {got} no answer from a model or judge: see that they answer"


def note_written(report: SynthReport, folder: WorkFolder, making: str) -> None:
    """Remember a finished dataset, so that another run need not write it again."""
    content = {
        "making": making,
        "files": _states(report.out),
        "report": report.model_dump(mode="json", exclude={"out"}),
    }
    folder.set_note(_NOTE, json.dumps(content))


def written_before(out: Path, folder: WorkFolder, making: str) -> SynthReport | None:
    """Return the report of a finished dataset that is there untouched; None where it is not.

    Args:
        out: Dataset folder.
        folder: Its work folder.
        making: Digest of all that the bytes of the dataset depend on.
    """
    return _written(folder.note(_NOTE), out, making)


def written_on_read_only(out: Path, work: Path, making: str) -> SynthReport | None:
    """Do the same where the work folder cannot be opened for writing."""
    return _written(note_of_finished(work, _NOTE), out, making)


def _written(note: str | None, out: Path, making: str) -> SynthReport | None:
    if note is None:
        return None
    content = json.loads(note)
    if content["making"] != making or content["files"] != _states(out):
        return None
    return SynthReport.model_validate({**content["report"], "out": out})


def _states(out: Path) -> dict[str, list[int]]:
    """Return size and time of the last change of each file of a dataset."""
    found = {name: out / name for name in DATASET_FILES if (out / name).is_file()}
    states = {name: path.stat() for name, path in found.items()}
    return {name: [state.st_size, state.st_mtime_ns] for name, state in states.items()}
