"""Whether the policy of an update is the policy that sampled, while their weights are one.

At unchanged weights the ratio of every token is 1, nothing is clipped, and the divergence from the
reference that the run starts from is 0, all within rounding. Where that does not hold, the run
learns from other probabilities than its responses were drawn with, and nothing else tells.
"""

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Self

import structlog
import torch

from rubric_train_openrlhf.errors import PolicyMismatchError

_log = structlog.get_logger()

OnMismatch = Literal["stop", "warn"]


class Tolerance(NamedTuple):
    """Nats by which rounding may move the log-probability of a token.

    A row of n tokens may differ by `mean + single / √n` on average, all rows together by `mean`.
    """

    mean: float
    single: float

    @classmethod
    def of(cls, precision: str, *, by_engine: bool = False) -> Self:
        """What is allowed.

        Args:
            precision: that log-probabilities are computed in, as in a configuration.
            by_engine: one of the two sides is an engine with kernels of its own. Between vLLM and
                transformers in bfloat16, 0.01 to 0.05 are usual, and more with experts.
        """
        return cls(*_ALLOWED[precision, by_engine])

    def of_row(self, tokens: int) -> float:
        """Mean over a row of so many tokens."""
        return self.mean + self.single / math.sqrt(tokens)


_ALLOWED: Final = {
    ("float32", False): (0.002, 0.02),
    ("float32", True): (0.01, 0.1),
    ("bfloat16", False): (0.08, 0.5),
    ("bfloat16", True): (0.15, 1.0),
}


class _Row(NamedTuple):
    """A row, with its worst token."""

    source: str
    row: int
    tokens: int
    gap: float
    """Mean over its tokens."""
    allowed: float
    position: int
    """Of the worst token, counted from 1."""
    theirs: float
    ours: float

    @property
    def excess(self) -> float:
        """Above 1 where it is more than rounding; not a number counts as that."""
        return self.gap / self.allowed if math.isfinite(self.gap) else math.inf


class Agreement:
    """Compares log-probabilities of the same tokens at the same weights."""

    def __init__(self, architecture: str, *, step: int, on_mismatch: OnMismatch) -> None:
        """Begin with nothing compared.

        Args:
            architecture: of the policy, to be named.
            step: number of the step.
            on_mismatch: whether `settle` stops the run.
        """
        self._told = {"architecture": architecture, "step": step}
        self._on_mismatch = on_mismatch
        self._worst: dict[str, _Row] = {}
        self._sums: dict[str, tuple[float, int]] = {}
        self._means: dict[str, float] = {}

    @property
    def is_start(self) -> bool:
        """Whether the reference is the policy, too."""
        return self._told["step"] == 1

    def look(
        self,
        source: str,
        theirs_BT: torch.Tensor,
        ours_BT: torch.Tensor,
        mask_BT: torch.Tensor,
        *,
        rows: Sequence[int],
        tolerance: Tolerance,
    ) -> None:
        """Compare some rows.

        Args:
            source: who gave `theirs_BT`.
            theirs_BT: log-probabilities.
            ours_BT: those of the policy that is to be updated.
            mask_BT: which tokens count.
            rows: numbers of the rows.
            tolerance: what rounding may come to.
        """
        theirs_BT, ours_BT = (one.detach().double().cpu() for one in (theirs_BT, ours_BT))
        mask_BT = mask_BT.cpu()
        gap_BT = (theirs_BT - ours_BT).abs().masked_fill(~mask_BT, 0.0)
        self._means[source] = tolerance.mean
        total, count = self._sums.get(source, (0.0, 0))
        self._sums[source] = total + float(gap_BT.sum()), count + int(mask_BT.sum())
        for place, row in enumerate(rows):
            tokens = int(mask_BT[place].sum())
            if not tokens:
                continue
            at = int(gap_BT[place].argmax())
            position = int(mask_BT[place, : at + 1].sum())
            of_token = float(theirs_BT[place, at]), float(ours_BT[place, at])
            gap, allowed = float(gap_BT[place].sum()) / tokens, tolerance.of_row(tokens)
            found = _Row(source, row, tokens, gap, allowed, position, *of_token)
            if source not in self._worst or found.excess > self._worst[source].excess:
                self._worst[source] = found

    def settle_mean(self, mean: float, *, allowed: float) -> None:
        """Stop the run, or warn, where an update differs from what came before it on average.

        Raises:
            PolicyMismatchError: it does, and the run is to stop.
        """
        if mean <= allowed:
            return
        told = {"mean": mean, "mean_allowed": allowed, **self._told}
        if self._on_mismatch == "stop":
            raise PolicyMismatchError.told("updates_differ", **told)
        _log.warning("train.policies_differ", **told)

    def settle(self) -> None:
        """Stop the run, or warn, where anything differs by more than rounding.

        Raises:
            PolicyMismatchError: it does, and the run is to stop.
        """
        for source, worst in self._worst.items():
            total, count = self._sums[source]
            mean, allowed = total / count, self._means[source]
            if worst.excess <= 1 and mean <= allowed:
                continue
            told = {"mean": mean, "mean_allowed": allowed, **worst._asdict(), **self._told}
            if self._on_mismatch == "stop":
                raise PolicyMismatchError.told("policies_differ", **told)
            _log.warning("train.policies_differ", **told)
