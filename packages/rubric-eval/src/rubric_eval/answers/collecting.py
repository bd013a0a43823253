"""Asking a model for the answers that are not there yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing

from rubric_core import Decoding, Reply, ResponderError
from rubric_eval.answers.planning import Question, Wanted, keep_weights, plan
from rubric_eval.answers.store import AnswerFile
from rubric_eval.records.files import AnswerRow
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.responders.opening import OpenModel


async def stream_answers(
    model: OpenModel,
    tasks: Sequence[Question],
    *,
    folder: EvalFolder,
    decoding: Decoding,
    seeds: Sequence[int] = (0,),
    samples: int = 1,
) -> AsyncGenerator[tuple[int, AnswerRow]]:
    """Give every answer once: those that the folder holds at once, the others as they come.

    Each is in its file before it is given. Failures of an earlier run are asked for again, answers
    never. Tasks with the same question share one. Use it within
    `contextlib.aclosing`, and within `folder_lock` of the folder.

    Args:
        model: who is asked; it is given its view of each task and nothing else.
        tasks: N questions, each once.
        folder: where answers are kept.
        decoding: how tokens are drawn.
        seeds: S seeds, one file each.
        samples: K answers to each question and seed.

    Yields:
        N·S·K rows, each behind its seed, a failure as a row with its reason.

    Raises:
        EvalShapeError: no question, one twice, or no seed or sample.
        EvalFolderError: the folder is damaged, or other weights answered in it.
        EvalWriteError: a file cannot be written; what came before is kept.
        ConfigError: the decoding asks for what this model cannot do.
        ResponderError: the model cannot answer at all.
    """
    wanted = plan(
        tasks, fingerprint=model.fingerprint, decoding=decoding, seeds=seeds, samples=samples
    )
    with ExitStack() as stack:
        keep_weights(folder, model)
        files = {
            seed: stack.enter_context(AnswerFile(folder.answers(model.name, seed)))
            for seed in seeds
        }
        missing: defaultdict[str, list[Wanted]] = defaultdict(list)
        for one in wanted:
            row = _kept(one, files[one.seed])
            if row is None:
                missing[one.key].append(one)
            else:
                yield one.seed, row
        groups = list(missing.values())
        replies = _replies(model, groups, decoding)
        async with aclosing(replies):
            async for index, reply in replies:
                for one in groups[index]:
                    row = _row(one, reply)
                    files[one.seed].append(row)
                    yield one.seed, row


def _kept(one: Wanted, file: AnswerFile) -> AnswerRow | None:
    """Return the row of an answer that is there, of another task with the same question too."""
    kept = file.kept(one.key)
    if kept is None:
        return None
    row = kept.model_copy(update={"task_id": one.task_id, "doc_hash": one.doc_hash})
    if not file.holds(row):
        file.append(row)
    return row


async def _replies(
    model: OpenModel, groups: Sequence[Sequence[Wanted]], decoding: Decoding
) -> AsyncGenerator[tuple[int, Reply]]:
    """Ask once for each group; hold the responder to one reply for each."""
    if not groups:
        return
    due = set(range(len(groups)))
    replies = model.responder.respond([group[0].ask for group in groups], decoding)
    try:
        async for index, reply in replies:
            if index not in due:
                raise ResponderError(
                    f"the responder of model {model.name!r} replied to question {index!r}, which "
                    "nobody asked: report it to whoever wrote the responder"
                )
            due.discard(index)
            yield index, reply
    finally:
        close = getattr(replies, "aclose", None)  # an iterator need not have one
        if close is not None:
            await close()
    if due:
        raise ResponderError(
            f"the responder of model {model.name!r} gave no reply to {len(due)} of {len(groups)} "
            "questions: report it to whoever wrote the responder"
        )


def _row(one: Wanted, reply: Reply) -> AnswerRow:
    return AnswerRow(
        task_id=one.task_id,
        doc_hash=one.doc_hash,
        sample=one.sample,
        prompt_sha256=one.prompt_sha256,
        key=one.key,
        text=reply.text,
        finish=reply.finish,
        tokens=reply.tokens,
        reason=reply.reason,
        detail=reply.detail,
    )
