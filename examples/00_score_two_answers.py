# /// script
# requires-python = ">=3.11"
# dependencies = ["rubric-judge"]
# [tool.uv.sources]
# rubric-judge = { path = "../packages/rubric-judge" }
# ///
"""Score two answers by one rubric; this is the first door of the README.

    uv run examples/00_score_two_answers.py

uv reads the lines above and installs core and judge alone; `uv run python FILE` takes the whole
workspace instead.
"""

from rubric_core import Criterion, Grounding, Rubric, Task, normalized_reward
from rubric_judge import ClaimJudge

does = Criterion(id="does", weight=1, description="Says that it finds a signal's frequencies.")
cost = Criterion(id="cost", weight=3, description="Says that it lowers the cost to O(n log n).")
passage = Grounding("The FFT finds the frequencies of a signal. It lowers the cost to O(n log n).")
task = Task(question="What is an FFT?", grounding=passage, rubric=Rubric(criteria=(does, cost)))
for answer in ("It reduces the cost to O(n log n).", "It raises the cost to O(n log n)."):
    result = ClaimJudge().judge_now(task.judge_view(answer))
    print(f"{normalized_reward(result, task.rubric):.1%}", dict(result.scores), answer)
