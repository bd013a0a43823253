"""A rubric: criteria with unique ids and a positive total weight."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, NoReturn

from pydantic import AfterValidator, Field, GetCoreSchemaHandler
from pydantic_core import core_schema

from rubric_core.errors import SchemaError
from rubric_core.files import text_sha256
from rubric_core.schema.judged import Judged
from rubric_core.schema.kinds import CriterionKind
from rubric_core.schema.sealed import Hidden, Identifier, Many, Sealed, Text

if TYPE_CHECKING:
    from rubric_core.arrays import FloatArray


_LEFT_OUT_UNSET = ("kind", "judges")
"""Fields that a row of the paper does not have."""


def _no_penalty(weight: float) -> float:
    if weight < 0:
        raise ValueError(
            f"must be 0 or more, not {weight!r}: a penalty is a criterion of positive weight that "
            "an answer meets by avoiding the fault, and `rubric-judge import` turns it into one"
        )
    return weight


class Criterion(Sealed):
    """c_j = (w_j, η_j, E_j, κ_j, ν_j), with the scoring guide and concepts of the data schema.

    `repr` and `model_dump` show the id and the weight only, so that a log or a dump cannot carry a
    criterion to the policy's side; `reveal` returns every field.

    Source: paper, §3, Def. rubric.
    """

    id: Identifier
    """Unique within its rubric; the key of its score in a judge's reply."""

    weight: Annotated[
        float,
        Field(strict=True, allow_inf_nan=False, json_schema_extra={"minimum": 0}),
        AfterValidator(_no_penalty),
    ]
    """w_j ≥ 0, finite: the largest score s_j that the criterion can award."""

    name: Hidden[Text] = ""
    """A short title."""

    description: Hidden[Text] = ""
    """η_j: what is asked, in words."""

    required_elements: Hidden[Many[Text]] = ()
    """E_j: what a full answer must contain."""

    scoring_guide: Hidden[Text] = ""
    """How partial credit is given."""

    verification_method: Hidden[Text] = ""
    """ν_j: how to check the criterion; program judges read directives in it."""

    expected_keywords: Hidden[Many[Text]] = ()
    """κ_j: terminology that a good answer uses."""

    expected_concepts: Hidden[Many[Text]] = ()
    """Ideas that a good answer conveys."""

    kind: Hidden[CriterionKind | None] = None
    """The kind of claim that the description states; None where that is not stated."""

    judges: Hidden[Judged] = None
    """The part of a trace that is judged: `every_turn`, `turn_2` or another turn of the policy,
    `tool_use` or `full_trace`; None for its last reply."""

    def reveal(self) -> dict[str, object]:
        """Return every field under the paper's names, texts included: for judges and datasets."""
        row: dict[str, object] = {}
        for name, value in self:
            if name in _LEFT_OUT_UNSET:
                continue
            row[name] = value if isinstance(value, str | float) else list(value)
        if self.kind is not None:
            row["kind"] = self.kind.value
        if self.judges is not None:
            row["judges"] = self.judges
        return row


def _well_formed(criteria: Many[Criterion]) -> Many[Criterion]:
    if not criteria:
        raise ValueError("a rubric needs at least one criterion")
    counts = Counter(criterion.id for criterion in criteria)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise ValueError(
            f"criterion ids must be unique, {repeated[0]!r} occurs more than once: rename one"
        )
    try:
        total = math.fsum(c.weight for c in criteria)
    except OverflowError:
        total = math.inf
    if not 0 < total < math.inf:
        raise ValueError(
            f"the total weight must be positive and finite, not {total!r}: change the weights"
        )
    return criteria


Criteria = Annotated[Many[Criterion], AfterValidator(_well_formed)]


class Rubric(Sealed):
    """R = {c_1, …, c_M}: at least one criterion, unique ids, W = Σ w_j > 0 and finite.

    `len` is M, iteration yields the criteria in order, `rubric[id]` is one criterion. `repr` and
    `model_dump` show ids and weights only; `reveal` returns the texts too.

    Source: paper, §3, Def. rubric.
    """

    criteria: Criteria
    """The criteria in order; the M axis of every array follows it."""

    if TYPE_CHECKING:  # pydantic makes it of all fields

        def __hash__(self) -> int: ...

    @property
    def ids(self) -> tuple[str, ...]:
        """Criterion ids in order."""
        return tuple(c.id for c in self.criteria)

    @property
    def total_weight(self) -> float:
        """W = Σ w_j, correctly rounded."""
        return math.fsum(c.weight for c in self.criteria)

    @property
    def weights_M(self) -> FloatArray:
        """w_j, shape [M], read-only."""
        import numpy as np  # half of the package's import time, not needed to load

        weights_M = np.array([c.weight for c in self.criteria], dtype=np.float64)
        weights_M.setflags(write=False)
        return weights_M

    @property
    def shares_M(self) -> FloatArray:
        """α_j = w_j / W, shape [M], sums to 1, read-only."""
        shares_M = self.weights_M / self.total_weight
        shares_M.setflags(write=False)
        return shares_M

    @property
    def effective_criteria(self) -> float:
        """M_eff = W² / Σ w_j², between 1 and M."""
        from rubric_core.effective import effective_criteria  # imports numpy

        return effective_criteria(self.weights_M)

    @property
    def judges_traces(self) -> bool:
        """Whether a criterion judges something else than the last reply."""
        return any(c.judges is not None for c in self.criteria)

    def of_replies(self, ids: Container[str] | None = None) -> Rubric:
        """Return the rubric of some criteria, none of which names what it judges.

        The same object for the same ids, as judges keep what they make of a rubric.

        Args:
            ids: the criteria, one with a weight at least; all of them where left out.
        """
        chosen = tuple(c.id for c in self.criteria if ids is None or c.id in ids)
        return _of_replies(self, chosen)

    def check_scores(self, scores: Mapping[str, float]) -> None:
        """Refuse scores that are not this rubric's: every id once, 0 ≤ s_j ≤ w_j.

        Raises:
            SchemaError: other ids, or a score out of bounds.
        """
        if set(scores) != set(self.ids):
            counts = f"the scores have {len(scores)} ids, the rubric has {len(self)}"
            different = min(set(scores) ^ set(self.ids))
            raise SchemaError(
                f"{counts}; only one of the two has {different!r}", field="scores"
            )
        for criterion in self:
            score = scores[criterion.id]
            if not 0 <= score <= criterion.weight:
                problem = f"is {score!r}, not in [0, {criterion.weight!r}]"
                raise SchemaError(
                    f"the score of {criterion.id!r} {problem}",
                    field=f"scores.{criterion.id}",
                )

    def reveal(self) -> list[dict[str, object]]:
        """Return every criterion with its texts, in the paper's JSON: for judges and datasets."""
        return [c.reveal() for c in self.criteria]

    def __len__(self) -> int:
        return len(self.criteria)

    def __iter__(self) -> Iterator[Criterion]:  # pyright: ignore[reportIncompatibleMethodOverride]  # pydantic's own yields field pairs, of which there is one
        return iter(self.criteria)

    def __getitem__(self, criterion_id: str) -> Criterion:
        return {c.id: c for c in self.criteria}[criterion_id]


@lru_cache(maxsize=1024)
def _of_replies(rubric: Rubric, ids: tuple[str, ...]) -> Rubric:
    criteria = tuple(
        criterion.model_copy(update={"judges": None})
        for criterion in rubric.criteria
        if criterion.id in ids
    )
    return Rubric(criteria=criteria)


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Grounding:
    """g: text that does not print, log or serialise itself; only `reveal` returns it.

    `repr`, `str`, `format` and every pydantic dump show its hash and length. Equality and hash are
    those of the text. A pickle does hold the text, so that judge workers in other processes can
    read it: never send one to the policy's side.

    Raises:
        SchemaError: the text is not a `str`, or holds lone surrogates.

    Source: paper, §3.3, Privileged grounding.
    """

    __slots__ = ("_text",)
    _text: str

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a boundary
            raise SchemaError(
                f"the passage must be a str, not {type(text).__name__}", field="passage"
            )
        if _LONE_SURROGATE.search(text):
            raise SchemaError(
                f"the passage ({len(text)} characters) holds lone surrogates: decode it as UTF-8",
                field="passage",
            )
        object.__setattr__(self, "_text", text)

    def reveal(self) -> str:
        """Return the text: for judges and dataset files only."""
        return self._text

    @property
    def sha256(self) -> str:
        """Hex digest of the text in UTF-8."""
        return text_sha256(self._text)

    def __len__(self) -> int:
        return len(self._text)

    def __repr__(self) -> str:
        """Show the hash and length of the text, not the text."""
        return f"Grounding(sha256={self.sha256[:16]!r}, chars={len(self)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grounding):
            return NotImplemented
        return self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse the change: a passage is constant."""
        raise AttributeError(f"Grounding is frozen, {name!r} cannot be set")

    def __reduce__(self) -> tuple[type[Grounding], tuple[str]]:
        """Rebuild from the text."""
        return type(self), (self._text,)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Grounding], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Accept instances only, and dump as `str` does."""
        return core_schema.is_instance_schema(
            cls, serialization=core_schema.to_string_ser_schema(when_used="always")
        )
