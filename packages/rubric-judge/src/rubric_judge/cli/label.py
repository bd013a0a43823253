"""`rubric-judge label` and `label-import`: people's scores, typed here or in another tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from rubric_core import Thoughts, read_tasks
from rubric_core.errors import ConfigError, RubricFileError, needing_extra
from rubric_judge.cli.app import app, require_writable
from rubric_judge.cli.thoughts import HowThoughts
from rubric_judge.console.command import Count, print_pairs, working
from rubric_judge.responses import read_responses

if TYPE_CHECKING:
    from rubric_judge.labels.rows import LabelSource
    from rubric_judge.labels.sampling import Drawn


def _rising(_: object, counts: tuple[int, ...]) -> None:
    if any(more <= fewer for fewer, more in pairwise(counts)):
        raise ValueError("Each must be larger than the one before: it is the new total.")


Counts = Annotated[
    tuple[int, ...],
    Parameter(
        negative=(),
        validator=(Number(gte=1), _rising),
        show_default=lambda counts: " ".join(map(str, counts)),
    ),
]
Port = Annotated[int, Parameter(validator=Number(gte=0, lte=65535))]


def label(  # noqa: PLR0913  # each is an option of the command
    tasks: Path,
    responses: Path,
    /,
    *,
    out: Path,
    rater: str | None = None,
    judgements: Path | None = None,
    count: Counts = (300,),
    seed: Count = 0,
    host: str = "127.0.0.1",
    port: Port = 8100,
    token_env: str | None = None,
    thoughts: HowThoughts = "cut",
) -> int:
    """Serve a page where people score responses criterion by criterion, until Ctrl-C.

    Example: rubric-judge label tasks.jsonl answers.jsonl --out labels.jsonl

    Every score is on the disk before the page says so; the same command goes on where it was
    stopped. Nobody sees a judge's score, or another person's.

    Args:
        tasks: Tasks, JSON Lines (or Parquet).
        responses: JSON Lines with task_id and response.
        out: File of labels, which grows; what it holds already is kept.
        rater: The one who labels; without it, the page asks for a name.
        judgements: A judge's judgements of these responses: labels are shared out among low, middle
            and high scores of each criterion, so that every class is there. They are not shown.
        count: Labels wanted from each rater, about; whole responses are drawn. To label more, give
            a larger one after the first: --count 300 --count 400.
        seed: Seed of the draw, and of each rater's order.
        host: Address to listen on; any but this machine's own needs a token.
        port: Port to listen on; 0 takes a free one, which is printed.
        token_env: Environment variable with the token that raters type into the page.
        thoughts: How thoughts are told from answers, as `HowThoughts` says it.

    Returns:
        Exit status.
    """
    from rubric_judge.labels.store import open_labels

    with needing_extra("rubric-judge", "serve", by="the page of labels"):
        from rubric_judge.label_page.app import serve_page
        from rubric_judge.label_page.desk import Desk

    rater = None if rater is None else _rater(rater)
    require_writable(out, flag="--out", inputs=(tasks, responses, judgements))
    with working(app) as progress, progress.phase("reading tasks and responses"):
        source = _read(tasks, responses, thoughts)
        draws = _draws(source, judgements, count, seed)
    with open_labels(out, source) as store:
        store.belong_to(draws)
        desk = Desk(source, draws[-1], store, seed=seed, rater=rater)
        wanted = f"{desk.cells} labels of {len(desk.drawn)} responses"
        print(f"to label: {wanted}; {len(store)} are in {out}", flush=True)
        listening = partial(print, "rubric-judge label is on", flush=True)
        serve_page(desk, host=host, port=port, token_env=token_env, on_start=listening)
        print_pairs([*store.raters().items(), ("written", out)])
    return 0


def _draws(
    source: LabelSource, judgements: Path | None, counts: Sequence[int], seed: int
) -> list[list[Drawn]]:
    from rubric_judge.labels.sampling import draw_more, judged_levels

    levels = judged_levels(judgements, source) if judgements else {}
    return draw_more(source, levels, counts=counts, seed=seed)


def _rater(name: str) -> str:
    from rubric_judge.labels.rows import rater_name

    try:
        return rater_name(name)
    except ValueError as error:
        raise ConfigError(f"--rater: {error}", location="rater") from None


def import_labels(  # noqa: PLR0913  # each is an option of the command
    format_: Annotated[Literal["csv", "label_studio", "argilla"], Parameter(name="FORMAT")],
    export: Path,
    tasks: Path,
    responses: Path,
    /,
    *,
    out: Path,
    rater: str | None = None,
    thoughts: HowThoughts = "cut",
) -> int:
    """Read labels that were given elsewhere and write them as `rubric-judge label` does.

    Example: rubric-judge label-import csv scores.csv tasks.jsonl answers.jsonl --out labels.jsonl

    Args:
        format_: csv, label_studio (its export JSON) or argilla (`dataset.records.to_json`).
        export: File to read.
        tasks: Tasks, JSON Lines (or Parquet).
        responses: JSON Lines with task_id and response, as they were labelled.
        out: New file of labels.
        rater: Name of the rater where the file holds none.
        thoughts: How thoughts are told from answers, as `HowThoughts` says it.

    Returns:
        Exit status.
    """
    from rubric_judge.labels.exports import READERS
    from rubric_judge.labels.foreign import import_given, write_labels

    require_writable(out, flag="--out", inputs=(export, tasks, responses))
    source = _read(tasks, responses, thoughts)
    given = READERS[format_](export)
    found = list(import_given(given, source, rater=rater, thoughts=thoughts))
    if not found:
        raise RubricFileError("holds no label: label some responses first", path=export)
    write_labels(out, found)
    print_pairs([*Counter(one.rater for one in found).items(), ("written", out)])
    return 0


def _read(tasks: Path, responses: Path, thoughts: Thoughts) -> LabelSource:
    from rubric_judge.labels.rows import LabelSource

    by_id = {task.task_id: task for task in read_tasks(tasks)}
    return LabelSource(by_id, dict(read_responses(responses, by_id, thoughts=thoughts)))
