from __future__ import annotations

import hashlib
import stat
from typing import TYPE_CHECKING

import pytest

from rubric_core import Decoding, Outcome, RubricFileError
from rubric_eval import EvalFolderError
from rubric_eval.records.digests import Edits
from rubric_eval.records.files import (
    ScoreRow,
    read_finished_run,
    read_rows,
    read_run,
    write_rows,
    write_run,
)
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import EvalRun, ModelEntry, Questions

if TYPE_CHECKING:
    from pathlib import Path

MODEL = hashlib.sha256(b'{"a":1}').hexdigest()
RUN = EvalRun(
    kind="heldout",
    started="2026-01-02T03:04:05+00:00",
    models=(
        ModelEntry(
            name="base", spec="policy:base", fingerprint=MODEL, identity={"a": 1}
        ),
    ),
    questions={"heldout": Questions(source="test.jsonl", sha256="0", count=2)},
    decoding=Decoding(),
    seeds=(0,),
    template="t",
    versions={"rubric-eval": "0.1.0"},
)


def _row(task_id: str, reward: float | None = 0.5) -> ScoreRow:
    return ScoreRow(
        task_id=task_id,
        doc_hash="d",
        sample=0,
        key="k",
        outcome=Outcome.SCORED,
        reward=reward,
        criteria_z={"purpose": 0.5},
    )


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "scores" / "judge" / "rows.jsonl"
    rows = [_row("a"), _row("b"), _row("\N{GREEK SMALL LETTER TAU}\u2028")]
    write_rows(path, rows)
    assert read_rows(path, ScoreRow) == rows


def test_private_rows_are_read_by_their_owner_alone(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", [_row("a")], private=True)
    assert stat.S_IMODE((tmp_path / "rows.jsonl").stat().st_mode) == 0o600


def test_a_damaged_row_is_named_by_its_line_and_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, [_row("a"), _row("b")])
    path.write_text(
        path.read_text("utf-8").replace('"reward":0.5', '"reward":"SECRET"', 1)
    )
    with pytest.raises(
        RubricFileError, match=r"rows\.jsonl:1: field 'reward'"
    ) as caught:
        read_rows(path, ScoreRow)
    assert "SECRET" not in str(caught.value)


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    folder = EvalFolder(tmp_path / "new")
    write_run(folder, RUN)
    assert read_run(folder) == RUN


@pytest.mark.parametrize("status", ["running", "failed"])
def test_an_evaluation_that_did_not_end_is_no_finished_one(
    tmp_path: Path, status: str
) -> None:
    folder = EvalFolder(tmp_path)
    write_run(
        folder, RUN.model_copy(update={"status": status, "error": "the judge is down"})
    )
    with pytest.raises(
        EvalFolderError, match=f"is {status}, not finished: the judge is down"
    ):
        read_finished_run(folder, edits=Edits())
    write_run(folder, RUN.model_copy(update={"status": "finished"}))
    assert read_finished_run(folder, edits=Edits()).status == "finished"


def test_a_folder_without_a_manifest_is_no_evaluation(tmp_path: Path) -> None:
    with pytest.raises(EvalFolderError, match=r"there is no run\.json in it"):
        read_run(EvalFolder(tmp_path))


def test_a_damaged_manifest_is_named_with_its_field(tmp_path: Path) -> None:
    folder = EvalFolder(tmp_path)
    write_run(folder, RUN)
    folder.run.write_text(
        folder.run.read_text("utf-8").replace('"heldout",', '"other",', 1)
    )
    with pytest.raises(RubricFileError, match=r"run\.json: field 'kind'"):
        read_run(folder)


def test_a_manifest_of_another_format_is_refused(tmp_path: Path) -> None:
    folder = EvalFolder(tmp_path)
    write_run(folder, RUN)
    text = folder.run.read_text("utf-8")
    assert '"format": 1' in text
    folder.run.write_text(
        text.replace('"format": 1', '"format": 2, "crew": []'), encoding="utf-8"
    )
    with pytest.raises(RubricFileError) as caught:
        read_run(folder)
    assert f"{folder.run}: field 'format': " in str(caught.value)
    assert "or read it with the version that wrote it" in str(caught.value)
