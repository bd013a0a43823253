"""What was found, for a person: one self-contained page, and the paper's tables as files.

    reading       evaluation folders, checked: numbers first, texts only of what is shown
    training      curves of a training run, where one is given
    reliability   a judge's own noise, where it was measured
    findings      scores and tested differences
    table         a table, and how it is written as Markdown, LaTeX and JSON
    tables        the paper's tables, made of the findings
    exploratory   differences by criterion and field
    heat          rewards by criterion
    signs         of judge hacking
    curves        training and validation
    selection     the questions on which models differ most
    excerpts      their answers, cut to what a page can hold
    visible       texts of models as they may be shown
    drawing       curves as SVG in the page's own colours
    headline      the numbers at the top
    page          the parts put into the templates
    write         the page and the tables on disk

A page never holds a passage, a criterion's text or a judge's words unless they are asked for.
"""

from __future__ import annotations

from rubric_eval.report.page import ReportFiles, ReportSources, write_report

__all__ = ["ReportFiles", "ReportSources", "write_report"]
