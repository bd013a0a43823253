from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_core import ConfigError
from rubric_core.data.model_files import model_files
from rubric_train_openrlhf.run.folder import first_changed

if TYPE_CHECKING:
    from pathlib import Path


def test_the_first_file_that_is_missing_or_another_is_named(tmp_path: Path) -> None:
    for name in ("model-1.safetensors", "model-2.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    before = model_files(tmp_path)

    assert first_changed(tmp_path, before) is None
    (tmp_path / "README.txt").write_text("a note beside it changes nothing")
    (tmp_path / "trainer_state.pt").write_bytes(b"s")
    assert first_changed(tmp_path, before) is None
    (tmp_path / "tokenizer.json").write_text("[]")
    assert first_changed(tmp_path, before) == "tokenizer.json"
    (tmp_path / "model-2.safetensors").unlink()
    assert first_changed(tmp_path, before) == "model-2.safetensors"
    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(ConfigError, match="holds no weights"):
        first_changed(tmp_path, before)


def test_one_byte_in_the_middle_of_a_large_file_makes_it_another(
    tmp_path: Path,
) -> None:
    path, size = tmp_path / "model.safetensors", 40 << 20
    with path.open("wb") as file:
        file.truncate(size)
    before = model_files(tmp_path)

    with path.open("r+b") as file:
        file.seek(size // 2 + 12345)
        file.write(b"x")

    assert first_changed(tmp_path, before) == "model.safetensors"
