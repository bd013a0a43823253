"""What each side of the information asymmetry is given, as types.

A `PolicyView` has no field that could hold a passage or a criterion; a `JudgeView` has all four
inputs of the judge and shows none of their texts.
"""

from __future__ import annotations

from pydantic import Field

from rubric_core.fields import Identifier, Text
from rubric_core.grounding import Grounding
from rubric_core.rubric import Rubric
from rubric_core.sealed import Sealed


class PolicyView(Sealed):
    """x: all that the policy sees of a task."""

    task_id: Identifier
    """Joins rollouts with their task."""

    question: Text
    """The prompt."""


class JudgeView(Sealed):
    """(x, g, y, R): all that the judge sees of one response.

    `repr` and `model_dump` leave out the passage, the response and the criteria's texts. It can be
    pickled, with its texts, for judge workers in other processes.
    """

    task_id: Identifier
    """The task that the response answers."""

    question: Text
    """x: what the policy was asked."""

    grounding: Grounding = Field(repr=False, exclude=True)
    """g: the passage to check against."""

    response: Text = Field(repr=False, exclude=True)
    """y: the policy's answer, untrusted text."""

    rubric: Rubric
    """R: what to score."""


class SftExample(Sealed):
    """A question with a reference answer, for the supervised warm start of the policy."""

    task_id: Identifier
    """The task that the answer belongs to."""

    question: Text
    """The prompt."""

    answer: Text = Field(repr=False)
    """What the policy learns to write."""
