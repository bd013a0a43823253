"""`rubric-judge label` and `label-import`: people's scores, typed here or in another tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from rubric_core import Thoughts
from rubric_core.errors import ConfigError, RubricFileError, needing_extra
from rubric_judge.cli.app import app, flag_error, say, tasks_by_id
from rubric_judge.cli.thoughts import HowThoughts
from rubric_judge.quality.responses import read_submitted
from rubric_judge.ui.console.command import Count, Flag, Positive, print_pairs, working
from rubric_judge.ui.console.outputs import require_writable

if TYPE_CHECKING:
    from rubric_judge.quality.label_page.desk import Desk
    from rubric_judge.quality.label_page.writing_desk import WritingDesk
    from rubric_judge.quality.labels.rows import LabelSource
    from rubric_judge.quality.labels.sampling import Drawn


def _rising(_: object, counts: tuple[int, ...] | None) -> None:
    if any(more <= fewer for fewer, more in pairwise(counts or ())):
        raise ValueError(
            "Each must be larger than the one before: it is the new total."
        )


Counts = Annotated[
    tuple[int, ...] | None, Parameter(negative=(), validator=(Number(gte=1), _rising))
]
_LABELS = 300
_WORKERS = 32


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """Where a page is served."""

    host: str = "127.0.0.1"
    """Address to listen on; any but this machine's own needs a token."""
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 8100
    """Port to listen on; 0 takes a free one, which is printed."""
    token_env: str | None = None
    """Environment variable with the token that raters type into the page."""


@Parameter(name="*")
@dataclass(frozen=True)
class Writing:
    """Whether answers are written instead of scored, and by whom."""

    write: Flag = False
    """Have answers of known truth written instead of responses scored."""
    model: Path | None = None
    """A language model that writes them, YAML with the keys of a synthesiser's `model`: no page is
    served, and no judge asked."""
    workers: Positive | None = None
    """Most tasks that the model is asked for at once (32 if left out)."""

    @property
    def by_model(self) -> dict[str, object]:
        """Values of the options about a model, by flag."""
        return {"--model": self.model, "--workers": self.workers}


@dataclass(frozen=True)
class _Drawn:
    """Tasks that are to be drawn of a file."""

    tasks: Path
    count: int | None
    seed: int


_HERE = Place()
_SCORED = Writing()


def label(  # noqa: PLR0913  # each is an option of the command
    tasks: Path,
    responses: Path | None = None,
    /,
    *,
    out: Path,
    rater: str | None = None,
    judgements: Path | None = None,
    count: Counts = None,
    seed: Count = 0,
    thoughts: HowThoughts = "cut",
    place: Place = _HERE,
    writing: Writing = _SCORED,
) -> int:
    """Serve a page where people score responses criterion by criterion, until Ctrl-C.

    With --write, people, or a model, write two answers to each task instead: one that is right in
    other words, and one that is false in the same words.

    Example: rubric-judge label tasks.jsonl answers.jsonl --out labels.jsonl

    Example: rubric-judge label data/tasks.jsonl --write --out data/written_answers.jsonl

    Every score, and every answer, is on the disk before the page says so; the same command goes on
    where it was stopped. Nobody sees a judge's score, or another person's.

    Args:
        tasks: Tasks, JSON Lines (or Parquet).
        responses: JSON Lines with task_id and response; none with --write.
        out: File of labels, or of written answers, which grows; what it holds already is kept.
        rater: The one who labels or writes; without it, the page asks for a name.
        judgements: A judge's judgements of these responses: labels are shared out among low, middle
            and high scores of each criterion, so that every class is there. They are not shown.
        count: Labels wanted from each rater, about (300 if left out); whole responses are drawn. To
            label more, give a larger one after the first: --count 300 --count 400. With --write,
            tasks, as many of each document as of any other (all if left out).
        seed: Seed of the draw, and of each rater's order.
        thoughts: How thoughts are told from answers, as `HowThoughts` says it.
        place: Where the page is served.
        writing: Whether answers are written instead, and by whom.

    Returns:
        Exit status: 1 when a model was asked and wrote not a single pair.
    """
    rater = None if rater is None else _rater(rater)
    require_writable(
        out, flag="--out", inputs=(tasks, responses, judgements, writing.model)
    )
    if writing.write:
        asked = thoughts if thoughts != "cut" else None
        _refuse(
            {"RESPONSES": responses, "--judgements": judgements, "--thoughts": asked},
            "with --write nothing is scored and answers are written: leave one of the two out",
        )
        drawn = _Drawn(tasks, _single_count(count), seed)
        return _write(drawn, out, rater=rater, writing=writing, place=place)
    responses = _to_score(responses, writing)
    with working(app) as progress, progress.phase("reading tasks and responses"):
        source = _read(tasks, responses, thoughts)
        draws = _draws(source, judgements, count or (_LABELS,), seed)
    return _label(
        source,
        draws,
        out,
        seed=seed,
        rater=rater,
        place=place,
    )


def _to_score(responses: Path | None, writing: Writing) -> Path:
    """Return the responses of a command without --write, and refuse options of one with it."""
    _refuse(
        writing.by_model,
        "is for answers that are written: give --write instead of RESPONSES, or leave it out",
    )
    if responses is None:
        raise ConfigError(
            "RESPONSES: needs a file of responses to score; to have answers of known truth "
            "written, give --write instead",
            location="responses",
        )
    return responses


def _refuse(values: Mapping[str, object], problem: str) -> None:
    """Refuse the first option that has a value where it means nothing."""
    for flag, value in values.items():
        if value is not None:
            raise ConfigError(f"{flag}: {problem}", location=flag.lstrip("-").lower())


def _single_count(counts: tuple[int, ...] | None) -> int | None:
    if counts is not None and len(counts) > 1:
        raise flag_error(
            "count",
            ": with --write give one number; a larger one later draws the same tasks and more",
        )
    return counts[0] if counts else None


def _label(
    source: LabelSource,
    draws: list[list[Drawn]],
    out: Path,
    *,
    seed: int,
    rater: str | None,
    place: Place,
) -> int:
    from rubric_judge.quality.labels.store import open_labels

    with needing_extra("rubric-judge", "serve", by="the page of labels"):
        from rubric_judge.quality.label_page.desk import Desk

    with open_labels(out, source) as store:
        store.belong_to(draws)
        desk = Desk(
            source,
            draws[-1],
            store,
            seed=seed,
            rater=rater,
        )
        wanted = f"{desk.cells} labels of {len(desk.drawn)} responses"
        print(f"to label: {wanted}; {len(store)} are in {out}", flush=True)
        _serve(desk, place)
        print_pairs([*store.raters().items(), ("written", out)])
    return 0


def _serve(desk: Desk | WritingDesk, place: Place) -> None:
    from rubric_judge.quality.label_page.app import serve_page

    listening = partial(print, "rubric-judge label is on", flush=True)
    serve_page(
        desk,
        host=place.host,
        port=place.port,
        token_env=place.token_env,
        on_start=listening,
    )


def _write(
    wanted: _Drawn, out: Path, *, rater: str | None, writing: Writing, place: Place
) -> int:
    from rubric_judge.quality.labels.writing import draw_tasks, open_written

    if writing.model is None:
        _refuse(
            writing.by_model,
            "is for a model that writes: give --model, or leave it out",
        )
    else:
        elsewhere = None if place == _HERE else place
        on_page = {"--rater": rater, "--host, --port or --token-env": elsewhere}
        _refuse(
            on_page,
            "is for a page on which people write, and --model serves none: leave one of the two "
            "out",
        )
    with working(app) as progress, progress.phase("reading tasks"):
        known = tasks_by_id(wanted.tasks)
        drawn = draw_tasks(
            known.values(),
            count=wanted.count,
            seed=wanted.seed,
        )
    if not drawn:
        raise RubricFileError("holds no task", path=wanted.tasks)
    with open_written(out, known) as store:
        if store.strange:
            say(
                f"{store.strange} answers in {out} are to none of these tasks and stay there"
            )
        if writing.model is not None:
            from rubric_judge.cli.writing import write_with_model

            workers = writing.workers or _WORKERS
            return write_with_model(writing.model, drawn, store, out, workers=workers)
        with needing_extra("rubric-judge", "serve", by="the page of answers"):
            from rubric_judge.quality.label_page.writing_desk import WritingDesk
        desk = WritingDesk(drawn, store, seed=wanted.seed, rater=rater)
        there = f"{sum(store.authors().values())} are in {out}"
        print(
            f"to write: two answers to each of {len(drawn)} tasks; {there}", flush=True
        )
        _serve(desk, place)
        print_pairs([*store.authors().items(), ("written", out)])
    return 0


def _draws(
    source: LabelSource, judgements: Path | None, counts: Sequence[int], seed: int
) -> list[list[Drawn]]:
    from rubric_judge.quality.labels.sampling import draw_more, judged_levels

    levels = judged_levels(judgements, source) if judgements else {}
    return draw_more(source, levels, counts=counts, seed=seed)


def _rater(name: str) -> str:
    from rubric_judge.quality.labels.rows import rater_name

    try:
        return rater_name(name)
    except ValueError as error:
        raise flag_error("rater", f": {error}") from None


def import_labels(  # noqa: PLR0913  # each is an option of the command
    format_: Annotated[
        Literal["csv", "label_studio", "argilla"], Parameter(name="FORMAT")
    ],
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
    from rubric_judge.quality.labels.exports import READERS
    from rubric_judge.quality.labels.foreign import import_scores, write_labels

    require_writable(out, flag="--out", inputs=(export, tasks, responses))
    source = _read(tasks, responses, thoughts)
    givens = READERS[format_](export)
    labels = list(import_scores(givens, source, rater=rater, thoughts=thoughts))
    if not labels:
        raise RubricFileError("holds no label: label some responses first", path=export)
    write_labels(out, labels)
    print_pairs([*Counter(label.rater for label in labels).items(), ("written", out)])
    return 0


def _read(tasks: Path, responses: Path, thoughts: Thoughts) -> LabelSource:
    from rubric_judge.quality.labels.rows import LabelSource

    by_id = tasks_by_id(tasks)
    return LabelSource.of(by_id, read_submitted(responses, by_id, thoughts=thoughts))
