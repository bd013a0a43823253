"""Configuration of collection and synthesis: frozen, checked, read from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rubric_core import split_of
from rubric_core.configuration import validated
from rubric_core.errors import shortened
from rubric_core.schema.sealed import Many
from rubric_judge import ClaimConfig, ModelConfig
from rubric_judge.config import HybridConfig, JudgeConfig, JudgeSpec
from rubric_judge.ui.yaml_files import read_yaml, yaml_place
from rubric_synth.tables import word_set

Stage = Literal["collect", "analyse", "synthesise", "enrich", "quality"]
"""Stage at which a document can be left out."""

_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_PositiveShare = Annotated[float, Field(gt=0.0, le=1.0)]
_ProperShare = Annotated[float, Field(gt=0.0, lt=1.0)]
_Count = Annotated[int, Field(ge=1)]

TaskType = Literal["open", "quantitative", "code"]
Corruption = Literal["half", "first_sentence", "terms", "numbers"]


FEWEST_BY_RULES = 3
"""Facts of a task that rules write about prose."""
KNOWN_LANGUAGES = word_set("languages")
"""Codes that the library that tells languages knows."""


class Frozen(BaseModel):
    """A value that nothing changes and that shows no input in its errors: a key may be in it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class _Config(Frozen):
    model_config = ConfigDict(allow_inf_nan=False, use_attribute_docstrings=True)


class RecordFields(_Config):
    """Where a record (JSON, Parquet, Hugging Face) holds what: the first name it has counts."""

    id: Many[str] = ("osti_id", "id", "doi", "identifier")
    """Names the record within its file; a record without one is named by its number."""
    title: Many[str] = ("title",)
    """Left out, the first heading of the text."""
    description: Many[str] = ("description", "abstract")
    """Comes before the full text, or alone where there is none."""
    text: Many[str] = ("text", "full_text", "fulltext", "body", "content")
    """The full text: a string, or a list of strings, one a paragraph."""


class CollectConfig(_Config):
    """Requirements of a document to be collected."""

    min_document_words: _Count = 30
    """Documents with fewer words are too short."""
    max_document_bytes: int = Field(default=5_000_000, ge=1_000)
    """Texts above this size, in UTF-8, are too long; the file that holds one may be larger."""
    near_duplicate_jaccard: _PositiveShare = 0.5
    """Two documents of prose that share more than this of their word shingles, as MinHash
    estimates it, are near duplicates."""
    near_duplicate_containment: _PositiveShare = 0.5
    """Where two documents of prose share more than this of the word shingles of the shorter, the
    shorter is a near duplicate: a page beside the handbook that it is part of."""
    near_duplicate_cosine: _PositiveShare = 0.55
    """Two API entries whose TF-IDF vectors are closer than this are near duplicates: their common
    layout says nothing."""
    languages: Many[str] = ("en",)
    """Codes of the languages that are kept, in ISO 639 (`en`, `de`); empty for all."""
    fields: RecordFields = RecordFields()
    """Names of the fields of records."""
    conversion_timeout_s: _Count = 60
    """An HTML or PDF file, or other markup, that takes longer to read is left out."""

    @field_validator("languages")
    @classmethod
    def _knows_them(cls, languages: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [code for code in languages if code not in KNOWN_LANGUAGES]
        if not unknown:
            return languages
        codes = ", ".join(repr(shortened(code, 20)) for code in unknown)
        known = ", ".join(sorted(KNOWN_LANGUAGES))
        raise ValueError(f"{codes}: no known code of a language; known are {known}")


class ExtractiveConfig(_Config):
    """The synthesiser that needs no model: every word comes from the document."""

    type: Literal["extractive"] = "extractive"
    """Name of the synthesiser."""
    questions_per_document: int = Field(default=3, ge=1, le=5)
    """Most questions from one document (K_d), each about a passage of its own."""
    key_terms: int = Field(default=5, ge=2, le=8)
    """Most expected keywords of a criterion."""
    min_passage_words: int = Field(default=120, ge=30)
    """A passage of a prose document has at least this many words."""
    max_passage_words: int = Field(default=900, ge=60)
    """And at most this many."""


class LLMConfig(_Config):
    """Three stages that ask a language model."""

    type: Literal["llm"] = "llm"
    """Name of the synthesiser."""
    model: ModelConfig = Field(examples=["{model: openai/gpt-4.1-mini}"])
    """The model, where it is, its limits and prices."""
    questions_per_document: int = Field(default=3, ge=1, le=10)
    """Most questions from one document (K_d)."""
    document_chars: int = Field(default=50_000, ge=500)
    """The model reads at most this many characters of a document: its richest parts."""
    task_types: Many[TaskType] = Field(default=("open",), min_length=1)
    """Kinds of questions to ask for; quantitative and code ones hold executable checks."""


SynthesiserConfig = Annotated[ExtractiveConfig | LLMConfig, Field(discriminator="type")]


class QualityConfig(_Config):
    """Requirements of a task to enter the dataset."""

    min_criteria: _Count = 5
    """Fewest criteria of a rubric; 3 by default where rules write it, which ask of prose only what
    has one answer."""
    max_criteria: _Count = 10
    """Most criteria of a rubric."""
    min_total_weight: float = Field(default=5.0, gt=0.0)
    """Least total weight W of a rubric."""
    leak_words: int = Field(default=8, ge=3)
    """A run of this many words shared by question and passage or rubric is a leak."""
    min_reference_reward: _Share = 0.7
    """The reference answer, judged by its own rubric, earns at least this reward."""
    max_empty_reward: _Share = 0.05
    """An empty answer earns at most this reward."""
    max_echo_reward: _Share = 0.35
    """The question, given back as the answer, earns at most this reward."""

    min_discrimination: _Share = 0.1
    """The reference answer earns at least this much more than a corrupted copy of it."""
    corruptions: Many[Corruption] = Field(default=("half",), min_length=1)
    """How copies are corrupted, each one more call of the judge: `half` of the sentences left out,
    all but the `first_sentence` left out, `terms` of the rubric replaced by other words of the
    passage, or `numbers` changed."""
    near_duplicate_question_jaccard: _PositiveShare = 0.9
    """Two questions that share more than this of their runs of three words are one."""
    near_duplicate_passage_containment: _PositiveShare = 0.5
    """Two passages of different splits that share more than this of the word shingles of the
    shorter are one: only the first of them makes tasks."""
    judge: JudgeSpec = ClaimConfig()
    """Scores reference, empty, echoed and corrupted answers."""

    @model_validator(mode="after")
    def _ordered(self) -> QualityConfig:
        if self.max_criteria < self.min_criteria:
            raise ValueError(
                f"max_criteria {self.max_criteria} is below min_criteria {self.min_criteria}"
            )
        return self

    def limit(self, key: str) -> str:
        """Return a value and its key, as a detail of a rejection names them."""
        return f"the {getattr(self, key):g} of quality.{key}"


class ContextConfig(_Config):
    """Context that the policy may look up for a question; `bm25:2` is short for `sections: 2`."""

    retriever: Literal["bm25"] = "bm25"
    """How sections of the collected documents are found: by the words of the question."""
    sections: int = Field(ge=1, le=20, examples=[2])
    """Most sections of a context, the best first."""
    section_words: int = Field(default=180, ge=30, le=2_000)
    """A section has at most this many words, some 250 tokens of technical English."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        retriever, mark, number = value.partition(":")
        if retriever not in RETRIEVERS:
            known = ", ".join(RETRIEVERS)
            raise ValueError(
                f"{shortened(retriever, 40)!r} is no retriever; known are {known}: write "
                "bm25:2 for the two best sections"
            )
        sections = 0
        if mark and number.isascii() and number.isdigit():
            sections = int(number[:9])
        if not sections:
            raise ValueError(
                f"{shortened(value, 40)!r}: a number of sections, 1 or more, follows the "
                "colon, as in bm25:2"
            )
        return {"retriever": retriever, "sections": sections}


RETRIEVERS = ("bm25",)
"""Names of the retrievers that find sections."""


class RayConfig(_Config):
    """The Ray engine: documents in work spread over actors."""

    address: str | None = None
    """Address of a running cluster; left out, the cluster that this process is in, `RAY_ADDRESS`
    names or `ray start` has made here, or else a new one."""
    actors: int | None = Field(default=None, ge=1)
    """Workers; left out, one for each CPU of the cluster."""
    cpus_per_actor: float = Field(default=1.0, gt=0.0)
    """CPUs that Ray reserves for each."""


class SynthConfig(_Config):
    """Settings of all steps from documents to a dataset."""

    collect: CollectConfig = CollectConfig()
    """Collection."""
    synthesiser: SynthesiserConfig = ExtractiveConfig()
    """The three stages."""
    quality: QualityConfig = QualityConfig()
    """Checks of each task."""
    max_concurrency: int = Field(default=8, ge=1, le=65_536)
    """Documents in work at one time, over all workers; `model.limits` bounds the calls."""
    engine: Literal["local", "ray"] = "local"
    """`local`: this machine. `ray`: actors on a Ray cluster."""
    processes: int | None = Field(
        default=None, ge=1, le=256, exclude_if=lambda processes: processes is None
    )
    """Processes of `engine: local` where no model is asked; left out, one for each CPU, at most 8,
    each with 100 documents and more."""
    ray: RayConfig = RayConfig()
    """Settings of `engine: ray`."""
    context: ContextConfig | None = Field(
        default=None, exclude_if=lambda context: context is None, examples=["bm25:2"]
    )
    """Context that the policy may look up for each question; left out, tasks are closed-book."""
    max_cost_usd: float | None = Field(default=None, gt=0.0)
    """Stop before the calls of this dataset, all runs together, cost more; needs known prices."""
    max_unavailable_in_a_row: _Count = 50
    """Stop when this many documents in a row got no answer from a model or judge."""
    train_frac: _ProperShare = 0.70
    """Share of documents for training."""
    validation_frac: _ProperShare = 0.15
    """Share of documents for validation; the rest is the test split."""

    @property
    def model(self) -> ModelConfig | None:
        """The model that writes; None where a program does."""
        if isinstance(self.synthesiser, LLMConfig):
            return self.synthesiser.model
        return None

    def split_of(self, doc_hash: str) -> str:
        """Return the split of a document, and so of its tasks."""
        return split_of(
            doc_hash, train=self.train_frac, validation=self.validation_frac
        )

    @property
    def judge_model(self) -> JudgeConfig | None:
        """The model that judges; None where a program or a plugin does."""
        reader = reader_of(self.quality.judge)
        if isinstance(reader, JudgeConfig):
            return reader
        return None

    @model_validator(mode="before")
    @classmethod
    def _fewer_criteria_by_rules(cls, values: object) -> object:
        """Let tasks that rules write have fewer criteria, unless something else is said."""
        if not isinstance(values, Mapping):
            return values
        settings = cast("Mapping[str, object]", values)
        synthesiser = settings.get("synthesiser", {})
        quality = settings.get("quality", {})
        if isinstance(synthesiser, LLMConfig) or not isinstance(quality, Mapping):
            return settings
        if isinstance(synthesiser, Mapping) and "model" in synthesiser:
            return settings
        quality_settings: dict[str, object] = {"min_criteria": FEWEST_BY_RULES}
        quality_settings.update(cast("Mapping[str, object]", quality))
        return {**settings, "quality": quality_settings}

    @model_validator(mode="after")
    def _leaves_a_test_split(self) -> SynthConfig:
        if self.train_frac + self.validation_frac >= 1.0:
            raise ValueError(
                f"train_frac {self.train_frac} and validation_frac {self.validation_frac} "
                "leave nothing for the test split; their sum must stay below 1"
            )
        return self


def reader_of(judge: JudgeSpec) -> JudgeSpec:
    """Return the judge that reads: of a hybrid one, the judge behind its programs."""
    if isinstance(judge, HybridConfig):
        return judge.judge
    return judge


def load_config(path: Path) -> SynthConfig:
    """Read a YAML file.

    Raises:
        ConfigError: The file is missing, is not a YAML mapping, or holds a key that is unknown,
            wrong, or there twice.
    """
    content = read_yaml(path)
    values: object = {} if content is None else content
    place = partial(yaml_place, path)
    return validated(SynthConfig, values, source=place, folder=path.parent)
