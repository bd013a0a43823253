"""What a judgement is found by: a hash of everything that it depends on."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from rubric_core import Grounding, JudgeView, Rubric

_VERSION: Final = 1
"""Changes with what goes into a key, so that no key of another making is ever met."""

_KEPT: Final = 4096

_T = TypeVar("_T")


class ContentHashes:
    """Hashes of rubrics and passages, computed once for all responses of a task."""

    def __init__(self) -> None:
        self._rubrics = _ByIdentity(_hash_of_rubric)
        self._passages = _ByIdentity(_hash_of_passage)

    def rubric(self, rubric: Rubric) -> str:
        """Return the SHA-256 of every field of every criterion."""
        return self._rubrics(rubric)

    def passage(self, grounding: Grounding) -> str:
        """Return the SHA-256 of the text."""
        return self._passages(grounding)

    def key(self, view: JudgeView, *, judge: str, replicate: int) -> str:
        """Return 64 hex digits from all that shapes one judgement.

            sha256(version, judge, rubric, passage, question, response, replicate)

        The judge's fingerprint stands for model, prompt files and parameters. The task's id is left
        out: it follows from the rest.
        """
        check_replicate(replicate)
        content = (
            _VERSION,
            judge,
            self.rubric(view.rubric),
            self.passage(view.grounding),
            hash_text(view.question),
            hash_text(view.response),
            replicate,
        )
        return hash_text(json.dumps(content))


def check_replicate(replicate: object) -> None:
    """Check the number of a repetition.

    Raises:
        ValueError: it is no integer from 0 that a file can hold; True and 1.0 are other keys.
    """
    if not isinstance(replicate, int) or isinstance(replicate, bool) or not 0 <= replicate < 2**63:
        raise ValueError(f"replicate={replicate!r} must be an integer, 0 or more")


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


class _ByIdentity(Generic[_T]):
    """Remembers the hash of the latest objects.

    By identity: to hash a rubric is to walk through all of its texts. An entry holds its object, so
    that the object's id is not given to another while the entry lives.
    """

    def __init__(self, hash_of: Callable[[_T], str]) -> None:
        self._hash_of = hash_of
        self._known: OrderedDict[int, tuple[_T, str]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, content: _T) -> str:
        known = self._known.get(id(content))
        if known is not None:
            return known[1]
        sha256 = self._hash_of(content)
        with self._lock:
            self._known[id(content)] = content, sha256
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return sha256


def _hash_of_rubric(rubric: Rubric) -> str:
    return hash_text(json.dumps(rubric.reveal(), sort_keys=True))


def _hash_of_passage(grounding: Grounding) -> str:
    return grounding.sha256
