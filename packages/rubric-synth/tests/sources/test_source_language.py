from __future__ import annotations

import resource
import tempfile
from typing import TYPE_CHECKING

import pytest

from rubric_synth import Document, OutputError
from rubric_synth.sources import raw_text as raw_text_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ENGLISH = (
    "The pressure gradient drives the flow along the pipe, and friction slows it near the wall. "
    "A thin layer of fluid sticks to the surface, so that the velocity rises with the distance. "
)
_GERMAN = (
    "Der Druckunterschied treibt die Strömung durch das Rohr, und die Reibung bremst sie an der "
    "Wand. Eine dünne Schicht haftet an der Oberfläche, sodass die Geschwindigkeit mit dem "
    "Abstand wächst. "
)
_CHINESE = (
    "压力梯度驱动沿管道的流动，摩擦使其在壁面附近减慢，因此速度随着距离而增加。" * 3
)
_FORMULAS = (
    r"$$\frac{\partial u}{\partial t} + u \frac{\partial u}{\partial x} = -\nabla p$$ "
    r"$x_i = \sum_j a_{ij} y_j$, $\alpha \beta \gamma$ \begin{equation} e^{i\pi} \end{equation} "
) * 20


@pytest.mark.parametrize(
    ("text", "code"),
    [(_GERMAN, "de"), (_CHINESE, "zh"), (f"# {_GERMAN}\n\n{_GERMAN}", "de")],
)
def test_a_document_in_another_language_is_left_out_with_its_code(
    tmp_path: Path, read: Callable, text: str, code: str
) -> None:
    (tmp_path / "a.txt").write_text(text)
    (found,) = read(tmp_path / "a.txt", languages=("en",))
    assert (found.reason, found.detail) == ("other_language", code)
    assert found.doc_hash


@pytest.mark.parametrize(
    "text",
    [
        _ENGLISH,
        "Zwei Wörter.",
        _FORMULAS,
        f"{_FORMULAS}\n\n{_ENGLISH}",
        _GERMAN + _ENGLISH * 4,
        "u v w p q r s t\n" * 50,
        "```\nfor i in range(n): x[i] += dx * foo(bar)\n```\n" * 5 + _ENGLISH,
    ],
)
def test_english_formulas_and_short_texts_stay(
    tmp_path: Path, read: Callable, text: str
) -> None:
    (tmp_path / "a.txt").write_text(text)
    (found,) = read(tmp_path / "a.txt", languages=("en",))
    assert isinstance(found, Document)


def test_wanted_languages_are_set_and_an_empty_list_wants_all(
    tmp_path: Path, read: Callable
) -> None:
    (tmp_path / "a.txt").write_text(_GERMAN)
    assert isinstance(read(tmp_path / "a.txt", languages=("en", "de"))[0], Document)
    assert isinstance(read(tmp_path / "a.txt", languages=())[0], Document)


def test_a_full_temporary_folder_is_named(
    tmp_path: Path, read: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text(
        "High water comes twice a day, and ships enter. " * 9
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    raw_text_module._identifier.cache_clear()
    with pytest.raises(
        OutputError, match=r"temporary folder '.*gone': No such file.*TMPDIR"
    ):
        read(tmp_path, languages=("en",))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(OutputError, match="File too large"):
            read(tmp_path, languages=("en",))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(read(tmp_path, languages=("en",))) == 1
