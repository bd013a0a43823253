#!/usr/bin/env bash
# bm25s 0.3.16: what comes back where a word is common, or stands in fewer documents than are asked for?
#
# Guessed: `retrieve` gives documents that share a word with the query, so fewer than k where fewer do; the
#          five variants of BM25 rank a plain match above a document without the word; importing the library
#          changes no logger.
# Seen:    k documents always come back, those without any word of the query behind the others, with a score
#          of 0.0, and of 0.203 with `bm25+` and `bm25l`, so that a threshold of 0 does not tell them apart.
#          With `robertson` a word that stands in more than half of the documents has no weight: a match
#          scores 0.0 too, as a document without the word. The import sets the logger "bm25s" to DEBUG.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check bm25s==0.3.16 numpy==2.3.5
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata as metadata
import logging
import sys

import bm25s

print("bm25s", metadata.version("bm25s"), "numpy", metadata.version("numpy"))
level = logging.getLogger("bm25s").level
print("level of its logger:", logging.getLevelName(level))
documents = ["red kite"] * 6 + ["blue kite", "green kite"]
matches = {0, 1, 2, 3, 4, 5}
asked = bm25s.tokenize("red", show_progress=False)
changed = level != logging.DEBUG
seen = {"lucene": (0.13, 0.0), "robertson": (0.0, 0.0), "bm25+": (0.608, 0.203), "bm25l": (0.407, 0.203), "atire": (0.288, 0.0)}
for method in ("lucene", "robertson", "bm25+", "bm25l", "atire"):
    library = bm25s.BM25(method=method)
    library.index(bm25s.tokenize(documents, show_progress=False), show_progress=False)
    found, scores = library.retrieve(asked, k=8, show_progress=False)
    of = dict(zip(found[0].tolist(), scores[0].tolist(), strict=True))
    match = {round(score, 3) for place, score in of.items() if place in matches}
    other = {round(score, 3) for place, score in of.items() if place not in matches}
    print(method, len(of), "documents: a match", match, "without the word", other)
    changed |= len(of) != 8 or (match, other) != ({seen[method][0]}, {seen[method][1]})
sys.exit(changed)
PYTHON
