from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.run.folder import first_changed, model_digests

if TYPE_CHECKING:
    from pathlib import Path

LARGE = 40 << 20


def test_a_folder_is_digested_by_file(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"w")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "trainer_state.pt").write_bytes(b"s")
    (tmp_path / ".hidden.json").write_text("{}")
    (tmp_path / "deep").mkdir()

    digests = model_digests(tmp_path)

    assert digests.keys() == {"model.safetensors", "tokenizer.json"}
    assert first_changed(tmp_path, digests) is None
    (tmp_path / "README.txt").write_text("a note beside it changes nothing")
    assert first_changed(tmp_path, digests) is None
    (tmp_path / "tokenizer.json").write_text("[]")
    assert first_changed(tmp_path, digests) == "tokenizer.json"
    (tmp_path / "model.safetensors").unlink()
    assert first_changed(tmp_path, digests) == "model.safetensors"


@pytest.mark.parametrize("place", [0, LARGE // 2, LARGE - 1])
def test_a_large_file_is_read_in_places_from_its_first_byte_to_its_last(
    tmp_path: Path, place: int
) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.truncate(LARGE)
    before = model_digests(tmp_path)

    with path.open("r+b") as file:
        # Another training of the same model changes bytes everywhere.
        file.seek(max(0, place - (2 << 20)))
        file.write(b"x" * (3 << 20))
        file.truncate(LARGE)

    assert first_changed(tmp_path, before) == "model.safetensors"


def test_a_large_file_of_another_size_is_another(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for size in (LARGE, LARGE + 1):
        with path.open("wb") as file:
            file.truncate(size)
        if size == LARGE:
            before = model_digests(tmp_path)

    assert first_changed(tmp_path, before) == "model.safetensors"
