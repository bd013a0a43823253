from pathlib import Path

import pytest
from pydantic import BaseModel

from rubric_core import FolderLockError, RubricFileError
from rubric_core.artifact import Artifact, Difference, differences, verify
from rubric_core.files import file_sha256, replacing


class Shelf(BaseModel):
    books: int


@pytest.fixture
def shelf(tmp_path: Path) -> Artifact[Shelf]:
    return Artifact(tmp_path / "shelf", "shelf.json", Shelf)


def test_a_folder_holds_what_is_neither_its_lock_nor_what_a_kill_left(
    shelf: Artifact[Shelf],
) -> None:
    assert shelf.names() == []
    with shelf.locked():
        (shelf.path / "mine.txt").write_text("")
        for name in (".shelf.json.0a1b2c3d.tmp", ".mine.txt.0a1b2c3d.tmp"):
            (shelf.path / name).write_text("{")

        assert shelf.names() == [".mine.txt.0a1b2c3d.tmp", "mine.txt"]
        with pytest.raises(FolderLockError), shelf.locked():
            pass


def test_the_file_that_is_being_written_counts_as_a_remain(
    shelf: Artifact[Shelf],
) -> None:
    shelf.path.mkdir()
    with replacing(shelf.path / "shelf.json") as file:
        file.write(b'{"books": 3}')
        assert shelf.names() == []

    assert shelf.names() == ["shelf.json"]
    assert shelf.read_manifest(remedy="count again").books == 3


def test_a_manifest_of_something_else_says_what_to_do(shelf: Artifact[Shelf]) -> None:
    with pytest.raises(FileNotFoundError):
        shelf.read_manifest(remedy="count again")
    shelf.path.mkdir()
    (shelf.path / "shelf.json").write_text('{"books": "SECRET"}')

    with pytest.raises(
        RubricFileError, match=r"field 'books': .*; count again"
    ) as error:
        shelf.read_manifest(remedy="count again")

    assert "SECRET" not in str(error.value)


def test_differences_come_in_the_order_of_what_is_there_now() -> None:
    before = {"gone": 1, "same": 2, "top_p": 0.9}
    now = {"top_p": 1.0, "same": 2, "new": 3}

    changed = differences(before, now)

    assert changed == [("top_p", 0.9, 1.0), ("new", None, 3), ("gone", 1, None)]
    assert changed[0].text() == "top-p is 0.9, not 1.0"
    assert changed[0].text("are") == "top-p are 0.9, not 1.0"


def test_files_are_held_against_their_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: tmp_path / name for name in ("same", "edited", "new", "closed")}
    for path in files.values():
        path.write_text(path.name)
    old = {name: file_sha256(path) for name, path in files.items() if name != "new"}
    files["edited"].write_text("otherwise")
    refused = PermissionError(13, "no")

    def digest(path: Path) -> str:
        if path.name == "closed":
            raise refused
        return file_sha256(path)

    monkeypatch.setattr("rubric_core.artifact.file_sha256", digest)

    assert list(verify(files, {**old, "gone": "0" * 64})) == [
        Difference("edited", old["edited"], file_sha256(files["edited"])),
        Difference("new", None, ""),
        Difference("closed", old["closed"], refused),
        Difference("gone", "0" * 64, None),
    ]
