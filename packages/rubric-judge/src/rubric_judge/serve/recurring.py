"""Log lines of one kind: the first is written, the others of the next seconds are counted."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

import structlog

_WITHIN_S = 10.0
_LIBRARIES = ("asyncio", "uvicorn.error")

_log = structlog.get_logger("rubric_judge.serve")


class Recurring:
    """Decides which lines are written, so that nobody can fill the log by asking."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a line.

        Args:
            clock: seconds that only grow.
        """
        self._clock = clock
        self._since_s: dict[str, float] = {}
        self._left_out = Counter[str]()

    def passes(self, kind: str) -> bool:
        """Whether a line of this kind is to be written; it is counted otherwise."""
        self.report()
        if kind in self._since_s:
            self._left_out[kind] += 1
            return False
        self._since_s[kind] = self._clock()
        return True

    def report(self, *, all_of_them: bool = False) -> None:
        """Write how many lines were left out of the kinds whose time is over.

        Args:
            all_of_them: of the others as well.
        """
        until_s = self._clock() - _WITHIN_S
        for kind, since_s in list(self._since_s.items()):
            if all_of_them or since_s <= until_s:
                del self._since_s[kind]
                if left_out := self._left_out.pop(kind, 0):
                    _log.warning("serve.log.left_out", like=kind, lines=left_out)

    @contextmanager
    def over_libraries(self) -> Generator[None]:
        """Have what asyncio and uvicorn log pass through here."""
        loggers = [logging.getLogger(name) for name in _LIBRARIES]
        for logger in loggers:
            logger.addFilter(self._filter)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(self._filter)
            self.report(all_of_them=True)

    def _filter(self, record: logging.LogRecord) -> bool:
        # asyncio writes the details into the message, one a line.
        return record.levelno < logging.WARNING or self.passes(
            f"{record.name}: {str(record.msg).partition(chr(10))[0]}"
        )
