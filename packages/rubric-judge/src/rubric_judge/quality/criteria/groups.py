"""Judged answers of a log, put into groups and laid out as arrays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rubric_core import ConfigError, Outcome
from rubric_core.arrays import FloatArray
from rubric_core.reward.criteria import JudgedCells, recomputed_credit

SHAPING = "shaping"
"""Name of what the penalties of a run added to an advantage, beside the criteria's parts."""
_MOST_GROUPS = 256
"""Groups that are laid out at once."""


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One judged response of a log."""

    group: object
    """Key of the answers that it was compared with, within its step."""
    task_id: str
    step: int
    """Step of the training; 0 where the log has none."""
    outcome: Outcome
    shares: Mapping[str, float]
    """α_j by criterion id; empty where a failed judgement's row does not say."""
    z: Mapping[str, float]
    """z_j by criterion id."""
    tokens: int | None = None
    """Tokens of the judge, where the log says."""
    attribution: Mapping[str, float] | None = None
    """Each criterion's part of the advantage, with `SHAPING`; empty where the estimator has no such
    split; None where the log says nothing, so that it is computed anew."""
    advantage: float | None = None
    """The advantage, where there is no split of it."""
    pools: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of the pools of criteria that are not pooled by their own id."""
    answer: object = None
    """Key of the judged text, where a log may hold several judgements of one; else None."""
    is_repeat: bool = False
    """Whether an earlier row judges the same text: for noise alone, in no other figure."""
    texts: tuple[str, str] | None = None
    """Question and response, where they were asked for."""

    @property
    def took_part(self) -> bool:
        """Whether the response was compared with its group.

        One that no judge was reached for has values of z only where the run counted it as 0.
        """
        return self.outcome is not Outcome.UNAVAILABLE or bool(self.z)


@dataclass(frozen=True)
class Groups:
    """Groups of one layout, with their names."""

    cells: JudgedCells
    names_P: tuple[tuple[str, ...], ...]
    """Criterion ids of each group, in the order of M."""
    answers_P: tuple[tuple[JudgedAnswer, ...], ...]


def groups_of(answers: Iterable[JudgedAnswer]) -> Iterator[Groups]:
    """Put answers into groups, step by step.

    Args:
        answers: those of a step stand together; repeats are left out.

    Raises:
        ConfigError: answers of one group were judged by different criteria.
    """
    waiting: dict[object, list[JudgedAnswer]] = {}
    step: int | None = None
    for answer in answers:
        if answer.is_repeat:
            continue
        if answer.step != step:
            yield from _laid_out(list(waiting.values()))
            waiting = {}
            step = answer.step
        waiting.setdefault(answer.group, []).append(answer)
    yield from _laid_out(list(waiting.values()))


def _laid_out(groups: Sequence[Sequence[JudgedAnswer]]) -> Iterator[Groups]:
    # Groups of like size side by side, so that little is padding.
    ordered = sorted(groups, key=len)
    for start in range(0, len(ordered), _MOST_GROUPS):
        yield _arrays(ordered[start : start + _MOST_GROUPS])


def _arrays(groups: Sequence[Sequence[JudgedAnswer]]) -> Groups:
    """Lay groups out as arrays, with padding that is not valid."""
    shares_P = [_shares(group) for group in groups]
    # An advantage needs two members; a group of one is padded with one that is not valid.
    members = max(2, *map(len, groups))
    criteria = max(1, *map(len, shares_P))
    shape = len(groups), members
    z_PGM = np.full((*shape, criteria), np.nan)
    split_PGM = np.full((*shape, criteria), np.nan)
    shares_PM = np.zeros((len(groups), criteria))
    scored_PG = np.zeros(shape, dtype=np.bool_)
    valid_PG = np.zeros(shape, dtype=np.bool_)
    tokens_PG = np.full(shape, np.nan)
    shaping_PG = np.zeros(shape)
    whole_PG = np.full(shape, np.nan)
    for p, (group, shares) in enumerate(zip(groups, shares_P, strict=True)):
        names = tuple(shares)
        size = len(group)
        shares_PM[p, : len(names)] = list(shares.values())
        z_PGM[p, :size, : len(names)] = _values([a.z for a in group], names)
        outcomes = [answer.outcome for answer in group]
        scored_PG[p, :size] = [outcome is Outcome.SCORED for outcome in outcomes]
        valid_PG[p, :size] = [answer.took_part for answer in group]
        tokens_PG[p, :size] = [
            np.nan if answer.tokens is None else answer.tokens for answer in group
        ]
        splits = [answer.attribution for answer in group]
        known = [split for split in splits if split]
        if known:
            split_PGM[p, :size, : len(names)] = _values(
                [split or {} for split in splits], names
            )
            shaping_PG[p, :size] = [(split or {}).get(SHAPING, 0.0) for split in splits]
        else:
            whole_PG[p, :size] = [
                np.nan if answer.advantage is None else answer.advantage
                for answer in group
            ]
    valid_PG &= (shares_PM.sum(axis=1) > 0)[:, None]
    advantages_PG, split_PGM = _credit(
        groups, z_PGM, shares_PM, valid_PG, split_PGM, shaping_PG
    )
    advantages_PG = np.where(np.isnan(whole_PG), advantages_PG, whole_PG)
    cells = JudgedCells(
        z_PGM=z_PGM,
        shares_PM=shares_PM,
        scored_PG=scored_PG,
        valid_PG=valid_PG,
        advantages_PG=advantages_PG,
        attribution_PGM=split_PGM,
        tokens_PG=tokens_PG,
    )
    return Groups(
        cells=cells,
        names_P=tuple(map(tuple, shares_P)),
        answers_P=tuple(map(tuple, groups)),
    )


def _credit(
    groups: Sequence[Sequence[JudgedAnswer]],
    z_PGM: FloatArray,
    shares_PM: FloatArray,
    valid_PG: np.ndarray,
    split_PGM: FloatArray,
    shaping_PG: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return advantages and their split: those of the log, else computed anew."""
    if all(answer.attribution is None for group in groups for answer in group):
        rows = shares_PM.sum(axis=1) > 0
        advantages_PG = np.zeros(valid_PG.shape)
        split_PGM = np.zeros(split_PGM.shape)
        if rows.any():
            advantages_PG[rows], split_PGM[rows] = recomputed_credit(
                z_PGM[rows], shares_PM[rows], valid_PG[rows]
            )
        return advantages_PG, split_PGM
    weighted_P1M = (shares_PM > 0)[:, None, :]
    # NaN in a weighted part makes the advantage unknown, as under an estimator without a split.
    return np.where(weighted_P1M, split_PGM, 0.0).sum(axis=2) + shaping_PG, split_PGM


def _shares(group: Sequence[JudgedAnswer]) -> Mapping[str, float]:
    """Return the shares of a group's criteria with weight."""
    shares: Mapping[str, float] | None = None
    for answer in group:
        if not answer.shares:
            continue
        if shares is None:
            shares = answer.shares
        elif answer.shares != shares:
            raise ConfigError(
                f"answers to task {answer.task_id!r} in one group (step {answer.step}) were judged "
                "by different criteria or weights: give each group one rubric, or one log for "
                "each rubric",
                location="log",
            )
    return {name: share for name, share in (shares or {}).items() if share > 0}


def _values(
    rows: Sequence[Mapping[str, float]], names: Sequence[str]
) -> list[list[float]]:
    """Return the value of each name in each row; NaN where a row has none."""
    return [[row.get(name, np.nan) for name in names] for row in rows]
