"""What a folder holds already, and whether something may be added to it."""

import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import anyio

from rubric_core import RubricError
from rubric_eval.errors import EvalFolderError
from rubric_eval.records import digests, files, inputs
from rubric_eval.records.run import EvalRun, JudgeEntry, ModelEntry, now

_Entry = TypeVar("_Entry", ModelEntry, JudgeEntry)
_RESTORE: Final = (
    "Restore it from a copy, or evaluate into a new folder; the answers of a file that is deleted "
    "are asked for again"
)


def joined(folder: inputs.EvalFolder, wanted: EvalRun) -> EvalRun:
    """Add what is wanted to what a folder holds; nothing is written.

    Models and judges may be added. Questions, decoding, seeds and template stay, for otherwise
    scores would stand side by side that cannot be compared. A name stays with its model or judge
    once that has a score; until then a mended one may take it.

    Args:
        folder: of an evaluation, or of none yet.
        wanted: what is to be evaluated now.

    Returns:
        The manifest of both, with status `running`.

    Raises:
        EvalFolderError: the folder holds something else; says what differs.
        EvalEditedError: it holds a finished evaluation whose manifest or answers were edited.
        RubricFileError: its manifest is damaged.
    """
    if not folder.run.exists():
        _refuse_strangers(folder)
        return wanted
    edits = digests.Edits()
    held = files.read_run(folder, edits=edits)
    if held.status == "finished":
        # Scores and tables are made anew; what models answered is not.
        digests.check_files(folder, held, edits, part=digests.ANSWERS)
        edits.refuse(_RESTORE)
    held = held.model_copy(
        update={
            "models": _kept(
                held.models, wanted.models, folder, ("scores/*/{}", "items/*/{}")
            ),
            "judges": _kept(held.judges, wanted.judges, folder, ("scores/{}/*",)),
        }
    )
    differences = list(_differences(held, wanted))
    if differences:
        what = "; ".join(differences)
        raise EvalFolderError(
            f"{folder.root} holds an evaluation of something else: {what}. Evaluate as it "
            "does, or name a new folder"
        )
    return wanted.model_copy(
        update={
            "started": held.started,
            "questions": {**wanted.questions, **held.questions},
            "models": _union(held.models, wanted.models),
            "judges": _union(held.judges, wanted.judges),
        }
    )


def finished(
    run: EvalRun, **left: tuple[ModelEntry, ...] | tuple[JudgeEntry, ...]
) -> EvalRun:
    """Return the manifest at the end, with the models and judges that were brought to one."""
    return run.model_copy(
        update={"status": "finished", "finished": now(), "error": None, **left}
    )


def _kept(
    held: tuple[_Entry, ...],
    wanted: tuple[_Entry, ...],
    folder: inputs.EvalFolder,
    places: tuple[str, ...],
) -> tuple[_Entry, ...]:
    """Drop what another of its name replaces before it has a single score."""
    new = {entry.name: entry.fingerprint for entry in wanted}
    return tuple(
        entry
        for entry in held
        if new.get(entry.name) in {None, entry.fingerprint}
        or any(
            any(folder.root.glob(f"{place.format(entry.name)}/*.jsonl"))
            for place in places
        )
    )


def _refuse_strangers(folder: inputs.EvalFolder) -> None:
    """Keep out of a folder that is somebody else's."""
    held = (
        {path.name for path in folder.root.iterdir()}
        if folder.root.is_dir()
        else set[str]()
    )
    # A process that was killed while it wrote the manifest leaves a part of it.
    begun = re.compile(rf"\.{re.escape(folder.run.name)}\.[0-9a-f]+\.tmp")
    others = sorted(
        one for one in held - {folder.lock.name} if not begun.fullmatch(one)
    )
    if others:
        raise EvalFolderError(
            f"{folder.root} is no folder of an evaluation: it holds {others[0]!r} and no "
            f"{folder.run.name}; name a new folder"
        )


def _differences(held: EvalRun, wanted: EvalRun) -> Iterator[str]:
    if held.kind != wanted.kind:
        yield f"it is a {held.kind} evaluation, not {wanted.kind}"
        return
    # One set of benchmarks, with one budget each, to a folder.
    sets = ("benchmarks", sorted(held.questions), sorted(wanted.questions))
    budgets = ("max-tokens", held.max_tokens, wanted.max_tokens)
    others = [
        f"its {name} are {there!r}, not {here!r}"
        for name, there, here in (sets, budgets)
        if there != here and held.suite == wanted.suite
    ]
    if others:
        yield from others
        return
    for name, questions in wanted.questions.items():
        there = held.questions.get(name)
        if there is None or there.sha256 != questions.sha256:
            count = f"{there.count} of {there.source}" if there else "none"
            yield f"its questions are others ({count}, not {questions.count} of {questions.source})"
    old = held.decoding.model_dump()
    new = wanted.decoding.model_dump()
    for name in _changed(old, new):
        yield f"its {name.replace('_', '-')} is {old[name]!r}, not {new[name]!r}"
    for name in ("seeds", "samples", "template"):
        old_value = getattr(held, name)
        new_value = getattr(wanted, name)
        if old_value != new_value:
            yield f"its {name} are {old_value!r}, not {new_value!r}"
    yield from _renamed("model", held.models, wanted.models)
    yield from _renamed("judge", held.judges, wanted.judges)


def _renamed(
    kind: str, held: tuple[_Entry, ...], wanted: tuple[_Entry, ...]
) -> Iterator[str]:
    """Find what is called the same and is another."""
    by_name = {entry.name: entry for entry in held}
    for entry in wanted:
        there = by_name.get(entry.name)
        if there is not None and there.fingerprint != entry.fingerprint:
            changed = (
                ", ".join(sorted(_changed(there.identity, entry.identity)))
                or "fingerprint"
            )
            yield (
                f"its {kind} {entry.name!r} is another one, by {changed}: give the new one a new "
                "name"
            )


def _changed(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return [name for name in {**new, **old} if old.get(name) != new.get(name)]


def _union(held: tuple[_Entry, ...], wanted: tuple[_Entry, ...]) -> tuple[_Entry, ...]:
    return tuple({entry.name: entry for entry in (*held, *wanted)}.values())


@contextmanager
def under_way(
    folder: inputs.EvalFolder, run: EvalRun, *, table: Path
) -> Generator[None]:
    """Write the manifest of an evaluation that begins, and again where it fails.

    Args:
        folder: of the evaluation.
        run: its manifest, with status `running`.
        table: what earlier runs left: no table of an evaluation that is under way.
    """
    table.unlink(missing_ok=True)
    files.write_run(folder, run)  # first: it says what everything else in the folder is
    try:
        yield
    except BaseException as error:
        failed = {"status": "failed", "finished": now(), "error": _said(error)}
        with suppress(OSError):  # a full disk may be why
            files.write_run(folder, run.model_copy(update=failed))
        raise


@asynccontextmanager
async def closing(*closers: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    """Close what was opened, also where it was never asked."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for close_one in closers:
                await close_one()


def _said(error: BaseException) -> str:
    if isinstance(error, RubricError | OSError):
        return str(error)
    if isinstance(error, KeyboardInterrupt | anyio.get_cancelled_exc_class()):
        return "stopped before the end"
    return f"ended by a {type(error).__name__}"  # its message may hold anything
