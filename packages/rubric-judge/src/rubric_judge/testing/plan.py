"""Which call gets which fault."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from rubric_judge.testing.faults import Fault
from rubric_judge.testing.hostile import HOSTILE_TEXTS, HostileText


@dataclass(frozen=True, slots=True)
class FaultMix:
    """Faults drawn at random."""

    probabilities: Mapping[Fault, float]
    """Share of the calls that each fault gets."""
    texts: tuple[HostileText, ...] = HOSTILE_TEXTS
    """What the hostile faults send, each in turn."""


Faults = Iterable[Fault | HostileText | None] | Mapping[Fault, float] | FaultMix
"""The fault of each call in turn, none after the last; or the probability of each."""


class Drawn(NamedTuple):
    """The fault of one call."""

    fault: Fault | None
    text: HostileText | None
    """What is sent for a hostile fault."""


class FaultPlan:
    """Draws the faults of one run."""

    def __init__(self, faults: Faults, generator: random.Random) -> None:
        self._generator = generator
        self._script: Iterator[Fault | HostileText | None] = iter(())
        self._mix = FaultMix({})
        if isinstance(faults, FaultMix):
            self._mix = faults
        elif isinstance(faults, Mapping):
            self._mix = FaultMix(dict(cast("Mapping[Fault, float]", faults)))
        else:
            self._script = iter(faults)
        self._texts = {
            fault: itertools.cycle([text for text in self._mix.texts if text.fault is fault])
            for fault in (Fault.HOSTILE_REPLY, Fault.HOSTILE_BODY)
        }

    def next(self) -> Drawn:
        """Return the fault of the next call."""
        draw = self._generator.random()
        for fault, probability in self._mix.probabilities.items():
            draw -= probability
            if draw < 0:
                return self._drawn(fault)
        return self._drawn(next(self._script, None))

    def _drawn(self, fault: Fault | HostileText | None) -> Drawn:
        if isinstance(fault, HostileText):
            return Drawn(fault.fault, fault)
        texts = self._texts.get(fault) if fault is not None else None
        return Drawn(fault, next(texts) if texts else None)
