"""What was found, for a person: one self-contained page, and the paper's tables as files.

    reading       evaluation folders, checked: numbers first, texts only of what is shown
    training      curves of a training run, where one is given
    reliability   a judge's own noise, where it was measured
    standings     what a model reached: mean, interval and shares
    table         a table, and how it is written as Markdown, LaTeX and JSON
    tables        the paper's tables, made of the standings
    heat          rewards by criterion
    selection     the questions on which models differ most
    excerpts      their answers, cut to what a page can hold
    visible       texts of models as they may be shown
    drawing       curves as SVG in the page's own colours
    page          the parts put into the templates

A page never holds a passage, a criterion's text or a judge's words unless they are asked for.
"""

from __future__ import annotations

from rubric_eval.report.write import ReportFiles, ReportSources, write_report

__all__ = ["ReportFiles", "ReportSources", "write_report"]
