"""The page and the figures of a calibration."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_judge.quality.calibration.figures import draw_figures
from rubric_judge.quality.calibration.measure import Settings, calibrate
from rubric_judge.quality.calibration.page import write_page
from rubric_judge.quality.calibration.pairing import Paired
from rubric_judge.quality.calibration.report import CalibrationReport
from rubric_judge.ui.console.command import print_tables

RATES = {"good": (0.95, 0.05), "<b>x</b> & $y$": (0.5, 0.5), "wrong": (0.1, 0.9)}


@pytest.fixture
def report(planted: Callable[..., Paired]) -> CalibrationReport:
    """Return the calibration of a judge that is good, blind and wrong."""
    return calibrate(
        planted(RATES, tasks=60, raters={"anna": 0.02, "ben": 0.02}, replicates=2),
        settings=Settings(resamples=30),
    )


def test_the_page_shows_verdicts_and_no_markup_of_a_name(
    report: CalibrationReport, tmp_path: Path
) -> None:
    write_page(report, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()

    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt; &amp; $y$" in page
    assert page.count('<i class="zero"') == 3
    colours = re.findall(r'<b style="color:var\(--(\w+)\)">([\w ]+)</b>', page)
    assert ("good", "admit") in colours
    assert ("bad", "mask") in colours
    assert ("main", "stronger judge") in colours
    assert report.summary().replace("&", "&amp;") in page
    for one in report.criteria:
        assert one.reason in page
    assert "://" not in page
    assert "script-src;" in page  # nothing runs


def test_the_same_calibration_gives_the_same_files(
    report: CalibrationReport, tmp_path: Path
) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        write_page(report, folder / "page.html")
        draw_figures(report, folder)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())

    assert names == [
        "page.html",
        "rewards.png",
        "rewards.svg",
        "youden_j.png",
        "youden_j.svg",
    ]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (
            tmp_path / "b" / name
        ).read_bytes()


def test_nothing_is_cut_at_80_columns(
    report: CalibrationReport,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_tables(report.tables(), footer="written")
    printed = capsys.readouterr().out

    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    for one in report.criteria:
        assert one.youden_j.text() in printed  # in one line, with its interval


def test_a_reason_that_criteria_share_is_said_once(
    planted: Callable[..., Paired], tmp_path: Path
) -> None:
    rates = {f"criterion_{place}": (1.0, 0.0) for place in range(10)}
    report = calibrate(
        planted(rates, tasks=2, met=1.0), settings=Settings(resamples=30)
    )
    (reason,) = {one.reason for one in report.criteria}
    names = [one.criterion for one in report.criteria]

    (table,) = [one for one in report.tables() if one.title == "Why"]
    assert table.texts == ((f"{', '.join(names[:8])} and 2 others", reason),)
    write_page(report, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count(reason) == 1
    assert ", ".join(names) in re.sub("<wbr>", "", page)
