from __future__ import annotations

import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import save_file

from rubric_train_openrlhf.errors import DiskWriteError
from rubric_train_openrlhf.run.writing import (
    append_line,
    disk_errors,
    point_link,
    remove_unfinished,
    save_tensors,
    whole_folder,
    write_lines,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def full_disk(limit_bytes: int) -> Generator[None]:
    """No file may grow past the limit: writes fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"

    write_text(path, "one")
    write_lines(path, ["two", "three"])

    assert path.read_text() == "two\nthree\n"
    assert names(path.parent) == {"file"}


def test_several_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"

    with ThreadPoolExecutor(4) as writers:
        list(
            writers.map(
                lambda number: write_text(path, str(number) * 10_000), range(400)
            )
        )

    assert len(set(path.read_text())) <= 3
    assert path.stat().st_size in {10_000, 20_000, 30_000}
    assert names(tmp_path) == {"summary.json"}


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")

    with (
        full_disk(1000),
        pytest.raises(DiskWriteError, match=r"file.*too large.*--resume") as caught,
    ):
        write_lines(path, ["x" * 100] * 100)

    assert caught.value.path == path
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file"}


def test_a_full_disk_leaves_no_part_of_an_appended_line(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    append_line(path, "first")

    with full_disk(50), pytest.raises(DiskWriteError):
        append_line(path, "x" * 100)
    append_line(path, "second")

    assert path.read_text() == "first\nsecond\n"


def fill(target: Path, *, fails: bool) -> None:
    with whole_folder(target) as temporary:
        (temporary / "part").write_text("x")
        assert not target.exists()
        if fails:
            raise KeyboardInterrupt


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "target"

    with pytest.raises(KeyboardInterrupt):
        fill(target, fails=True)
    assert names(tmp_path) == set()

    fill(target, fails=False)
    assert names(tmp_path) == {"target"}
    assert (target / "part").read_text() == "x"


def save_checkpointlike(target: Path, writer: str) -> None:
    weights = {"w": torch.zeros(10_000)}
    with full_disk(1000), whole_folder(target) as folder:
        if writer == "torch":
            save_tensors(folder / "state.pt", weights)
        else:
            save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize("writer", ["torch", "safetensors"])
def test_tensor_writers_on_a_full_disk_give_the_same_error(
    tmp_path: Path, writer: str
) -> None:
    with pytest.raises(DiskWriteError, match="target"):
        save_checkpointlike(tmp_path / "target", writer)

    assert names(tmp_path) == set()


def test_other_errors_pass_through(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="shapes"), disk_errors(tmp_path):
        raise RuntimeError("shapes")


def test_a_link_is_relative_and_can_be_moved(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    point_link(tmp_path / "best", "one")
    point_link(tmp_path / "best", "two")

    assert (tmp_path / "best").readlink() == Path("two")
    assert names(tmp_path) == {"one", "two", "best"}


def test_leftovers_of_a_kill_are_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / ".step_000002.tmp" / "deep").mkdir(parents=True)
    (tmp_path / "checkpoints" / "step_000001").mkdir()
    (tmp_path / "checkpoints" / ".best.tmp").symlink_to("step_000001")
    (tmp_path / "checkpoints" / f"..step_000002.tmp.{'0a' * 16}").mkdir()
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / ".step_000002.jsonl.tmp").write_text("{")
    (tmp_path / ".summary.json.tmp").write_text("{")
    (tmp_path / ".summary.json.0123abcd.tmp").write_text("{")

    remove_unfinished(tmp_path)

    assert names(tmp_path) == {"checkpoints", "rollouts"}
    assert names(tmp_path / "checkpoints") == {"step_000001"}
    assert names(tmp_path / "rollouts") == set()


def test_hidden_and_temporary_names_of_others_are_left_alone(tmp_path: Path) -> None:
    others = [
        ".notes.tmp",
        ".gitignore",
        "project/.git/HEAD",
        "project/.summary.json.tmp",
        "checkpoints/.keep",
        "checkpoints/.mine.tmp",
        "rollouts/.env",
    ]
    for name in others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")

    remove_unfinished(tmp_path)

    assert all((tmp_path / name).read_text() == "mine" for name in others)
