#!/usr/bin/env bash
# html-to-markdown 3.21.2: what becomes of numbers in formulas of a page?
#
# Guessed: with its defaults, or with the aggressive cleaning, what is `aria-hidden` is left out, so that a formula of KaTeX is
#          read once; and MathML is either written in characters or left out, a root like a fraction.
# Seen:    KaTeX writes a formula in MathML and then draws it for the eye; both are read, with nothing between them, so that 10^6
#          is 10^6106 and a half 1/221, in either setting. Fractions and powers of MathML are written as 1/2 and 10^6, but
#          the root of 2 is 2, x_1 is x1, and the mixed number 3 1/2 is 31/2. 10<sup>6</sup> is 106 unless `sup_symbol` is set.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check html-to-markdown==3.21.2
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata as metadata
import sys

import html_to_markdown as library

POWER = "<msup><mn>10</mn><mn>6</mn></msup>"
HALF = "<mfrac><mn>1</mn><mn>2</mn></mfrac>"


def katex(formula, drawn):
    """A formula as KaTeX puts it on a page: in MathML, and drawn by digits at their places."""
    mathml = f'<span class="katex-mathml"><math><semantics><mrow>{formula}</mrow></semantics></math></span>'
    return f'<span class="katex">{mathml}<span class="katex-html" aria-hidden="true">{drawn}</span></span>'


def converted(formula, cleans):
    """Markdown of a line with a formula."""
    cleaning = library.PreprocessingOptions(enabled=cleans, preset=library.PreprocessingPreset.AGGRESSIVE)
    options = library.ConversionOptions(preprocessing=cleaning)
    return library.convert(f"<p>It is {formula}.</p>", options).content.strip()


FORMULAS = {
    "10^6 of KaTeX": (katex(POWER, "<span>1</span><span>0<span>6</span></span>"), "10^6106"),
    "1/2 of KaTeX": (katex(HALF, "<span>2</span><span>1</span>"), "1/221"),
    "10^6 in MathML": (f"<math>{POWER}</math>", "10^6"),
    "1/2 in MathML": (f"<math>{HALF}</math>", "1/2"),
    "3 1/2 in MathML": (f"<math><mn>3</mn>{HALF}</math>", "31/2"),
    "root of 2 in MathML": ("<math><msqrt><mn>2</mn></msqrt></math>", "2"),
    "x_1 in MathML": ("<math><msub><mi>x</mi><mn>1</mn></msub></math>", "x1"),
    "10^6 in HTML": ("10<sup>6</sup>", "106"),
}
print("html-to-markdown", metadata.version("html-to-markdown"))
changed = False
for name, (formula, expected) in FORMULAS.items():
    seen = {converted(formula, cleans) for cleans in (False, True)}
    print(f"{name}: {' / '.join(sorted(seen))}")
    changed |= seen != {f"It is {expected}."}
sys.exit(changed)
PYTHON
