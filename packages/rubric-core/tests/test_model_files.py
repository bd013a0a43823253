"""Two model folders are one model only where every byte that counts is the same."""

import json
from pathlib import Path

import pytest

from rubric_core import ConfigError
from rubric_core.data.model_files import adapter_base, model_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text("{}", "utf-8")
    (made / "model.safetensors").write_bytes(b"weights")
    (made / "chat_template.jinja").write_text("{{ messages }}", "utf-8")
    return made


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "config.json",
        "chat_template.jinja",
        "tokenizer.json",
        "merges.txt",
    ],
)
def test_every_file_that_may_change_an_answer_counts(folder: Path, name: str) -> None:
    before = model_files(folder)
    (folder / name).write_bytes(b"another")
    assert model_files(folder) != before


@pytest.mark.parametrize(
    "name",
    ["README.md", "training_args.bin", "trainer_state.pt", ".cache.json", "log.log"],
)
def test_what_changes_no_answer_does_not(folder: Path, name: str) -> None:
    before = model_files(folder)
    (folder / name).write_bytes(b"another")
    assert model_files(folder) == before


def test_the_place_of_a_folder_does_not_count_and_a_link_is_what_it_points_to(
    folder: Path, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in folder.iterdir():
        (linked / path.name).symlink_to(path)
    assert model_files(linked) == model_files(folder)


def test_weights_of_the_same_size_and_time_are_told_apart(folder: Path) -> None:
    import os  # to set a time back

    weights = folder / "model.safetensors"
    before, state = model_files(folder), weights.stat()
    weights.write_bytes(b"WEIGHTS")
    os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert model_files(folder) != before


def test_an_adapter_has_its_base_in_it(folder: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"delta")
    settings = {"base_model_name_or_path": str(folder)}
    (adapter / "adapter_config.json").write_text(json.dumps(settings), "utf-8")

    files = model_files(adapter)
    assert files["base"] == model_files(folder)
    assert adapter_base(adapter) == folder
    assert adapter_base(folder) is None
    (folder / "model.safetensors").write_bytes(b"other base")
    assert model_files(adapter) != files


def test_an_adapter_of_itself_ends(folder: Path) -> None:
    settings = {"base_model_name_or_path": str(folder)}
    (folder / "adapter_config.json").write_text(json.dumps(settings), "utf-8")
    assert "model.safetensors" in model_files(folder)


@pytest.mark.parametrize(
    "settings", ["[", "[]", "{}", '{"base_model_name_or_path": 3}']
)
def test_an_adapter_that_names_no_folder_is_what_it_holds(
    folder: Path, settings: str
) -> None:
    (folder / "adapter_config.json").write_text(settings, "utf-8")
    assert "base" not in model_files(folder)


def test_a_folder_without_a_model_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="holds no weights"):
        model_files(folder)
    with pytest.raises(ConfigError, match="no model folder at"):
        model_files(folder / "nowhere")
