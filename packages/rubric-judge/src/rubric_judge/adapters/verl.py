"""verl: `compute_score`, which `reward.custom_reward_function` finds by name.

verl takes the keys of the first sample for all of them, so the keys here never change, and a
judge's failure is a key and no exception.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import cast

from rubric_core import Judge, OnUnavailable, Thoughts
from rubric_judge import events
from rubric_judge.adapters import rows, scoring

__all__ = ["compute_score"]

_ONE_REPLY = 2
"""verl's `num_turns` of a question and its answer."""


@cache
def _warn_once() -> None:
    events.turns_in_one_text(stack="verl")


def _look_at_turns(extra_info: object) -> None:
    """Warn once of a response in which tools or users speak, as verl's tool agent makes them."""
    if not isinstance(extra_info, Mapping):
        return
    turns = cast("Mapping[str, object]", extra_info).get("num_turns")
    if isinstance(turns, Integral) and int(turns) > _ONE_REPLY:
        _warn_once()


async def compute_score(  # noqa: PLR0913  # verl's signature, and our settings after it
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, object] | None = None,
    *,
    judge: Judge | Path | str,
    tasks: str | Sequence[str] | None = None,
    workers: int = 4,
    on_unavailable: OnUnavailable = "zero",
    ledger: str | None = None,
    thoughts: Thoughts = "cut",
    log_judgements: bool = False,
    **router: object,
) -> dict[str, float | str]:
    """Judge one response.

    Args:
        data_source: ignored.
        solution_str: the response.
        ground_truth: a task id, or a row as JSON; read where `extra_info` names no task.
        extra_info: may hold `task_id`, or `rubric`, `passage` and `question`.
        judge: the judge's YAML file; or a judge.
        tasks: file of the tasks that ids name, or several.
        workers: judge workers in each of verl's `reward.num_workers` processes (8, unless set);
            each holds up to four responses, so that 8 · 4 · 4 = 128 calls are in flight.
        on_unavailable: "zero", with `rubric/unavailable` 1; or "raise": verl's default trainer
            leaves the response out and ends where a whole step is lost; its older one ends.
        ledger: file that keeps every judgement, for `rubric-judge rejudge` and the books.
        thoughts: way to tell thoughts from answers; "opened" where the chat template opens each,
            which cannot be seen here.
        log_judgements: whether `rubric/judgement` is one of the keys, a text with the scores by
            criterion, for `rubric-judge criteria`.
        router: arguments that verl adds where it serves a reward model of its own; ignored.

    Returns:
        `score` and the metrics, the same keys for every response.

    Raises:
        ConfigError, JudgeSetupError, LedgerError: settings that nothing can be judged by.
        ConfigError, SchemaError: a row without a task that can be judged.
    """
    del data_source, router
    _look_at_turns(extra_info)
    scorer = scoring.shared_scorer(
        "reward_kwargs",
        True,  # noqa: FBT003  # can log
        judge=judge,
        tasks=tasks,
        workers=workers,
        on_unavailable=on_unavailable,
        ledger=ledger,
        thoughts=thoughts,
        log_judgements=log_judgements,
    )
    row = rows.joined_row(ground_truth, extra_info or {})
    (judgement,) = await scorer.judge([scoring.Submission(row, solution_str)])
    numbers = {"score": judgement.reward or 0.0, **judgement.metrics}
    return {**numbers, **judgement.log_entry}
