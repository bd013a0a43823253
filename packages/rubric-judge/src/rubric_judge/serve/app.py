"""The endpoints, with what OpenAPI says of them."""

import json
from collections.abc import Callable, Coroutine, Iterable
from importlib.metadata import version
from typing import Any, cast

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from rubric_core.configuration import needed
from rubric_core.errors import NotJsonError, shortened
from rubric_core.strict_json import decode
from rubric_judge.models.settings import service_token
from rubric_judge.quality.trajectories import Submitted
from rubric_judge.serve import schemas
from rubric_judge.serve.gate import BROKEN, Gate
from rubric_judge.serve.openrlhf import reward_response, reward_submitted
from rubric_judge.serve.schemas import (
    InlineItem,
    ProblemKind,
    RefusedError,
    TaskItem,
    refusal,
)
from rubric_judge.serve.service import JudgeService

_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
_OF_ANY_REQUEST: tuple[ProblemKind, ...] = (
    "unauthorized",
    "too_slow",
    "too_large",
    "internal",
)
_KINDS = {schemas.BY_ID, schemas.INLINE, schemas.TEXT, schemas.TRAJECTORY}
"""Parts of the place of an error that are no fields."""
_KIND_BY_STATUS: dict[int, ProblemKind] = {404: "not_found", 405: "method_not_allowed"}


class _StrictRequest(Request):
    """Reads JSON as judges' replies are read: no repeated key, no depth that breaks the reader."""

    async def json(self) -> Any:
        """Decode the body; a `JSONDecodeError` is what FastAPI expects of an invalid one."""
        try:
            return decode(await self.body())
        except NotJsonError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


class _StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await answer(_StrictRequest(request.scope, request.receive))

        return strictly


def build_app(service: JudgeService) -> ASGIApp:
    """Build the application.

    Args:
        service: judges, and bounds what is asked.

    Returns:
        An ASGI application, its gate included.

    Raises:
        JudgeSetupError: a variable is named for the token and not set.
    """
    token = service_token(service.config.token_env)
    app = FastAPI(
        title="rubric-judge",
        summary="Judge responses against rubrics.",
        version=version("rubric-judge"),
        docs_url=None,  # their pages load scripts from other servers
        redoc_url=None,
    )
    app.router.route_class = _StrictRoute
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _no_such_endpoint)
    app.add_exception_handler(Exception, _broken)
    _add_judging(app, service, token=token)
    _add_watching(app, service, token=token)
    return Gate(app, service, token=token)


def _add_judging(
    app: FastAPI, service: JudgeService, *, token: SecretStr | None
) -> None:
    described: dict[str, Any] = {
        "responses": _refusals(schemas.STATUS, token=token),
        "dependencies": _authorization(token),
    }

    @app.post("/v1/judge", **described)
    async def judge(
        body: schemas.JudgeRequest, request: Request
    ) -> schemas.JudgeResponse:
        """Judge a batch of responses."""
        service.check_items(len(body.items))
        submitted = service.collected(
            _submitted(service, item, position)
            for position, item in enumerate(body.items)
        )
        rows = await service.judge_submitted(submitted, gone=lambda: _gone(request))
        return schemas.JudgeResponse(
            results=tuple(
                schemas.Judgement.of(row.view, row.result, row.trace) for row in rows
            )
        )

    async def reward(
        body: schemas.RewardRequest, request: Request
    ) -> schemas.RewardResponse:
        """Answer `--reward.remote_url` of OpenRLHF."""
        submitted = reward_submitted(service, body)
        rows = await service.judge_submitted(submitted, gone=lambda: _gone(request))
        return reward_response(rows, on_unavailable=service.config.on_unavailable)

    for path in (
        "/openrlhf",
        "/get_reward",
    ):  # the second is what OpenRLHF's examples call it
        app.post(path, **described)(reward)


def _add_watching(
    app: FastAPI, service: JudgeService, *, token: SecretStr | None
) -> None:
    open_to_all = _refusals(_OF_ANY_REQUEST, token=None)
    ending = {503: {"model": schemas.Health, "description": "The service is ending."}}

    def health() -> schemas.Health:
        return schemas.Health(
            live=True, ready=not service.draining, queued=service.queued
        )

    @app.get("/healthz", response_model=schemas.Health, responses=open_to_all | ending)
    async def ready() -> JSONResponse:
        """Say whether the service takes requests."""
        return JSONResponse(
            health().model_dump(), status_code=503 if service.draining else 200
        )

    @app.get("/healthz/live", responses=open_to_all)
    async def live() -> schemas.Health:
        """Say that the service runs, also while it ends."""
        return health()

    exposition = {200: {"content": {_EXPOSITION: {"schema": {"type": "string"}}}}}

    @app.get(
        "/metrics",
        dependencies=_authorization(token),
        response_class=Response,
        responses=_refusals(_OF_ANY_REQUEST, token=token) | exposition,
    )
    async def metrics() -> Response:
        """Return the counts in Prometheus' text format."""
        return Response(
            service.metrics.exposition(), headers={"Content-Type": _EXPOSITION}
        )


def _authorization(token: SecretStr | None) -> list[Any]:
    # For the description; the gate checks it before the body is read.
    return [Depends(HTTPBearer(auto_error=False))] if token else []


def _submitted(
    service: JudgeService, item: TaskItem | InlineItem, position: int
) -> Submitted:
    if isinstance(item, TaskItem):
        task = service.task(item.task_id, field=f"items.{position}.task_id")
    else:
        task = service.inline_task(item.task, field=f"items.{position}.task")
    return service.submitted(task, item.response, field=f"items.{position}.response")


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refusals(
    kinds: Iterable[ProblemKind], *, token: SecretStr | None
) -> dict[int | str, dict[str, Any]]:
    kinds_by_status: dict[int, list[str]] = {}
    for kind in kinds:
        if token is not None or kind != "unauthorized":
            kinds_by_status.setdefault(schemas.STATUS[kind], []).append(kind)
    return {
        status: {"model": schemas.ErrorBody, "description": ", ".join(kinds)}
        for status, kinds in sorted(kinds_by_status.items())
    }


async def _refused(_request: Request, error: Exception) -> Response:
    return refusal(cast("RefusedError", error))


async def _not_valid(_request: Request, error: Exception) -> Response:
    problem = cast("RequestValidationError", error).errors()[0]
    # Not the input, which may be a passage; `loc` starts with "body".
    parts = [shortened(str(part), 60) for part in problem["loc"][1:]]
    field = ".".join(part for part in parts if part not in _KINDS) or None
    if problem["type"] == "json_invalid":
        return refusal(
            RefusedError("malformed_json", "the body is not one JSON document")
        )
    return refusal(RefusedError("invalid_request", needed(problem), field=field))


async def _broken(_request: Request, _error: Exception) -> Response:
    # The error is raised again after the answer, and logged by the gate.
    return refusal(RefusedError("internal", BROKEN))


async def _no_such_endpoint(_request: Request, error: Exception) -> Response:
    known = cast("HTTPException", error)
    kind = _KIND_BY_STATUS.get(known.status_code, "invalid_request")
    message = "no such endpoint or method; /openapi.json lists them"
    return refusal(RefusedError(kind, message), headers=known.headers)
