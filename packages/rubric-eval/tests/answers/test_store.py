"""A file of answers after a kill at any byte, and after damage."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import Finish, Reason
from rubric_eval import EvalFolderError
from rubric_eval.answers.store import AnswerFile, read_answers
from rubric_eval.records.files import AnswerRow

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def _row(number: int, text: str | None) -> AnswerRow:
    return AnswerRow(
        task_id=f"t{number}",
        doc_hash="d",
        sample=0,
        prompt_sha256="p",
        key=f"k{number}",
        text=text,
        finish=None if text is None else Finish.COMPLETE,
        reason=Reason.TIMEOUT if text is None else None,
    )


_ROWS = st.lists(st.none() | _TEXTS, min_size=1, max_size=6).map(
    lambda texts: [_row(number, text) for number, text in enumerate(texts)]
)


@given(rows=_ROWS, cut=st.integers(min_value=0), garbage=st.binary(max_size=20))
def test_a_kill_at_any_byte_loses_only_what_was_not_whole(
    rows: list[AnswerRow], cut: int, garbage: bytes
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a" / "seed_0.jsonl"
        with AnswerFile(path) as file:
            for row in rows:
                file.append(row)
        content = path.read_bytes()
        cut %= len(content) + 1
        kept = content[:cut]
        torn = kept[kept.rfind(b"\n") + 1 :] + garbage.replace(b"\n", b"")
        path.write_bytes(kept[: kept.rfind(b"\n") + 1] + torn)
        whole = rows[: kept.count(b"\n")]

        with AnswerFile(path) as file:
            assert [row for row in rows if file.kept(row.key)] == [
                row for row in whole if row.text is not None
            ]
            for row in rows:
                file.append(row)

        assert read_answers(path) == rows
        aside = path.with_name(path.name + ".torn")
        assert (aside.read_bytes() if aside.exists() else b"") == (
            torn + b"\n" if torn else b""
        )


@given(rows=_ROWS)
def test_the_last_word_on_an_answer_is_the_one_that_came(rows: list[AnswerRow]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed_0.jsonl"
        failed = [_row(number, None) for number in range(len(rows))]
        with AnswerFile(path) as file:
            for row in [*failed, *rows, *failed]:
                file.append(row)
        assert read_answers(path) == rows


def test_a_damaged_line_in_the_middle_is_named_and_nothing_is_touched(
    tmp_path: Path,
) -> None:
    path = tmp_path / "seed_0.jsonl"
    with AnswerFile(path) as file:
        for number in range(3):
            file.append(_row(number, "text"))
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join((lines[0], b"\0" * 10 + b"\n", lines[2]))
    path.write_bytes(damaged)
    with pytest.raises(EvalFolderError, match=r"seed_0\.jsonl:2: a damaged line"):
        AnswerFile(path).__enter__()
    assert path.read_bytes() == damaged


def test_zeros_that_a_power_cut_left_at_the_end_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "seed_0.jsonl"
    with AnswerFile(path) as file:
        file.append(_row(0, "text"))
    with path.open("ab") as raw:
        raw.write(b"\0" * 4096)
    with AnswerFile(path) as file:
        assert file.kept("k0") is not None
    assert read_answers(path) == [_row(0, "text")]
    assert path.with_name("seed_0.jsonl.torn").stat().st_size == 4097


def test_a_row_of_another_version_is_no_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "seed_0.jsonl"
    path.write_text('{"task_id": "t", "new_field": 1}\n', "utf-8")
    with pytest.raises(
        EvalFolderError, match=r"seed_0\.jsonl:1: no answer of this version"
    ):
        AnswerFile(path).__enter__()


def test_no_file_holds_no_answers(tmp_path: Path) -> None:
    assert read_answers(tmp_path / "seed_0.jsonl") == []
