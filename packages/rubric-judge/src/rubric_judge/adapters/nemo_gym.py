"""NeMo-Gym: a resources server whose `/verify` judges against a rubric.

The classes are bound to the stack when they are first asked for, so they are not in `__all__`.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rubric_core import (
    ConfigError,
    Criterion,
    MissingExtraError,
    Rubric,
    Task,
    Thoughts,
)
from rubric_core.reward.projection import weighted_scores_z
from rubric_core.traces.responses import responses_trace
from rubric_judge.adapters import rows, scoring

__all__ = ["Bound", "Components", "ComponentsBy", "bind"]

_INSTALL = "'nemo-gym>=0.5'"
_JUDGE = "nemo_gym.judge"

ComponentsBy = Literal["none", "criteria", "kinds"]
"""Way to split a reward into components."""


class Components:
    """The parts of a reward, under the same names for every task.

    A trainer of several rewards fixes their names for the whole run, while rubrics differ from task
    to task. A part is w_j z_j / W, so that the parts of a response add up to its reward; a name
    that a task has no criterion for is 0 for all its responses, which moves no advantage.
    """

    def __init__(self, by: ComponentsBy, tasks: Iterable[Task]) -> None:
        """Find the names that the tasks need.

        Args:
            by: `criteria`, a name for each place in a rubric, as many as the longest has; `kinds`,
                a name for each kind of criterion that occurs; or `none`.
            tasks: all tasks.

        Raises:
            ConfigError: no task is known.
        """
        self.by: ComponentsBy = by
        rubrics = [task.rubric for task in tasks]
        if by != "none" and not rubrics:
            raise ConfigError(
                f"components: {by!r} needs `tasks`, for every task must have the same names",
                location="components",
            )
        longest = max(map(len, rubrics), default=0)
        self._digits = len(str(longest))
        names: Iterable[str] = ()
        if by == "criteria":
            names = map(self._place, range(longest))
        elif by == "kinds":
            names = {
                self._kind(criterion) for rubric in rubrics for criterion in rubric
            }
        self.names: tuple[str, ...] = tuple(sorted(names))
        """The names, sorted; none for `none`."""

    def of(self, judgement: scoring.Judgement) -> dict[str, float]:
        """Return the parts of a judgement's reward, by name.

        Raises:
            ConfigError: the row's own rubric needs a name that no known task has.
        """
        rubric = judgement.view.rubric
        parts = dict.fromkeys(self.names, 0.0)
        added = defaultdict[str, float](float)
        z = weighted_scores_z(judgement.result, rubric)
        for name, criterion in zip(self._names_of(rubric), rubric, strict=True):
            score = criterion.weight * z.get(criterion.id, 0.0)
            added[name] += score / rubric.total_weight
        if self.by != "none" and (unknown := added.keys() - parts):
            raise ConfigError(
                f"components: the row's rubric needs {min(unknown)!r}, which no task of `tasks` "
                "has: add the task there",
                location="components",
            )
        return parts | added if self.by != "none" else {}

    def _names_of(self, rubric: Rubric) -> Iterable[str]:
        if self.by == "kinds":
            return map(self._kind, rubric)
        return map(self._place, range(len(rubric)))

    def _place(self, number: int) -> str:
        return f"criterion_{number + 1:0{self._digits}d}"

    @staticmethod
    def _kind(criterion: Criterion) -> str:
        return f"kind_{criterion.kind or 'none'}"


class Bound(NamedTuple):
    """The adapter's classes on this installation's base classes."""

    RubricResourcesServerConfig: type[Any]
    RubricVerifyRequest: type[Any]
    RubricVerifyResponse: type[Any]
    RubricResourcesServer: type[Any]
    RubricVerifier: type[Any]


@cache
def bind() -> Bound:
    """Return the classes, bound to the stack.

    Raises:
        MissingExtraError: NeMo-Gym is not installed, or is older than 0.5.
    """
    server = scoring.stack_module("nemo_gym.base_resources_server", install=_INSTALL)
    judge_error = _judge_error()

    class RubricResourcesServerConfig(server.BaseResourcesServerConfig):
        """Settings of the server, beside the stack's own."""

        judge: str
        tasks: str | None = None
        workers: int = 32
        on_unavailable: Literal["mask", "zero"] = "mask"
        ledger: str | None = None
        thoughts: Thoughts = "cut"
        log_judgements: bool = False
        components: ComponentsBy = "none"

    # A verdict depends on the request alone, so that rollouts may be judged again.
    RubricResourcesServerConfig.REVERIFY_MODE = server.ReverifyMode.STATELESS
    request, response = _messages(server)

    verifier = _verifier(response, judge_error)

    class RubricResourcesServer(server.SimpleResourcesServer):
        """Judges the last message of a response."""

        config: RubricResourcesServerConfig

        def model_post_init(self, context: object, /) -> None:
            server.SimpleResourcesServer.model_post_init(self, context)
            names = {*scoring.MaskingOptions.__annotations__, "components"}
            options = self.config.model_dump(include=names)
            self._verifier = verifier(**options)

        async def verify(self, body: Any) -> Any:  # the models above
            return await self._verifier.verify(body)

    # FastAPI reads the request's model from here, and cannot see the names of this function.
    RubricResourcesServer.verify.__annotations__ = {"body": request, "return": response}
    return Bound(
        RubricResourcesServerConfig,
        request,
        response,
        RubricResourcesServer,
        verifier,
    )


def _verifier(response: type[Any], judge_error: type[Exception]) -> type[Any]:
    """Return the class that judges without a server."""

    class RubricVerifier:
        """The judging of a server without one: what the stack's verifier fixtures try."""

        def __init__(
            self, *, components: ComponentsBy = "none", **options: Any
        ) -> None:
            """Read the judge and the tasks; the options are those of `MaskingOptions`."""
            self.scorer = scoring.RubricScorer(**options, can_log=True)
            self.components = Components(components, self.scorer.known_tasks)

        async def verify(self, body: Any) -> Any:  # the models above
            """Judge the last message of a response.

            Raises:
                JudgeError: there was no judgement, which the stack counts as no measurement.
            """
            submission = _submission(body, self.scorer.thoughts)
            (judgement,) = await self.scorer.judge([submission])
            if judgement.reward is None:
                # The stack keeps the row out of its metrics, and NeMo-RL masks its loss.
                body.instance_config = {**body.instance_config, "mask_sample": True}
                raise judge_error(
                    f"{judgement.result.reason}: {judgement.result.detail}"
                )
            numbers: dict[str, Any] = {
                "reward": judgement.reward,
                **judgement.metrics,
                **judgement.criteria,
                **judgement.log_entry,
            }
            if parts := self.components.of(judgement):
                numbers |= {**parts, "reward_components": parts}
            return response(**{**body.model_dump(), **numbers})

    return RubricVerifier


def _judge_error() -> type[Exception]:
    """Return the error by which a server says that it has no measurement.

    Raises:
        MissingExtraError: the release has none.
    """
    try:
        return scoring.stack_module(_JUDGE, install=_INSTALL).JudgeError
    except MissingExtraError as error:
        cause = error.__cause__
        if not isinstance(cause, ModuleNotFoundError) or cause.name != _JUDGE:
            raise
    raise MissingExtraError(
        f"nemo-gym {_installed()} has no {_JUDGE!r}, by which a judge that failed is no reward: "
        f"pip install {_INSTALL}"
    )


def _installed() -> str:
    try:
        return version("nemo-gym")
    except PackageNotFoundError:
        return "of another version"


def _messages(server: Any) -> tuple[type[Any], type[Any]]:
    """Return the models of the server's request and response."""

    class RubricVerifyRequest(server.BaseVerifyRequest):
        """A row: the id of a known task, or its rubric."""

        model_config = ConfigDict(extra="allow")

        task_id: str | None = None
        rubric: JsonValue = None
        criteria: JsonValue = None
        doc_hash: str | None = None
        passage: str | None = None
        question: str | None = None
        instance_config: dict[str, JsonValue] = Field(default_factory=dict)

    class RubricVerifyResponse(server.BaseVerifyResponse):
        """The reward; numbers beside it become metrics."""

        model_config = ConfigDict(extra="allow")

    return RubricVerifyRequest, RubricVerifyResponse


def _submission(body: BaseModel, thoughts: Thoughts) -> scoring.Submission:
    request = body.model_dump()
    output = request["response"]["output"]
    prompt = request["responses_create_params"]["input"]
    return scoring.Submission(
        row={name: request[name] for name in rows.ROW_FIELDS},
        response=output,
        prompt=prompt,
        # A rollout that reached its limit may end with a call.
        trace=partial(
            responses_trace, output, prompt=prompt, thoughts=thoughts, cut=True
        ),
    )


def __getattr__(name: str) -> type[Any]:
    if name in Bound._fields:
        return getattr(bind(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
