"""From technical documents to tasks with rubrics."""

from __future__ import annotations

from rubric_synth.calls import CallTotals, DocumentCalls
from rubric_synth.check import CheckReport, check_dataset
from rubric_synth.collect.collection import CollectProgress, CollectReport, collect
from rubric_synth.collect.folder import read_collected
from rubric_synth.config import (
    CollectConfig,
    ExtractiveConfig,
    LLMConfig,
    QualityConfig,
    RayConfig,
    RecordFields,
    SynthConfig,
    load_config,
)
from rubric_synth.dataset.writing import SynthReport
from rubric_synth.document import Document
from rubric_synth.errors import (
    CollectedFolderError,
    DatasetFolderError,
    EngineError,
    OutputError,
    SourceError,
    SynthError,
    UnfinishedError,
    WorkFolderError,
)
from rubric_synth.extractive.prose_tasks import extractive_stages
from rubric_synth.pipeline.recorder import Progress
from rubric_synth.pipeline.run import synthesise
from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.stages import (
    Analyst,
    CriterionDraft,
    Draft,
    Enricher,
    StageRefusal,
    Stages,
    StagesFactory,
    Synthesiser,
)
from rubric_synth.stats.report import DatasetStatistics
from rubric_synth.stats.tally import dataset_statistics

__version__ = "0.1.0"

__all__ = [
    "Analyst",
    "CallTotals",
    "CheckReport",
    "CollectConfig",
    "CollectProgress",
    "CollectReport",
    "CollectedFolderError",
    "CriterionDraft",
    "DatasetFolderError",
    "DatasetStatistics",
    "Document",
    "DocumentCalls",
    "Draft",
    "EngineError",
    "Enricher",
    "ExtractiveConfig",
    "LLMConfig",
    "OutputError",
    "Progress",
    "QualityConfig",
    "RayConfig",
    "RecordFields",
    "Rejection",
    "RejectionReason",
    "SourceError",
    "StageRefusal",
    "Stages",
    "StagesFactory",
    "SynthConfig",
    "SynthError",
    "SynthReport",
    "Synthesiser",
    "UnfinishedError",
    "WorkFolderError",
    "check_dataset",
    "collect",
    "dataset_statistics",
    "extractive_stages",
    "load_config",
    "read_collected",
    "synthesise",
]
