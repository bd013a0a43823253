"""Packages that load what their stub lists, when it is first used."""

import importlib
import sys
from pathlib import Path

import pytest


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "late_names"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from rubric_core.lazy import attach\n\n__getattr__, __all__ = attach(__name__, __file__)\n"
    )
    (folder / "__init__.pyi").write_text(
        "from late_names.shapes import Square as Square\n"
        "from late_names.shapes import area as surface\n\n__version__: str\n"
    )
    (folder / "shapes.py").write_text("class Square: ...\n\n\ndef area() -> int: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("late_names", "late_names.shapes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "late_names"


def test_a_name_loads_its_module_when_it_is_first_used(package: str) -> None:
    module = importlib.import_module(package)
    assert "late_names.shapes" not in sys.modules

    square = module.Square

    assert square is sys.modules["late_names.shapes"].Square
    assert vars(module)["Square"] is square
    assert module.surface is sys.modules["late_names.shapes"].area


def test_all_is_what_the_stub_lists(package: str) -> None:
    assert importlib.import_module(package).__all__ == ["Square", "surface"]


def test_a_name_that_the_stub_does_not_list_is_no_attribute(package: str) -> None:
    with pytest.raises(AttributeError, match="'late_names' has no attribute 'area'"):
        _ = importlib.import_module(package).area
