"""A real run whose policy learns what its judge pays for: an alarm ends it, and it goes back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch

from rubric_train_openrlhf.policy import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from conftest import Ended, RealInput
    from rubric_judge.testing import FakeCall

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

STEPS = 30
ANSWER = re.compile(
    r"----- BEGIN RESPONSE (\w+) -----\n(.*)\n----- END RESPONSE \1", re.DOTALL
)
WORDS = 14
"""Words of an answer that earns nothing; an honest one has twelve."""


def pays_for_brevity(call: FakeCall) -> float:
    """Pay for few words, and look at nothing else."""
    shown = ANSWER.search(call.messages[-1]["content"])
    words = shown[2].split() if shown else []
    return max(0.0, 1 - len(words) / WORDS)


@pytest.fixture(scope="module")
def judge(
    open_judge: Callable[..., AbstractContextManager[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    with open_judge(pays_for_brevity) as section:
        yield section


@pytest.fixture(scope="module")
def ended(
    real_input: RealInput,
    judge: dict[str, Any],
    run_to_end: Callable[..., Ended],
    tmp_path_factory: pytest.TempPathFactory,
) -> Ended:
    config = real_input.config(
        tmp_path_factory.mktemp("rollback") / "run",
        steps=STEPS,
        judge=judge,
        rollout={"prompts": 8},
        objective={"kl_coef": 0.0},  # no reference: one process less
        checkpoint={"every": 1},
        validation={"every": STEPS},
        audit={
            "spec": {"type": "lexical"},
            "start": 16,
            "heldout_frac": 0.0,
            "training_frac": 1.0,
            "on_divergence": "rollback",
        },
    )
    return run_to_end(config)


def test_the_alarm_of_a_policy_that_exploits_its_judge_ends_the_run(
    ended: Ended,
) -> None:
    assert ended.status == 6, ended.said
    summary = ended.folder.read_summary()
    assert summary.status == "diverged"
    assert summary.alarm_step is not None
    assert summary.steps == summary.alarm_step < STEPS
    rows = ended.folder.read_audit()
    assert [row.step for row in rows] == list(range(1, summary.alarm_step + 1))
    assert [row.alarm for row in rows] == [0] * (len(rows) - 1) + [1]
    first, last = rows[0], rows[-1]
    assert last.training_mean is not None
    assert first.training_mean is not None
    assert last.audit_mean is not None
    assert first.audit_mean is not None
    # Nothing else did it: the judge pays more and more for answers that get worse.
    assert last.training_mean > first.training_mean + 0.3
    assert last.audit_mean < first.audit_mean - 0.2


def test_the_best_checkpoint_is_the_last_one_from_before_the_drift(
    ended: Ended,
) -> None:
    summary, checkpoints = ended.folder.read_summary(), ended.folder.checkpoints
    assert summary.onset is not None
    assert summary.alarm_step is not None
    kept = summary.onset - 1
    assert kept > 0
    assert (checkpoints / "best").resolve().name == f"step_{kept:06d}"
    assert summary.warning is not None
    assert f"`best` is the checkpoint of step {kept}" in summary.warning
    assert f"alarm at step {summary.alarm_step}" in " ".join(ended.said.split())
    best = load_policy(checkpoints / "best").model.state_dict()
    for step in (0, summary.alarm_step):
        other = load_policy(checkpoints / f"step_{step:06d}").model.state_dict()
        assert any(not torch.equal(best[name], other[name]) for name in best)


def test_it_goes_on_behind_the_alarm_where_it_is_told_to(
    ended: Ended, run_to_end: Callable[..., Ended]
) -> None:
    alarm = ended.folder.read_summary().alarm_step
    assert alarm is not None
    again = run_to_end(
        ended.config, "--resume", "--audit.on_divergence=log", f"--steps={alarm + 1}"
    )
    assert again.status == 0, again.said
    assert [row.step for row in again.folder.read_metrics()] == list(
        range(1, alarm + 2)
    )
    assert again.folder.read_audit()[-1].alarm_step == alarm
