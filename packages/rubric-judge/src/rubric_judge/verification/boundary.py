"""The boundary between a check and a response: nothing that a response holds masks its score."""

from __future__ import annotations

from rubric_judge.errors import VerificationError


def note_of_failure(error: Exception) -> str:
    """Say that a check failed on a response, which then earns nothing.

    An exception that left the judge would make the result `unavailable`, and a masked reward is a
    way out of a 0.

    Args:
        error: what the check raised.

    Returns:
        The note; its kind and no text.

    Raises:
        VerificationError: the rubric's doing, as it was raised.
        OSError: the machine's doing, as an ImportError is.
    """
    if isinstance(error, (VerificationError, ImportError, OSError)):
        raise error
    return f"its check ended in {type(error).__name__}"
