"""docs/synth/*.md: what they show, runs; what they list, is there."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from rubric_judge import ModelConfig
from rubric_synth import (
    CollectConfig,
    LLMConfig,
    QualityConfig,
    SynthConfig,
    SynthReport,
)
from rubric_synth.config import RecordFields
from rubric_synth.document import RejectionReason
from rubric_synth.run.dataset.folder import Manifest

REASON = re.compile(r"`([a-z_]+)`")


def _page(root: Path, name: str) -> str:
    return (root / "docs" / "synth" / name).read_text("utf-8")


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _fields(*models: type[BaseModel]) -> set[str]:
    return {name for model in models for name in model.model_fields}


def test_the_dry_run_of_the_page_makes_tasks(
    root: Path, printed: Callable[[str], str]
) -> None:
    (code,) = _blocks(_page(root, "llm.md"), "python")

    shown = printed(f"{code}\nprint(sum(report.tasks.values()))")

    assert (
        int(shown.splitlines()[-1]) > 5
    )  # of 60 pages of scipy, of which most have little prose


def test_the_page_of_contexts_shows_the_prompt(
    root: Path, printed: Callable[[str], str]
) -> None:
    (code,) = _blocks(_page(root, "context.md"), "python")

    assert printed(code).splitlines()[2:] == [
        "[1] Rods",
        "A hot rod is longer than a cold one.",
        "",
        "Question: Why does a rod expand when it is heated?",
    ]


@pytest.mark.parametrize("name", ["llm.md", "sources.md", "scale.md"])
def test_the_configurations_of_a_page_are_ones(root: Path, name: str) -> None:
    blocks = _blocks(_page(root, name), "yaml")

    assert blocks
    for block in blocks:
        SynthConfig.model_validate(yaml.safe_load(block))


def test_the_page_of_checks_has_every_reason_of_quality_and_no_other(
    root: Path,
) -> None:
    text = _page(root, "quality.md")
    source = Path(sys.modules[RejectionReason.__module__].__file__ or "").read_text(
        "utf-8"
    )
    listed = source.partition("    # quality\n")[2].partition("@property")[0]
    reasons = set(re.findall(r'= "([a-z_]+)"', listed))
    known = {str(reason) for reason in RejectionReason} | _fields(
        SynthConfig, QualityConfig
    )

    named = set(REASON.findall(text))

    assert reasons - named - {"invalid_schema"} == set()
    assert (
        named - known
        == {
            *("corruptions", "half", "first_sentence", "terms", "numbers"),
            *("kind", "claims", "keepdims"),
            *("self_loops", "distutils", "extrapolate", "rtol"),
        }
        - known
    )


@pytest.mark.parametrize("name", ["llm.md", "sources.md", "scale.md"])
def test_every_setting_and_reason_that_a_page_names_is_there(
    root: Path, name: str
) -> None:
    known = {str(reason) for reason in RejectionReason}
    known |= _fields(SynthConfig, QualityConfig, CollectConfig, LLMConfig, RecordFields)
    known |= _fields(ModelConfig, SynthReport, Manifest)

    named = {word for word in REASON.findall(_page(root, name)) if "_" in word}

    known |= set(
        RecordFields().model_dump()["id"] + RecordFields().model_dump()["text"]
    )
    assert named - known - {"python_tests", "site_name"} == set()


def test_every_setting_and_reason_of_collecting_is_on_its_page(root: Path) -> None:
    text = _page(root, "sources.md")
    source = Path(sys.modules[RejectionReason.__module__].__file__ or "").read_text(
        "utf-8"
    )
    listed = source.partition("    # collect\n")[2].partition("    # analyse")[0]
    reasons = set(re.findall(r'= "([a-z_]+)"', listed))
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", text, re.MULTILINE))

    assert (reasons | _fields(CollectConfig, RecordFields)) - set(rows) == set()
    for name, names in RecordFields().model_dump().items():
        assert rows[name] == ", ".join(f"`{known}`" for known in names)
    for name, value in (
        CollectConfig().model_dump(exclude={"fields", "languages"}).items()
    ):
        assert rows[name] == f"{value:,}"


def test_every_preset_is_on_the_page(root: Path) -> None:
    text = _page(root, "llm.md")

    presets = {path.name for path in (root / "configs" / "synth").glob("*.yaml")}

    assert {name for name in presets if f"`{name}`" not in text} == set()
