"""`rubric-judge view`: judgements on one private page, beside the texts that were judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rubric_judge.cli.app import app, flag_error
from rubric_judge.cli.thoughts import HowThoughts
from rubric_judge.ui.console import command
from rubric_judge.ui.console.outputs import require_writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rubric_judge.quality.labels.rows import Label
    from rubric_judge.quality.view.samples import Texts
    from rubric_judge.quality.view.sources import Kind

KindChoice = Literal[
    "run", "ledger", "judged", "evaluation", "trl", "verl", "verifiers", "nemo-gym"
]


def view(  # noqa: PLR0913  # each is an option of the command
    *inputs: Path,
    tasks: command.Paths = (),
    responses: Path | None = None,
    labels: command.Paths = (),
    judge: command.Names = (),
    by: Literal["response", "task"] = "response",
    format: KindChoice | None = None,  # noqa: A002  # the option's name
    last: command.Positive | None = None,
    thoughts: HowThoughts | None = None,
    out: Path | None = None,
) -> int:
    """Show judgements on a page: question, answer, each criterion with score, evidence and reason.

    The page holds passages and rubrics: it is private, and for the judge's side. Several inputs are
    put side by side: two judges of the same answers, or with --by task two runs.

    Example: rubric-judge view judged.jsonl --labels labels.jsonl

    Args:
        inputs: What `score` wrote, a ledger, a run's folder, an evaluation's folder, or a log of
            TRL, verl, verifiers or NeMo-Gym.
        tasks: Files of the tasks, for the texts of questions, criteria and passages; those that
            `score` or a run names unless given.
        responses: The file that was judged; the one that `score` names unless given.
        labels: People's labels of those responses.
        judge: Names of judges to show; all unless named.
        by: What two judgements of one sample share: the response, or the task alone.
        format: Format of the inputs; told from their content unless named.
        last: Only the last steps, of formats with a file for each.
        thoughts: How thoughts are told from answers; as `score` was told unless given.
        out: The page to write; by default beside what the judge's side wrote.

    Returns:
        Exit status.
    """
    from rubric_judge.quality.view.joining import joined, labelled
    from rubric_judge.quality.view.page import write_page
    from rubric_judge.quality.view.sources import read_source, read_texts, told_kind

    if not inputs:
        raise flag_error("inputs", ": nothing to show; name a file or a folder")
    kinds: list[Kind] = [format or told_kind(path) for path in inputs]
    page = out or _beside(inputs[0], kinds[0])
    require_writable(page, flag="--out", inputs=(*inputs, *tasks, responses, *labels))
    with command.working(app) as progress:
        with progress.phase("reading the judgements"):
            texts = [
                read_texts(
                    path, kind, tasks=tasks, responses=responses, thoughts=thoughts
                )
                for path, kind in zip(inputs, kinds, strict=True)
            ]
            sources = [
                read_source(path, kind, known, last=last)
                for path, kind, known in zip(inputs, kinds, texts, strict=True)
            ]
            samples = joined(sources, by=by, judges=judge)
            if labels:
                people = _read_labels(labels, texts[0])
                samples = labelled(samples, people, texts[0].views or {})
        with progress.phase("writing the page"):
            title = " and ".join(dict.fromkeys(source.name for source in sources))
            write_page(samples, sources, page, title=title)
    command.print_pairs(
        [
            ("samples", len(samples.rows)),
            ("judges", ", ".join(dict.fromkeys(c.judge for c in samples.columns))),
            *(("note", note) for note in samples.notes),
            ("written", f"{page}, private: it holds passages and rubrics"),
        ]
    )
    return 0


def _read_labels(paths: Sequence[Path], texts: Texts) -> list[Label]:
    from rubric_judge.quality.labels.rows import LabelSource, Seen, read_labels

    if texts.views is None:
        raise flag_error(
            "labels",
            " are of lines of a file of responses: name it in --responses, its tasks in --tasks",
        )
    source = LabelSource(texts.tasks, texts.views)
    seen: Seen = {}
    return [label for path in paths for label in read_labels(path, source, seen)]


def _beside(path: Path, kind: Kind) -> Path:
    """Return a page among the files of the judge's side."""
    match kind:
        case "judged" | "ledger":
            return path.with_name(f"{path.name}.html")
        case "run":
            folder = path if path.is_dir() else path.parent
            inner = folder / "judgements"
            return (inner if inner.is_dir() else folder) / "view.html"
        case _:
            raise flag_error(
                "out",
                f": the page holds passages and rubrics, and {path} may be read by a policy's "
                "side: name a file for it elsewhere",
            )
