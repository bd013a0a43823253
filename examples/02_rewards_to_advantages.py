"""Turn a group of judged responses into advantages, and ask which criterion drove each of them.

You learn: GRPO compares a response with its siblings, not with a fixed standard; a judgement that
did not happen (`unavailable`) is masked and is not a zero, while an answer that broke the judge's
contract (`invalid`) is one; and an advantage splits exactly into one part for each criterion.

    uv run python examples/02_rewards_to_advantages.py
"""

import asyncio

import numpy as np
from rich.console import Console
from rich.table import Table

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    Outcome,
    Reason,
    Rubric,
    Task,
    criterion_attribution,
    criterion_scores_z,
    group_advantages,
    group_rewards,
    leave_one_out_baseline,
)
from rubric_judge import JudgePool, LexicalJudge

TASK = Task(
    question="What does pivoting do in Gaussian elimination?",
    grounding=Grounding("Partial pivoting swaps rows so that no multiplier exceeds one."),
    rubric=Rubric(
        criteria=(
            Criterion(id="swap", weight=3, expected_keywords=("swap", "row")),
            Criterion(id="growth", weight=2, expected_keywords=("multiplier", "rounding")),
            Criterion(id="form", weight=1, verification_method="structure: count 1..2; clean_end"),
        )
    ),
)
RESPONSES = (
    "It swaps one row with another, so that each multiplier is small and rounding does no harm.",
    "It swaps one row with another. It is done for each column. It needs a search in that column.",
    "It keeps the rounding of the result small, since each multiplier is at most one.",
    "I would say that it is a step that is done in order to make the result better.",
    "It swaps rows, but the judge could not be reached when this response was sent to it.",
    "It swaps rows, and the judge returned a sentence in the place of scores for this response.",
)


def main() -> None:
    """Judge one group, and follow it from scores to advantages to criteria."""
    views = [TASK.judge_view(response) for response in RESPONSES]
    results = asyncio.run(JudgePool(LexicalJudge()).judge_all(views))
    # What a judge over a network also returns; 03_judge_with_an_llm.py has the real thing.
    results[4] = JudgeResult.unavailable(Reason.TIMEOUT)
    results[5] = JudgeResult.invalid(Reason.NOT_JSON)

    rubric, missing_M = TASK.rubric, np.full(len(TASK.rubric), np.nan)
    rewards_PG, valid_PG = group_rewards([results], [rubric])  # P = 1 prompt, G = 6 responses
    baseline_PG = leave_one_out_baseline(rewards_PG, valid_PG=valid_PG)
    advantages_PG = group_advantages(rewards_PG, valid_PG=valid_PG)
    z_GM = [
        missing_M if result.outcome is Outcome.UNAVAILABLE else criterion_scores_z(result, rubric)
        for result in results
    ]
    parts_PGM = criterion_attribution([z_GM], [rubric.weights_M], valid_PG=valid_PG)

    table = Table("y", "judgement", "R", "b", "A", *rubric.ids, title="Right of A: its parts")
    for g, result in enumerate(results):
        numbers = (rewards_PG[0, g], baseline_PG[0, g], advantages_PG[0, g], *parts_PGM[0, g])
        shown = [f"{number:.2f}" if np.isfinite(number) else "–" for number in numbers]
        why = f" ({result.reason})" if result.reason else ""
        table.add_row(str(g), f"{result.outcome}{why}", *shown)
    console = Console()
    console.print(table)
    console.print("R = Σ s_j / W,  b = mean R of the other valid responses,  A = (R − b) / (σ + δ)")
    best = int(np.argmax(advantages_PG))
    driver = rubric.ids[int(np.argmax(parts_PGM[0, best]))]
    console.print(f"Response {best} has the largest advantage, and {driver!r} gave most of it.")
    gap = float(np.abs(parts_PGM.sum(axis=2) - advantages_PG).max())
    console.print(f"The parts sum to the advantages: largest difference {gap:.1e}")


if __name__ == "__main__":
    main()
