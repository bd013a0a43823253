"""The dataset card: README.md with the front matter that `datasets.load_dataset` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from rubric_synth.calls import CallTotals
from rubric_synth.dataset.manifest import SPLITS, Usage

if TYPE_CHECKING:
    from rubric_synth.dataset.manifest import Manifest
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


_TEXT: Final = {"dtype": "string"}
_ONE_CRITERION: Final = (
    ("id", False),
    ("weight", None),
    ("name", False),
    ("description", False),
    ("required_elements", True),
    ("scoring_guide", False),
    ("verification_method", False),
    ("expected_keywords", True),
    ("expected_concepts", True),
)
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
    front = yaml.safe_dump(_front_matter(manifest, parquet=parquet), sort_keys=False)
    template = environment.get_template("card.md.j2")
    return template.render(
        front=front,
        m=manifest,
        asked=asked_of_models(manifest.usage).total,
        splits=SPLITS,
        parquet=parquet,
    )


def _front_matter(manifest: Manifest, *, parquet: bool) -> dict[str, Any]:
    ending = "parquet" if parquet else "jsonl"
    # `datasets` refuses to open a split without rows, and the others with it.
    splits = [split for split in SPLITS if manifest.tasks[split]] or list(SPLITS)
    languages: list[str] = manifest.config.get("collect", {}).get("languages", [])
    return {
        "pretty_name": "Questions with rubrics from documents",
        **({"language": languages} if languages else {}),
        "size_categories": [_size(sum(manifest.tasks.values()))],
        "task_categories": ["question-answering", "text-generation"],
        "tags": ["rubrics", "reinforcement-learning", "synthetic"],
        # Named one by one, so that no other file of the folder is taken for data.
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": s, "path": f"{s}.{ending}"} for s in splits],
            }
        ],
        # The same types from JSON lines as from Parquet.
        "dataset_info": {"features": _features()},
    }


def _features() -> list[dict[str, Any]]:
    criterion = [_feature(name, is_list=is_list) for name, is_list in _ONE_CRITERION]
    analysis = [
        _feature(name, is_list=name == "concepts")
        for name in ("genre", "contribution", "concepts", "depth", "reasoning_mode")
    ]
    return [
        _feature("question"),
        _feature("passage"),
        {"name": "criteria", "list": criterion},
        _feature("question_rationale"),
        {"name": "document_analysis", "struct": analysis},
        _feature("doc_hash"),
        _feature("reference_answer"),
    ]


def _feature(name: str, *, is_list: bool | None = False) -> dict[str, Any]:
    if is_list is None:
        return {"name": name, "dtype": "float64"}
    return {"name": name, "list": "string"} if is_list else {"name": name, **_TEXT}


def _size(tasks: int) -> str:
    return next((name for limit, name in _SIZES if tasks < limit), "n>1M")
