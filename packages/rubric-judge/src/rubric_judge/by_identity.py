"""A cache of what was computed from an object, keyed by the object's identity."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_Source = TypeVar("_Source")
_Made = TypeVar("_Made")


class ByIdentity(Generic[_Source, _Made]):
    """A function that remembers its latest answers, by the identity of what it is called with.

    To hash a rubric is to walk through all of its texts. An entry holds its object, so that the
    object's id is not given to another while the entry lives.
    """

    def __init__(self, make: Callable[[_Source], _Made], *, most: int) -> None:
        """Remember nothing yet.

        Args:
            make: the function.
            most: how many answers to remember.
        """
        self._make = make
        self._most = most
        self._known: OrderedDict[int, tuple[_Source, _Made]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, source: _Source) -> _Made:
        """Return what is made of an object."""
        known = self._known.get(id(source))
        if known is not None:
            return known[1]
        made = self._make(source)
        with self._lock:
            self._known[id(source)] = source, made
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return made
