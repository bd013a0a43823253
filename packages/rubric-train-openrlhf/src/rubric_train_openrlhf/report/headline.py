"""The top of the page: what was trained, and the numbers that sum the run up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rubric_train_openrlhf.report.reading import Run
    from rubric_train_openrlhf.run.records import MetricsRow

_WINDOW = 5
"""Most steps that the first and the last training figures are averaged over."""
_MINUTE_S = 60
_HOUR_S = 3600


@dataclass(frozen=True)
class Figure:
    """One number at the top: what it was, what it became."""

    label: str
    value: str
    before: str = ""
    note: str = ""


def description(run: Run) -> list[tuple[str, str]]:
    """What was trained, in a few words each; what the configuration lacks is left out."""
    config = run.config
    rollout, model = _section(config, "rollout"), _section(config, "model")
    objective, spec = _section(config, "objective"), _section(_section(config, "judge"), "spec")
    optim = _section(config, "optim")
    prompts, group = rollout.get("prompts"), rollout.get("group_size")
    facts = [
        ("Policy", model.get("path") or model.get("type")),
        ("Judge", " ".join(str(spec[key]) for key in ("type", "model") if spec.get(key))),
        ("Responses a step", f"{prompts} prompts × {group}" if prompts and group else None),
        ("Updates a step", optim.get("updates_per_rollout")),
        ("Learning rate", _number(optim.get("learning_rate"))),
        ("Clip", _clip(objective)),
        ("KL weight β", _number(objective.get("kl_coef"))),
        ("Backend", config.get("backend")),
        ("Seed", config.get("seed")),
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def status(run: Run) -> str:
    """How far the run has got, as one sentence."""
    planned = run.config.get("steps")
    done = len(run.metrics)
    steps = f"{done} of {planned} steps" if planned and planned != done else _steps(done)
    took = f", {duration(run.summary.wall_s)}" if run.summary.wall_s else ""
    return {
        "finished": f"Finished: {steps}{took}.",
        "failed": f"Stopped by an error after {steps}{took}.",
        "interrupted": f"Interrupted after {steps}{took}.",
        "killed": f"Ended without saying so, as a run that is killed does: {steps}{took}.",
        "running": f"Still running when this page was made: {steps}{took}.",
    }.get(run.summary.status, f"{steps[0].upper()}{steps[1:]} on disk{took}.")


def figures(run: Run) -> list[Figure]:
    """The numbers that sum the run up, as far as there are rows for them."""
    return [*_heldout_figures(run), *_training_figures(run.metrics)]


def duration(seconds: float) -> str:
    """Seconds as a reader says them."""
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.1f} min"
    return f"{seconds / _HOUR_S:.1f} h"


def _heldout_figures(run: Run) -> list[Figure]:
    if not run.heldout:
        return []
    first, best = run.heldout[0], max(run.heldout, key=lambda row: row.reward_mean)
    alone = len(run.heldout) == 1
    last = run.heldout[-1]
    chosen = f"; before, and the best pass, step {best.step}"
    after = "" if last is best else f"; the last has {last.reward_mean:.3f}"
    return [
        Figure(
            "Validation reward",
            f"{best.reward_mean:.3f}",
            "" if alone else f"{first.reward_mean:.3f}",
            f"{first.n} questions" + ("" if alone else chosen + after),
        )
    ]


def _training_figures(metrics: Sequence[MetricsRow]) -> list[Figure]:
    if not metrics:
        return []
    window_steps = max(1, min(_WINDOW, len(metrics) // 2))
    head, tail = metrics[:window_steps], metrics[-window_steps:]
    alone = len(metrics) == 1
    window = "" if alone else f"first and last {_steps(window_steps)}"
    rows = (
        (
            "Training reward",
            [row.reward_mean for row in head],
            [row.reward_mean for row in tail],
            3,
        ),
        (
            "Zero reward, %",
            [100 * row.zero_reward_frac for row in head],
            [100 * row.zero_reward_frac for row in tail],
            1,
        ),
        (
            "Tokens a response",
            [row.response_tokens_mean for row in head],
            [row.response_tokens_mean for row in tail],
            0,
        ),
    )
    found = [
        Figure(
            label,
            f"{_mean(after):.{digits}f}",
            "" if alone else f"{_mean(before):.{digits}f}",
            window,
        )
        for label, before, after, digits in rows
    ]
    return [*found, Figure("KL to reference", f"{metrics[-1].kl:.3g}", note="last step")]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = config.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else ""


def _clip(objective: Mapping[str, Any]) -> str:
    low, high = _number(objective.get("clip_low")), _number(objective.get("clip_high"))
    return f"−{low}, +{high}" if low and high else ""


def _steps(count: int) -> str:
    return f"{count} step" + ("" if count == 1 else "s")
