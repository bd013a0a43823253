"""What a user is told to do about documents that were left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rubric_judge import JudgeConfig, ModelConfig
from rubric_synth import (
    CollectConfig,
    CollectReport,
    ExtractiveConfig,
    LLMConfig,
    QualityConfig,
    RecordFields,
    RejectionReason,
    SynthConfig,
    SynthReport,
)
from rubric_synth.cli.running import few_accepted, few_collected
from rubric_synth.remedies import remedies, what_to_do

if TYPE_CHECKING:
    from pydantic import BaseModel

# Nobody need do anything: no text, no prose, a copy, or not what a source is read for.
_NONE_NEEDED = {
    *("binary", "empty", "exact_duplicate", "same_name"),
    *("not_an_api_entry", "not_for_use"),
}
_PARTS: dict[str, tuple[type[BaseModel], ...]] = {
    "collect": (CollectConfig,),
    "fields": (RecordFields,),
    "quality": (QualityConfig,),
    "judge": (JudgeConfig,),
    "synthesiser": (ExtractiveConfig, LLMConfig),
    "model": (ModelConfig,),
}


def test_nobody_is_told_to_configure_the_model_that_is_configured() -> None:
    model = {
        "type": "llm",
        "model": {"model": "hosted_vllm/m", "api_base": "http://127.0.0.1:1/v1"},
    }
    config = SynthConfig.model_validate({"synthesiser": model})
    for reason in RejectionReason:
        said = what_to_do(reason, config)
        assert "with a model" not in said
        assert "have a model" not in said
    assert "with a model" in what_to_do(RejectionReason.NO_QUESTION, SynthConfig())


@pytest.mark.parametrize("reason", RejectionReason)
def test_every_reason_has_a_remedy_or_needs_none(reason: RejectionReason) -> None:
    assert bool(remedies([reason])) is (reason not in _NONE_NEEDED)


def test_remedies_name_settings_that_there_are() -> None:
    named = re.findall(
        r"\b(?:collect|quality|synthesiser)(?:\.\w+)+", remedies(RejectionReason)
    )
    assert named
    for name in named:
        kinds: tuple[type[BaseModel], ...] = (SynthConfig,)
        for part in name.split("."):
            assert any(part in kind.model_fields for kind in kinds), name
            kinds = _PARTS.get(part, ())


def test_a_remedy_of_several_reasons_is_said_once() -> None:
    assert remedies(["reply_not_json", "reply_off_schema"]).count("JSON schema") == 1


def _report(documents: int, accepted: int, pending: int = 0) -> SynthReport:
    return SynthReport(
        out=Path("out"),
        documents=documents,
        accepted_documents=accepted,
        pending_documents=pending,
        tasks={"train": accepted, "validation": 0, "test": 0},
        rejected={"reply_truncated": 3, "leak": 1},
    )


def test_a_run_that_left_out_most_documents_says_what_to_do() -> None:
    told = few_accepted(_report(10, 4))
    assert told.startswith("6 of 10 documents gave no task: the table `Left out` says")
    assert few_accepted(_report(10, 5)) == ""
    assert few_accepted(_report(10, 2, pending=7)) == ""


def test_a_collection_that_left_out_most_documents_says_what_to_do() -> None:
    def told(documents: int) -> str:
        return few_collected(
            CollectReport(
                out=Path("out"),
                documents=documents,
                by_kind={},
                by_source={},
                rejected={"no_text_layer": 4, "empty": 1},
            )
        )

    assert told(4).startswith(
        "5 of 9 documents were left out: the table `Left out` says"
    )
    assert told(5) == ""


@pytest.mark.parametrize("reason", RejectionReason)
def test_the_tables_say_what_to_do_about_every_reason(reason: RejectionReason) -> None:
    assert what_to_do(reason, SynthConfig())


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "too_long",
            "raise collect.max_document_bytes (now 7000) in the --config file",
        ),
        ("too_short", "lower collect.min_document_words (now 30) in the --config file"),
        (
            "no_passage",
            "lower synthesiser.min_passage_words (now 120) in the --config file",
        ),
        ("leak", "raise quality.leak_words (now 8) in the --config file"),
        ("reply_truncated", "raise synthesiser.model.max_tokens in the --config file"),
    ],
)
def test_the_tables_say_which_key_changes_a_limit_and_what_it_is_now(
    reason: str, told: str
) -> None:
    config = SynthConfig(collect=CollectConfig(max_document_bytes=7_000))
    assert told in what_to_do(reason, config)


def test_of_a_printed_manual_the_package_itself_is_named() -> None:
    told = what_to_do(RejectionReason.TOO_FEW_FACTS, SynthConfig())
    assert "`python:PACKAGE` beside its manual" in told
