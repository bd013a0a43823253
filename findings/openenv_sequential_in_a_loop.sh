#!/usr/bin/env bash
# openenv-core 0.3.0: what does a `Sequential` of two ordinary, synchronous rubrics return, and what do its parts say of a score?
#
# Guessed: a number, wherever it is called, as a single rubric and a `WeightedSum` do; and `last_score` of a part that an
#          earlier one stopped is None, or 0.
# Seen:    within a running event loop a response that passes the first rubric gives a coroutine and one that fails it
#          the number 0, so that neither `await` nor arithmetic works for both; a `Gate` and a `WeightedSum` around it do
#          the same, and outside of a loop all are numbers. A part that was not reached keeps the `last_score` of an
#          earlier response, which `named_rubrics` lists beside the new 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check openenv-core==0.3.0
cd "$folder"
HOME="$folder" env/bin/python -W ignore - <<'PYTHON'
import asyncio
import importlib.metadata as metadata
import inspect
import sys

from openenv.core.rubrics import Gate, Rubric, Sequential, WeightedSum


class HasUnit(Rubric):
    def forward(self, action, observation):
        return float("cm" in action)


class Length(Rubric):
    def forward(self, action, observation):
        return len(action) / 10


def rubrics():
    """A single rubric, and containers of two."""
    return {
        "one rubric": Length(),
        "WeightedSum": WeightedSum([HasUnit(), Length()], [0.5, 0.5]),
        "Sequential": Sequential(HasUnit(), Length()),
        "Gate of a Sequential": Gate(Sequential(HasUnit(), Length()), threshold=0.1),
        "WeightedSum with a Sequential": WeightedSum([Sequential(HasUnit(), Length()), Length()], [0.5, 0.5]),
    }


def kinds():
    """What each gives for a response that passes the first rubric, and for one that fails it."""
    seen = {}
    for name, rubric in rubrics().items():
        results = [rubric(response, None) for response in ("5 cm", "5")]
        seen[name] = tuple(type(result).__name__ for result in results)
        for result in filter(inspect.iscoroutine, results):
            result.close()
    return seen


async def in_a_loop():
    return kinds()


print("openenv-core", metadata.version("openenv-core"))
outside, inside = kinds(), asyncio.run(in_a_loop())
for name, kind in inside.items():
    print(f"{name}: outside {outside[name]}, inside a loop {kind}")
steps = Sequential(HasUnit(), Length())
scores = [steps(response, None) for response in ("5 cm", "5")]
parts = [part.last_score for _, part in steps.named_rubrics()]
print("scores of two responses:", scores, "last scores of the parts:", parts)
changed = set(outside.values()) != {("float", "float")}
changed |= inside["Sequential"] != ("coroutine", "float")
changed |= inside["WeightedSum"] != ("float", "float")
changed |= inside["Gate of a Sequential"] != ("coroutine", "float")
changed |= inside["WeightedSum with a Sequential"] != ("coroutine", "float")
changed |= (scores, parts) != ([0.4, 0.0], [0.0, 0.4])
sys.exit(changed)
PYTHON
