"""The application of the labelling and writing pages, and the server that runs it."""

import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from types import FrameType
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import SecretStr

from rubric_core.configuration import needed
from rubric_core.errors import SchemaError, shortened
from rubric_judge.errors import JudgeSetupError
from rubric_judge.models.settings import is_this_machine, service_token
from rubric_judge.quality.label_page.desk import Cell, Desk, NotDrawnError, Scored
from rubric_judge.quality.label_page.writing_desk import Place, Typed, WritingDesk
from rubric_judge.quality.labels.rows import LONGEST_NAME, Rater
from rubric_judge.ui.page.rendering import render_page, visible

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_LARGEST_BODY = 64 * 2**10
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::([0-9]{1,5}))?")
"""Form of a browser's header `Host`: an address or name, and perhaps a port."""
_LAST_PORT = 2**16 - 1
_OF_ITSELF = {None, "same-origin", "none"}


def build_app(desk: Desk | WritingDesk, *, token: SecretStr | None = None) -> FastAPI:
    """Build the application.

    The page itself holds no text and needs no token; its requests do, if there is one.
    Without one, only this machine is answered, and only to a page of its own.

    Args:
        desk: desk for labels, or for answers.
        token: token that requests must bear.
    """
    name = "label" if isinstance(desk, Desk) else "write"
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    page = render_page(
        __package__,
        name,
        {},
        style="label",
        scripts=["people.js", f"{name}.js"],
        asks=True,
    )

    @app.middleware("http")
    async def guarded(  # pyright: ignore[reportUnusedFunction]  # the decorator keeps it
        request: Request, answer: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        refused = _refused(request, token)
        response = _problem(*refused) if refused else await answer(request)
        response.headers.update(_HEADERS)
        return response

    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(SchemaError, _not_kept)
    app.add_exception_handler(OSError, _not_written)

    @app.get("/", response_class=HTMLResponse)
    def start() -> str:
        return page

    @app.get("/v1/raters")
    def raters() -> dict[str, object]:
        return desk.raters()

    @app.get("/v1/work")
    def work(rater: Annotated[Rater, Query()]) -> dict[str, object]:
        return desk.work(rater)

    if isinstance(desk, Desk):
        _add_labels(app, desk)
    else:
        _add_answers(app, desk)
    return app


# The decorators keep the functions.
# pyright: reportUnusedFunction=false
def _add_labels(app: FastAPI, desk: Desk) -> None:
    @app.get("/v1/responses/{line}")
    def texts(line: int) -> dict[str, object]:
        return desk.texts(line)

    @app.put("/v1/label", status_code=204, response_model=None)
    def keep(scored: Scored) -> None:
        desk.keep(scored)

    @app.delete("/v1/label", status_code=204, response_model=None)
    def take_back(cell: Annotated[Cell, Query()]) -> None:
        desk.take_back(cell)


def _add_answers(app: FastAPI, desk: WritingDesk) -> None:
    @app.get("/v1/task")
    def texts(task_id: Annotated[str, Query()]) -> dict[str, object]:
        return desk.texts(task_id)

    @app.put("/v1/answer", status_code=204, response_model=None)
    def keep(typed: Typed) -> None:
        desk.keep(typed)

    @app.delete("/v1/answer", status_code=204, response_model=None)
    def take_back(place: Annotated[Place, Query()]) -> None:
        desk.take_back(place)


def _refused(request: Request, token: SecretStr | None) -> tuple[int, str] | None:
    """Return status and reason of a refused request, or None."""
    # Never `request.url`: it is made with the header `Host`, which may hold anything.
    headers = request.headers
    is_page = request.scope["path"] == "/"
    if headers.get("sec-fetch-site") not in _OF_ITSELF and not is_page:
        return HTTPStatus.FORBIDDEN, "another site's page may not ask"
    length = headers.get("content-length", "0")
    if (
        not length.isdigit()
        or int(length) > _LARGEST_BODY
        or "transfer-encoding" in headers
    ):
        return (
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"send at most {_LARGEST_BODY} bytes",
        )
    if token is None:
        # A name of another site that resolves to this machine is refused.
        if not is_this_machine(_host(headers.getlist("host"))):
            return HTTPStatus.MISDIRECTED_REQUEST, "ask by 127.0.0.1 or localhost"
    elif not is_page:
        scheme, _, sent_token = headers.get("authorization", "").partition(" ")
        right = secrets.compare_digest(
            sent_token.strip().encode(), token.get_secret_value().encode()
        )
        if scheme.lower() != "bearer" or not right:
            return HTTPStatus.UNAUTHORIZED, "the token is missing or wrong"
    return None


def _host(headers: list[str]) -> str:
    """Return the name or address of the one header `Host`; "" where it is not well formed."""
    if len(headers) != 1:
        return ""
    match = _HOST.fullmatch(headers[0])
    if match is None or int(match[3] or 0) > _LAST_PORT:
        return ""
    return (match[1] or match[2]).lower()


async def _not_valid(_request: Request, error: Exception) -> Response:
    """Name the field and the problem, not the value: JSON may not hold it."""
    problems: Sequence[Any] = ()
    if isinstance(error, RequestValidationError):
        problems = error.errors()
    messages = [
        f"{shortened(visible(str(problem['loc'][-1])), LONGEST_NAME)}: {needed(problem)}"
        for problem in problems
    ]
    return _problem(
        HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(messages[:3]) or "it is not valid"
    )


async def _not_kept(_request: Request, error: Exception) -> Response:
    status = HTTPStatus.CONFLICT
    if isinstance(error, NotDrawnError):
        status = HTTPStatus.NOT_FOUND
    return _problem(status, str(error))


async def _not_written(_request: Request, error: Exception) -> Response:
    reason = error.strerror if isinstance(error, OSError) else None
    return _problem(
        HTTPStatus.INSUFFICIENT_STORAGE, f"cannot be written: {reason or 'no reason'}"
    )


def _problem(status: int, message: str) -> Response:
    return JSONResponse({"detail": message}, status_code=status)


class _Server(uvicorn.Server):
    """Server that ends on a signal without raising it again: typed labels are kept."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after the requests that are being answered."""
        del sig, frame
        self.should_exit = True


def serve_page(
    desk: Desk | WritingDesk,
    *,
    host: str,
    port: int,
    token_env: str | None,
    on_start: Callable[[str], None],
) -> None:
    """Serve the page until a signal.

    Args:
        desk: desk for labels, or for answers.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        token_env: environment variable with the token that requests must bear.
        on_start: called with the address when it listens.

    Raises:
        JudgeSetupError: the variable is not set; or none is named, and other machines can reach
            the address.
        OSError: the address is taken, or not this machine's.
    """
    if token_env is None and not is_this_machine(host):
        raise JudgeSetupError(
            f"host {host!r} can be reached from other machines, and the page shows passages: "
            "name an environment variable with a token in --token-env, or listen on 127.0.0.1"
        )
    config = uvicorn.Config(
        build_app(desk, token=service_token(token_env)),
        log_config=None,  # its lines are not ours
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=5,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as bound:
        place, port = bound.getsockname()[:2]
        address = f"[{place}]" if ":" in place else place
        on_start(f"http://{address}:{port}")
        _Server(config).run(sockets=[bound])
