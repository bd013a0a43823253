"""The bodies of requests and answers. No answer has a place for a passage or a criterion's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, cast

import pydantic
from pydantic import ConfigDict, Field, Tag
from starlette.responses import JSONResponse

import rubric_core
from rubric_core import JudgeResult, JudgeView, Outcome, SchemaError
from rubric_core.files import toml_beside
from rubric_core.rows import ClosedRow
from rubric_core.schema.sealed import Identifier, Text
from rubric_core.schema.task import TaskRow
from rubric_judge.models.chat import listing, mapping
from rubric_judge.quality.trajectories import TraceRecord

_EXAMPLES = toml_beside(__file__, "examples.toml")
_TASK_ID = Field(examples=[_EXAMPLES["task_id"]])
_RESPONSE = Field(repr=False, examples=[_EXAMPLES["response"]])

_MOST_CRITERIA = (
    1_000  # of a task that comes with a request; a few hundred are published
)
_MOST_TERMS = 5_000
_TERMS = ("required_elements", "expected_keywords", "expected_concepts")


def check_size(criteria: object) -> None:
    """Refuse criteria that keep every other request waiting while they are read or compiled.

    Args:
        criteria: Of a task that came with a request, before they are checked.

    Raises:
        SchemaError: there are too many, or too much to look for.
    """
    entries = listing(criteria)
    if len(entries) > _MOST_CRITERIA:
        raise SchemaError(
            f"{len(entries)} criteria; at most {_MOST_CRITERIA} are judged"
        )
    count = 0
    for entry in entries:
        fields = mapping(entry)
        count += sum(len(listing(fields.get(name))) for name in _TERMS)
    if count > _MOST_TERMS:
        raise SchemaError(f"{count} terms to look for; at most {_MOST_TERMS} are")


def _examples(model: str) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": _EXAMPLES[model]})


TEXT = "(text)"
TRAJECTORY = "(trajectory)"
"""Names of the two kinds of response; pydantic writes them into the places of its errors."""
_DESCRIBED: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "items": {"type": "object"}, "minItems": 1},
        {"type": "object"},
    ],
    "description": "A trajectory: messages with tool calls, items or a response of the Responses "
    "API, a trace of verifiers, or a document of ATIF.",
}


def _kind_of_response(response: object) -> str:
    return TRAJECTORY if isinstance(response, list | dict) else TEXT


Submission = Annotated[
    Annotated[Text, Tag(TEXT)]
    | Annotated[
        pydantic.JsonValue, pydantic.WithJsonSchema(_DESCRIBED), Tag(TRAJECTORY)
    ],
    pydantic.Discriminator(_kind_of_response),
]
"""A response: its text, or a trajectory."""


class TaskItem(ClosedRow):
    """A response to a task that the server has."""

    task_id: Annotated[Identifier, _TASK_ID]
    response: Annotated[Submission, _RESPONSE]


class InlineItem(ClosedRow):
    """A response with its task, a line of a dataset file."""

    task: TaskRow = Field(repr=False)
    response: Annotated[Submission, _RESPONSE]

    @pydantic.field_validator("task", mode="before")
    @classmethod
    def _not_too_long(cls, task: object) -> object:
        check_size(mapping(task).get("criteria"))
        return task


BY_ID = "(by id)"
INLINE = "(inline)"
"""Names of the two kinds of item; pydantic writes them into the places of its errors."""


def _kind_of_item(item: object) -> str:
    is_inline = isinstance(item, InlineItem) or (
        isinstance(item, dict) and "task" in item
    )
    return INLINE if is_inline else BY_ID


_Item = Annotated[
    Annotated[TaskItem, Tag(BY_ID)] | Annotated[InlineItem, Tag(INLINE)],
    pydantic.Discriminator(_kind_of_item),
]


# `FailFast`: to list a fault for each of a million items takes half a minute, in which nothing else
# is answered; only the first is said.
class JudgeRequest(ClosedRow):
    """Responses to judge; those of one task are best next to each other."""

    model_config = _examples("JudgeRequest")

    items: Annotated[tuple[_Item, ...], Field(min_length=1), pydantic.FailFast()]


class Judgement(ClosedRow):
    """The judgement of one response, without the judge's reasoning, which may quote."""

    task_id: str
    reward: float | None = Field(ge=0, le=1)
    """Σ s_j / W; 0 for an answer outside of the contract, null where there was no answer."""
    outcome: Outcome
    reason: rubric_core.Reason | None
    detail: str
    scores: dict[str, float]
    total: float | None
    max_total: float | None
    passage_truncated: bool
    thought: rubric_core.Thought
    """State of the thought before the answer; only the answer is judged."""
    unanswered: rubric_core.Unanswered | None
    """Why there is no answer: all scores are 0, and no judge was asked."""
    judge: str
    usage: rubric_core.Usage | None
    latency_s: float | None
    attempts: int
    trace: TraceRecord | None = Field(
        default=None, exclude_if=lambda trace: trace is None
    )
    """Parts of a trajectory that were judged; not there for a response of one text."""

    @classmethod
    def of(
        cls, view: JudgeView, result: JudgeResult, trace: TraceRecord | None = None
    ) -> Judgement:
        """Leave out what may quote a text."""
        unavailable = result.outcome is Outcome.UNAVAILABLE
        return cls(
            task_id=view.task_id,
            thought=view.thought,
            trace=trace,
            reward=None
            if unavailable
            else rubric_core.normalized_reward(result, view.rubric),
            **{
                name: getattr(result, name)
                for name in cls.model_fields
                if name in _OF_RESULT
            },
        )


_OF_RESULT = frozenset(Judgement.model_fields) - {
    "task_id",
    "reward",
    "thought",
    "trace",
}


class JudgeResponse(ClosedRow):
    """One judgement for each item, in the order of the items."""

    results: tuple[Judgement, ...]


_LABEL: dict[str, Any] = {
    "anyOf": [{"type": "string", "minLength": 1}, {"type": "object"}],
    "description": 'A task id, {"task_id": …}, or columns with a rubric; JSON may be a string.',
}


class RewardRequest(ClosedRow):
    """The request that OpenRLHF sends to `--reward.remote_url`: three lists of one length."""

    model_config = ConfigDict(extra="ignore") | _examples("RewardRequest")

    query: Annotated[
        tuple[Submission, ...], Field(min_length=1, repr=False), pydantic.FailFast()
    ]
    """Prompt and response in one, with special tokens; or a trajectory, with its prompt or after
    it."""
    prompts: Annotated[
        tuple[Submission, ...], Field(min_length=1, repr=False), pydantic.FailFast()
    ]
    labels: Annotated[
        tuple[Annotated[pydantic.JsonValue, pydantic.WithJsonSchema(_LABEL)], ...],
        Field(min_length=1, repr=False),
        pydantic.FailFast(),
    ]


class RewardResponse(ClosedRow):
    """The answer that OpenRLHF reads: numbers for one query, as it sends, or lists for several."""

    rewards: float | list[float]
    scores: float | list[float]
    """The rewards again: OpenRLHF's filters read the scores."""
    extra_logs: dict[str, float | list[float]]
    """The same keys in every answer."""


class Health(ClosedRow):
    """Whether the service runs, and whether it takes requests."""

    live: bool
    ready: bool
    queued: int
    """Responses that wait or are being judged."""


ProblemKind = Literal[
    "malformed_json", "invalid_request", "unknown_task", "unauthorized", "not_found",
    "method_not_allowed", "too_slow", "too_large", "too_many_items", "busy", "draining",
    "unavailable", "internal",
]  # fmt: skip


class Problem(ClosedRow):
    """Why there is no answer."""

    kind: ProblemKind
    message: str
    """The problem and its remedy; no text of the request."""
    field: str | None = None
    """Dotted path of the first wrong field, such as `items.3.task_id`."""


class ErrorBody(ClosedRow):
    """The body of every answer that is no success."""

    model_config = _examples("ErrorBody")

    error: Problem


STATUS: dict[ProblemKind, int] = cast("Any", toml_beside(__file__, "statuses.toml"))


@dataclass(eq=False)
class RefusedError(Exception):
    """A request that is not answered as asked, with its `Problem`; never leaves the service."""

    kind: ProblemKind
    message: str
    _: KW_ONLY
    field: str | None = None
    retry_after_s: int | None = None


def refusal(
    refused: RefusedError, *, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return the answer that says so."""
    problem = Problem(
        kind=refused.kind,
        message=refused.message,
        field=refused.field,
    )
    more = dict(headers or {})
    if refused.retry_after_s is not None:
        more["Retry-After"] = str(refused.retry_after_s)
    if problem.kind == "unauthorized":
        more["WWW-Authenticate"] = "Bearer"
    body = ErrorBody(error=problem).model_dump(mode="json")
    return JSONResponse(body, status_code=STATUS[problem.kind], headers=more)
