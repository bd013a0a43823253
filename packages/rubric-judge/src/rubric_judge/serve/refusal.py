"""An answer that is no success, as an exception on its way to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from rubric_judge.serve.schemas import ErrorBody, Problem, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Mapping


STATUS: Mapping[ProblemKind, int] = {
    "malformed_json": 400,
    "unauthorized": 401,
    "unknown_task": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "too_slow": 408,
    "too_large": 413,
    "too_many_items": 413,
    "invalid_request": 422,
    "busy": 429,
    "internal": 500,
    "draining": 503,
    "unavailable": 503,
}


class RefusedError(Exception):
    """A request that is not answered as asked; never leaves the service."""

    def __init__(
        self,
        kind: ProblemKind,
        message: str,
        *,
        field: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.problem = Problem(kind=kind, message=message, field=field)
        self.retry_after_s = retry_after_s


def refusal(refused: RefusedError, *, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the answer that says so."""
    kind = refused.problem.kind
    more = dict(headers or {})
    if refused.retry_after_s is not None:
        more["Retry-After"] = str(refused.retry_after_s)
    if kind == "unauthorized":
        more["WWW-Authenticate"] = "Bearer"
    body = ErrorBody(error=refused.problem).model_dump(mode="json")
    return JSONResponse(body, status_code=STATUS[kind], headers=more)
