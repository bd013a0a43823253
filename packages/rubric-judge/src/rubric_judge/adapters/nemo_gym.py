"""NeMo-Gym: a resources server whose `/verify` judges against a rubric.

The classes are bound to the stack when they are first asked for, so they are not in `__all__`.
"""

from functools import cache
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rubric_core import Thoughts
from rubric_judge.adapters import rows, scoring

__all__ = ["Bound", "bind"]

_INSTALL: Final = "nemo-gym"


class Bound(NamedTuple):
    """The adapter's classes on this installation's base classes."""

    RubricResourcesServerConfig: type[Any]
    RubricVerifyRequest: type[Any]
    RubricVerifyResponse: type[Any]
    RubricResourcesServer: type[Any]


@cache
def bind() -> Bound:
    """Return the classes, bound to the stack.

    Raises:
        MissingExtraError: NeMo-Gym is not installed.
    """
    server = scoring.stack_module("nemo_gym.base_resources_server", install=_INSTALL)
    judge_error = scoring.stack_module("nemo_gym.judge", install=_INSTALL).JudgeError

    class RubricResourcesServerConfig(server.BaseResourcesServerConfig):
        """Settings of the server, beside the stack's own."""

        judge: str
        tasks: str | None = None
        workers: int = 32
        on_unavailable: Literal["mask", "zero"] = "mask"
        ledger: str | None = None
        thoughts: Thoughts = "cut"
        log_judgements: bool = False

    request, response = _messages(server)

    class RubricResourcesServer(server.SimpleResourcesServer):
        """Judges the last message of a response."""

        config: RubricResourcesServerConfig

        def model_post_init(self, context: object, /) -> None:
            server.SimpleResourcesServer.model_post_init(self, context)
            names = set(scoring.MaskingOptions.__annotations__)
            options = self.config.model_dump(include=names)
            self._scorer = scoring.RubricScorer(**options, can_log=True)

        async def verify(self, body: Any) -> Any:  # the models above
            (judgement,) = await self._scorer.judge([_submission(body)])
            if judgement.reward is None:
                # The stack keeps the row out of its metrics, and NeMo-RL masks its loss.
                body.instance_config = {**body.instance_config, "mask_sample": True}
                raise judge_error(
                    f"{judgement.result.reason}: {judgement.result.detail}"
                )
            numbers = {
                "reward": judgement.reward,
                **judgement.metrics,
                **judgement.criteria,
                **judgement.log_entry,
            }
            return response(**{**body.model_dump(), **numbers})

    # FastAPI reads the request's model from here, and cannot see the names of this function.
    RubricResourcesServer.verify.__annotations__ = {"body": request, "return": response}
    return Bound(RubricResourcesServerConfig, request, response, RubricResourcesServer)


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


def _submission(body: BaseModel) -> scoring.Submission:
    request = body.model_dump()
    return scoring.Submission(
        row={name: request[name] for name in rows.ROW_FIELDS},
        response=request["response"]["output"],
        prompt=request["responses_create_params"]["input"],
    )


def __getattr__(name: str) -> type[Any]:
    if name in Bound._fields:
        return getattr(bind(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
