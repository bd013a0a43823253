"""What the model is told about each kind of question."""

import hashlib
import json
import re
from importlib import resources
from itertools import chain, combinations
from typing import get_args

import pytest
from pydantic import TypeAdapter

from rubric_synth.config import LLMConfig, TaskType
from rubric_synth.stages.llm.prompt import (
    asks_for_checks,
    instructions,
    prompt_hashes,
    type_files,
)
from rubric_synth.stages.llm.replies import CheckReply

KINDS: tuple[TaskType, ...] = get_args(TaskType)
CHOICES = list(
    chain.from_iterable(combinations(KINDS, n) for n in range(1, len(KINDS) + 1))
)


@pytest.mark.parametrize("kinds", CHOICES)
def test_the_instructions_name_the_kinds_that_are_asked_for_and_no_other(
    kinds: tuple[TaskType, ...],
) -> None:
    text = instructions(kinds)

    assert tuple(re.findall(r'^Task type "(\w+)"', text, re.MULTILINE)) == kinds


@pytest.mark.parametrize("kinds", CHOICES)
def test_the_hashes_are_those_of_the_files_that_were_read(
    kinds: tuple[TaskType, ...],
) -> None:
    folder = resources.files("rubric_synth") / "prompts"
    texts = {name: (folder / name).read_text("utf-8") for name in type_files(kinds)}
    config = LLMConfig.model_validate({"model": {"model": "m"}, "task_types": kinds})
    hashes = prompt_hashes(config)

    assert instructions(kinds) == "\n\n".join(text.strip() for text in texts.values())
    assert asks_for_checks(kinds) == (kinds != ("open",))
    for name, text in texts.items() if asks_for_checks(kinds) else ():
        assert hashes[name] == hashlib.sha256(text.encode()).hexdigest()


def test_a_kind_given_twice_is_told_once() -> None:
    assert instructions(("open", "open")) == instructions(("open",))
    assert type_files(("open", "open")) == type_files(("open",))


def test_the_checks_that_the_prompts_show_are_checks() -> None:
    shown = re.findall(r'\{"kind": [^{}]*\}', instructions(KINDS))

    read = [
        TypeAdapter[CheckReply](CheckReply).validate_python(json.loads(one))
        for one in shown
    ]

    assert {check.kind for check in read} == {
        "numeric",
        "python_tests",
        "contains_all",
        "contains_any",
        "regex",
    }
