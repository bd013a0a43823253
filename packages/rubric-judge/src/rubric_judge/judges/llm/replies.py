"""The models of valid replies, whose JSON schemas go to the server."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from rubric_core import Rubric
from rubric_judge.config import PromptLayout

_Fields = dict[str, Any]


class _Contract(BaseModel):
    """A model that writes its JSON schema once; clients ask for it at every call."""

    model_config = ConfigDict(
        extra="forbid", hide_input_in_errors=True, validate_by_name=False
    )

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the schema, the same object every time."""
        if "_json_schema" not in cls.__dict__:
            cls._json_schema = super().model_json_schema(*args, **kwargs)
        return cls._json_schema


def reply_model(
    rubric: Rubric, layout: PromptLayout, *, evidence: bool = False
) -> type[BaseModel]:
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
    numbers: _Fields = {
        "scores": (_scores(weights), ...),
        "total": (_between(0, total), ...),
        "max_total": (_between(total, total), ...),
    }
    if evidence:
        quotes: _Fields = {
            f"criterion_{number}": (Annotated[str, Field(alias=name)], ...)
            for number, (name, _) in enumerate(weights)
        }
        numbers = {
            "evidence": (create_model("Evidence", __base__=_Contract, **quotes), ...)
        } | numbers
    reasoning: _Fields = {"reasoning": (str, ...)}
    ordered = reasoning | numbers if layout == "shared_prefix" else numbers | reasoning
    return create_model("JudgeReply", __base__=_Contract, **ordered)


def group_reply_model(rubric: Rubric, responses: Sequence[str]) -> type[BaseModel]:
    """Return the model of a valid reply on several responses: a score of each on each criterion.

    Args:
        rubric: ids and weights.
        responses: what each is called: capital letters.

    Returns:
        A model class named `GroupReply`, the same for the same arguments.
    """
    weights = tuple((criterion.id, criterion.weight) for criterion in rubric)
    return _build_group(weights, tuple(responses))


@lru_cache(maxsize=1024)
def _build_group(
    weights: tuple[tuple[str, float], ...], responses: tuple[str, ...]
) -> type[BaseModel]:
    scores = _scores(weights)
    by_response: _Fields = dict.fromkeys(responses, (scores, ...))
    group = create_model("GroupScores", __base__=_Contract, **by_response)
    return create_model(
        "GroupReply", __base__=_Contract, reasoning=(str, ...), scores=(group, ...)
    )


def _scores(weights: Iterable[tuple[str, float]]) -> type[BaseModel]:
    # Ids may be no Python names, so the fields are numbered and the ids are aliases.
    fields: _Fields = {
        f"criterion_{number}": (_between(0, weight, alias=name), ...)
        for number, (name, weight) in enumerate(weights)
    }
    return create_model("Scores", __base__=_Contract, **fields)


def _between(low: float, high: float, *, alias: str | None = None) -> object:
    return Annotated[float, Field(ge=low, le=high, alias=alias)]
