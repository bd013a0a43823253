"""The reply that a rubric asks for, as a pydantic model whose JSON schema holds ids and bounds.

A server with structured outputs can then not answer outside of the contract. What came back is
still judged from its text by `JudgeResult.from_reply`: a schema cannot see a repeated key.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from rubric_core import Rubric
from rubric_judge.config import PromptLayout

_Fields = dict[str, Any]


class _Contract(BaseModel):
    """A model that writes its JSON schema once; clients ask for it at every call."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, validate_by_name=False)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
        """Return the schema, the same object every time."""
        if "_json_schema" not in cls.__dict__:
            cls._json_schema = super().model_json_schema(*args, **kwargs)
        return cls._json_schema


def reply_model(rubric: Rubric, layout: PromptLayout, *, evidence: bool = False) -> type[BaseModel]:
    """Return the model of a valid reply: one required score per criterion, bounded by its weight.

    Args:
        rubric: ids and weights.
        layout: decides the order of the keys, which constrained decoding follows: with
            `shared_prefix` the reasoning comes before the scores.
        evidence: whether there is a quote for each criterion; quotes come before the scores too.
            Their length is not in the schema: some servers' grammars get bounded strings wrong.

    Returns:
        A model class named `JudgeReply`, the same for the same arguments.
    """
    weights = tuple((criterion.id, criterion.weight) for criterion in rubric)
    return _build(weights, rubric.total_weight, layout, evidence)


# A class costs a thousand times what an instance does, and a group of responses shares one.
@lru_cache(maxsize=1024)
def _build(
    weights: tuple[tuple[str, float], ...],
    total: float,
    layout: PromptLayout,
    evidence: bool,  # noqa: FBT001  # a cache's key
) -> type[BaseModel]:
    # Ids may be no Python names, so the fields are numbered and the ids are aliases.
    by_number: _Fields = {
        f"criterion_{number}": (_between(0, weight, alias=name), ...)
        for number, (name, weight) in enumerate(weights)
    }
    scores = create_model("Scores", __base__=_Contract, **by_number)
    numbers: _Fields = {
        "scores": (scores, ...),
        "total": (_between(0, total), ...),
        "max_total": (_between(total, total), ...),
    }
    reasoning: _Fields = {"reasoning": (str, ...)}
    quotes: _Fields = {"evidence": (_quotes([name for name, _ in weights]), ...)}
    numbers = quotes | numbers if evidence else numbers
    ordered = reasoning | numbers if layout == "shared_prefix" else numbers | reasoning
    return create_model("JudgeReply", __base__=_Contract, **ordered)


def _quotes(ids: list[str]) -> type[BaseModel]:
    by_number: _Fields = {
        f"criterion_{number}": (Annotated[str, Field(alias=name)], ...)
        for number, name in enumerate(ids)
    }
    return create_model("Evidence", __base__=_Contract, **by_number)


def _between(low: float, high: float, *, alias: str | None = None) -> object:
    return Annotated[float, Field(ge=low, le=high, alias=alias)]
