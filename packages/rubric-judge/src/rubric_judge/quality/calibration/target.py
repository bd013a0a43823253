"""The target of a cascade's calibration, in Python and on the command line."""

from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from rubric_judge.models.model_config import Settings


class CascadeTarget(Settings, hide_input_in_errors=False):
    """Risk, confidence and scope that a calibrated cascade promises."""

    # No default is shown: on the command line it is required.
    risk: Annotated[float, Parameter(show_default=False)] = Field(
        default=0.1, gt=0, lt=1
    )
    """Share of the verdicts that may contradict the labels, between 0 and 1; required."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Probability that the share is kept to, of all thresholds together."""
    per_criterion: bool = False
    """A threshold and a promise for each criterion, instead of one for all."""
    tolerance: float | None = Field(default=None, gt=0, lt=1)
    """How far a score may be from its label, as a share of the weight; left out, they contradict
    each other when only one reaches half of it."""
    unit: Literal["document", "task", "response"] = "document"
    """Units that were drawn independently: documents, tasks or responses, with all their parts."""
