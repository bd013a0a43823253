#!/usr/bin/env bash
# rubric 2.2.0: what is an answer worth whose judge left out verdicts, or counted the criteria from 0?
#
# Guessed: `PerCriterionOneShotGrader` raises an error, as its schema does where no verdict is there at all.
# Seen:    a verdict that is missing is UNMET. For a mistake, which has a negative weight, that is the best there is: a
#          reply that breaks off before the mistakes scores more than the whole one. Numbers that begin at 0 move each
#          verdict to the criterion before it, the first is dropped, and the last is UNMET; a number given twice counts
#          the second time. Only the text of the reason says so: the report has no mark and the score no error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check rubric==2.2.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import asyncio
import importlib.metadata as metadata
import sys

from pydantic import ValidationError
from rubric import Criterion, Rubric
from rubric.autograders import PerCriterionOneShotGrader
from rubric.autograders.schemas import OneShotOutput

RUBRIC = Rubric(
    [
        Criterion(weight=2, requirement="Names the drug"),
        Criterion(weight=2, requirement="Names the dose"),
        Criterion(weight=-3, requirement="Gives the dose in the wrong unit"),
    ]
)
WHOLE = [(1, "MET"), (2, "MET"), (3, "MET")]
REPLIES = {
    "whole": (WHOLE, 0.25),
    "broken off after the second": (WHOLE[:2], 1.0),
    "whole, counted from 0": ([(number - 1, status) for number, status in WHOLE], 1.0),
    "right answer": ([(1, "MET"), (2, "MET"), (3, "UNMET")], 1.0),
    "right answer, counted from 0": ([(0, "MET"), (1, "MET"), (2, "UNMET")], 0.5),
    "the third twice": ([*WHOLE, (3, "UNMET")], 1.0),
}


async def graded(verdicts):
    """The report on an answer, by a judge that replies with these verdicts."""

    async def judge(system_prompt, user_prompt):
        evaluations = [{"criterion_number": number, "criterion_status": status, "explanation": "seen"} for number, status in verdicts]
        return OneShotOutput.model_validate({"criteria_evaluations": evaluations})

    return await RUBRIC.grade("5 g of paracetamol", autograder=PerCriterionOneShotGrader(judge))


print("rubric", metadata.version("rubric"))
changed = False
for name, (verdicts, expected) in REPLIES.items():
    report = asyncio.run(graded(verdicts))
    print(f"{name}: {report.score}", [(part.verdict, part.reason) for part in report.report])
    changed |= report.score != expected
try:
    asyncio.run(graded([]))
    changed = True
except ValidationError as error:
    print("no verdict:", error.errors()[0]["msg"])
sys.exit(changed)
PYTHON
