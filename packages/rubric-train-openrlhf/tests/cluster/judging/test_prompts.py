from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rubric_core import Section
from rubric_train_openrlhf.cluster.sampling.samples import write_prompts
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase as Tokenizer

    from rubric_core import Task
    from rubric_train_openrlhf.policy import ChatCodec


def test_a_row_holds_the_question_and_a_task_id_and_no_more(
    tmp_path: Path, tasks: Sequence[Task], codec: ChatCodec, tokenizer: Tokenizer
) -> None:
    views = [task.policy_view() for task in tasks]

    write_prompts(
        tmp_path / "prompts.jsonl",
        views,
        codec=codec,
        source="train",
        max_prompt_tokens=200,
    )

    rows = [
        json.loads(line)
        for line in (tmp_path / "prompts.jsonl").read_text().splitlines()
    ]
    assert [set(row) for row in rows] == [{"input", "label", "question"}] * 8
    assert [row["label"] for row in rows] == [task.task_id for task in tasks]
    for row, view in zip(rows, views, strict=True):
        ids = tokenizer.encode(row["input"], add_special_tokens=False)
        assert tuple(ids) == codec.encode_prompt(view).token_ids
    assert "quokka" not in (tmp_path / "prompts.jsonl").read_text()
    assert "left_0" not in (tmp_path / "prompts.jsonl").read_text()


def test_a_row_of_an_open_book_task_holds_its_context(
    tmp_path: Path, tasks: Sequence[Task], codec: ChatCodec, tokenizer: Tokenizer
) -> None:
    held = (Section(doc_hash="d", heading="Sums", text="A sum adds."),)
    views = [task.model_copy(update={"context": held}).policy_view() for task in tasks]
    path = tmp_path / "prompts.jsonl"
    write_prompts(path, views, codec=codec, source="train", max_prompt_tokens=900)

    for row, view in zip(
        map(json.loads, path.read_text().splitlines()), views, strict=True
    ):
        assert view.message in row["input"]
        assert "[1] Sums\nA sum adds." in row["input"]
        assert row["question"] == view.question
        ids = tokenizer.encode(row["input"], add_special_tokens=False)
        assert tuple(ids) == codec.encode_prompt(view).token_ids


def test_prompts_without_room_for_a_response_are_counted_before_anything_is_written(
    tmp_path: Path, tasks: Sequence[Task], codec: ChatCodec
) -> None:
    views = [task.policy_view() for task in tasks]
    longest = max(len(codec.encode_prompt(view).token_ids) for view in views)

    whole = tmp_path / "whole.jsonl"
    write_prompts(
        whole, views, codec=codec, source="heldout", max_prompt_tokens=longest
    )
    assert len(whole.read_text().splitlines()) == 8
    with pytest.raises(
        TrainConfigError, match=rf"8 of 8 heldout .* has {longest}"
    ) as caught:
        write_prompts(
            tmp_path / "prompts.jsonl",
            views,
            codec=codec,
            source="heldout",
            max_prompt_tokens=3,
        )

    assert caught.value.location == "cluster.max_len"
    assert not (tmp_path / "prompts.jsonl").exists()
