#!/usr/bin/env bash
# pandoc 3.9 (pypandoc-binary 1.17): what becomes of numbers in LaTeX that it does not wholly know?
#
# Guessed: a command that pandoc does not know goes, and the text beside it stays; units of siunitx come out
#          as siunitx sets them.
# Seen:    a number behind an unknown command goes with it, as its length would ("\foo 60 of" is "of"), and
#          behind \noindent too; "59\textendash 60" is 59. A group behind an unknown command goes whole. Of two \per
#          the first unit has no sign and the second is written "⁻⁻¹"; one that begins a unit has no sign either.
#          Nothing stands on stderr.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check pypandoc-binary==1.17
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import importlib.metadata as metadata
import subprocess
import sys

import pypandoc

print("pypandoc-binary", metadata.version("pypandoc-binary"), "pandoc", pypandoc.get_pandoc_version())
seen = {
    r"It holds \foo 60 of them.": "It holds of them.",
    r"\noindent 60 of them.": "of them.",
    r"Pages 59\textendash 60 say so.": "Pages 59 say so.",
    r"It was \added{seen 12 times}.": "It was .",
    r"\SI{3}{\watt\per\metre\per\second}": "3 W m s⁻⁻¹",
    r"\SI{3}{\per\second}": "3 s",
}
changed = 0
for text, wanted in seen.items():
    command = [pypandoc.get_pandoc_path(), "--from=latex", "--to=plain"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=True)
    found = " ".join(done.stdout.split())
    print(f"{text} -> {found} {done.stderr}")
    changed += (found, done.stderr) != (wanted, "")
sys.exit(changed > 0)
PYTHON
