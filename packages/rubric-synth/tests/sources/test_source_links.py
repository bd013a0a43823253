"""Links in a folder: what lies outside of it is not collected, whenever the link is made."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from rubric_synth import Document, collect
from rubric_synth.sources import raw_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PROSE = (
    "The moon raises a bulge of water on the near side of the planet, twice a day. " * 5
)
_SUFFIXES = (
    ".txt",
    ".html",
    ".pdf",
    ".json",
    ".jsonl",
    ".parquet",
    ".ipynb",
    ".rst",
    ".docx",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(_PROSE + "secret")
    root = tmp_path / "in"
    (root / "below").mkdir(parents=True)
    (root / "below" / "plain.txt").write_text(_PROSE)
    return root


@pytest.mark.parametrize("suffix", _SUFFIXES)
def test_a_link_that_leaves_the_folder_is_refused_and_counted(
    root: Path, reasons: Callable, suffix: str
) -> None:
    (root / f"absolute{suffix}").symlink_to(root.parent / "secret.txt")
    (root / "below" / f"relative{suffix}").symlink_to("../../secret.txt")
    (root / f"twice{suffix}").symlink_to(f"below/relative{suffix}")
    assert reasons(root) == {
        f"in/absolute{suffix}": "outside_folder",
        f"in/below/relative{suffix}": "outside_folder",
        f"in/twice{suffix}": "outside_folder",
    }


def test_a_collection_says_which_links_it_refused(root: Path, tmp_path: Path) -> None:
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    report = collect([root], tmp_path / "out")
    assert report.rejected == {"outside_folder": 1}
    assert "secret" not in (tmp_path / "out" / "documents.jsonl").read_text()


def test_a_link_in_the_folder_is_read_wherever_the_folder_was_reached(
    root: Path, read: Callable
) -> None:
    (root / "a.txt").symlink_to("below/plain.txt")
    (root / "b.txt").symlink_to("a.txt")
    (root.parent / "way").symlink_to(root)
    for folder in (root, root.parent / "way", root / "below" / ".."):
        assert [type(item) for item in read(folder)] == [Document] * 3


def test_a_link_that_the_user_names_is_followed(root: Path, read: Callable) -> None:
    (root / "out.txt").symlink_to(root.parent / "secret.txt")
    (found,) = read(root / "out.txt")
    assert "secret" in found.text


@pytest.mark.parametrize("replaced", ["below/plain.txt", "below"])
def test_a_file_or_folder_that_becomes_a_link_after_the_check_is_refused(
    root: Path, reasons: Callable, monkeypatch: pytest.MonkeyPatch, replaced: str
) -> None:
    (root.parent / "plain.txt").write_text("secret")
    checked = os.path.realpath

    def then_replaced(path: Path, *, strict: bool = False) -> str:
        real = checked(path, strict=strict)
        if path.name == "plain.txt":
            (root / replaced).rename(root.parent / "moved")
            (root / replaced).symlink_to(root.parent)
        return real

    monkeypatch.setattr(raw_text.os.path, "realpath", then_replaced)
    assert reasons(root) == {"in/below/plain.txt": "outside_folder"}


def test_pipes_devices_and_sockets_are_passed_over(
    root: Path, reasons: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe.rst")
    (root / "device.txt").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(root)  # the path of a socket may have a hundred letters
        listening.bind("socket.txt")
        found = reasons(root)
    assert found == dict.fromkeys(
        ("in/device.txt", "in/pipe.rst", "in/socket.txt"), "unsupported_type"
    )
