#!/usr/bin/env bash
# math-verify 0.9.0: are two exact numbers that hardly differ the same answer?
#
# Guessed: 10^-20 and 10^-21 are told apart, for nothing in them is a decimal; and when they were not,
#          that numbers are rounded to six decimals (`float_rounding`), so that 10^-7 is 0 too.
# Seen:    both wrong. Two powers or fractions are equal where they differ by less than about 10^-15,
#          whatever `float_rounding` says: their difference is evaluated to 15 digits and what is small
#          is dropped. `numeric_precision=50` tells them apart. 10^-7 is not 0, and 10^-15 is not 10^-16.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
  math-verify==0.9.0 latex2sympy2-extended==1.11.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata as metadata
import sys

from math_verify import parse, verify

for name in ("math-verify", "latex2sympy2-extended", "sympy"):
    print(name, metadata.version(name))
pairs = {
    (r"10^{-20}", r"10^{-21}"): (True, True, False),
    (r"1-\frac{1}{2^{100}}", r"1-\frac{1}{2^{99}}"): (True, True, False),
    (r"10^{-15}", r"10^{-16}"): (False, False, False),
    (r"10^{-7}", "0"): (False, False, False),
}
changed = 0
for (one, other), seen in pairs.items():
    gold, answer = parse(f"${one}$"), parse(f"${other}$")
    found = (
        verify(gold, answer),
        verify(gold, answer, float_rounding=30),
        verify(gold, answer, float_rounding=30, numeric_precision=50),
    )
    print(f"{one} = {other}: {found[0]}; float_rounding=30 {found[1]}; and 50 digits {found[2]}")
    changed += found != seen
sys.exit(changed > 0)
PYTHON
