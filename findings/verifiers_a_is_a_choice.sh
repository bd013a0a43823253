#!/usr/bin/env bash
# verifiers 0.4.0: which verdict does it read in a judge's reply that gives a letter, or a yes or no, and a reason?
#
# Guessed: the first word, which is the verdict, as in "B. It lacks a unit."; or no verdict, which is an error, as the
#          prompt asks for the verdict only.
# Seen:    where no line begins with "Verdict", "Answer" or the like, the last word that is a label in capitals or small
#          letters. So the article in "lacks a unit" is verdict A, and with the labels of the built-in reference judge
#          "Yes. There is no mistake." is a no. After "Answer:" it is the first such word: "Answer: the response is a
#          guess, so B" is an A. A full stop alone changes nothing; a reason that has neither word is read right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check verifiers==0.4.0
cd "$folder"
cat >probe.py <<'PYTHON'
import importlib.metadata as metadata
import sys

import verifiers.v1 as vf
from verifiers.v1.judges.reference import ReferenceJudgeConfig

LETTERS = ("A", "B", "C")
WORDS = ReferenceJudgeConfig().choices
REPLIES = [
    (LETTERS, "B.", "B"),
    (LETTERS, "B. It gives the year only.", "B"),
    (LETTERS, "B. It lacks a unit.", "A"),
    (LETTERS, "**B**\n\nThe response names a different city.", "A"),
    (LETTERS, "Verdict: B. It lacks a unit.", "B"),
    (LETTERS, "Answer: the response is a guess, so B", "A"),
    (WORDS, "Yes. It is right.", "yes"),
    (WORDS, "Yes. There is no mistake.", "no"),
    (WORDS, "No. It says yes where the reference says otherwise.", "yes"),
]

print("verifiers", metadata.version("verifiers"))
changed = False
for labels, reply, expected in REPLIES:
    read = vf.parse_judge_choice(reply, labels)
    print(f"{'/'.join(labels)}: {reply!r} is {read}")
    changed |= read != expected
sys.exit(changed)
PYTHON
HOME="$folder" env/bin/python -W ignore probe.py
