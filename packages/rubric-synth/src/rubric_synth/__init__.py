"""From technical documents to tasks with rubrics."""

from __future__ import annotations

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

__all__ = [
    "Analyst",
    "CollectConfig",
    "CollectReport",
    "CollectedFolderError",
    "CriterionDraft",
    "DatasetFolderError",
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
    "collect",
    "extractive_stages",
    "load_config",
    "read_collected",
    "synthesise",
]
