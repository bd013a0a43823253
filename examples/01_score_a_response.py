"""Score one response against a rubric, and see where every point came from.

You learn: what a task looks like in the paper's JSON, what a judge does (`JudgeView` in,
`JudgeResult` out), how the scores s_j of the criteria become one reward r = Σ s_j / W, and how many
criteria effectively share the work of averaging out a judge's noise (M_eff).

    uv run python examples/01_score_a_response.py
"""

import asyncio

from rich.console import Console
from rich.table import Table

from rubric_core import Task, criterion_scores_z, normalized_reward, reward_noise_variance
from rubric_judge import LexicalJudge

ROW: dict[str, object] = {
    "question": "Why can an explicit scheme for the heat equation become unstable?",
    "passage": "An explicit step multiplies each Fourier mode by an amplification factor. If the "
    "time step exceeds dx^2 / (2 D), the factor of the shortest wavelength is below -1: rounding "
    "errors then alternate in sign and grow without bound. An implicit scheme has no such limit.",
    "criteria": [
        {
            "id": "mechanism",
            "weight": 4,
            "description": "Explains that an amplification factor makes short wavelengths grow.",
            "required_elements": ["amplification factor"],
            "expected_keywords": ["wavelength", "grow", "error"],
        },
        {
            "id": "limit",
            "weight": 3,
            "description": "Gives the largest stable time step.",
            "verification_method": "contains_any: dx^2 / (2 D) | dx**2 / (2 * D)",
        },
        {"id": "remedy", "weight": 2, "expected_keywords": ["implicit", "smaller"]},
        {"id": "length", "weight": 1, "verification_method": "structure: count 2..4; clean_end"},
    ],
}

RESPONSE = (
    "Each step multiplies a wave by an amplification factor, and for the shortest wavelength it "
    "can have a magnitude above one. The error of such a wave is then larger after every step. "
    "An implicit scheme does not suffer from this."
)


def main() -> None:
    """Judge the response and show its account."""
    console = Console()
    task = Task.from_json(ROW)
    console.print("The policy sees only:", task.policy_view())

    result = asyncio.run(LexicalJudge().judge(task.judge_view(RESPONSE)))
    rubric, z_M = task.rubric, criterion_scores_z(result, task.rubric)

    table = Table("criterion", "s_j", "w_j", "z_j = s_j / w_j", "α_j z_j", title="One judgement")
    for criterion, z, share in zip(rubric, z_M, rubric.shares_M, strict=True):
        score = result.scores[criterion.id]
        table.add_row(
            criterion.id, f"{score:.2f}", f"{criterion.weight:g}", f"{z:.2f}", f"{share * z:.3f}"
        )
    console.print(table)
    console.print(f"r = Σ s_j / W = {normalized_reward(result, rubric):.3f}")
    variance = reward_noise_variance(rubric.weights_M, tau2=0.04)
    console.print(
        f"M_eff = {rubric.effective_criteria:.2f} of {len(rubric)}: independent judge noise of "
        f"variance 0.04 on every z_j has variance {variance:.4f} on r"
    )
    console.print(f"{result.judge}: {result.reasoning}")


if __name__ == "__main__":
    main()
