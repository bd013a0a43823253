"""`rubric-synth plan`: what a run would take, before anything is asked."""

from pathlib import Path

import rubric_synth
from rubric_judge.ui.console.command import Positive
from rubric_judge.ui.console.snapshot import duration_text
from rubric_judge.ui.page.tables import counted
from rubric_synth.cli import console
from rubric_synth.tables import read_table


@console.app.command
def plan(
    collected: Path,
    *,
    config: Path | None = None,
    limit: Positive | None = None,
    max_cost_usd: float | None = None,
) -> None:
    """Estimate calls, tokens, money and time of `run`; no model is asked.

    An upper bound: each document gives all of its questions, and each passes every check. What is
    read of documents is counted, what models write is assumed.

    Args:
        collected: Folder written by `collect`.
        config: YAML file, that of the run.
        limit: The first so many documents only.
        max_cost_usd: Say how far this would reach, in place of the configuration's ceiling.
    """
    from rubric_synth.run.pipeline.estimate import estimate

    settings = (
        rubric_synth.load_config(config) if config else rubric_synth.SynthConfig()
    )
    synth_estimate = estimate(collected, settings, limit=limit)
    documents = counted(synth_estimate.documents, "document")
    if not synth_estimate.calls:
        console.print_line(
            f"{documents}; no model is asked: writing and judging are programs"
        )
        return
    rows = (
        (
            stage.stage,
            f"{stage.calls:,}",
            f"{stage.prompt_tokens:,}",
            f"{stage.completion_tokens:,}",
            "not known" if stage.cost_usd is None else f"{stage.cost_usd:,.2f}",
        )
        for stage in synth_estimate.stages
    )
    console.print_table(
        "At most", ("",), ("calls", "tokens read", "written", "USD"), rows
    )
    cost = synth_estimate.cost_usd
    price = "cost not known (give `prices:`)" if cost is None else f"{cost:,.2f} USD"
    console.print_line(
        f"{documents}: at most {synth_estimate.calls:,} calls, {price}, some "
        f"{duration_text(synth_estimate.seconds)} with {synth_estimate.in_flight} calls "
        "at a time"
    )
    assumed = read_table("estimate")
    console.print_line(
        f"prompts of {synth_estimate.counted} documents were counted; assumed are "
        f"{assumed['tokens_per_s']} tokens a second to a call, "
        f"{assumed['chars_per_token']} characters a token, and what models write"
    )
    ceiling = max_cost_usd or settings.max_cost_usd
    if ceiling is not None and cost is not None and cost > ceiling:
        reach = int(synth_estimate.documents * ceiling / cost)
        console.print_line(
            f"max_cost_usd {ceiling:g} reaches for some {reach:,} of {documents}"
        )
