"""The figures of a paper, drawn of the report's numbers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from rubric_core import MissingExtraError
from rubric_eval.comparison import CompareSettings, compare_measured
from rubric_eval.findings.evaluations import read_evaluations
from rubric_eval.findings.measuring import Findings
from rubric_eval.findings.reading import ReportSources
from rubric_eval.findings.studies import read_studies
from rubric_eval.report import pictures
from rubric_eval.report.page import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Folders


def _findings(*folders: Path) -> Findings:
    given = [one for one in read_evaluations(folders) if one is not None]
    settings = CompareSettings(resamples=99)
    compared = compare_measured(
        [values for one in given for values in one.measured], settings
    )
    return Findings(compared.scores, compared, settings)


def test_what_there_are_numbers_for_is_drawn_and_what_an_earlier_report_left_is_removed(
    folders: Folders, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    found = _findings(folders.heldout(questions=8, models=("base", "grpo")).root)
    (tmp_path / "table2_transfer.pdf").write_bytes(b"old")
    (tmp_path / "mine.pdf").write_bytes(b"mine")
    written = pictures.write_pictures(found, None, tmp_path)
    assert {path.stem for path in written} == {
        "table1_heldout",
        "figure2_judges",
        "differences",
    }
    assert {path.name for path in tmp_path.glob("*.pdf")} == {
        "mine.pdf",
        *(path.name for path in written if path.suffix == ".pdf"),
    }


@pytest.mark.slow
def test_every_figure_is_a_png_and_a_pdf_and_the_same_numbers_give_the_same_files(
    folders: Folders, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    heldout = folders.heldout(questions=8).root
    found = _findings(heldout, folders.transfer(questions=8).root)
    written = pictures.write_pictures(
        found, read_studies(folders.training()).training, tmp_path
    )
    assert sorted(path.name for path in written) == sorted(
        f"{key}.{form}" for key in pictures.PICTURE_KEYS for form in ("png", "pdf")
    )
    first = {path: path.read_bytes() for path in written}
    assert all(
        data.startswith(b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")
        for path, data in first.items()
    )
    # A report without benchmarks and curves leaves none of them behind.
    again = pictures.write_pictures(_findings(heldout), None, tmp_path)
    assert {path.stem for path in again} == {
        "table1_heldout",
        "figure2_judges",
        "differences",
    }
    assert set(again) == {path for path in written if path.exists()}
    same = [
        path for path in again if path.stem != "differences"
    ]  # whose rows are fewer now
    assert [path.read_bytes() for path in same] == [first[path] for path in same]


def test_without_matplotlib_nothing_is_written(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    sources = ReportSources((folders.heldout(questions=8).root,))
    with pytest.raises(
        MissingExtraError,
        match=r"install --no-sources './packages/rubric-eval\[plots\]'",
    ):
        write_report(sources, tmp_path / "out", figures=tmp_path / "figures")
    assert not (tmp_path / "out").exists()
