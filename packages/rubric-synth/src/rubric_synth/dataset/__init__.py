"""The dataset folder: what is in it, and how it is written.

layout       names of the files
report       what a run tells of what it wrote
provenance   where the tasks come from
manifest     counts, costs, origins and hashes
asked        the calls that a model answered
splits       one split as JSON lines and as Parquet
card         README.md, which `datasets.load_dataset` reads
reading      a folder read back
writing      outcomes into all of them, together
"""

from __future__ import annotations

from rubric_synth.dataset.card import asked_of_models
from rubric_synth.dataset.manifest import (
    CARD_FILE,
    MANIFEST_FILE,
    REJECTED_FILE,
    SPLITS,
    Manifest,
    Provenance,
    Usage,
)
from rubric_synth.dataset.splits import read_manifest, read_rejections, split_path
from rubric_synth.dataset.writing import SynthReport, write_dataset

__all__ = [
    "CARD_FILE",
    "MANIFEST_FILE",
    "REJECTED_FILE",
    "SPLITS",
    "Manifest",
    "Provenance",
    "SynthReport",
    "Usage",
    "asked_of_models",
    "read_manifest",
    "read_rejections",
    "split_path",
    "write_dataset",
]
