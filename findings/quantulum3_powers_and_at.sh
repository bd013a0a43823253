#!/usr/bin/env bash
# quantulum3 0.10.0: does it read a power of ten, and what follows a unit, as a reader does?
#
# Guessed: 10^6 and 10⁶ litres are a million litres, and 3 × 10^4 K is 30,000 K, for 1.5e3 m/s is read.
#          The words behind a unit are no part of it.
# Seen:    "10^6 litres" is the number 10 and then 6 litres; "10⁶ litres" gives nothing at all; "3 × 10^4 K"
#          is 3, 10 and 4 kelvin. A preposition "at" becomes the ampere-turn (At): "12 h at 60 Hz" lasts
#          12 hour ampere-turns. A range "5–10 mg" is its middle, 7.5, with an uncertainty of 2.5.
# Without the extra `classifier`, which the package does not ask for.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check quantulum3==0.10.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import importlib.metadata as metadata
import sys

from quantulum3 import parser

print("quantulum3", metadata.version("quantulum3"))
texts = {
    "It goes at 1.5e3 m/s.": [(1500.0, "metre per second")],
    "It holds 10^6 litres.": [(10.0, "dimensionless"), (6.0, "litre")],
    "It holds 10⁶ litres.": [],
    "It melts above 3 × 10^4 K.": [(3.0, "dimensionless"), (10.0, "dimensionless"), (4.0, "kelvin")],
    "It ran for 12 h at 60 Hz.": [(12.0, "hour ampere-turn"), (60.0, "hertz")],
    "A dose of 5–10 mg is usual.": [(7.5, "milligram")],
}
changed = 0
for text, seen in texts.items():
    found = [(one.value, one.unit.name) for one in parser.parse(text)]
    print(f"{text} -> {found}")
    changed += found != seen
sys.exit(changed > 0)
PYTHON
