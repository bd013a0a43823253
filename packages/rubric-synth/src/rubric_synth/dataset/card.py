"""The dataset card: README.md with the front matter that `datasets.load_dataset` reads."""

from __future__ import annotations

from typing import Final

from rubric_synth.calls import CallTotals
from rubric_synth.dataset.manifest import SPLITS, Manifest, Usage
from rubric_synth.rejection import Stage


def asked_of_models(usage: Usage) -> Usage:
    """Return the usage without the stages that took neither tokens nor money nor an unknown price.

    A judge that is a program is counted like any other, and costs nothing.
    """
    by_stage: dict[Stage, CallTotals] = {
        stage: totals for stage, totals in usage.by_stage.items() if _is_models(totals)
    }
    if not by_stage:
        return Usage(total=usage.total) if _is_models(usage.total) else Usage()
    left = [totals for stage, totals in usage.by_stage.items() if stage not in by_stage]
    total = usage.total.model_copy(
        update={
            "calls": usage.total.calls - sum(totals.calls for totals in left),
            "attempts": usage.total.attempts - sum(totals.attempts for totals in left),
        }
    )
    return Usage(total=total, by_stage=by_stage)


def _is_models(totals: CallTotals) -> bool:
    tokens = totals.prompt_tokens + totals.completion_tokens
    return bool(tokens or totals.cost_usd or totals.unpriced_calls)


_SIZES: Final = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
)


def card_text(manifest: Manifest, *, parquet: bool) -> str:
    """Return the card of a dataset.

    Args:
        manifest: What the dataset holds; the hashes are not looked at.
        parquet: Whether Parquet files stand beside the JSON lines; they are then what is loaded.
    """
    # Loaded at its first use: `import rubric_synth` stays quick.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rubric_synth.dataset"),
        autoescape=False,  # noqa: S701 - Markdown, and of names and numbers alone
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    tasks = sum(manifest.tasks.values())
    return environment.get_template("card.md.j2").render(
        m=manifest,
        size=next((name for limit, name in _SIZES if tasks < limit), "n>1M"),
        asked=asked_of_models(manifest.usage).total,
        splits=SPLITS,
        parquet=parquet,
    )
