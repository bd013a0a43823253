"""GRPO with rubric rewards, whole, in one file: Algorithm 1 of the paper on a toy task.

You learn every step from a question to a changed weight. A random Llama is asked for ten flags, of
which it knows nothing; a judge that has the answers pays by three criteria; in less than a minute
the policy knows most of them, from rewards alone. For a real run, with checkpoints, resuming and a
report, `run_grpo` does the same. Axes: P questions, G responses each, B = P·G rows, T tokens.

    uv run python examples/04_grpo_in_one_file.py
"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.table import Table

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    Rubric,
    Task,
    group_advantages,
    group_rewards,
)
from rubric_judge import JudgePool
from rubric_train_openrlhf.objective import clipped_surrogate, k3, token_mean, token_ratio
from rubric_train_openrlhf.policy import (
    TinyConfig,
    build_tiny_policy,
    pack_rollouts,
    response_logprobs,
    sample_groups,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rubric_core import JudgeView
    from rubric_train_openrlhf.policy import EncodedPrompt, Policy, Rollouts

FLAGS = {
    "France": "blue white red",
    "Germany": "black red gold",
    "Italy": "green white red",
    "Ireland": "green white orange",
    "Belgium": "black gold red",
    "Romania": "blue gold red",
    "Lithuania": "gold green red",
    "Estonia": "blue black white",
    "Hungary": "red white green",
    "Bulgaria": "white green red",
}
WORDS = sorted({word for colours in FLAGS.values() for word in colours.split()})
RUBRIC = Rubric(
    criteria=(
        Criterion(id="colours", weight=3, description="Names the colours of the flag."),
        Criterion(id="order", weight=2, description="Names each in its place."),
        Criterion(id="brief", weight=2, description="Says as many words as there are colours."),
    )
)
TASKS = [
    Task(question=f"The flag of {country}?", grounding=Grounding(colours), rubric=RUBRIC)
    for country, colours in FLAGS.items()
]
STEPS, G, UPDATES = 80, 32, 4  # with one update the ratio is 1 and nothing is ever clipped
EPSILON, GAMMA = 0.2, 1.0  # ε, γ of the paper
BETA = 0.02  # β; the paper's 0.01 is for a policy that starts out trained
ETA = 2e-3  # η; the paper's 3e-7 is for eight billion trained weights
console = Console()


class FlagJudge:
    """A judge is any object with a name and `async judge(view)`; this one is a program."""

    name = "flags"

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Score each criterion, s_j = w_j z_j: Eq. judge_scores."""
        said, flag = view.response.split(), view.grounding.reveal().split()
        z = {
            "colours": len(set(said) & set(flag)) / len(flag),
            "order": sum(a == b for a, b in zip(said, flag, strict=False)) / len(flag),
            "brief": float(len(said) == len(flag)),
        }
        scores = {criterion.id: criterion.weight * z[criterion.id] for criterion in view.rubric}
        return JudgeResult.scored(view.rubric, scores, judge=self.name)


def random_policy() -> Policy:
    """Build a Llama that has seen nothing, and a vocabulary for the questions."""
    texts = [f"Question: {task.question}\nAnswer: {' '.join(WORDS)}" for task in TASKS]
    return build_tiny_policy(
        texts, TinyConfig(hidden_size=64, intermediate_size=128, layers=2), seed=0
    )


def encode(policy: Policy, task: Task) -> EncodedPrompt:
    """Turn what the policy may see into tokens; its answers are made of colours and an end."""
    view = task.policy_view()  # the question: no passage, no rubric
    allowed = {token for word in WORDS for token in policy.codec.encode_answer(view, word)}
    banned = set(range(policy.model.config.vocab_size)) - allowed
    return replace(policy.codec.encode_prompt(view), banned_token_ids=tuple(sorted(banned)))


def sample(
    policy: Policy, generator: torch.Generator, *, group_size: int, temperature: float = 1.0
) -> tuple[Rollouts, list[str]]:
    """Draw y ~ π_gen(·|x) for every question: tokens with log π_gen, and texts."""
    rollouts = sample_groups(
        policy.model,
        [encode(policy, task) for task in TASKS],
        group_size=group_size,
        max_new_tokens=5,
        temperature=temperature,
        generator=generator,
        eos_token_id=policy.codec.end_token_ids,
        pad_token_id=policy.codec.pad_token_id,
    )
    texts_B = [
        policy.codec.decode(TASKS[row // group_size].policy_view(), rollouts.response(row))
        for row in range(len(TASKS) * group_size)
    ]
    return rollouts, texts_B


def loss_of(
    policy: Policy,
    reference: PreTrainedModel,
    rollouts: Rollouts,
    advantages_B: torch.Tensor,
    rows: list[int],
) -> torch.Tensor:
    """Compute the loss of some rows: lines 15 to 21 of Algorithm 1."""
    batch = pack_rollouts(rollouts, rows)
    mask_BT = batch.response_mask_BT
    gen_BT = rollouts.logprobs_BT[rows, : mask_BT.shape[1]]
    now_BT = response_logprobs(policy.model, batch).logprobs_BT  # log π_θ
    with torch.no_grad():
        ref_BT = response_logprobs(reference, batch).logprobs_BT  # log π_ref
    ratio_BT = token_ratio(now_BT, gen_BT, mask_BT=mask_BT)  # r_t
    surrogate = clipped_surrogate(  # ℓ_t, Eq. clipped_loss; A counts for every token
        ratio_BT, advantages_B[rows], clip_low=EPSILON, clip_high=EPSILON
    )
    loss_BT = surrogate.loss_BT + BETA * k3(now_BT, ref_BT)  # Eq. kl_approx
    return token_mean(loss_BT, mask_BT=mask_BT, total_tokens=int(mask_BT.sum()))  # Eq. total_loss


def train(policy: Policy, generator: torch.Generator) -> list[float]:
    """Run Algorithm 1: one epoch is one step, since each batch holds all the questions."""
    reference = copy.deepcopy(policy.model)  # π_ref, frozen
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=ETA, weight_decay=0.01)
    pool = JudgePool(FlagJudge())
    means: list[float] = []
    for step in range(1, STEPS + 1):
        rollouts, texts_B = sample(policy, generator, group_size=G)  # lines 4 to 7, π_gen ← π_θ
        views = [TASKS[row // G].judge_view(text) for row, text in enumerate(texts_B)]  # x, g, y, R
        results = asyncio.run(pool.judge_all(views))  # line 9, in parallel
        results_PG = [results[row : row + G] for row in range(0, len(results), G)]
        # Eq. norm_reward; a judge over a network may be unavailable, and is masked: see example 02.
        rewards_PG, _ = group_rewards(results_PG, [RUBRIC] * len(TASKS), on_unavailable="raise")
        advantages_PG = group_advantages(rewards_PG)  # lines 12 and 13: Eq. advantage
        advantages_B = torch.from_numpy(advantages_PG.reshape(-1)).float()
        shuffled = torch.randperm(len(views), generator=generator)
        for share in shuffled.chunk(UPDATES):
            loss = loss_of(policy, reference, rollouts, advantages_B, share.tolist())
            optimizer.zero_grad()
            loss.backward()  # ∇_θ L: Eq. objective, estimated
            torch.nn.utils.clip_grad_norm_(policy.model.parameters(), GAMMA)
            optimizer.step()  # line 22
        means.append(float(rewards_PG.mean()))
        if step == 1 or step % 10 == 0:
            console.print(f"step {step:3}  reward {means[-1]:.3f} {'█' * round(40 * means[-1])}")
    return means


def main() -> None:
    """Train, and show what the policy says of each flag before and after."""
    torch.set_num_threads(1)  # these matrices are small
    generator = torch.Generator().manual_seed(0)
    policy = random_policy()
    _, before_P = sample(policy, generator, group_size=1, temperature=0.0)
    means = train(policy, generator)
    _, after_P = sample(policy, generator, group_size=1, temperature=0.0)
    table = Table("flag", "colours", "said before", "said after")
    for flag, before, after in zip(FLAGS.items(), before_P, after_P, strict=True):
        table.add_row(*flag, before, after)
    console.print(table)
    first, last = sum(means[:5]) / 5, sum(means[-5:]) / 5
    console.print(f"Mean reward: first 5 steps {first:.3f}, last 5 steps {last:.3f}")


if __name__ == "__main__":
    main()
