"""A report of a command as one page: its result in a sentence, its drawings, its tables."""

from __future__ import annotations

from pathlib import Path

from rubric_core.files import write_text
from rubric_judge.page.rendering import render_page
from rubric_judge.page.tables import Report


def write_plain_page(report: Report, path: Path) -> None:
    """Write the page; the same report gives the same bytes.

    Args:
        report: what was found.
        path: HTML file.

    Raises:
        OSError: the page could not be written.
    """
    content = {"report": report, "tables": [one for one in report.tables() if one.rows]}
    text = render_page(__package__ or "", "plain.html.j2", content, style="plain.css", scripts=())
    write_text(path, text)
