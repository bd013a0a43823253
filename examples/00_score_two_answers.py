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
from rubric_judge import LexicalJudge

cost = Criterion(id="cost", weight=3, required_elements=("O(n log n)",))
terms = Criterion(id="terms", weight=1, expected_keywords=("transform", "frequency"))
passage = Grounding("The FFT computes the discrete Fourier transform in O(n log n) operations.")
task = Task(question="What is an FFT?", grounding=passage, rubric=Rubric(criteria=(cost, terms)))
for answer in ("It computes the transform in O(n log n).", "It computes a transform quickly."):
    result = LexicalJudge().judge_now(task.judge_view(answer))
    print(f"{normalized_reward(result, task.rubric):.1%}", dict(result.scores), answer)
