"""What a run reads, and what a policy built from nothing may read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rubric_core import RubricFileError, write_tasks
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.local.inputs import read_corpus, read_inputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_core import Task
    from rubric_train_openrlhf.config.train import TrainConfig


def test_documents_of_other_tasks_are_left_out(tmp_path: Path) -> None:
    rows = [
        {"doc_hash": "train", "text": "read", "kind": "prose"},
        {"doc_hash": "held-out", "text": "hidden"},
        {"text": "from elsewhere"},
    ]
    path = tmp_path / "documents.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")

    assert read_corpus(path, doc_hashes={"train", "other"}) == [
        "read",
        "from elsewhere",
    ]


def test_documents_without_a_training_task_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_text('{"doc_hash": "held-out", "text": "hidden"}\n', encoding="utf-8")

    with pytest.raises(TrainConfigError, match="none of the 1 documents"):
        read_corpus(path, doc_hashes={"train"})


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"title": "no text"}', '{"text": 3}', '"text"']
)
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n", encoding="utf-8")

    with pytest.raises(RubricFileError, match=r"documents\.jsonl:2") as caught:
        read_corpus(path, doc_hashes=())
    assert caught.value.line == 2


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(TrainConfigError, match="rubric-synth collect"):
        read_corpus(tmp_path / "none.jsonl", doc_hashes=())


def test_a_run_warns_of_validation_tasks_that_it_trains_on(
    make_config: Callable[..., TrainConfig], tasks: tuple[Task, ...], tmp_path: Path
) -> None:
    write_tasks(tmp_path / "mixed.jsonl", tasks[10:14])  # trained on are the first 12
    with capture_logs() as logs:
        read_inputs(make_config(), resume=False, judge=None)
        assert not logs
        mixed = make_config(data={"validation": tmp_path / "mixed.jsonl"})
        read_inputs(mixed, resume=False, judge=None)

    (said,) = logs
    assert (said["event"], said["log_level"]) == ("train.validation.shared", "warning")
    assert said["why"] == "2 of 4 validation tasks are training tasks"
