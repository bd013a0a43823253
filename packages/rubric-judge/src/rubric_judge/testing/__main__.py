"""`python -m rubric_judge.testing`: an endpoint to try commands with where there is no model."""

import threading
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from rubric_judge.testing.endpoint import FakeEndpoint
from rubric_judge.testing.faults import Fault
from rubric_judge.testing.replies import ServedModel
from rubric_judge.ui.console import command

app = command.command_app(
    "rubric_judge.testing", summary="An endpoint without a model."
)


@app.default
def serve(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))] = 8000,
    award: Annotated[float, Parameter(validator=Number(gte=0, lte=1))] = 0.5,
    fault: Fault | None = None,
) -> None:
    """Answer on 127.0.0.1 as an OpenAI-compatible server does, until Ctrl-C; no model is asked.

    A judge gets a valid reply with the same share of every weight, whatever the response says; a
    question without a schema gets one fixed sentence. It serves judging only: synthesis without a
    model is `rubric-synth run` without --config.

    Args:
        port: Port to listen on; 0 for any that is free.
        award: Share of each criterion's weight.
        fault: What is wrong with every reply, such as missing-id.
    """
    faults = {fault: 1.0} if fault else {}
    served = ServedModel()
    with FakeEndpoint(
        award, faults=faults, port=port, keep="counts", served=served
    ) as endpoint:
        gives = f"{fault} in every reply" if fault else f"{award:g} of every weight"
        command.console().print(
            f"serving {endpoint.url}: no model, {gives}; Ctrl-C ends it", soft_wrap=True
        )
        threading.Event().wait()


if __name__ == "__main__":
    command.run_command(app)
