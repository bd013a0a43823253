"""How far the judge itself may be trusted, as `rubric-judge reliability` has measured it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import RubricFileError
from rubric_core.files import read_file

if TYPE_CHECKING:
    from pathlib import Path


class _Part(BaseModel):
    """What the page takes; the file holds more."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Bounded(_Part):
    """A number and its interval; None where the data cannot say."""

    value: float | None
    low: float | None = None
    high: float | None = None


class JudgeNoise(_Part):
    """One judge on its own."""

    judge: str
    judgements: int
    replicates: int
    icc1_within: Bounded
    """Reliability of one judgement within the answers to a question."""
    flips: Bounded
    """Share of advantages whose sign a second judgement turns."""
    tau2: Bounded
    """Variance of a criterion's score over judgements of the same answer."""


class JudgePair(_Part):
    """Two judges on the same answers."""

    a: str
    b: str
    responses: int
    bias: Bounded
    spearman: Bounded
    kappa: Bounded


class Reliability(_Part):
    """A study of judges."""

    tasks: int
    responses: int
    confidence: float
    judges: tuple[JudgeNoise, ...]
    pairs: tuple[JudgePair, ...] = ()


def read_reliability(path: Path) -> Reliability:
    """Read reliability.json, named itself or by its folder.

    Raises:
        RubricFileError: no such file, or not such a study.
    """
    file = path / "reliability.json" if path.is_dir() else path
    try:
        return Reliability.model_validate_json(read_file(file))
    except FileNotFoundError:
        raise RubricFileError(
            "no such study; name the reliability.json that `rubric-judge reliability` wrote",
            path=file,
        ) from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RubricFileError(
            f"field {field!r}: {first['msg']}; name a reliability.json that "
            "`rubric-judge reliability` wrote",
            path=file,
            field=field or None,
        ) from None
