"""The evaluation that a folder holds already, and whether something may be added to it."""

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import anyio

from rubric_core import RubricError
from rubric_core.artifact import differences
from rubric_eval.errors import EvalFolderError
from rubric_eval.records import digests, files
from rubric_eval.records.inputs import ANSWERS, EvalFolder
from rubric_eval.records.run import EvalRun, JudgeEntry, ModelEntry, now

_Entry = TypeVar("_Entry", ModelEntry, JudgeEntry)
_RESTORE = (
    "Restore it from a copy, or evaluate into a new folder; the answers of a file that is deleted "
    "are asked for again"
)


def joined(folder: EvalFolder, wanted: EvalRun) -> EvalRun:
    """Return the manifest of a folder with a new evaluation added; nothing is written.

    Models and judges may be added. Questions, decoding, seeds and template stay; otherwise the
    scores could not be compared. A name stays with its model or judge
    once that has a score; until then a corrected one may take it.

    Args:
        folder: an evaluation's folder, or a new one.
        wanted: the manifest of the evaluation to add.

    Returns:
        The manifest of both, with status `running`.

    Raises:
        EvalFolderError: the folder holds something else; says what differs.
        EvalEditedError: it holds a finished evaluation whose manifest or answers were edited.
        RubricFileError: its manifest is damaged.
    """
    if not folder.run.exists():
        name = next(iter(folder.names()), None)
        if name is not None:
            raise EvalFolderError(
                f"{folder.root} is no folder of an evaluation: it holds {name!r} and no "
                f"{folder.run.name}; name a new folder"
            )
        return wanted
    edits = digests.Edits()
    existing = files.read_run(folder, edits=edits)
    if existing.status == "finished":
        # Scores and tables are made again, but answers are not.
        digests.check_files(folder, existing, edits, part=ANSWERS)
        edits.refuse(_RESTORE)
    model_places = ("scores/*/{}", "items/*/{}")
    models = _without_replaced(existing.models, wanted.models, folder, model_places)
    judges = _without_replaced(existing.judges, wanted.judges, folder, ("scores/{}/*",))
    existing = existing.model_copy(update={"models": models, "judges": judges})
    texts = "; ".join(_difference_texts(existing, wanted))
    if texts:
        raise EvalFolderError(
            f"{folder.root} holds an evaluation of something else: {texts}. Evaluate as it "
            "does, or name a new folder"
        )
    return wanted.model_copy(
        update={
            "started": existing.started,
            "questions": {**wanted.questions, **existing.questions},
            "models": _union(existing.models, wanted.models),
            "judges": _union(existing.judges, wanted.judges),
        }
    )


def finished(
    run: EvalRun, **completed: tuple[ModelEntry, ...] | tuple[JudgeEntry, ...]
) -> EvalRun:
    """Return the manifest at the end, with the models and judges that reached it."""
    return run.model_copy(
        update={"status": "finished", "finished": now(), "error": None, **completed}
    )


def _without_replaced(
    existing: tuple[_Entry, ...],
    new: tuple[_Entry, ...],
    folder: EvalFolder,
    places: tuple[str, ...],
) -> tuple[_Entry, ...]:
    """Drop the entries without a score that another entry of the same name replaces."""
    fingerprints = {entry.name: entry.fingerprint for entry in new}
    remaining: list[_Entry] = []
    for entry in existing:
        is_replaced = fingerprints.get(entry.name) not in {None, entry.fingerprint}
        if not is_replaced or _has_scores(entry.name, folder, places):
            remaining.append(entry)
    return tuple(remaining)


def _has_scores(name: str, folder: EvalFolder, places: tuple[str, ...]) -> bool:
    patterns = [f"{place.format(name)}/*.jsonl" for place in places]
    return any(any(folder.root.glob(pattern)) for pattern in patterns)


def _difference_texts(existing: EvalRun, new: EvalRun) -> Iterator[str]:
    if existing.kind != new.kind:
        yield f"it is a {existing.kind} evaluation, not {new.kind}"
        return
    # A suite has one set of benchmarks and budgets per folder.
    if existing.suite == new.suite:
        suite_changes = differences(_suite(existing), _suite(new))
        if suite_changes:
            yield from (f"its {change.text('are')}" for change in suite_changes)
            return
    for name, questions in new.questions.items():
        old_questions = existing.questions.get(name)
        if old_questions is None:
            count = "none"
        elif old_questions.sha256 != questions.sha256:
            count = f"{old_questions.count} of {old_questions.source}"
        else:
            continue
        yield f"its questions are others ({count}, not {questions.count} of {questions.source})"
    for change in differences(
        existing.decoding.model_dump(), new.decoding.model_dump()
    ):
        yield f"its {change.text()}"
    fixed = {"seeds", "samples", "template"}
    for change in differences(
        existing.model_dump(include=fixed), new.model_dump(include=fixed)
    ):
        yield f"its {change.text('are')}"
    yield from _renamed("model", existing.models, new.models)
    yield from _renamed("judge", existing.judges, new.judges)


def _suite(run: EvalRun) -> dict[str, object]:
    return {"benchmarks": sorted(run.questions), "max_tokens": run.max_tokens}


def _renamed(
    kind: str, existing: tuple[_Entry, ...], new: tuple[_Entry, ...]
) -> Iterator[str]:
    """Yield the entries that have the name of another model or judge."""
    by_name = {entry.name: entry for entry in existing}
    for entry in new:
        old = by_name.get(entry.name, entry)
        if old.fingerprint == entry.fingerprint:
            continue
        changed = ", ".join(
            sorted(change.name for change in differences(old.identity, entry.identity))
        )
        yield (
            f"its {kind} {entry.name!r} is another one, by {changed or 'fingerprint'}: give the "
            "new one a new name"
        )


def _union(existing: tuple[_Entry, ...], new: tuple[_Entry, ...]) -> tuple[_Entry, ...]:
    return tuple({entry.name: entry for entry in (*existing, *new)}.values())


@contextmanager
def recorded_run(folder: EvalFolder, run: EvalRun, *, table: Path) -> Generator[None]:
    """Write the manifest when an evaluation begins, and again if it fails.

    Args:
        folder: the evaluation's folder.
        run: its manifest, with status `running`.
        table: the table of earlier runs, which is deleted at the start.
    """
    table.unlink(missing_ok=True)
    # Written first, because it explains everything else in the folder.
    files.write_run(folder, run)
    try:
        yield
    except BaseException as error:
        failed = {"status": "failed", "finished": now(), "error": _message(error)}
        # A full disk may be the cause.
        with suppress(OSError):
            files.write_run(folder, run.model_copy(update=failed))
        raise


@asynccontextmanager
async def closing(*closers: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    """Call all closers at the end of the block, also after an error or a cancellation."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for close in closers:
                await close()


def _message(error: BaseException) -> str:
    if isinstance(error, RubricError | OSError):
        return str(error)
    if isinstance(error, KeyboardInterrupt | anyio.get_cancelled_exc_class()):
        return "stopped before the end"
    # Its message may hold anything.
    return f"ended by a {type(error).__name__}"
