"""What the report draws of a run: series by name, role and style."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import TYPE_CHECKING

from rubric_judge.page.charts import Chart, Series

if TYPE_CHECKING:
    from rubric_train_openrlhf.run.records import HeldoutRow, MetricsRow

MAX_PARTS = 8
"""Lines or layers that one chart can hold and still be read."""


def sections(
    metrics: Sequence[MetricsRow], heldout: Sequence[HeldoutRow]
) -> dict[str, tuple[Chart, ...]]:
    """Choose the charts that these rows can fill, by the heading that they stand under."""
    found = {
        "Reward": _reward(metrics, heldout),
        "Update": _update(metrics),
        "Responses and time": _responses(metrics, heldout),
    }
    filled = {title: tuple(filter(_has_data, charts)) for title, charts in found.items()}
    return {title: charts for title, charts in filled.items() if charts}


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
                _line(metrics, "training", "main", "reward_mean", spread="reward_std"),
                _dots(heldout, "held out", "other", "reward_mean"),
            ),
            size="lead",
            ceiling=1.0,
            ringed=_best_step(heldout),
        ),
        Chart(
            "zero",
            "Zero reward",
            "Share of responses with reward 0, by reason: “scored” is a zero that the judge gave.",
            (
                *_stack(metrics, [row.zero_reward_by_reason for row in metrics]),
                _dots(heldout, "held out", "other", "zero_reward_frac"),
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
                _line(metrics, "invalid", "c5", "invalid_frac"),
                _line(metrics, "unavailable", "c8", "unavailable_frac"),
            ),
            is_share=True,
        ),
    )


def _best_step(heldout: Sequence[HeldoutRow]) -> int | None:
    rows = [row for row in heldout if isfinite(row.reward_mean)]
    return max(rows, key=lambda row: row.reward_mean).step if rows else None


def _update(metrics: Sequence[MetricsRow]) -> tuple[Chart, ...]:
    return (
        Chart(
            "kl",
            "KL to the reference policy",
            "k3 estimate, mean over response tokens.",
            (_line(metrics, "KL", "main", "kl"),),
        ),
        Chart(
            "clip",
            "Clipped tokens, and groups without spread",
            "Share of tokens whose ratio was clipped; share of groups with equal rewards, which "
            "teach nothing.",
            (
                _line(metrics, "clipped tokens", "main", "clip_frac"),
                _line(metrics, "groups without spread", "c2", "degenerate_group_frac"),
            ),
            is_share=True,
        ),
        Chart(
            "entropy",
            "Entropy of the policy",
            "Mean over response tokens, in nats.",
            # Not every backend computes it.
            (
                _line(
                    [row for row in metrics if row.entropy is not None],
                    "entropy",
                    "main",
                    "entropy",
                ),
            ),
        ),
        Chart(
            "grad-norm",
            "Gradient norm",
            "Mean over the updates of a step, before clipping.",
            (_line(metrics, "gradient norm", "main", "grad_norm"),),
        ),
    )


def _responses(metrics: Sequence[MetricsRow], heldout: Sequence[HeldoutRow]) -> tuple[Chart, ...]:
    return (
        Chart(
            "length",
            "Length of responses",
            "Tokens, end mark included.",
            (
                _line(metrics, "mean", "main", "response_tokens_mean"),
                _line(metrics, "longest", "c8", "response_tokens_max"),
                _dots(heldout, "held out", "other", "response_tokens_mean"),
            ),
        ),
        Chart(
            "truncated",
            "Truncated responses",
            "Share that reached the length limit before the end mark.",
            (_line(metrics, "truncated", "main", "truncated_frac"),),
            is_share=True,
        ),
        Chart(
            "time",
            "Seconds a step",
            "Where the time of a step went; judging that generation hides costs none.",
            _stack(metrics, map(_seconds, metrics)),
        ),
        Chart(
            "speed",
            "Generated tokens a second",
            "While generating.",
            (_line(metrics, "tokens a second", "main", "tokens_per_s"),),
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
    rows: Sequence[MetricsRow] | Sequence[HeldoutRow],
    label: str,
    role: str,
    field: str,
    *,
    spread: str = "",
) -> Series:
    steps, values = tuple(row.step for row in rows), _values(rows, field)
    return Series(label, role, steps, values, spread=_values(rows, spread) if spread else ())


def _dots(rows: Sequence[HeldoutRow], label: str, role: str, field: str) -> Series:
    return replace(_line(rows, label, role, field), style="dots")


def _values(rows: Sequence[MetricsRow] | Sequence[HeldoutRow], field: str) -> tuple[float, ...]:
    """A field of every row; what a backend does not compute is a gap."""
    found: list[float | None] = [getattr(row, field) for row in rows]
    return tuple(nan if value is None else value for value in found)


def _stack(
    metrics: Sequence[MetricsRow], parts: Iterable[Mapping[str, float]]
) -> tuple[Series, ...]:
    rows, steps = list(parts), tuple(row.step for row in metrics)
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
    return tuple(
        Series(name, f"c{i}", steps, tuple(row.criteria.get(name, nan) for row in rows))
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
