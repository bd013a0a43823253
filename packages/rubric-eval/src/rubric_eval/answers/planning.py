"""Which answers are wanted, whose each one is, and which weights gave it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import structlog
from pydantic import Field, ValidationError

from rubric_core import Ask, Decoding, PolicyView, RubricFileError
from rubric_core.files import read_file
from rubric_eval.errors import EvalFolderError, EvalShapeError
from rubric_eval.records.files import write_json
from rubric_eval.records.inputs import EvalFolder, canonical_json, text_sha256
from rubric_eval.records.run import Record
from rubric_eval.responders.opening import OpenModel
from rubric_eval.responders.spec import OTHER, SAME, Weights

_SEED_BITS: Final = 31


class Question(Protocol):
    """What a model is asked: a `rubric_core.Task`, or an item of a benchmark."""

    @property
    def task_id(self) -> str:
        """Identifies it among those that are asked together."""
        ...

    @property
    def doc_hash(self) -> str:
        """Identifies its document."""
        ...

    def policy_view(self) -> PolicyView:
        """Return what the model may see."""
        ...


class Wanted(NamedTuple):
    """An answer that is wanted: what its row will say, and what is asked for it."""

    task_id: str
    doc_hash: str
    seed: int
    sample: int
    prompt_sha256: str
    key: str
    ask: Ask


def prompt_sha256(view: PolicyView) -> str:
    """Return the hash of a question; what a model's own template makes of it is the model's."""
    return text_sha256(view.question)


class AnswerKeys:
    """Whose answers they are, and to what: the same key, the same answer."""

    def __init__(self, fingerprint: str, decoding: Decoding) -> None:
        """Take what all answers have in common.

        Args:
            fingerprint: the model's.
            decoding: how tokens are drawn.
        """
        self._model = json.dumps(fingerprint)
        self._decoding = canonical_json(decoding.model_dump(mode="json"))

    def of(self, prompt: str, *, seed: int, sample: int) -> str:
        """Return the key of one answer.

        Args:
            prompt: hash of the question.
            seed: of the evaluation.
            sample: number of the answer, from 0.

        Returns:
            SHA-256, in hexadecimal, of the canonical JSON of the list of all five.
        """
        parts = f"[{self._model},{json.dumps(prompt)},{self._decoding},{seed:d},{sample:d}]"
        return text_sha256(parts)


def plan(
    tasks: Sequence[Question],
    *,
    fingerprint: str,
    decoding: Decoding,
    seeds: Sequence[int],
    samples: int,
) -> list[Wanted]:
    """List the answers that are wanted, by seed, then by question, then by sample.

    A draw has a seed of its own, of the evaluation's seed, the sample and the question, and not of
    the model: models draw with common random numbers, questions with independent ones.

    Raises:
        EvalShapeError: no question, one that is there twice, no seed or no sample.
    """
    _check(tasks, seeds, samples)
    keys = AnswerKeys(fingerprint, decoding)
    views = [task.policy_view() for task in tasks]
    prompts = [prompt_sha256(view) for view in views]
    return [
        Wanted(
            task_id=view.task_id,
            doc_hash=task.doc_hash,
            seed=seed,
            sample=sample,
            prompt_sha256=prompt,
            key=keys.of(prompt, seed=seed, sample=sample),
            ask=Ask(view=view, seed=_draw_seed(seed, sample, prompt)),
        )
        for seed in seeds
        for task, view, prompt in zip(tasks, views, prompts, strict=True)
        for sample in range(samples)
    ]


def _draw_seed(seed: int, sample: int, prompt: str) -> int:
    digest = text_sha256(canonical_json([seed, sample, prompt]))
    return int(digest[:8], 16) >> (32 - _SEED_BITS)


def _check(tasks: Sequence[Question], seeds: Sequence[int], samples: int) -> None:
    if not tasks:
        raise EvalShapeError("there is no question: give a file with at least one task")
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise EvalShapeError(f"seeds {list(seeds)!r}: give at least one, each once and 0 or larger")
    if samples < 1:
        raise EvalShapeError(f"samples {samples!r}: ask for at least one answer to a question")
    ((task_id, times),) = Counter(task.task_id for task in tasks).most_common(1)
    if times > 1:
        raise EvalShapeError(f"the task {task_id!r} is there {times} times: leave one")


_log: Final[Any] = structlog.get_logger("rubric_eval")


class AnsweredBy(Record):
    """answers/MODEL/weights.json."""

    by_fingerprint: dict[str, Weights] = Field(default_factory=dict)
    """What the model of each fingerprint made of a fixed text when it was first asked."""


def check_weights(folder: EvalFolder, model: OpenModel) -> None:
    """Refuse a model that is another one than that of its answers; nothing is written.

    What may be another one, or cannot be told, is logged.

    Raises:
        EvalFolderError: it is another one.
        RubricFileError: the file that says so is damaged.
    """
    difference = _difference(folder, model)
    if difference is not None and difference > SAME:
        _log.warning(
            "weights_differ_slightly",
            model=model.name,
            nats_a_token=round(difference, 4),
            allowed=OTHER,
            why="other hardware, or weights that are nearly the same: see that they are the same",
        )
    if difference is None and model.fingerprint in _read(folder, model).by_fingerprint:
        _log.warning(
            "weights_not_checked",
            model=model.name,
            why="its server does not say what it makes of a text, as it did before",
        )


def keep_weights(folder: EvalFolder, model: OpenModel) -> None:
    """Write down whose answers are to come, unless that is known.

    Raises:
        EvalFolderError, RubricFileError: as `check_weights`.
        OSError: the file cannot be written.
    """
    _difference(folder, model)
    known = _read(folder, model).by_fingerprint
    if model.weights is not None and model.fingerprint not in known:
        answered = AnsweredBy(by_fingerprint={**known, model.fingerprint: model.weights})
        write_json(folder.answered_by(model.name), answered)


def _difference(folder: EvalFolder, model: OpenModel) -> float | None:
    """Return how far the model is from that of its answers; None where nobody knows."""
    kept = _read(folder, model).by_fingerprint.get(model.fingerprint)
    difference = kept.difference(model.weights) if kept and model.weights else None
    if difference is not None and difference > OTHER:
        raise EvalFolderError(
            f"the model {model.name!r} ({model.entry.spec}) is not the one that gave the answers "
            f"in {folder.answered_by(model.name).parent}, though its server calls it the same: it "
            f"finds a fixed text differently likely, by {difference:.3f} nats a token, where "
            f"{OTHER} may be chance. Evaluate it under a new name or into a new folder, or serve "
            "the former weights"
        )
    return difference


def _read(folder: EvalFolder, model: OpenModel) -> AnsweredBy:
    path = folder.answered_by(model.name)
    try:
        return AnsweredBy.model_validate_json(read_file(path))
    except FileNotFoundError:
        return AnsweredBy()
    except ValidationError:
        raise RubricFileError(
            "is no record of the weights that answered; restore it, or evaluate into a new folder",
            path=path,
        ) from None
