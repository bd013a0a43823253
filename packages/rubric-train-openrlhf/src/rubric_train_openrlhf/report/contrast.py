"""The optional comparison.json: stages and controls on the same held-out questions.

Whoever evaluates the run writes it; only what the page shows is read.
"""

from __future__ import annotations

from typing import cast

from pydantic import BaseModel, ConfigDict, model_validator


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Estimate(_Part):
    """A mean over n questions with its interval, None where it is unknown."""

    mean: float
    ci_low: float | None = None
    ci_high: float | None = None
    n: int


class Row(Estimate):
    """Held-out reward of one stage or control."""

    label: str = ""
    zero_frac: float | None = None
    criteria: dict[str, float] = {}


class Difference(Estimate):
    """Mean of a − b over the same questions."""

    a: str
    b: str


class Contrast(_Part):
    """Stages, controls and paired differences."""

    heldout: dict[str, Row]
    """Stages in the order in which they were trained."""
    controls: dict[str, Row] = {}
    differences: tuple[Difference, ...] = ()
    claim: str = ""
    judge: str = ""
    confidence: float = 0.95
    samples: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _lift_controls(cls, values: object) -> object:
        """Take the controls out of `heldout`, where the file keeps them beside the stages."""
        if not isinstance(values, dict):
            return values
        document = cast("dict[str, object]", values)
        heldout = document.get("heldout")
        if not isinstance(heldout, dict) or "controls" not in heldout:
            return document
        stages = dict(cast("dict[str, object]", heldout))
        controls = stages.pop("controls")
        return {**document, "heldout": stages, "controls": controls}

    def label(self, name: str) -> str:
        """How a stage or control is written."""
        row = self.heldout.get(name) or self.controls.get(name)
        return (row.label if row else "") or name.replace("_", " ")

    @property
    def criteria(self) -> list[str]:
        """Criteria of any stage, in order of first appearance."""
        return list(dict.fromkeys(key for row in self.heldout.values() for key in row.criteria))

    @property
    def reach(self) -> float:
        """Half width of an axis that holds every difference and its interval."""
        ends = [
            abs(value)
            for row in self.differences
            for value in (row.mean, row.ci_low, row.ci_high)
            if value is not None
        ]
        return max(ends, default=0.0) * 1.08 or 1.0
