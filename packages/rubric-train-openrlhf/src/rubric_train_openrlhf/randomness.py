"""Every random draw of a run, derived from (seed, step, purpose) and from nothing else.

No generator outlives the step that made it, so a resumed run draws what a killed one would have.
"""

import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

Purpose = Literal[
    "order", "rollout", "validation", "pretrain", "sft", "audit", "dropout"
]


def derived_seed(seed: int, *, step: int, purpose: Purpose, part: int = 0) -> int:
    """Mix the seed of the run with what a draw is for; 63 bits."""
    sequence = np.random.SeedSequence((seed, step, zlib.crc32(purpose.encode()), part))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass(frozen=True)
class PromptOrder:
    """An endless order of n prompts: every epoch is its own permutation."""

    n: int
    seed: int

    def take(self, n: int, *, start: int) -> list[int]:
        """Indices of n prompts in a row, from a position counted from the start of the run."""
        first = start // self.n
        last = (start + n - 1) // self.n
        seeds = [
            derived_seed(self.seed, step=k, purpose="order")
            for k in range(first, last + 1)
        ]
        epochs = [np.random.default_rng(seed).permutation(self.n) for seed in seeds]
        skipped = start - first * self.n
        return np.concatenate(epochs)[skipped : skipped + n].tolist()
