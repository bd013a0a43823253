"""The manifest of an evaluation, and measured values."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import metadata
from typing import Annotated, Any, Literal, Self, TypedDict

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

import rubric_core
from rubric_core import Decoding, JudgeResult, Outcome, Pool, Rubric, Thought
from rubric_eval.errors import EvalConfigError


class Record(BaseModel):
    """The base of everything that is written to files: frozen, and closed to other fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""Name of a model or judge in tables and file names."""


class Entry(Record):
    """A model or a judge of an evaluation."""

    name: Name
    fingerprint: str
    """SHA-256, in hexadecimal, of all that may change an answer or a judgement."""

    identity: dict[str, JsonValue]


CONTROL = "control"
"""Kind of answers that no model wrote."""


class ModelEntry(Entry):
    """One model; two runs with the same fingerprint, that of the identity, share answers."""

    spec: str
    """Specification as the user gave it, such as `policy:runs/q/base`; never a key."""

    prompt_form: str | None = None
    """Form of its prompts, as its responder says; see `rubric_core.SaysPromptForm`."""

    @property
    def is_control(self) -> bool:
        """Whether its answers are no model's: it is shown, and neither compared nor suspected."""
        return self.identity.get("kind") == CONTROL


class JudgeEntry(Entry):
    """One judge; its fingerprint is of model, prompt, parameters and router file."""


class Questions(Record):
    """A set of questions."""

    source: str
    """Path or name that the user gave."""

    sha256: str
    """Hash of ids and texts of all questions, in order."""

    count: int = Field(ge=1)


class InputFile(Record):
    """A file that was read."""

    path: str
    """Path from the folder of the file that lists it, with slashes."""

    sha256: str


class EvalRun(Record):
    """run.json: written before the first answer, and again with its status at the end."""

    format: Literal[1] = 1
    """Version of the format; raised if an older version would misread the content."""

    kind: Literal["heldout", "transfer"]
    status: Literal["running", "finished", "failed"] = "running"
    started: str
    """ISO 8601, with a zone."""

    finished: str | None = None
    error: str | None = None
    models: tuple[ModelEntry, ...]
    judges: tuple[JudgeEntry, ...] = ()
    questions: dict[str, Questions]
    """Questions by benchmark; the only key is "heldout" in a held-out evaluation."""

    decoding: Decoding
    seeds: tuple[int, ...]
    samples: int = Field(default=1, ge=1)
    """Number of answers to each question and seed."""

    template: str
    """Hash of the templates that turn questions into prompts, benchmark by benchmark."""

    suite: str = ""
    """Name of the suite of a transfer evaluation."""

    templates: dict[str, str] = {}
    """`template` of each benchmark."""

    max_tokens: dict[str, int] = {}
    """Most tokens of an answer, benchmark by benchmark, in place of `decoding`'s."""

    stops: dict[str, tuple[str, ...]] = {}
    """Texts that end an answer, benchmark by benchmark, in place of `decoding`'s."""

    versions: dict[str, str]
    """Versions of the packages that took part."""

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
    """The settings of an evaluation that do not depend on its questions.

    Raises:
        ConfigError: no seed, one twice or below 0, or a share outside of [0, 1].
    """

    decoding: Decoding
    seeds: tuple[int, ...] = (0,)
    max_unavailable_frac: float = 0.05

    def __post_init__(self) -> None:
        """Refuse seeds and shares that can only be a mistake."""
        has_repeated = len(set(self.seeds)) < len(self.seeds)
        if not self.seeds or has_repeated or min(self.seeds) < 0:
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
        self, models: Sequence[ModelEntry], *, packages: Sequence[str], **fields: Any
    ) -> EvalRun:
        """Return the manifest of this plan.

        Args:
            models: the models, in the order of the table.
            packages: names of the packages that take part.
            fields: the fields of `EvalRun` about the questions.

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
            **fields,
        )


class Measure(StrEnum):
    """The kinds of measured values."""

    REWARD = "reward"
    """Rubric reward in [0, 1]."""

    ACCURACY = "accuracy"
    """0 or 1 an item."""


_MANY = 0.05
"""Least share of thoughts without an end for which the note names a remedy."""
_REMEDY = (
    "raise --max-tokens, or switch thinking off with `chat_template_kwargs` (of a server that does "
    "not think, see that it has no reasoning parser)"
)


class ModelQuality(Record):
    """Facts on the answers of one model to one benchmark, measured in one way."""

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
    """Share of all answers that did not come or were not judged; they are left out."""

    invalid_frac: float = 0.0
    """Share of judged answers with an invalid judgement; they count as reward 0."""

    truncated_frac: float | None = None
    no_answer_frac: float | None = None
    """Share of answers that are empty or, on a benchmark, state no answer."""

    thought_frac: float | None = None
    """Share of answers with a thought before them, ended or not; None where it is not known."""

    unclosed_frac: float | None = None
    """Share of answers that are nothing but a thought that does not end."""

    tokens_mean: float | None = None
    """Mean number of tokens of an answer with its thought."""

    reasons: dict[str, int] = Field(default_factory=dict)
    """Number of invalid or unavailable answers by reason."""

    by_fallback: dict[str, int] = Field(default_factory=dict)
    """Number of answers that each fallback of a `litellm_config` judged."""

    @property
    def thought_note(self) -> str:
        """A note on the answers' thoughts; empty where there are none."""
        if not self.thought_frac:
            return ""
        share = 100 * self.thought_frac
        unclosed = self.unclosed_frac or 0.0
        note = f"{self.model}: {share:.1f} % of its answers come after a thought"
        if not unclosed:
            return f"{note}, and all thoughts end"
        share = 100 * unclosed
        note += f", {share:.1f} % are a thought that does not end, which earns nothing"
        if unclosed < _MANY:
            return note
        return f"{note}: {_REMEDY}"


class Measured(ModelQuality):
    """N questions, K values each; ids, hashes and numbers alone."""

    fingerprint: str
    """Fingerprint of the model."""

    protocol: str
    """Decoding, template and judge as a JSON object: values are comparable only if it is equal."""

    prompt_form: str | None = None
    """Form of the model's prompts, such as "chat"; None where it does not say."""

    ids: tuple[str, ...] = Field(min_length=1)
    clusters: tuple[str, ...]
    """Document of each question, the unit of resampling; the id itself where there is none."""

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
        """Mean of the values of each question; None where it has none."""
        return tuple(map(present_mean, self.values_NK))

    @property
    def answers(self) -> int:
        """Number of answers to each question, K."""
        return len(self.values_NK[0])


def present_mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None where there is none."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    return sum(present) / len(present)


class ThoughtShares(TypedDict):
    """Fields of `ModelQuality`."""

    thought_frac: float | None
    unclosed_frac: float | None


def thought_shares(thoughts: Iterable[Thought | None]) -> ThoughtShares:
    """Return the shares of answers with a thought, and of thoughts that do not end.

    Args:
        thoughts: thoughts of the answers that came; None for rows of older versions.
    """
    known = [thought for thought in thoughts if thought is not None]
    return {
        "thought_frac": present_mean(thought is not Thought.NONE for thought in known),
        "unclosed_frac": present_mean(thought is Thought.UNCLOSED for thought in known),
    }


def reward_of(result: JudgeResult, rubric: Rubric) -> float | None:
    """Return the reward of a judgement: 0 for an invalid one, None for one that never came."""
    if result.outcome is Outcome.UNAVAILABLE:
        return None
    return rubric_core.normalized_reward(result, rubric)


def criteria_z(result: JudgeResult, rubric: Rubric) -> dict[str, float]:
    """Return z of each criterion that has a weight; nothing for a judgement that never came."""
    if result.outcome is Outcome.UNAVAILABLE:
        return {}
    z_M = rubric_core.criterion_scores_z(result, rubric).tolist()
    scores = zip(rubric.ids, z_M, strict=True)
    return {name: z for name, z in scores if not math.isnan(z)}


def kinds_of(rubric: Rubric, pooling: rubric_core.Pooling) -> dict[str, Pool]:
    """Return the pools of those criteria of a rubric that are not measured by their ids."""
    kinds: dict[str, Pool] = {}
    for criterion in rubric:
        pool = pooling.pool(criterion)
        if criterion.weight > 0 and pool.id is None:
            kinds[criterion.id] = pool
    return kinds


def pooled_z(
    criteria: Mapping[str, float], kinds: Mapping[str, Pool]
) -> dict[str, float]:
    """Return the mean z of the criteria of each pool, by its name.

    Args:
        criteria: z by id.
        kinds: pools of `kinds_of`.
    """
    named: list[dict[str, float]] = []
    for criterion_id, z in criteria.items():
        pool = kinds.get(criterion_id)
        name = criterion_id if pool is None else pool.name
        named.append({name: z})
    return mean_z(named)


def mean_z(of_answers: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean z of each criterion over the answers that have one."""
    z_of: defaultdict[str, list[float]] = defaultdict(list)
    for criteria in of_answers:
        for name, z in criteria.items():
            z_of[name].append(z)
    return {name: sum(values) / len(values) for name, values in z_of.items()}
