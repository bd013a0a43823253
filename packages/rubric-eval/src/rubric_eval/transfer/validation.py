"""Whether every task can really be built here: its YAML, its code, its data."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from rubric_core import Decoding, MissingExtraError
from rubric_eval.errors import BenchmarkDataError
from rubric_eval.transfer.building import build
from rubric_eval.transfer.suites import SUITES, SuiteName

if TYPE_CHECKING:
    from pathlib import Path

    from rubric_eval.transfer.suites import Benchmark


class Validated(NamedTuple):
    """What became of one task."""

    task: str
    items: int | None
    """None where it could not be built."""

    source: str
    """Where its items are from, or what is missing."""


def validate(
    *, data: str | Path | None = None, suites: tuple[SuiteName, ...] = tuple(SuiteName)
) -> list[Validated]:
    """Build every task of the suites, with all prompts, and say which cannot be.

    Args:
        data: a folder of local copies, "small", or None for the Hub.
        suites: which.

    Raises:
        MissingExtraError: lm-eval is not installed, so that nothing can be built.
    """
    for module in ("lm_eval", "math_verify"):
        if find_spec(module) is None:
            raise MissingExtraError(
                f"{module} is not installed, so no benchmark can be run: install "
                "rubric-eval[lm-eval]"
            )
    return [_validate(one, data) for suite in suites for one in SUITES[suite]]


def _validate(benchmark: Benchmark, data: str | Path | None) -> Validated:
    try:
        (built,) = build([benchmark], data=data, decoding=Decoding())
    except BenchmarkDataError as error:
        return Validated(benchmark.task, None, str(error))
    return Validated(benchmark.task, len(built.ids), built.source)
