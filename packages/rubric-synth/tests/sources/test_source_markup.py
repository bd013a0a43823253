"""reStructuredText, LaTeX, notebooks, Word and their like, read by the real pandoc."""

from __future__ import annotations

import io
import json
import re
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rubric_synth import Document, SourceError, collect, synthesise
from rubric_synth.sources import conversion, raw_text
from rubric_synth.sources.cleaning.markup import sections

if TYPE_CHECKING:
    from collections.abc import Callable

_MARKUP = re.compile(r":\w+(?::\w+)*:`|\.\. |::|`_|\]_|\||<|\\|@\w")
_RST = r"""
:orphan:

.. _tide-tables:

Tide *tables*
=============

.. toctree::
   :maxdepth: 2

   intro
   advanced/usage

.. automodule:: tides.tables
   :members:

.. currentmodule:: tides

The moon raises a bulge :cite:p:`Pugh1987`, as :ref:`the guide <guide>` and :ref:`tide-tables` say,
and :func:`~tides.tables.rise` computes it [#f1]_ for a :class:`tides.Coast` [Smith2000]_.
:cite:t:`Pugh1987` calls it :math:`h = 2 a`; :eq:`energy` and |version| are not needed, and
``tides`` has :term:`arrays <array>`, a `page <https://x.org>`_ and :doc:`/user/first_steps`.

.. raw:: html

   <div class="raw">nothing to read</div>

.. math::
   :label: energy

   E = m c^2

.. note:: High water comes twice a day.

.. versionadded:: 1.2

.. exercise::

   :class: boxed

   Say why the water rises twice a day on most coasts.

.. plot::

   draw(tides)

>>> rise(3)
6

.. include:: /etc/passwd
.. literalinclude:: secret.py
.. csv-table:: Levels
   :file: levels.csv

.. image:: tide.png

.. [#f1] Only on open coasts.
.. [Smith2000] J. Smith.
"""


@pytest.fixture
def text_of(tmp_path: Path, read: Callable) -> Callable[[str, str | bytes], Document]:
    """Read a file of a name and a content."""

    def of(name: str, content: str | bytes) -> Document:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
        (found,) = read(tmp_path / name)
        return found

    return of


def test_roles_and_directives_become_words_or_go(text_of: Callable) -> None:
    found = text_of("tides.rst", _RST)
    assert found.title == "Tide tables"
    (section,) = sections(found.text)
    assert section.paragraphs[0] == (
        "The moon raises a bulge, as the guide and Tide tables say, and rise computes it for a "
        "tides.Coast. Pugh calls it $h = 2 a$; and version are not needed, and `tides` has "
        "arrays, a page and first steps."
    )
    assert section.paragraphs[1:] == (
        "High water comes twice a day.",
        "Say why the water rises twice a day on most coasts.",
    )
    assert "$$E = m c^2$$" in found.text


def test_latex_loses_its_commands_and_keeps_its_formulas(text_of: Callable) -> None:
    found = text_of(
        "tides.tex",
        r"""\documentclass{article}\title{Tide tables}\newcommand{\water}{sea water}
\begin{document}\maketitle\begin{abstract}All about tides.\end{abstract}
\section{Rise}\label{sec:rise}
The \emph{moon} raises \water{} by $h = 2 a$ \cite{Pugh1987}, see Section~\ref{sec:rise}% note
and \citet{Smith} \textbf{twice} a day\footnote{On most coasts.}.
\begin{equation}E = m c^2\end{equation}
\input{/etc/passwd}\includegraphics{tide.png}
\end{document}""",
    )
    assert found.title == "Tide tables"
    assert "## Rise" in found.text
    assert "All about tides." in found.text
    assert "The moon raises sea water by $h = 2 a$, see" in found.text
    assert "Smith twice a day." in found.text
    assert "root:" not in found.text
    assert "\\cite" not in found.text


def test_keys_of_citations_are_authors_or_gone_and_the_bibliography_goes(
    text_of: Callable,
) -> None:
    found = text_of(
        "a.tex",
        r"""\documentclass{article}\begin{document}\section{Rise}
As \citet{Pugh1987} and \textcite{smith:2004b} show, the moon raises water \citep{a1,b2}. The rise
of the sea \cite{deep_tides} follows \citeauthor{Doodson21}.
\begin{thebibliography}{9}
\bibitem{Pugh1987} Pugh, D.: Tides, Surges and Mean Sea-Level. Wiley, 1987.
\end{thebibliography}
\end{document}""",
    )
    paragraphs = [text for part in sections(found.text) for text in part.paragraphs]
    assert paragraphs == [
        "As Pugh and Smith show, the moon raises water. The rise of the sea follows Doodson."
    ]


def test_labels_are_the_titles_of_their_headings_or_gone(text_of: Callable) -> None:
    page = """.. _tide-tables:

Tide *tables* of the coast
==========================

A pilot reads :ref:`tide-tables` before :ref:`the guide <guide>` and :ref:`sec_a1-b`; see
:numref:`fig-3`.
"""
    (section,) = sections(text_of("a.rst", page).text)
    said = "A pilot reads Tide tables of the coast before the guide and; see."
    assert section.paragraphs == (said,)


def test_keys_of_citations_in_markdown_go(text_of: Callable) -> None:
    found = text_of(
        "a.md", "The sea rises [@pugh1987; @smith, p. 3] by day [see @a:1].[^note]"
    )
    assert sections(found.text)[0].paragraphs == ("The sea rises by day.",)


def test_a_notebook_is_its_text_and_its_code_without_its_outputs(
    text_of: Callable,
) -> None:
    output = {
        "output_type": "stream",
        "name": "stdout",
        "text": ["an output\n"] * 300_000,
    }
    code = {
        "cell_type": "code",
        "source": ["rise(3)\n", "rise(4)"],
        "outputs": [output],
    }
    cells = [
        {
            "cell_type": "markdown",
            "source": ["# Tide tables\n", "\n", "The moon raises water.\n"],
        },
        {"cell_type": "raw", "source": "raw"},
        code,
        {"cell_type": "code", "source": [], "outputs": []},
    ]
    kernel = {"kernelspec": {"language": "python"}}
    found = text_of(
        "a.ipynb", json.dumps({"nbformat": 4, "metadata": kernel, "cells": cells})
    )
    assert (found.title, found.source.rpartition("/")[2]) == ("Tide tables", "a.ipynb")
    expected = (
        "# Tide tables\n\nThe moon raises water.\n\n```python\nrise(3)\nrise(4)\n```"
    )
    assert found.text == expected
    heading = {"cell_type": "heading", "level": 2, "source": "Tides"}
    old_code = {"cell_type": "code", "input": "rise(3)"}
    old = {"nbformat": 3, "worksheets": [{"cells": [heading, old_code]}]}
    assert text_of("b.ipynb", json.dumps(old)).text == "## Tides\n\n```\nrise(3)\n```"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "1", '{"cells": [1]}', '{"cells": 3}']
)
def test_a_notebook_that_is_none_is_counted(text_of: Callable, content: str) -> None:
    assert text_of("a.ipynb", content).reason == "broken_record"


@pytest.mark.parametrize("suffix", [".docx", ".odt", ".epub", ".org", ".tex", ".rst"])
def test_what_pandoc_writes_is_read(
    tmp_path: Path, read: Callable, suffix: str
) -> None:
    markdown = (
        "# Tides\n\n## Rise\n\nThe *moon* raises a [bulge](https://x.org) of water.\n"
    )
    path = tmp_path / f"a{suffix}"
    writer = conversion.PANDOC_FORMATS[suffix]
    subprocess.run(
        [
            conversion.pandoc_program(),
            "--from=markdown",
            f"--to={writer}",
            f"--output={path}",
        ],
        input=markdown,
        text=True,
        check=True,
    )
    (found,) = read(path)
    assert found.title == "Tides"
    paragraphs = [text for part in sections(found.text) for text in part.paragraphs]
    assert paragraphs == ["The moon raises a bulge of water."]
    assert "# Rise" in found.text


def test_an_archive_of_gigabytes_costs_its_time_and_no_more(
    tmp_path: Path, read: Callable
) -> None:
    huge = io.BytesIO()
    with zipfile.ZipFile(huge, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in _docx_parts("").items():
            if name != "word/document.xml":
                archive.writestr(name, content)
        start, end = _docx_parts("PLACE")["word/document.xml"].split("PLACE")
        with archive.open("word/document.xml", "w") as part:
            part.write(start.encode())
            for _ in range(400):
                part.write(b"High water comes twice a day. " * 33_000)
            part.write(end.encode())
    (tmp_path / "a.docx").write_bytes(huge.getvalue())
    (tmp_path / "b.rst").write_text("High water comes twice a day.")
    refused, found = read(tmp_path)
    assert refused.reason in {"conversion_failed", "too_long"}
    assert found.text == "High water comes twice a day."


def test_a_file_that_takes_too_long_is_left_out(tmp_path: Path, read: Callable) -> None:
    (tmp_path / "a.rst").write_text("".join(f"{' ' * i}* x\n\n" for i in range(3_000)))
    (found,) = read(tmp_path / "a.rst", conversion_timeout_s=1)
    assert found.reason == "conversion_failed"
    assert found.detail == "not read within the 1 s of collect.conversion_timeout_s"


def test_a_file_that_makes_far_more_than_it_is_is_left_out(
    tmp_path: Path, read: Callable
) -> None:
    thrice = "".join(
        rf"\newcommand{{\{name}}}{{{f'{inner} ' * 20}}}"
        for name, inner in (("a", "water"), ("b", r"\a"), ("c", r"\b"))
    )
    (tmp_path / "a.tex").write_text(thrice + r"\c")
    (found,) = read(tmp_path / "a.tex", max_document_bytes=1_000)
    assert found.reason == "too_long"
    allowed = (
        "Markdown of more than the 8000 bytes that collect.max_document_bytes allows"
    )
    assert found.detail == allowed


def test_broken_files_are_counted(tmp_path: Path, reasons: Callable) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "broken.tex").write_text(r"\begin{document}\begin{itemize} \item Words.")
    (root / "empty.rst").write_text(" \n")
    (root / "junk.docx").write_bytes(b"PK\3\4 no archive")
    (root / "none.docx").write_bytes(_zip({"a": "b"}))
    (root / "wide.rst").write_bytes(b"\x01\x02words\x03" * 100)
    assert reasons(root) == {
        "in/broken.tex": "conversion_failed",
        "in/empty.rst": "empty",
        "in/junk.docx": "conversion_failed",
        "in/none.docx": "conversion_failed",
        "in/wide.rst": "binary",
    }


def test_pages_of_documentation_give_tasks_without_markup(
    tmp_path: Path, articles: dict[str, str]
) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    for name, article in articles.items():
        marked = re.sub(r"(?<=\w)\.(?=\s)", " :cite:p:`Key`, [#f]_.", article)
        marked = re.sub(r"\b(water|heat|steel|dough)\b", r":term:`\1 <other>`", marked)
        marked = re.sub(r"(?m)^#+ (.*)$", r".. _label:\n\n\1\n" + "=" * 80, marked)
        page = f"{marked}\n\n.. [#f] A note.\n\n.. toctree::\n\n   a\n\n.. raw:: html\n\n   <p>\n"
        (root / f"{name}.rst").write_text(page)
    collected = collect([root], tmp_path / "collected")
    assert collected.documents == len(articles)
    dataset = synthesise(collected.out, tmp_path / "dataset")
    passages = [
        json.loads(line)["passage"]
        for split in ("train", "validation", "test")
        for line in (dataset.out / f"{split}.jsonl").read_text().splitlines()
    ]
    assert len(passages) >= len(articles) // 2
    assert not [mark for passage in passages for mark in _MARKUP.findall(passage)]


def test_without_pandoc_a_file_is_counted_and_named_alone_it_is_an_error(
    tmp_path: Path, reasons: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.rst").write_text("Words.")
    monkeypatch.setitem(raw_text._MODULES, "documents", "no_such_library")
    assert reasons(root) == {"in/a.rst": "missing_extra"}
    with pytest.raises(
        SourceError,
        match=r"pip install --no-sources './packages/rubric-synth\[documents\]'",
    ):
        reasons(root / "a.rst")


def _docx_parts(paragraph: str) -> dict[str, str]:
    package = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    return {
        "[Content_Types].xml": (
            f'<Types xmlns="{package}/content-types"><Override PartName="/word/document.xml" '
            f'ContentType="{main}"/></Types>'
        ),
        "_rels/.rels": (
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
            f'Type="{office}" Target="word/document.xml"/></Relationships>'
        ),
        "word/document.xml": (
            f'<w:document xmlns:w="{word}"><w:body><w:p><w:pPr><w:pStyle w:val="Title"/></w:pPr>'
            f"<w:r><w:t>Tides</w:t></w:r></w:p><w:p><w:r><w:t>{paragraph}</w:t></w:r></w:p>"
            "</w:body></w:document>"
        ),
    }


def _zip(parts: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()
