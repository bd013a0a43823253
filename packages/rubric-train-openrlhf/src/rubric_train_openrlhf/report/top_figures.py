"""The numbers at the top of a run's page."""

from collections.abc import Sequence
from statistics import fmean

from rubric_core.files import toml_beside
from rubric_judge.ui.page.tables import Form, counted, written
from rubric_judge.ui.page.top_figures import Figure
from rubric_train_openrlhf.report.charts import is_measured
from rubric_train_openrlhf.report.reading import Run
from rubric_train_openrlhf.run.records import MetricsRow

_OF_STEPS = toml_beside(__file__, "tables.toml")["figures"]["of_steps"]
"""A label, the field of a step's row, and its form."""
_WINDOW = 5
"""Most steps that the first and the last training figures are averaged over."""
_MOSTLY = 0.5
"""Share of cut responses from which the page warns."""


def heldout_figures(run: Run) -> list[Figure]:
    """Return the best validation reward; nothing without a validation pass."""
    if run.best is None:
        return []
    first = run.heldout[0]
    last = run.heldout[-1]
    best = run.best
    label = "Validation reward, %"
    questions = counted(first.n, "question")
    if len(run.heldout) == 1:
        return [Figure(label, best.reward_mean, note=questions, form="percent")]
    chosen = f"; before, and the best pass, step {best.step}"
    after = (
        "" if last is best else f"; the last has {written(last.reward_mean, 'percent')}"
    )
    note = questions + chosen + after
    return [Figure(label, best.reward_mean, first.reward_mean, note, form="percent")]


def training_figures(metrics: Sequence[MetricsRow]) -> list[Figure]:
    """Return means of the first and of the last steps; nothing without a step."""
    if not metrics:
        return []
    window_steps = max(1, min(_WINDOW, len(metrics) // 2))
    head = metrics[:window_steps]
    tail = metrics[-window_steps:]
    alone = len(metrics) == 1
    window = "" if alone else f"first and last {counted(window_steps, 'step')}"

    def figure(label: str, field: str, form: Form) -> Figure:
        before = fmean(getattr(row, field) for row in head)
        after = fmean(getattr(row, field) for row in tail)
        return Figure(label, after, "" if alone else before, window, form)

    figures = [figure(*arguments) for arguments in _OF_STEPS]
    if is_measured(metrics):
        kl = f"{metrics[-1].kl:.3g}"
        figures.append(Figure("KL to reference", kl, note="last step"))
    return figures


def cut_note(run: Run) -> str:
    """Warn where most responses of the last steps were cut at their longest; else empty."""
    tail = [*run.metrics, *run.distilled][-_WINDOW:]
    if not tail:
        return ""
    cut = fmean(row.truncated_frac for row in tail)
    if cut <= _MOSTLY:
        return ""
    tokens = run.config.get("rollout", {}).get("max_new_tokens")
    longest = (
        f"{tokens} tokens (`rollout.max_new_tokens`)" if tokens else "their longest"
    )
    steps = "the only step" if len(tail) == 1 else f"the last {len(tail)} steps"
    return (
        f"{written(cut, 'percent')} % of the responses of {steps} were cut at {longest}, before "
        "they ended: rewards are of beginnings of answers. Give more tokens, or teach shorter "
        "answers first"
    )


def admitted_weight(run: Run) -> str:
    """Say what a calibration leaves of the rubrics' weight; empty without one."""
    if run.admission is None:
        return ""
    factors = run.admission.factors.values()
    masked = sum(factor == 0 for factor in factors)
    lowered = sum(factor != 0 for factor in factors)
    counts = f"criteria masked: {masked}"
    if lowered:
        counts += f", weighed down: {lowered}"
    fractions = [row.withheld_weight_frac for row in run.metrics]
    withheld = [fraction for fraction in fractions if fraction is not None]
    if not withheld:
        return counts
    return f"{written(1 - fmean(withheld), 'percent')} % ({counts})"
