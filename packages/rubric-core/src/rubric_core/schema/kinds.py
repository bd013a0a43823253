"""The kinds of claims that criteria state: one closed list, for rules and for models."""

from enum import StrEnum

TO_AVOID = "To avoid: "
"""Prefix of the description of a criterion that is met by avoiding a fault."""


class CriterionKind(StrEnum):
    """The kind of claim that a criterion states; statistics pool by it, as ids are free.

    A criterion from another data set may have none.
    """

    DEFINITION = "definition"
    """The meaning, nature or purpose of something."""
    CAUSE = "cause"
    """Why something is so, or what follows from it."""
    CONDITION = "condition"
    """The case in which something happens or holds."""
    LIMIT = "limit"
    """A bound: something that must, cannot or need not be, or the point where it stops holding."""
    QUANTITY = "quantity"
    """A figure, with its unit where it has one."""
    COMPARISON = "comparison"
    """How two things differ, or which is more."""
    STEP = "step"
    """Actions and their order."""
    RELATION = "relation"
    """How one thing depends on, consists of or acts on another."""
    DEFAULT = "default"
    """The value or behaviour that applies where nothing is set."""
    CHOICES = "choices"
    """The allowed values, and the effect of each."""
    SHAPE = "shape"
    """Shape, size or type of an object."""
    UNIT = "unit"
    """The unit in which something is given."""
    RETURNS = "returns"
    """The value that comes back."""
    RAISES = "raises"
    """The error that is raised, and when."""
    COST = "cost"
    """The time or memory that something takes."""
    VERSION = "version"
    """The version since which something is so."""
