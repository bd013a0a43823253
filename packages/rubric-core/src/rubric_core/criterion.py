"""One weighted criterion of a rubric. Its texts are for the judge alone."""

from __future__ import annotations

from pydantic import Field

from rubric_core.fields import Amount, Identifier, Many, Text
from rubric_core.sealed import Sealed


class Criterion(Sealed):
    """c_j = (w_j, η_j, E_j, κ_j, ν_j), with the scoring guide and concepts of the data schema.

    `repr` and `model_dump` show the id and the weight only, so that a log or a dump cannot carry a
    criterion to the policy's side; `reveal` returns every field.

    Source: paper, §3, Def. rubric.
    """

    id: Identifier
    """Unique within its rubric; the key of its score in a judge's reply."""

    weight: Amount
    """w_j ≥ 0, finite: the largest score s_j that the criterion can award."""

    name: Text = Field(default="", repr=False, exclude=True)
    """A short title."""

    description: Text = Field(default="", repr=False, exclude=True)
    """η_j: what is asked, in words."""

    required_elements: Many[Text] = Field(default=(), repr=False, exclude=True)
    """E_j: what a full answer must contain."""

    scoring_guide: Text = Field(default="", repr=False, exclude=True)
    """How partial credit is given."""

    verification_method: Text = Field(default="", repr=False, exclude=True)
    """ν_j: how to check the criterion; program judges read directives in it."""

    expected_keywords: Many[Text] = Field(default=(), repr=False, exclude=True)
    """κ_j: terminology that a good answer uses."""

    expected_concepts: Many[Text] = Field(default=(), repr=False, exclude=True)
    """Ideas that a good answer conveys."""

    def reveal(self) -> dict[str, object]:
        """Return every field under the paper's names, texts included: for judges and datasets."""
        return {
            "id": self.id,
            "weight": self.weight,
            "name": self.name,
            "description": self.description,
            "required_elements": list(self.required_elements),
            "scoring_guide": self.scoring_guide,
            "verification_method": self.verification_method,
            "expected_keywords": list(self.expected_keywords),
            "expected_concepts": list(self.expected_concepts),
        }
