"""Values of simulated models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_eval.records.run import Measure, Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@pytest.fixture(scope="session")
def make_measured() -> Callable[..., Measured]:
    """Values of one model; a number stands for the one answer to a question."""

    def make(
        model: str,
        values: Sequence[float | Sequence[float | None] | None],
        **changes: object,
    ) -> Measured:
        values_NK = tuple(
            tuple(one) if isinstance(one, (list, tuple)) else (one,) for one in values
        )
        ids = tuple(changes.pop("ids", (f"q{at}" for at in range(len(values_NK)))))
        fields: dict[str, Any] = {
            "measure": Measure.REWARD,
            "benchmark": "heldout",
            "model": model,
            "fingerprint": f"weights of {model}",
            "judge": "lexical",
            "protocol": "p",
            "ids": ids,
            "clusters": ids,
            "prompts": tuple(f"prompt {name}" for name in ids),
            "seeds": tuple(range(len(values_NK[0]))),
            "values_NK": values_NK,
        }
        return Measured.model_validate(fields | changes)

    return make


@pytest.fixture(scope="session")
def make_accuracy(make_measured: Callable[..., Measured]) -> Callable[..., Measured]:
    """Right and wrong answers of one model to a benchmark."""

    def make(model: str, values: Sequence[object], **changes: object) -> Measured:
        fields = {
            "measure": Measure.ACCURACY,
            "benchmark": "rubric_gsm8k",
            "judge": None,
        }
        return make_measured(model, values, **(fields | changes))

    return make
