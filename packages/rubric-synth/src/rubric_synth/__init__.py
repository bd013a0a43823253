"""From technical documents to tasks with rubrics."""

from __future__ import annotations

from rubric_synth.check import CheckReport, check_dataset
from rubric_synth.collect import CollectReport, collect, read_collected
from rubric_synth.config import (
    CollectConfig,
    ExtractiveConfig,
    QualityConfig,
    SynthConfig,
    load_config,
)
from rubric_synth.document import Document
from rubric_synth.errors import (
    CollectedFolderError,
    DatasetFolderError,
    OutputError,
    SourceError,
    SynthError,
)
from rubric_synth.extractive import extractive_stages
from rubric_synth.pipeline import SynthReport, synthesise
from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.stages import (
    Analyst,
    CriterionDraft,
    Draft,
    Enricher,
    StageRefusal,
    Stages,
    Synthesiser,
)
from rubric_synth.stats import DatasetStatistics, dataset_statistics

__all__ = [
    "Analyst",
    "CheckReport",
    "CollectConfig",
    "CollectReport",
    "CollectedFolderError",
    "CriterionDraft",
    "DatasetFolderError",
    "DatasetStatistics",
    "Document",
    "Draft",
    "Enricher",
    "ExtractiveConfig",
    "OutputError",
    "QualityConfig",
    "Rejection",
    "RejectionReason",
    "SourceError",
    "StageRefusal",
    "Stages",
    "SynthConfig",
    "SynthError",
    "SynthReport",
    "Synthesiser",
    "check_dataset",
    "collect",
    "dataset_statistics",
    "extractive_stages",
    "load_config",
    "read_collected",
    "synthesise",
]
