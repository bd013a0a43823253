"""Tokens that a real vLLM on the CPU computes for what a cascade of groups asks; for judge_bill.

A random Llama is served. The strong judge's calls are made as `LLMJudge` makes them, a call for
each criterion: all of them, and then, with an empty cache, those that the cascade chooses by
planted verdicts, round after round.
"""

import tempfile
from pathlib import Path
from typing import Any

import judge_prefix_cache as prefix
import numpy as np
from planted.bill import ALIKE, Plant

from rubric_core import JudgeView, Rubric
from rubric_core.arrays import BoolArray
from rubric_core.effective import shares
from rubric_judge.judges.cascade.deciding import GroupDecision, Rule
from rubric_judge.judges.cascade.posterior import Readings
from rubric_judge.judges.cascade.value import Costs
from rubric_judge.testing.vllm import VLLMServer

WORK = prefix.Workload(
    prompts=4,
    group_size=8,
    passage_tokens=1500,
    criteria_tokens=640,
    response_tokens=250,
    hidden_size=64,
    layers=2,
    reply_tokens=8,
)


def rounds_of(
    views: list[JudgeView], accuracy: float, *, target: float
) -> list[list[JudgeView]]:
    """Return what the strong judge is asked in each round, all groups together."""
    weights_M = np.array([criterion.weight for criterion in views[0].rubric])
    plant = Plant(accuracy, responses=WORK.group_size, criteria=len(weights_M))
    rounds: list[list[JudgeView]] = []
    rng = np.random.default_rng(0)
    for number, group in enumerate(plant.draw(WORK.prompts, seed=1)):
        first = number * WORK.group_size
        own = views[first : first + WORK.group_size]
        decision = GroupDecision(
            Readings(group.cheap_GM, alike=ALIKE),
            shares(weights_M),
            Rule(target, 1.0, 0.0, Costs(call=0, cell=1)),
            first_GM=rng.random(group.cheap_GM.shape) < 0.05,  # noqa: PLR2004  # audits
        )
        place = 0
        while (chosen_GM := decision.choose()).any():
            decision.learn(np.where(chosen_GM, group.strong_GM, np.nan))
            if place == len(rounds):
                rounds.append([])
            rounds[place] += parts(own, chosen_GM)
            place += 1
    return rounds


def parts(views: list[JudgeView], chosen_GM: BoolArray) -> list[JudgeView]:
    """Return the views with the criteria that are asked for."""
    asked: list[JudgeView] = []
    for view, chosen_M in zip(views, chosen_GM, strict=True):
        criteria = tuple(
            criterion
            for criterion, is_chosen in zip(view.rubric, chosen_M, strict=True)
            if is_chosen
        )
        if criteria:
            rubric = Rubric(criteria=criteria)
            asked.append(view.model_copy(update={"rubric": rubric}))
    return asked


def computed(accuracies: tuple[float, ...], *, target: float) -> dict[str, Any]:
    """Return the tokens sent and computed for all criteria, and for the cascade's choices."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = prefix.save_model(Path(folder), WORK)
        views = prefix.make_views(tokenizer, WORK)
        with prefix.serve(Path(folder)) as server:
            whole = asked(server, [views])
            found: dict[str, Any] = {"all": whole}
            for accuracy in accuracies:
                rounds = rounds_of(views, accuracy, target=target)
                ours = asked(server, rounds)
                cells = sum(
                    len(view.rubric.criteria) for some in rounds for view in some
                )
                ours["cells"] = round(
                    cells / (len(views) * len(views[0].rubric.criteria)), 3
                )
                ours["computed over all"] = round(
                    ours["computed"] / whole["computed"], 3
                )
                ours["sent over all"] = round(ours["sent"] / whole["sent"], 3)
                found[f"{accuracy:.0%}"] = ours
    return found


def asked(server: VLLMServer, rounds: list[list[JudgeView]]) -> dict[str, float]:
    """Ask with an empty cache, a round at a time, and return the server's counts."""
    before = prefix.emptied([server])
    config = prefix.judge_config(
        "shared_prefix",
        [server.url],
        max_tokens=WORK.reply_tokens,
        granularity="criterion",
    )
    for views in rounds:
        prefix.answered(prefix.judge_all(config, views))
    counts = prefix.counted([server]).since(before)
    return {"sent": counts.sent, "computed": counts.computed, "rounds": len(rounds)}
