"""What processes tell each other in pieces that Ray sends from one to the other.

Ray puts an argument or an answer of more than 100 KiB into its object store: shared memory that
every process of a node has open, those of a policy in training too. What holds a passage, or quotes
one, is therefore cut into pieces that are below that size by far.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any, Final

PIECE_BYTES: Final = 64 * 1024
"""Longest piece; what Ray adds to it is some hundred bytes."""


def pieces_of(value: object) -> list[bytes]:
    """Pickle a value and cut it.

    Returns:
        At least one piece.
    """
    content = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return [content[at : at + PIECE_BYTES] for at in range(0, len(content), PIECE_BYTES)]


def joined(pieces: Iterable[bytes]) -> Any:
    """Return the value that `pieces_of` cut.

    Args:
        pieces: all of them, in order, from a process of the same pool.
    """
    return pickle.loads(b"".join(pieces))  # noqa: S301  # as Ray reads whatever it is given
