"""What a reader sees on a page is what the passage says, in every kind of file."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from rubric_synth.sources import conversion
from rubric_synth.sources.cleaning.markup import sections

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SEEN = (
    "The loop holds 10^6 litres at −5 °C and 10^-3 mol m^-2 of CO2, 5 ± 0.5 % of 1,250 kg.",
    "First, an efficient flow of 2–3 m^3 a day – no more – “offers” 47.5 μm, Fe^3+ is ½ of it.",
    "A field of <5 T is weak; x <y and z >3, T_max is 300 K, and ^14C is rare in 250 samples.",
)
_MARKED = (
    "The loop holds 10{6} litres at −5 °C and 10{-3} mol m{-2} of CO[2], 5 ± 0.5 % of 1,250 kg.",
    "First, an efficient flow of 2–3 m{3} a day – no more – “offers” 47.5 μm, Fe{3+} is ½ of it.",
    "A field of <5 T is weak; x <y and z >3, T[max] is 300 K, and {14}C is rare in 250 samples.",
)


def _with(raised: str, lowered: str, *, escaped: bool = False) -> list[str]:
    """Write the lines with a format's own marks."""
    marked: list[str] = []
    for line in _MARKED:
        text = line.replace("<", "&lt;").replace(">", "&gt;") if escaped else line
        for start, end, form in (("{", "}", raised), ("[", "]", lowered)):
            first, second = form.split("*")
            text = text.replace(start, first).replace(end, second)
        marked.append(text)
    return marked


def _html(tag: str) -> str:
    lines = _with("<sup>*</sup>", "<sub>*</sub>", escaped=True)
    note = f'<{tag} class="x">See 250<sup><a href="#n9">9</a></sup> litres.</{tag}>'
    paragraphs = "".join(f"<p>{line}</p>" for line in lines)
    return f"<html><body><h1>Loops</h1>{paragraphs}{note}</body></html>"


def _said(read: Callable, path: Path) -> list[str]:
    (found,) = read(path)
    return [text for part in sections(found.text) for text in part.paragraphs]


def test_html(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "a.html"
    path.write_text(_html("p"))
    assert _said(read, path) == [*_SEEN, "See 250 litres."]


def test_html_with_styles_instead_of_tags(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "a.html"
    raised = '<span style="vertical-align: super">*</span>'
    lines = _with(raised, '<span class="sub">*</span>', escaped=True)
    path.write_text("".join(f"<p>{line}</p>" for line in lines))
    assert _said(read, path) == [*_SEEN]


@pytest.mark.parametrize("suffix", [".md", ".ipynb"])
def test_markdown_and_notebooks(tmp_path: Path, read: Callable, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    text = "\n\n".join(["# Loops", *_with("<sup>*</sup>", "<sub>*</sub>")])
    text = text.replace("±", "&plusmn;").replace("x <y", "x &lt;y")
    cells = [{"cell_type": "markdown", "source": text}]
    path.write_text(text if suffix == ".md" else json.dumps({"cells": cells}))
    assert _said(read, path) == [*_SEEN]


@pytest.mark.parametrize("space", ["", "jats:"])
def test_records(tmp_path: Path, read: Callable, space: str) -> None:
    lines = _with(
        f"<{space}sup>*</{space}sup>", f"<{space}sub>*</{space}sub>", escaped=True
    )
    text = "".join(f"<{space}p>{line}</{space}p>" for line in lines)
    path = tmp_path / "a.jsonl"
    path.write_text(
        json.dumps({"id": "1", "title": "Loops of 10<sup>6</sup> l", "text": text})
    )
    (found,) = read(path)
    assert found.title == "Loops of 10^6 l"
    assert _said(read, path) == [*_SEEN]
    path.write_text(json.dumps({"id": "1", "title": "Loops", "description": text}))
    assert _said(read, path) == [*_SEEN]


@pytest.mark.parametrize("suffix", [".docx", ".odt", ".epub", ".org", ".tex", ".rst"])
def test_formats_that_pandoc_writes(
    tmp_path: Path, read: Callable, suffix: str
) -> None:
    path = tmp_path / f"a{suffix}"
    note = "See 250^[A note.] litres, of 300^9^ seen."
    text = "\n\n".join(["# Loops", *_with("^*^", "~*~"), note]).replace("<", r"\<")
    if suffix == ".org":  # which raises nothing at the start of a word
        text = text.replace("^14^C", r"\^14C")
    writer = conversion.PANDOC_FORMATS[suffix]
    program = [conversion.pandoc_program(), "--from=markdown", f"--to={writer}"]
    subprocess.run([*program, f"--output={path}"], input=text, text=True, check=True)
    said = [text.replace('"offers"', "“offers”") for text in _said(read, path)]
    assert said[:4] == [*_SEEN, "See 250 litres, of 300 seen."]


def test_marks_of_journals_and_footnotes_of_pages_go(
    tmp_path: Path, read: Callable
) -> None:
    record = tmp_path / "a.jsonl"
    cited = (
        'It rises<xref ref-type="bibr">12</xref> by day<sup><xref '
        'ref-type="fn">a</xref></sup>, as '
    )
    cited += '<xref ref-type="bibr">Pugh, 1987</xref> says.'
    record.write_text(json.dumps({"id": "1", "title": "Tides", "description": cited}))
    assert _said(read, record) == ["It rises by day, as Pugh, 1987 says."]
    page = tmp_path / "a.html"
    text = "The moon raises a bulge of water on the near side of the planet. " * 8
    page.write_text(
        f'<h1>Tides</h1><p>{text}<sup id="r"><a href="#n">1</a></sup></p>'
        '<section class="footnotes" role="doc-endnotes"><p id="n">By hand in 1998.</p></section>'
    )
    assert _said(read, page) == [text.strip()]
    notes = tmp_path / "a.md"
    notes.write_text("# Tides\n\nThe sea rises.[^n]\n\n[^n]: By hand in 1998.\n")
    assert _said(read, notes) == ["The sea rises."]


def test_a_word_with_a_control_character_makes_no_passage(
    tmp_path: Path, read: Callable
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(
        "An e\x1ecient pump is rare.\n\nThe other is not\x07. " + "It is. " * 40
    )
    assert _said(read, path) == [f"The other is not. {'It is. ' * 40}".strip()]


def test_no_line_of_a_page_of_html_begins_a_list(
    tmp_path: Path, read: Callable
) -> None:
    path = tmp_path / "a.html"
    said = "The second pump was built in 2016. It has a head of 250 m + 3 m - 2 m, and no valve."
    wrapped = (
        said.replace("in 2016.", "in\n2016.")
        .replace(" + 3", "\n+ 3")
        .replace(" - 2", "\n  - 2")
    )
    path.write_text(
        f"<h1>Pumps</h1><p>{wrapped}</p><pre><code>a = 1\n\n- b</code></pre><ul><li>x\ny</li></ul>"
    )
    assert _said(read, path) == [said]
    (found,) = read(path)
    assert "```\na = 1\n\n- b\n```" in found.text
    assert "- x y" in found.text


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("It ended in\n2016. Then it began.", ["It ended in 2016. Then it began."]),
        ("It has parts:\n1. a pump\n2. a loop", ["It has parts:"]),
        (
            "> It has parts:\n>\n> 1. a pump\n> 2. a loop\n>\n> It is old.",
            ["It has parts:", "It is old."],
        ),
        ("> > It is old,\n> > and slow.", ["It is old, and slow."]),
        ("> A flow of\n> >3 litres.", ["A flow of >3 litres."]),
    ],
)
def test_lists_of_markdown(
    tmp_path: Path, read: Callable, written: str, said: list[str]
) -> None:
    path = tmp_path / "a.md"
    path.write_text(f"# Loops\n\n{written}\n")
    assert _said(read, path) == said


_WITHIN_WORDS = (
    "The 3*d* shell, 1*s*^2^2*s*^2^ of **ground**s, *b*one and a*b of 2*3 stay."
)


@pytest.mark.parametrize("suffix", [".html", ".rst", ".tex", ".docx", ".odt", ".epub"])
def test_emphasis_within_words(tmp_path: Path, read: Callable, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    writer = conversion.PANDOC_FORMATS.get(suffix, "html")
    program = [conversion.pandoc_program(), "--from=markdown", f"--to={writer}"]
    text = _WITHIN_WORDS.replace("a*b", r"a\*b").replace("2*3", r"2\*3")
    subprocess.run([*program, f"--output={path}"], input=text, text=True, check=True)
    assert _said(read, path) == [
        "The 3d shell, 1s^(2)2s^2 of grounds, bone and a*b of 2*3 stay."
    ]


def test_emphasis_within_words_of_markdown(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "a.md"
    path.write_text(
        f"# Shells\n\n{_WITHIN_WORDS.replace('^2^2*s*^2^', '')} And 2*n*3, *PO*4.\n"
    )
    said = "The 3d shell, 1s of grounds, bone and a*b of 2*3 stay. And 2*n*3, PO4."
    assert _said(read, path) == [said]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("It is slow [3],[4], [5] and old [6, 7].", "It is slow and old."),
        (
            "A box of [2, 20] × [2, 20], whose share lies in [0, 1], or in the interval [1, 2].",
            None,
        ),
        ("Set Method=[3], or choose from [1-75]: it is the sum of [2, 3].", None),
        ("A phase of [0,1] is the rule.", None),
    ],
)
def test_numbers_in_brackets(
    tmp_path: Path, read: Callable, written: str, said: str | None
) -> None:
    path = tmp_path / "a.md"
    path.write_text(f"# Loops\n\n{written}\n")
    assert _said(read, path) == [said or written]


def test_code_of_a_page_raises_and_names_tags(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "a.html"
    path.write_text(
        "<h1>Tags</h1><p>Write <code>10<sup>3</sup></code> or <code>&lt;div&gt;</code>, of "
        "<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math> and <math><msqrt><mn>2</mn></msqrt>"
        "</math>, <del>12</del>13 or <mark>14</mark>.</p>"
    )
    assert _said(read, path) == ["Write `10^3` or `<div>`, of 1/2 and √2, 13 or 14."]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            "The `<div>` holds `10<sup>3</sup>`, not <b>10</b>.",
            "The `<div>` holds `10<sup>3</sup>`, not 10.",
        ),
        ("Read `x[1]` and `a*b*c`, says [2].", "Read `x[1]` and `a*b*c`, says."),
        ("Of ![`z`](a.png) all, **use `y`**.", "Of all, use `y`."),
        (
            r"It is 5\*6 for \$7, ~~12~~13 of $a<b>c$.",
            "It is 5*6 for $7, 13 of $a<b>c$.",
        ),
        (
            r"$\Theta^*$ and $Q^*$ of $\tilde{h}_{k}$, ${r}_{w}$.",
            r"$\Theta^*$ and $Q^*$ of $\tilde{h}_{k}$, ${r}_{w}$.",
        ),
        ("For $5 to $6, ~5 to ~7 and `\\*`.", "For $5 to $6, ~5 to ~7 and `\\*`."),
    ],
)
def test_code_formulas_and_escapes_of_markdown(
    tmp_path: Path, read: Callable, written: str, said: str
) -> None:
    path = tmp_path / "a.md"
    path.write_text(f"# Tags\n\n{written}\n")
    assert _said(read, path) == [said]
