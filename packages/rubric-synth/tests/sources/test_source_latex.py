"""What a reader of LaTeX sees is what the passage says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rubric_synth.sources.cleaning.markup import sections

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SEEN = {
    r"from 59\textendash 60 and \textminus 53 to 57\nobreakdash-58": "from 59–60 and −53 to 57-58",
    r"a head of 5\nicefrac{1}{2} m and \texteuro 35": "a head of 5 1/2 m and €35",
    r"at 18\degree C, \textperthousand\ of it": "at 18°C, ‰ of it",
    r"\noindent 60 pumps, \quad 12 valves, \about 7 tubes": "60 pumps, 12 valves, 7 tubes",
    r"\added{twelve} pumps, \replaced{nine}{eight} tubes": "twelve pumps, nine tubes",
    r"a \framebox[2cm][l]{box} of \makebox[2cm]{six}": "a box of six",
    r"\raisebox{1pt}{ten} of \fbox{these}": "ten of these",
    r"\SI{24e3}{\per\second}, \si{\per\cubic\metre}": "24 × 10^3 s^-1, m^-3",
    r"\SI{3}{\watt\per\square\metre\per\kelvin}": "3 W m^-2 K^-1",
    r"\SI{3}{\watt\per\metre\per\second}": "3 W m^-1 s^-1",
    r"\SI{3}{\joule\per\kilo\gram}, \SI{4}{\per\metre\squared}": "3 J kg^-1, 4 m^-2",
    r"\SI{20}{\celsius}, \SI{5}{\percent}, \qty{3}{\ohm\metre}": "20 °C, 5 %, 3 Ω m",
    r"$5\nicefrac{1}{2}\,\mathrm{m}$, \text{of} \mathrm{CO}2": (
        r"$5\nicefrac{1}{2}\,\mathrm{m}$, of CO2"
    ),
    r"\SI{10.0 \pm 3.3}{\milli\second}": "10.0 ± 3.3 ms",
    r"water \ce{H2O} and $\ce{SO4^2-}$": "water H2O and SO4^2-",
    r"\ce{^{235}U}, \isotope[14]{C}, \ce{Fe^3+}, \ce{Na+}": "^235U, ^14C, Fe^3+, Na^+",
    r"\ce{CuSO4.5H2O} and \ce{2H2 + O2 -> 2H2O}": "CuSO4·5H2O and 2H2 + O2 → 2H2O",
    r"$\frac 12$ of \$5 to \$6, \verb|\noindent 7|": r"$\frac 12$ of $5 to $6, `\noindent 7`",
    r"a gap.\vskip 12pt It": "a gap. It",
    r"% \noindent 5": "",
}


@pytest.mark.parametrize("written", _SEEN)
def test_no_number_unit_or_formula_of_chemistry_is_lost(
    tmp_path: Path, read: Callable, written: str
) -> None:
    path = tmp_path / "a.tex"
    path.write_text(
        f"\\begin{{document}}\\section{{A}}\n\nSee: {written}\nEnd.\\end{{document}}"
    )
    (found,) = read(path)
    said = " ".join(text for part in sections(found.text) for text in part.paragraphs)
    assert said == " ".join(f"See: {_SEEN[written]} End.".split())


def test_what_a_document_defines_is_its_own(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "a.tex"
    path.write_text(
        "\\newcommand{\\degree}{ deg}\\newcommand\\years[1]{#1 years}\\parindent 0pt\n"
        "\\begin{document}\\section{A}\nAt 5\\degree, for \\years 9.\\end{document}"
    )
    (found,) = read(path)
    assert sections(found.text)[0].paragraphs == ("At 5 deg, for 9 years.",)
