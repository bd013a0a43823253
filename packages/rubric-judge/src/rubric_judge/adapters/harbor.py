"""Harbor: a verifier that writes a reward and a number for each criterion, or nothing.

Harbor takes the reward of a trial from a file. Where there is none it records a
`RewardFileNotFoundError`, whose trials have no valid reward; the exit status of a verifier it does
not read. So a judge that failed writes no file: any number in it would be a reward.
"""

import json
from contextlib import closing
from pathlib import Path
from typing import Unpack

from rubric_core import ConfigError
from rubric_core.files import read_file, write_text
from rubric_judge.adapters import scoring
from rubric_judge.adapters.options import ScorerOptions

__all__ = ["write_rewards"]

_REWARDS = "reward.json"
_FILES = (_REWARDS, "reward.txt")
"""The files that Harbor takes a reward from."""


def write_rewards(
    answer: Path | str,
    *,
    folder: Path | str = "/logs/verifier",
    task_id: str | None = None,
    **options: Unpack[ScorerOptions],
) -> dict[str, float]:
    """Judge the answer that an agent left in a file, and write `reward.json`.

    Args:
        answer: the file; one that is not there is an empty answer, which earns 0.
        folder: where Harbor looks for it.
        task_id: id of the task, where `tasks` holds several.
        options: see `ScorerOptions`.

    Returns:
        What was written: `reward`, and `rubric/<id>`, z_j of each criterion.

    Raises:
        UnavailableRewardError: there was no judgement; no reward is left in the folder.
        ConfigError: the configuration is not usable, or `tasks` holds no such task.
        JudgeSetupError: the judge cannot be called.
        OSError: the answer cannot be read, or the file not be written.
    """
    folder = Path(folder)
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    scorer = scoring.RubricScorer(**options, on_unavailable="raise")
    with closing(scorer):
        row = {"task_id": task_id or _only_task(scorer)}
        submission = scoring.Submission(row=row, response=_text(Path(answer)))
        (judgement,) = scorer.judge_from_thread([submission])
    rewards = {"reward": judgement.reward or 0.0, **judgement.by_id}
    write_text(folder / _REWARDS, json.dumps(rewards, indent=2) + "\n")
    return rewards


def _only_task(scorer: scoring.RubricScorer) -> str:
    ids = [task.task_id for task in scorer.known_tasks]
    if len(ids) != 1:
        raise ConfigError(
            f"task_id: say which one, for `tasks` holds {len(ids)}", location="task_id"
        )
    return ids[0]


def _text(file: Path) -> str:
    """Return what an agent wrote, whatever its bytes are."""
    try:
        return read_file(file).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
