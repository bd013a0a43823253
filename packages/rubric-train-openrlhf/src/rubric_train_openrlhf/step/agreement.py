"""Check that an update's policy is the policy that sampled, while their weights are the same.

At unchanged weights the ratio of every token is 1, nothing is clipped, and the divergence from the
reference that the run starts from is 0, all within rounding. If that does not hold, the run learns
from other probabilities than its responses were drawn with, and nothing else reveals it.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Self

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
        """Return the tolerance for a precision.

        Args:
            precision: precision of the log-probabilities, as in a configuration.
            by_engine: whether one of the two sides is an engine with kernels of its own. Between
                vLLM and transformers in bfloat16, 0.01 to 0.05 are usual, and more with experts.
        """
        return cls(*_ALLOWED[precision, by_engine])

    def of_row(self, tokens: int) -> float:
        """Return the tolerance of the mean over a row with this number of tokens."""
        return self.mean + self.single / math.sqrt(tokens)


_ALLOWED = {
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
    """Mean difference over its tokens."""
    allowed: float
    position: int
    """Position of the worst token, counted from 1."""
    theirs: float
    ours: float

    @property
    def excess(self) -> float:
        """Ratio of the difference to its tolerance; infinite for a difference of nan."""
        return self.gap / self.allowed if math.isfinite(self.gap) else math.inf


class Agreement:
    """Comparison of log-probabilities of the same tokens at the same weights."""

    def __init__(
        self, architecture: str, *, step: int, on_mismatch: OnMismatch
    ) -> None:
        """Start without any comparison.

        Args:
            architecture: name of the policy's architecture, for messages.
            step: number of the step.
            on_mismatch: whether `settle` stops the run.
        """
        self._architecture = architecture
        self._step = step
        self._on_mismatch = on_mismatch
        self._worst: dict[str, _Row] = {}
        self._sums: dict[str, tuple[float, int]] = {}
        self._means: dict[str, float] = {}

    @property
    def is_start(self) -> bool:
        """Whether this is the first step, at which the reference equals the policy."""
        return self._step == 1

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
            source: name of the side that gave `theirs_BT`.
            theirs_BT: log-probabilities.
            ours_BT: log-probabilities by the policy that is to be updated.
            mask_BT: True on the tokens that count.
            rows: numbers of the rows.
            tolerance: differences that rounding may cause.
        """
        theirs_BT = theirs_BT.detach().double().cpu()
        ours_BT = ours_BT.detach().double().cpu()
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
            compared = _Row(
                source,
                row,
                tokens,
                gap=float(gap_BT[place].sum()) / tokens,
                allowed=tolerance.of_row(tokens),
                position=position,
                theirs=float(theirs_BT[place, at]),
                ours=float(ours_BT[place, at]),
            )
            worst = self._worst.get(source)
            if worst is None or compared.excess > worst.excess:
                self._worst[source] = compared

    def settle_mean(self, mean: float, *, allowed: float) -> None:
        """Stop the run, or warn, if an update's probabilities differ from earlier ones on average.

        Raises:
            PolicyMismatchError: they differ, and the run is to stop.
        """
        if mean <= allowed:
            return
        if self._on_mismatch == "stop":
            raise PolicyMismatchError(
                f"step {self._step}: {self._architecture} gives the tokens of its first update "
                "other probabilities than it gave them before, at the same weights: they differ "
                f"by {mean:.3g} nats on average ({allowed:.3g} is rounding); report it with the "
                "versions in environment.json; `on_mismatch: warn` goes on all the same"
            )
        _log.warning(
            "train.policies_differ",
            mean=mean,
            mean_allowed=allowed,
            architecture=self._architecture,
            step=self._step,
        )

    def settle(self) -> None:
        """Stop the run, or warn, if anything differs by more than rounding.

        Raises:
            PolicyMismatchError: something differs, and the run is to stop.
        """
        for source, worst in self._worst.items():
            total, count = self._sums[source]
            mean = total / count
            allowed = self._means[source]
            if worst.excess <= 1 and mean <= allowed:
                continue
            if self._on_mismatch == "stop":
                raise PolicyMismatchError(
                    f"step {self._step}: {self._architecture} does not give response {worst.row} "
                    f"the probabilities that {source} gave it, at the same weights: its "
                    f"{worst.tokens} tokens differ by {worst.gap:.3g} nats on average "
                    f"({worst.allowed:.3g} is rounding), token {worst.position} most, with "
                    f"log-probability {worst.theirs:.4f} by {source} and {worst.ours:.4f} by the "
                    f"policy to be updated; {mean:.3g} over all tokens ({allowed:.3g}). Training "
                    "would be on other probabilities than were drawn from: use another "
                    "architecture, or another release of transformers or vLLM, and report it; "
                    "`on_mismatch: warn` goes on all the same"
                )
            _log.warning(
                "train.policies_differ",
                mean=mean,
                mean_allowed=allowed,
                **worst._asdict(),
                architecture=self._architecture,
                step=self._step,
            )
