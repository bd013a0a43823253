"""The command `rubric-judge`: its subcommands, which parse, call, print; no logic.

The module of a command imports nothing heavy before it is called.
"""

from collections.abc import Sequence

from rubric_judge.cli.app import app
from rubric_judge.cli.attack import attack
from rubric_judge.cli.calibrate import calibrate_judge
from rubric_judge.cli.criteria import criteria
from rubric_judge.cli.fixtures import fixtures
from rubric_judge.cli.imports import export_rubrics, import_rubrics, init
from rubric_judge.cli.label import import_labels, label
from rubric_judge.cli.lint import lint
from rubric_judge.cli.rejudge import rejudge
from rubric_judge.cli.reliability import reliability
from rubric_judge.cli.score import score
from rubric_judge.cli.serve import serve
from rubric_judge.cli.view import view
from rubric_judge.ui.console.command import run_command, typed_command

__all__ = ["app", "main"]

_WITHOUT_LEDGER = frozenset(
    {
        "criteria",
        "export",
        "fixtures",
        "import",
        "init",
        "label",
        "label-import",
        "lint",
        "view",
    }
)
"""Commands that ask no judge, or keep no judgement."""

for _command in (
    attack,
    criteria,
    fixtures,
    init,
    label,
    lint,
    rejudge,
    reliability,
    score,
    serve,
    view,
):
    app.command(_command)
app.command(calibrate_judge, name="calibrate")
app.command(import_rubrics, name="import")
app.command(export_rubrics, name="export")
app.command(import_labels, name="label-import")


def main() -> None:
    """Run the command; known errors end with one message on stderr and status 2."""
    run_command(app, stopped=_stopped)


def _stopped(words: Sequence[str]) -> str:
    command = next(iter(words), "")
    said = "rubric-judge: stopped; nothing was written"
    if command == "label" and "--model" in {word.partition("=")[0] for word in words}:
        return "rubric-judge: stopped; what the model wrote is in --out, and the command goes on"
    if command == "label":
        return "rubric-judge: stopped; all that the page called saved is in --out"
    if command in _WITHOUT_LEDGER:
        return said
    if not any(word.partition("=")[0] == "--ledger" for word in words):
        return f"{said}, and without --ledger no judgement is kept"
    again = typed_command("rubric-judge", words)
    return (
        f"{said} but the --ledger, and what that holds is not asked for again; go on "
        f"with: {again}"
    )
