"""Which weights gave the answers of a folder: a server's are not among what names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog
from pydantic import BaseModel, ValidationError

from rubric_core import RubricFileError
from rubric_core.files import read_file
from rubric_eval.errors import EvalFolderError
from rubric_eval.records.files import write_json
from rubric_eval.records.run import FROZEN
from rubric_eval.responders.spec import OTHER, SAME, Weights

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_eval.records import EvalFolder
    from rubric_eval.responders import OpenModel

_log: Final[Any] = structlog.get_logger("rubric_eval")


class AnsweredBy(BaseModel):
    """answers/MODEL/weights.json."""

    model_config = FROZEN

    by_fingerprint: dict[str, Weights] = {}
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
    kept = _read(folder, model).by_fingerprint
    if model.weights is not None and model.fingerprint not in kept:
        known = {**kept, model.fingerprint: model.weights}
        write_json(_path(folder, model), AnsweredBy(by_fingerprint=known))


def _difference(folder: EvalFolder, model: OpenModel) -> float | None:
    """Return how far the model is from that of its answers; None where nobody knows."""
    kept = _read(folder, model).by_fingerprint.get(model.fingerprint)
    difference = kept.difference(model.weights) if kept and model.weights else None
    if difference is not None and difference > OTHER:
        raise EvalFolderError(
            f"the model {model.name!r} ({model.entry.spec}) is not the one that gave the answers "
            f"in {_path(folder, model).parent}, though its server calls it the same: it finds a "
            f"fixed text differently likely, by {difference:.3f} nats a token, where {OTHER} may "
            "be chance. Evaluate it under a new name or into a new folder, or serve the former "
            "weights"
        )
    return difference


def _path(folder: EvalFolder, model: OpenModel) -> Path:
    return folder.answered_by(model.name)


def _read(folder: EvalFolder, model: OpenModel) -> AnsweredBy:
    path = _path(folder, model)
    try:
        return AnsweredBy.model_validate_json(read_file(path))
    except FileNotFoundError:
        return AnsweredBy()
    except ValidationError:
        raise RubricFileError(
            "is no record of the weights that answered; restore it, or evaluate into a new folder",
            path=path,
        ) from None
