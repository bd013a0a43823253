#!/usr/bin/env bash
# html-to-markdown 3.21.2: does `strip_newlines` leave code alone?
#
# Guessed: it joins the lines of paragraphs, which HTML does not mean; what stands in <pre> keeps its lines,
#          for there they are content.
# Seen:    the lines of <pre> are joined by spaces as well, in the fence that still marks a block of code, with
#          the indentation left as spaces in the middle of the one line. A <br> in a paragraph stays a break.
#          Without the option the paragraph keeps the source's line breaks.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check html-to-markdown==3.21.2
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import importlib.metadata as metadata
import sys

from html_to_markdown import ConversionOptions, convert

print("html-to-markdown", metadata.version("html-to-markdown"))
page = "<p>Two\nlines,<br>and a break.</p><pre><code>if a:\n    b = 1\n</code></pre>"
seen = {
    False: "Two\nlines,  \nand a break.\n\n```\nif a:\n    b = 1\n```\n",
    True: "Two lines,  \nand a break.\n\n```\nif a:     b = 1 \n```\n",
}
changed = 0
for stripped, wanted in seen.items():
    found = convert(page, ConversionOptions(strip_newlines=stripped)).content
    print(f"strip_newlines={stripped}: {found!r}")
    changed += found != wanted
sys.exit(changed > 0)
PYTHON
