from pathlib import Path

import pytest

from rubric_core.files import read_file
from rubric_core.nearest import near


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("tasks.jsonl", "tasks.parquet", "answers.jsonl", ".tasks_x.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "collected").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("task.jsonl", "tasks.jsonl"),
        ("task.parquet", "tasks.parquet"),
        ("answer.json", "answers.jsonl"),
        ("colected", "collected"),
        ("tasks.yaml", None),
        ("zzz.jsonl", None),
        ("\0", None),
        ("x" * 5000, None),
    ],
)
def test_the_name_that_may_be_meant_is_told(
    folder: Path, asked: str, meant: str | None
) -> None:
    told = f"; did you mean {str(folder / meant)!r}?" if meant else ""
    assert near(folder / asked) == told


def test_a_folder_that_is_not_there_is_told_before_its_file(folder: Path) -> None:
    assert near(folder / "colected" / "documents.jsonl") == (
        f"; there is no folder {str(folder / 'colected')!r}; "
        f"did you mean {str(folder / 'collected')!r}?"
    )
    assert (
        near(folder / "zzz" / "a" / "b")
        == f"; there is no folder {str(folder / 'zzz')!r}"
    )
    assert (
        near(folder / "task" / "a") == f"; there is no folder {str(folder / 'task')!r}"
    )


def test_reading_a_file_that_is_not_there_says_which_may_be_meant(folder: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"No such file.*; did you mean '.*tasks\.jsonl'\?"
    ):
        read_file(folder / "task.jsonl")
