"""What the report draws: series by name, role and style; no drawing here.

A role is a colour variable of the page: `train`, `heldout`, `c1` … `c8` for parts of a whole.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rubric_train_openrlhf.run.records import HeldoutRow, MetricsRow

MAX_PARTS = 8
"""Lines or layers that one chart can hold and still be read."""


@dataclass(frozen=True)
class Series:
    """One line, row of dots or layer of a stack."""

    label: str
    role: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    """NaN is a gap."""
    style: Literal["line", "dots", "layer"] = "line"
    spread: tuple[float, ...] = ()
    """Half height of a band around the line."""

    @property
    def is_dashed(self) -> bool:
        """Lines of the later colours are dashed, for readers who see few colours."""
        return self.style == "line" and self.role in {"c5", "c6", "c7", "c8"}


@dataclass(frozen=True)
class Chart:
    """One figure; its legend is made of the series."""

    key: str
    title: str
    caption: str
    series: tuple[Series, ...]
    size: Literal["lead", "small"] = "small"
    ceiling: float | None = None
    """Upper end of the axis where the quantity has one."""
    is_share: bool = False
    """Whether the axis is in per cent."""


@dataclass(frozen=True)
class Section:
    """Charts under one heading."""

    title: str
    charts: tuple[Chart, ...]


def sections(metrics: Sequence[MetricsRow], heldout: Sequence[HeldoutRow]) -> tuple[Section, ...]:
    """Choose the charts that these rows can fill."""
    found = (
        Section("Reward", _reward(metrics, heldout)),
        Section("Update", _update(metrics)),
        Section("Responses and time", _responses(metrics, heldout)),
    )
    kept = (Section(part.title, tuple(filter(_has_data, part.charts))) for part in found)
    return tuple(part for part in kept if part.charts)


def _has_data(chart: Chart) -> bool:
    return any(series.values for series in chart.series)


def _reward(metrics: Sequence[MetricsRow], heldout: Sequence[HeldoutRow]) -> tuple[Chart, ...]:
    names = _criterion_names(metrics, heldout)
    return (
        Chart(
            "reward",
            "Rubric reward",
            "Mean over the responses of a step, with one standard deviation either side, and "
            "over the held-out questions. The ring marks the best held-out pass.",
            (
                _line(
                    metrics,
                    "training",
                    "train",
                    lambda row: row.reward_mean,
                    spread=lambda row: row.reward_std,
                ),
                _dots(heldout, "held out", "heldout", lambda row: row.reward_mean),
            ),
            size="lead",
            ceiling=1.0,
        ),
        Chart(
            "zero",
            "Zero reward",
            "Share of responses with reward 0, by reason: “scored” is a zero that the judge gave.",
            (
                *_stack(metrics, lambda row: row.zero_reward_by_reason),
                _dots(heldout, "held out", "heldout", lambda row: row.zero_reward_frac),
            ),
            is_share=True,
        ),
        Chart(
            "criteria",
            "Criteria, training",
            "Mean share of a criterion’s weight that was earned." + _left_out(names),
            _criteria(metrics, names),
            ceiling=1.0,
        ),
        Chart(
            "criteria-heldout",
            "Criteria, held out",
            "The same on the held-out questions." + _left_out(names),
            _criteria(heldout, names),
            ceiling=1.0,
        ),
        Chart(
            "failures",
            "Judgements without a score",
            "Share of judgements out of contract (reward 0) and of judges that could not be "
            "reached (left out).",
            (
                _line(metrics, "invalid", "c5", lambda row: row.invalid_frac),
                _line(metrics, "unavailable", "c8", lambda row: row.unavailable_frac),
            ),
            is_share=True,
        ),
    )


def _update(metrics: Sequence[MetricsRow]) -> tuple[Chart, ...]:
    return (
        Chart(
            "kl",
            "KL to the reference policy",
            "k3 estimate, mean over response tokens.",
            (_line(metrics, "KL", "train", lambda row: row.kl),),
        ),
        Chart(
            "clip",
            "Clipped tokens, and groups without spread",
            "Share of tokens whose ratio was clipped; share of groups with equal rewards, which "
            "teach nothing.",
            (
                _line(metrics, "clipped tokens", "train", lambda row: row.clip_frac),
                _line(metrics, "groups without spread", "c2", lambda r: r.degenerate_group_frac),
            ),
            is_share=True,
        ),
        *_entropy(metrics),
        Chart(
            "grad-norm",
            "Gradient norm",
            "Mean over the updates of a step, before clipping.",
            (_line(metrics, "gradient norm", "train", lambda row: row.grad_norm),),
        ),
    )


def _entropy(metrics: Sequence[MetricsRow]) -> tuple[Chart, ...]:
    """A chart where the backend computes it."""
    if all(row.entropy is None for row in metrics):
        return ()
    line = _line(metrics, "entropy", "train", lambda r: nan if r.entropy is None else r.entropy)
    return (
        Chart("entropy", "Entropy of the policy", "Mean over response tokens, in nats.", (line,)),
    )


def _responses(metrics: Sequence[MetricsRow], heldout: Sequence[HeldoutRow]) -> tuple[Chart, ...]:
    return (
        Chart(
            "length",
            "Length of responses",
            "Tokens, end mark included.",
            (
                _line(metrics, "mean", "train", lambda row: row.response_tokens_mean),
                _line(metrics, "longest", "c8", lambda row: row.response_tokens_max),
                _dots(heldout, "held out", "heldout", lambda row: row.response_tokens_mean),
            ),
        ),
        Chart(
            "truncated",
            "Truncated responses",
            "Share that reached the length limit before the end mark.",
            (_line(metrics, "truncated", "train", lambda row: row.truncated_frac),),
            is_share=True,
        ),
        Chart(
            "time",
            "Seconds a step",
            "Where the time of a step went; judging that generation hides costs none.",
            _stack(metrics, _seconds),
        ),
        Chart(
            "speed",
            "Generated tokens a second",
            "While generating.",
            (_line(metrics, "tokens a second", "train", lambda row: row.tokens_per_s),),
        ),
    )


def _seconds(row: MetricsRow) -> dict[str, float]:
    parts = {
        "generating": row.generate_s,
        "waiting for the judge": row.judge_wait_s,
        "updating": row.update_s,
    }
    if row.cluster is not None:
        parts["log-probabilities"] = row.cluster.experience_s
        parts["weights to the engines"] = row.cluster.sync_s
    return {**parts, "other": max(row.step_s - sum(parts.values()), 0.0)}


def _line(
    metrics: Sequence[MetricsRow],
    label: str,
    role: str,
    value: Callable[[MetricsRow], float],
    *,
    spread: Callable[[MetricsRow], float] | None = None,
) -> Series:
    return Series(
        label,
        role,
        tuple(row.step for row in metrics),
        tuple(value(row) for row in metrics),
        spread=tuple(map(spread, metrics)) if spread else (),
    )


def _dots(
    heldout: Sequence[HeldoutRow], label: str, role: str, value: Callable[[HeldoutRow], float]
) -> Series:
    steps = tuple(row.step for row in heldout)
    return Series(label, role, steps, tuple(value(row) for row in heldout), style="dots")


def _stack(
    metrics: Sequence[MetricsRow], value: Callable[[MetricsRow], Mapping[str, float]]
) -> tuple[Series, ...]:
    rows = [value(row) for row in metrics]
    steps = tuple(row.step for row in metrics)
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row)
    kept = [name for name, _ in total.most_common(MAX_PARTS - 1) if total[name] > 0]
    layers = [
        Series(
            name.replace("_", " "),
            f"c{i}",
            steps,
            tuple(row.get(name, 0.0) for row in rows),
            style="layer",
        )
        for i, name in enumerate(kept, start=1)
    ]
    rest = tuple(sum(v for name, v in row.items() if name not in kept) for row in rows)
    if any(rest):
        layers.append(Series("all other", f"c{MAX_PARTS}", steps, rest, style="layer"))
    return tuple(layers)


def _criteria(
    rows: Sequence[MetricsRow] | Sequence[HeldoutRow], names: Sequence[str]
) -> tuple[Series, ...]:
    """One line a criterion; the same names have the same colours in every chart."""
    steps = tuple(row.step for row in rows)
    gap = float("nan")
    return tuple(
        Series(name, f"c{i}", steps, tuple(row.criteria.get(name, gap) for row in rows))
        for i, name in enumerate(names[:MAX_PARTS], start=1)
        if any(name in row.criteria for row in rows)
    )


def _criterion_names(metrics: Sequence[MetricsRow], heldout: Sequence[HeldoutRow]) -> list[str]:
    """Those that most rows have come first, and among equals the first that is named."""
    counts: Counter[str] = Counter()
    for row in (*heldout, *metrics):
        counts.update(row.criteria.keys())
    names = [name for name, _ in counts.most_common()]
    shown = set(names[:MAX_PARTS])
    return [name for name in counts if name in shown] + names[MAX_PARTS:]


def _left_out(names: Sequence[str]) -> str:
    if len(names) <= MAX_PARTS:
        return ""
    return f" The {MAX_PARTS} of {len(names)} criteria that most steps have."
