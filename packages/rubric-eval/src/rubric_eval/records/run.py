"""What was evaluated, on what and how: the manifest, and measured values."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import metadata
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

import rubric_core
from rubric_eval.errors import EvalConfigError


class Record(BaseModel):
    """What is written down: it does not change, and holds what its fields say and no more."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""Of a model or judge in tables and file names."""


class Entry(Record):
    """A model or a judge of an evaluation."""

    name: Name
    fingerprint: str
    """SHA-256, in hexadecimal, of all that may change an answer or a judgement."""

    identity: dict[str, JsonValue]


CONTROL: Final = "control"
"""Kind of what no model wrote."""


class ModelEntry(Entry):
    """One model; two runs with the same fingerprint, that of the identity, share answers."""

    spec: str
    """As it was given, such as `policy:runs/q/base`; never a key."""

    prompt_form: str | None = None
    """How questions are put to it, as its responder says; see `rubric_core.SaysPromptForm`."""

    @property
    def is_control(self) -> bool:
        """Whether its answers are no model's: it is shown, and neither compared nor suspected."""
        return self.identity.get("kind") == CONTROL


class JudgeEntry(Entry):
    """One judge; its fingerprint is of model, prompt, parameters and router file."""


class Questions(Record):
    """What was asked."""

    source: str
    """Path or name that was given."""

    sha256: str
    """Of ids and texts of all questions, in order."""

    count: int = Field(ge=1)


class InputFile(Record):
    """A file that was read."""

    path: str
    """From the folder of the file that tells of it, with slashes."""

    sha256: str


class EvalRun(Record):
    """run.json: written before the first answer, and again with its status at the end."""

    format: Literal[1] = 1
    """Raised where an older version would take the content for something else."""

    kind: Literal["heldout", "transfer"]
    status: Literal["running", "finished", "failed"] = "running"
    started: str
    """ISO 8601, with a zone."""

    finished: str | None = None
    error: str | None = None
    models: tuple[ModelEntry, ...]
    judges: tuple[JudgeEntry, ...] = ()
    questions: dict[str, Questions]
    """By benchmark; the one key "heldout" in a held-out evaluation."""

    decoding: rubric_core.Decoding
    seeds: tuple[int, ...]
    samples: int = Field(default=1, ge=1)
    """Answers a question and seed."""

    template: str
    """Hash of what turns a question into a prompt, benchmark by benchmark."""

    suite: str = ""
    """Of a transfer evaluation."""

    templates: dict[str, str] = {}
    """`template` of each benchmark."""

    max_tokens: dict[str, int] = {}
    """Of an answer, benchmark by benchmark, in place of `decoding`'s."""

    stops: dict[str, tuple[str, ...]] = {}
    """Texts that end an answer, benchmark by benchmark, in place of `decoding`'s."""

    versions: dict[str, str]
    """Packages that took part."""

    files: tuple[InputFile, ...] = ()
    """Every file of a finished evaluation but this one and the ledger, which is a cache. They let
    accidents and careless edits be noticed; against forgery they are no protection."""

    @property
    def controls(self) -> frozenset[str]:
        """Names of the entries whose answers are no model's."""
        return frozenset(model.name for model in self.models if model.is_control)

    digest: str | None = None
    """SHA-256 of everything else here; None before the end."""


def now() -> str:
    """Return the time, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class EvalPlan:
    """How models are asked, whatever they are asked.

    Raises:
        ConfigError: no seed, one twice or below 0, or a share outside of [0, 1].
    """

    decoding: rubric_core.Decoding
    seeds: tuple[int, ...] = (0,)
    max_unavailable_frac: float = 0.05

    def __post_init__(self) -> None:
        """Refuse seeds and shares that can only be a mistake."""
        if (
            not self.seeds
            or len(set(self.seeds)) < len(self.seeds)
            or min(self.seeds) < 0
        ):
            raise EvalConfigError(
                f"seeds {list(self.seeds)!r}: give one or more different ones, 0 or above",
                location="seeds",
            )
        if not 0 <= self.max_unavailable_frac <= 1:
            raise EvalConfigError(
                f"max-unavailable-frac {self.max_unavailable_frac!r} must be from 0 to 1",
                location="max-unavailable-frac",
            )

    def run_of(
        self, models: Sequence[ModelEntry], *, packages: Sequence[str], **asked: Any
    ) -> EvalRun:
        """Return what run.json says of this plan alone.

        Args:
            models: in the order of the table.
            packages: that take part.
            asked: the fields of `EvalRun` that say what is asked.

        Raises:
            ConfigError: no model, or two with one name.
        """
        names = Counter(model.name for model in models)
        if not names or max(names.values()) > 1:
            raise EvalConfigError(
                f"models {list(names)!r}: give at least one, each with a name of its own as "
                "NAME=KIND:WHERE",
                location="models",
            )
        return EvalRun(
            started=now(),
            models=tuple(models),
            decoding=self.decoding,
            seeds=self.seeds,
            versions={name: metadata.version(name) for name in packages},
            **asked,
        )


class Measure(StrEnum):
    """What a value is."""

    REWARD = "reward"
    """Rubric reward in [0, 1]."""

    ACCURACY = "accuracy"
    """0 or 1 an item."""


_MANY: Final = 0.05
"""Share of thoughts that do not end from which on it is said what helps."""
_REMEDY: Final = (
    "raise --max-tokens, or switch thinking off with `chat_template_kwargs` (of a server that does "
    "not think, see that it has no reasoning parser)"
)


class ModelQuality(Record):
    """How the answers of one model to one benchmark came out, measured in one way."""

    benchmark: str
    """"heldout", or the name of a transfer task."""

    measure: Measure
    model: str
    judge: str | None = None
    """Name of the judge, for rewards."""

    seeds: tuple[int, ...]
    chance: float | None = None
    """Accuracy of guessing."""

    unavailable_frac: float = 0.0
    """Share of all answers that no model gave or no judge judged; they are left out."""

    invalid_frac: float = 0.0
    """Of judged answers; they count as reward 0."""

    truncated_frac: float | None = None
    no_answer_frac: float | None = None
    """Share of answers that say nothing: that are empty, or, of a benchmark, state no answer."""

    thought_frac: float | None = None
    """Share of answers with a thought before them, ended or not; None where nobody said."""

    unclosed_frac: float | None = None
    """Share of answers that are nothing but a thought that does not end."""

    tokens_mean: float | None = None
    """Of an answer with its thought."""

    reasons: dict[str, int] = Field(default_factory=dict)
    """Why answers are invalid or unavailable, with how many are."""

    by_fallback: dict[str, int] = Field(default_factory=dict)
    """How many answers each fallback of a `litellm_config` judged."""

    @property
    def thought_note(self) -> str:
        """What is to be said of the answers' thoughts; nothing where there are none."""
        if not self.thought_frac:
            return ""
        share = 100 * self.thought_frac
        unclosed = self.unclosed_frac or 0.0
        said = f"{self.model}: {share:.1f} % of its answers stand behind a thought"
        if not unclosed:
            return f"{said}, and all thoughts end"
        said = (
            f"{said}, {100 * unclosed:.1f} % are a thought that does not end, which "
            "earns nothing"
        )
        if unclosed < _MANY:
            return said
        return f"{said}: {_REMEDY}"


class Measured(ModelQuality):
    """N questions, K values each; ids, hashes and numbers alone."""

    fingerprint: str
    """The model's."""

    protocol: str
    """Decoding, template and judge as a JSON object: comparable only where it is the same."""

    prompt_form: str | None = None
    """How questions were put to the model, such as "chat"; None where it does not say."""

    ids: tuple[str, ...] = Field(min_length=1)
    clusters: tuple[str, ...]
    """Document of each question: what is resampled; the id itself where there is none."""

    prompts: tuple[str, ...]
    """prompt_sha256 of each question."""

    fields: tuple[str, ...] = ()
    """Field or subject of each question, for a breakdown; empty where unknown."""

    values_NK: tuple[tuple[float | None, ...], ...]
    """K = seeds · samples, seed-major; None where nothing could be measured."""

    answers_NK: tuple[tuple[str, ...], ...] = ()
    """`rubric_judge`'s `hash_answer` of each answer; for rewards."""

    criteria_z_N: tuple[dict[str, float], ...] = ()
    """Mean z over the K judged answers, by id where that repeats, else by kind; for rewards."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        n = len(self.ids)
        optional = {"fields", "answers_NK", "criteria_z_N"}
        for name in ("clusters", "prompts", "values_NK", *sorted(optional)):
            count = len(getattr(self, name))
            if count != n and (count or name not in optional):
                raise ValueError(f"{name} has {count} entries for {n} ids")
        if len(set(self.ids)) < n:
            raise ValueError("an id is there twice")
        if len({len(values) for values in self.values_NK}) > 1:
            raise ValueError("numbers of values a question differ")
        return self

    @property
    def means_N(self) -> tuple[float | None, ...]:
        """Mean over the values that a question has; None where it has none."""
        return tuple(map(present_mean, self.values_NK))

    @property
    def answers(self) -> int:
        """Of each question, K."""
        return len(self.values_NK[0])


def present_mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are there; None where there is none."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def reward_of(
    result: rubric_core.JudgeResult, rubric: rubric_core.Rubric
) -> float | None:
    """Return the reward of a judgement: 0 for an invalid one, None for one that never came."""
    if result.outcome is rubric_core.Outcome.UNAVAILABLE:
        return None
    return rubric_core.normalized_reward(result, rubric)


def criteria_z(
    result: rubric_core.JudgeResult, rubric: rubric_core.Rubric
) -> dict[str, float]:
    """Return z of each criterion that has a weight; nothing for a judgement that never came."""
    if result.outcome is rubric_core.Outcome.UNAVAILABLE:
        return {}
    scores = zip(
        rubric.ids, rubric_core.criterion_scores_z(result, rubric), strict=True
    )
    return {name: float(z) for name, z in scores if not math.isnan(z)}


def kinds_of(
    rubric: rubric_core.Rubric, pooling: rubric_core.Pooling
) -> dict[str, rubric_core.Pool]:
    """Return the pools of those criteria of a rubric that are not measured by their ids."""
    pools = (
        (criterion.id, pooling.pool(criterion))
        for criterion in rubric
        if criterion.weight > 0
    )
    return {name: pool for name, pool in pools if pool.id is None}


def pooled_z(
    criteria: Mapping[str, float], kinds: Mapping[str, rubric_core.Pool]
) -> dict[str, float]:
    """Return the mean z of the criteria of each pool, by its name.

    Args:
        criteria: z by id.
        kinds: as `kinds_of` gives them.
    """
    pools = ((kinds.get(name), name, z) for name, z in criteria.items())
    return mean_z({pool.name if pool else name: z} for pool, name, z in pools)


def mean_z(of_answers: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean z of each criterion over the answers that have one."""
    z_of: defaultdict[str, list[float]] = defaultdict(list)
    for criteria in of_answers:
        for name, z in criteria.items():
            z_of[name].append(z)
    return {name: sum(values) / len(values) for name, values in z_of.items()}
