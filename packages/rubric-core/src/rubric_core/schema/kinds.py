"""The kinds of claims that criteria state: one closed list, for rules and models alike."""

from enum import StrEnum
from typing import Final

TO_AVOID: Final = "To avoid: "
"""What the description of a criterion that is met by avoiding a fault begins with."""


class CriterionKind(StrEnum):
    """What sort of claim a criterion states; statistics pool by it, as ids are free.

    A criterion of another data set may have none.
    """

    DEFINITION = "definition"
    """What something is, means or is for."""
    CAUSE = "cause"
    """Why something is so, or what follows from it."""
    CONDITION = "condition"
    """What happens or holds in which case."""
    LIMIT = "limit"
    """What must, cannot or need not be; where something stops to hold."""
    QUANTITY = "quantity"
    """A figure, with its unit where it has one."""
    COMPARISON = "comparison"
    """How two things differ, or which is more."""
    STEP = "step"
    """What is done, and in which order."""
    RELATION = "relation"
    """How one thing depends on, consists of or acts on another."""
    DEFAULT = "default"
    """What holds where nothing is said."""
    CHOICES = "choices"
    """Which values are allowed, and what each does."""
    SHAPE = "shape"
    """Shape, size or type of an object."""
    UNIT = "unit"
    """In which unit something is given."""
    RETURNS = "returns"
    """What comes back."""
    RAISES = "raises"
    """Which error is raised, and when."""
    COST = "cost"
    """Time or memory that something takes."""
    VERSION = "version"
    """Since when something is so."""
