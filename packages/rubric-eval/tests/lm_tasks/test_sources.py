"""Local copies of benchmarks, and what is said of one that cannot be used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rubric_eval.errors import BenchmarkDataError
from rubric_eval.lm_tasks import SMALL_DATA
from rubric_eval.lm_tasks.sources import load_items

if TYPE_CHECKING:
    from pathlib import Path

GOOD = json.dumps({"question": "What is 1 + 1?", "answer": "It is 2.\n#### 2"})


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([GOOD, '{"question": '], r"gsm8k_test.jsonl:2: not JSON"),
        ([GOOD, "[1]"], r"gsm8k_test.jsonl:2: .*one JSON object"),
        ([GOOD, '{"question": "What?"}'], r"gsm8k_test.jsonl:2: field 'answer'"),
        (
            [GOOD, '{"question": "What?", "answer": "2"}'],
            r"gsm8k_test.jsonl:2: .*'#### '",
        ),
        ([], "gsm8k_test.jsonl holds no rows"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    (tmp_path / "gsm8k_test.jsonl").write_text("\n".join(lines), "utf-8")

    with pytest.raises(BenchmarkDataError, match=said):
        load_items("gsm8k", tmp_path)


def test_a_folder_that_lacks_the_file_is_told_what_to_hold(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkDataError, match=r"no gsm8k_test\.jsonl in it"):
        load_items("gsm8k", tmp_path)
    with pytest.raises(BenchmarkDataError, match="no such folder"):
        load_items("gsm8k", tmp_path / "nowhere")


def test_a_table_that_was_cut_within_a_field_is_refused(tmp_path: Path) -> None:
    """Its last row may have all its columns, and half a choice."""
    text = (SMALL_DATA / "gpqa_main.csv").read_text("utf-8")
    head, *rows = text.splitlines()
    cut = rows[0].rpartition(",")[0] + ',"half a ch'
    (tmp_path / "gpqa_main.csv").write_text(f"{head}\n{rows[1]}\n{cut}", "utf-8")

    with pytest.raises(BenchmarkDataError, match=r"gpqa_main\.csv:\d+: no CSV"):
        load_items("gpqa_main", tmp_path)


def test_a_question_that_is_there_twice_is_asked_twice(tmp_path: Path) -> None:
    (tmp_path / "gsm8k_test.jsonl").write_text(f"{GOOD}\n{GOOD}\n", "utf-8")

    first, second = load_items("gsm8k", tmp_path).items

    assert second.item_id == f"{first.item_id}-2"
    assert second.question == first.question
