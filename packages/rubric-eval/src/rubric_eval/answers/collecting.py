"""Answers: list those needed, reuse stored ones, check the weights, ask for the rest."""

import traceback
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from pydantic import Field, ValidationError

from rubric_core import (
    Ask,
    Decoding,
    PolicyView,
    Reply,
    ResponderError,
    RubricError,
    RubricFileError,
    Task,
)
from rubric_core.errors import shortened
from rubric_core.files import read_file, text_sha256
from rubric_core.strict_json import canonical_json
from rubric_eval.answers.store import AnswerFile, AnswerKeys
from rubric_eval.errors import EvalFolderError
from rubric_eval.records.files import AnswerRow, write_json
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import Record
from rubric_eval.responders.opening import OpenModel
from rubric_eval.responders.spec import OTHER, SAME, Weights

_SEED_BITS = 31
_SHOWN_CHARACTERS = 400


@dataclass(frozen=True)
class ItemQuestion:
    """A question to a model that is an item of a benchmark."""

    task_id: str
    prompt: str
    choices: tuple[str, ...] = ()
    """Texts, the likeliest of which is the answer; empty if the answer is to be generated."""

    @property
    def doc_hash(self) -> str:
        """Id of the item, each being a document of its own."""
        return self.task_id

    def policy_view(self) -> PolicyView:
        """Return the model's view of the item: the prompt, without the target."""
        return PolicyView(task_id=self.task_id, question=self.prompt)


class _Wanted(NamedTuple):
    """A requested answer: its row, in which the answer is missing, and its question."""

    seed: int
    row: AnswerRow
    ask: Ask


def _wanted(
    model: OpenModel,
    questions: Sequence[Task | ItemQuestion],
    decoding: Decoding,
    seeds: Sequence[int],
    samples: int,
) -> Iterator[_Wanted]:
    """Yield the requested answers by seed, then by question, then by sample.

    A draw has a seed of its own, of the evaluation's seed, the sample and the question, and not of
    the model: models draw with common random numbers, questions with independent ones.
    """
    keys = AnswerKeys(model.fingerprint, decoding)
    views = [question.policy_view() for question in questions]
    prompts = [text_sha256(view.prompt_key) for view in views]
    for seed in seeds:
        for question, view, prompt in zip(questions, views, prompts, strict=True):
            for sample in range(samples):
                row = AnswerRow(
                    task_id=view.task_id,
                    doc_hash=question.doc_hash,
                    sample=sample,
                    prompt_sha256=prompt,
                    key=keys.of(prompt, seed=seed, sample=sample),
                    text=None,
                )
                digest = text_sha256(canonical_json([seed, sample, prompt]))
                draw = int(digest[:8], 16) >> (32 - _SEED_BITS)
                choices = question.choices if isinstance(question, ItemQuestion) else ()
                yield _Wanted(seed, row, Ask(view=view, seed=draw, choices=choices))


_log: Any = structlog.get_logger("rubric_eval")


class AnsweredBy(Record):
    """Content of answers/MODEL/weights.json."""

    by_fingerprint: dict[str, Weights] = Field(default_factory=dict)
    """Log-probabilities of a fixed text by each model when it was first asked, by fingerprint."""


def check_weights(folder: EvalFolder, model: OpenModel) -> None:
    """Refuse a model that is not the one that gave the stored answers; nothing is written.

    A warning is logged if the model may be another one, or if that cannot be checked.

    Raises:
        EvalFolderError: the model is another one.
        RubricFileError: the record of its weights is damaged.
    """
    known, difference = _difference(folder, model)
    if difference is not None and difference > SAME:
        _log.warning(
            "weights_differ_slightly",
            model=model.name,
            nats_a_token=round(difference, 4),
            allowed=OTHER,
            why="other hardware, or weights that are nearly the same: see that they are the same",
        )
    if difference is None and model.fingerprint in known:
        _log.warning(
            "weights_not_checked",
            model=model.name,
            why="its server does not say what it makes of a text, as it did before",
        )


def _keep_weights(folder: EvalFolder, model: OpenModel) -> None:
    """Record the weights of the model that is about to answer, unless they are known."""
    known, _ = _difference(folder, model)
    if model.weights is not None and model.fingerprint not in known:
        answered = AnsweredBy(
            by_fingerprint={**known, model.fingerprint: model.weights}
        )
        write_json(folder.answered_by(model.name), answered)


def _difference(
    folder: EvalFolder, model: OpenModel
) -> tuple[dict[str, Weights], float | None]:
    """Return the recorded weights, and the model's difference from its own; None if not known."""
    path = folder.answered_by(model.name)
    try:
        known = AnsweredBy.model_validate_json(read_file(path)).by_fingerprint
    except FileNotFoundError:
        known = {}
    except ValidationError:
        problem = "is no record of the weights that answered"
        remedy = "restore it, or evaluate into a new folder"
        raise RubricFileError(f"{problem}; {remedy}", path=path) from None
    recorded = known.get(model.fingerprint)
    difference = None
    if recorded and model.weights:
        difference = recorded.difference(model.weights)
    if difference is not None and difference > OTHER:
        raise EvalFolderError(
            f"the model {model.name!r} ({model.entry.spec}) is not the one that gave the "
            f"answers in {path.parent}, though its server calls it the same: its "
            f"log-probability of a fixed text differs by {difference:.3f} nats a token, where "
            f"up to {OTHER} may be chance. Evaluate it under a new name or into a new folder, "
            "or serve the former weights"
        )
    return known, difference


async def stream_answers(
    model: OpenModel,
    tasks: Sequence[Task | ItemQuestion],
    *,
    folder: EvalFolder,
    decoding: Decoding,
    seeds: Sequence[int] = (0,),
    samples: int = 1,
) -> AsyncGenerator[tuple[int, AnswerRow]]:
    """Yield every answer once: first those that the folder holds, then the others as they come.

    Each answer is written to its file before it is yielded. Failures of an earlier run are asked
    for again, answers never, except those of an older version that may be thoughts. Tasks with the
    same question share one answer. Use it within `contextlib.aclosing`, and within `folder_lock` of
    the folder.

    Args:
        model: model that is asked; it gets its view of each task and nothing else.
        tasks: N questions, each once.
        folder: folder that answers are stored in.
        decoding: settings of decoding.
        seeds: S seeds, one file each.
        samples: K answers to each question and seed.

    Yields:
        N·S·K pairs of a seed and a row; a failure is a row with its reason.

    Raises:
        EvalFolderError: the folder is damaged, or other weights answered in it.
        EvalWriteError: a file cannot be written; earlier answers are kept.
        ConfigError: the model does not support the decoding.
        ResponderError: the model cannot answer at all.
    """
    with ExitStack() as stack:
        _keep_weights(folder, model)
        files = {
            seed: stack.enter_context(AnswerFile(folder.answers(model.name, seed)))
            for seed in seeds
        }
        missing: defaultdict[str, list[_Wanted]] = defaultdict(list)
        for request in _wanted(model, tasks, decoding, seeds, samples):
            file = files[request.seed]
            stored = file.kept(request.row.key)
            if stored is None:
                missing[request.row.key].append(request)
                continue
            # It may be the answer to another task with the same question.
            names = {"task_id": request.row.task_id, "doc_hash": request.row.doc_hash}
            row = stored.model_copy(update=names)
            if not file.holds(row):
                file.append(row)
            yield request.seed, row
        _warn_of_older(model, files.values())
        groups = list(missing.values())
        async with aclosing(_replies(model, groups, decoding)) as replies:
            async for index, reply in replies:
                for request in groups[index]:
                    row = request.row.model_copy(update=dict(reply))
                    files[request.seed].append(row)
                    yield request.seed, row


async def all_answers(
    model: OpenModel,
    tasks: Sequence[Task | ItemQuestion],
    *,
    folder: EvalFolder,
    decoding: Decoding,
    seeds: Sequence[int],
    samples: int,
) -> AsyncGenerator[tuple[int, AnswerRow]]:
    """Yield what `stream_answers` yields, and close the model at the end."""
    stream = stream_answers(
        model, tasks, folder=folder, decoding=decoding, seeds=seeds, samples=samples
    )
    async with model, aclosing(stream):
        async for answer in stream:
            yield answer


def _warn_of_older(model: OpenModel, files: Iterable[AnswerFile]) -> None:
    """Log how many answers of an older version are asked for again, if any."""
    older = sum(len(file.older) for file in files)
    if older:
        _log.warning(
            "answers_asked_again",
            model=model.name,
            answers=older,
            why="an older version stored them with their thoughts, or cut within one",
        )


async def _with_named_errors(
    replies: AsyncIterator[tuple[int, Reply]], model: str
) -> AsyncGenerator[tuple[int, Reply]]:
    """Turn any other error of a responder into one that names model, place and reason.

    A responder sees only what a model may see, so that its messages hold no passage.
    """
    iterator = aiter(replies)
    while True:
        try:
            index, reply = await anext(iterator)
        except (StopAsyncIteration, RubricError) as error:
            if isinstance(error, RubricError):
                raise
            return
        # A responder is third-party code: a model may make its library raise anything.
        except Exception as error:
            raise ResponderError(
                f"model {model!r} cannot answer: {_described(error)}"
            ) from error
        yield index, reply


def _described(error: Exception) -> str:
    """Return type, place and message of an error, on one line."""
    description = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        last = frames[-1]
        description += f" at {Path(last.filename).name}:{last.lineno}"
    message = shortened(" ".join(str(error).split()), _SHOWN_CHARACTERS)
    return f"{description}: {message}" if message else description


async def _replies(
    model: OpenModel, groups: Sequence[Sequence[_Wanted]], decoding: Decoding
) -> AsyncGenerator[tuple[int, Reply]]:
    """Ask once for each group, and check that the responder gives one reply for each."""
    if not groups:
        return
    due = set(range(len(groups)))
    who = f"the responder of model {model.name!r}"
    remedy = "report it to whoever wrote the responder"
    replies = model.responder.respond([group[0].ask for group in groups], decoding)
    try:
        async for index, reply in _with_named_errors(replies, model.name):
            if index not in due:
                unasked = f"question {index!r}, which nobody asked"
                raise ResponderError(f"{who} replied to {unasked}: {remedy}")
            due.discard(index)
            yield index, reply
    finally:
        close = getattr(replies, "aclose", None)  # an iterator need not have one
        if close is not None:
            await close()
    if due:
        lacking = f"{len(due)} of {len(groups)} questions"
        raise ResponderError(f"{who} gave no reply to {lacking}: {remedy}")
