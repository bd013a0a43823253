from rubric_synth.calls import CallTotals as CallTotals
from rubric_synth.calls import DocumentCalls as DocumentCalls
from rubric_synth.check import CheckReport as CheckReport
from rubric_synth.check import check_dataset as check_dataset
from rubric_synth.collect.collection import CollectProgress as CollectProgress
from rubric_synth.collect.collection import CollectReport as CollectReport
from rubric_synth.collect.collection import collect as collect
from rubric_synth.collect.folder import read_collected as read_collected
from rubric_synth.config import CollectConfig as CollectConfig
from rubric_synth.config import ExtractiveConfig as ExtractiveConfig
from rubric_synth.config import LLMConfig as LLMConfig
from rubric_synth.config import QualityConfig as QualityConfig
from rubric_synth.config import RayConfig as RayConfig
from rubric_synth.config import RecordFields as RecordFields
from rubric_synth.config import SynthConfig as SynthConfig
from rubric_synth.config import load_config as load_config
from rubric_synth.document import Document as Document
from rubric_synth.document import Rejection as Rejection
from rubric_synth.document import RejectionReason as RejectionReason
from rubric_synth.errors import CollectedFolderError as CollectedFolderError
from rubric_synth.errors import DatasetFolderError as DatasetFolderError
from rubric_synth.errors import EngineError as EngineError
from rubric_synth.errors import OutputError as OutputError
from rubric_synth.errors import SourceError as SourceError
from rubric_synth.errors import SynthError as SynthError
from rubric_synth.errors import UnfinishedError as UnfinishedError
from rubric_synth.errors import WorkFolderError as WorkFolderError
from rubric_synth.run.dataset.writing import SynthReport as SynthReport
from rubric_synth.run.pipeline.recording import Progress as Progress
from rubric_synth.run.pipeline.run import synthesise as synthesise
from rubric_synth.stages.extractive.prose_tasks import (
    extractive_stages as extractive_stages,
)
from rubric_synth.stages.stages import Analyst as Analyst
from rubric_synth.stages.stages import CriterionDraft as CriterionDraft
from rubric_synth.stages.stages import Draft as Draft
from rubric_synth.stages.stages import Enricher as Enricher
from rubric_synth.stages.stages import StageRefusal as StageRefusal
from rubric_synth.stages.stages import Stages as Stages
from rubric_synth.stages.stages import StagesFactory as StagesFactory
from rubric_synth.stages.stages import Synthesiser as Synthesiser
from rubric_synth.stats.report import DatasetStatistics as DatasetStatistics
from rubric_synth.stats.tally import dataset_statistics as dataset_statistics

__version__: str
