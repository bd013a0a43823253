"""Sampling passes: that of a training step, with DAPO's resampling, and the held-out one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import structlog

from rubric_core import Answer
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.config.train import PolicySettings
from rubric_train_openrlhf.errors import NoInformativePromptError
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import END_THOUGHTS
from rubric_train_openrlhf.run.records import (
    AnswerShares,
    HeldoutReward,
    HeldoutRow,
    Timing,
)
from rubric_train_openrlhf.step.audit import LEAST_USED
from rubric_train_openrlhf.step.rows import answer_shares

_Groups = TypeVar("_Groups")


class DrawnRound(NamedTuple, Generic[_Groups]):
    """The groups of one round of sampling."""

    groups: _Groups
    places: list[int]
    """Places of the groups to train on."""


def total_timing(parts: Sequence[Timing]) -> Timing:
    """Add up the times of several passes."""
    totals = {
        name: sum(getattr(part, name) for part in parts) for name in Timing.model_fields
    }
    return Timing(**totals)


def draw_rounds(
    draw: Callable[[int, int, int], _Groups],
    *,
    spread: Callable[[_Groups], Sequence[bool]],
    config: PolicySettings,
    step: int,
) -> list[DrawnRound[_Groups]]:
    """Draw the prompts of a step; with dynamic sampling, until enough have rewards that differ.

    Each round draws as many new prompts as are still missing, so nothing that could be trained on
    is thrown away.

    Args:
        draw: (round, prompts drawn before it, number of prompts) → judged groups of new prompts.
        spread: tells whether the rewards of each group of a round differ.
        config: configuration of the run, with the numbers of groups and of further rounds.
        step: step that the groups are for.

    Returns:
        Every round, with the places of its groups to train on.

    Raises:
        NoInformativePromptError: there are still too few groups after the last round.
    """
    wanted = config.rollout.prompts
    dynamic = config.dynamic_sampling
    if dynamic is None:
        return [DrawnRound(draw(0, 0, wanted), list(range(wanted)))]
    rounds: list[DrawnRound[_Groups]] = []
    drawn = 0
    informative = 0
    for number in range(dynamic.max_resample_rounds + 1):
        groups = draw(number, drawn, wanted - informative)
        differs = spread(groups)
        places = [place for place, is_spread in enumerate(differs) if is_spread]
        rounds.append(DrawnRound(groups, places))
        drawn += len(differs)
        informative += len(places)
        if informative == wanted:
            return rounds
    raise NoInformativePromptError(
        f"step {step}: only {informative} of {wanted} prompts had responses of different reward, "
        f"after {drawn} prompts in {len(rounds)} rounds; check that the judge tells responses "
        "apart, raise rollout.group_size or dynamic_sampling.max_resample_rounds, or switch "
        "dynamic_sampling off",
        step=step,
        wanted=wanted,
        found=informative,
    )


_log = structlog.get_logger()

_MOST = 0.5


@dataclass
class UnclosedThoughts:
    """Warning, once per run, that most responses of its policy are thoughts that do not end."""

    is_told: bool = False

    def look(self, row: AnswerShares) -> None:
        """Warn if most responses of a step or held-out pass are such thoughts."""
        share = row.unclosed_thought_frac
        if self.is_told or share is None or share <= _MOST:
            return
        self.is_told = True
        _log.warning(
            "train.thoughts.unclosed",
            share=share,
            reward="0 without an answer",
            todo=END_THOUGHTS,
        )


def _score(row: HeldoutReward, judge: str) -> float | None:
    """Return the reward that passes are compared by; None where too few audits have a score."""
    if judge == "judge":
        return row.reward_mean
    audit = row.audit
    if audit is None or audit.used < LEAST_USED * audit.chosen:
        return None
    return audit.audit_mean


@dataclass(frozen=True)
class HeldoutPasses:
    """The validation passes of a run: before training, every so many steps, and at the end."""

    folder: RunFolder
    config: PolicySettings
    progress: Progress
    ask: Callable[[int], tuple[HeldoutReward, Sequence[int], Sequence[Answer]]]
    """Asks all questions after a step; returns the reward, and length and answer of each
    response."""
    thoughts: UnclosedThoughts

    def pass_if_due(self, step: int) -> HeldoutRow | None:
        """Ask the validation questions and write the row, unless none is due or it exists.

        Returns:
            The row; `best` if it is the first, or its mean is higher than all before, by the judge
            that `checkpoint.best_by` names.

        Raises:
            JudgeAbortError: the judge fails too often for the mean to say anything.
        """
        rows = self.folder.read_heldout()
        due = step % self.config.validation.every == 0 or step == self.config.steps
        if not due or any(row.step == step for row in rows):
            return None
        started = time.perf_counter()
        name = (
            "validation questions" if step else "validation questions before training"
        )
        with self.progress.phase(name):
            reward, lengths, answers = self.ask(step)
        score = _score(reward, self.config.checkpoint.best_by)
        earlier = [_score(row, self.config.checkpoint.best_by) for row in rows]
        known = [score_before for score_before in earlier if score_before is not None]
        best_so_far = max(known, default=None)
        row = HeldoutRow(
            **reward.model_dump(),
            **answer_shares(answers).model_dump(),
            step=step,
            response_tokens_mean=float(np.mean(lengths)),
            eval_s=time.perf_counter() - started,
            best=score is not None and (best_so_far is None or score > best_so_far),
        )
        self.thoughts.look(row)
        self.folder.write_heldout(row)
        _log.info("train.heldout.finished", **row.model_dump(exclude={"criteria"}))
        return row
