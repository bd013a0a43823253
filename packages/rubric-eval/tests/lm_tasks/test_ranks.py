"""The held-out task shared by several processes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from rubric_core import ConfigError, Criterion, Grounding, Rubric, Task, write_tasks
from rubric_eval.errors import HeldoutAbortError
from rubric_eval.lm_tasks.heldout_task import (
    RankResult,
    ScoredResponse,
    common_criteria,
    gathered,
    only,
    rank_result,
    refuse_unreached,
)

SCRIPT = Path(__file__).with_name("ranks.py")


def _verdict(*criteria: str, reason: str | None = None) -> ScoredResponse:
    outcome = "scored" if reason is None else "unavailable"
    reward = 0.5 if reason is None else None
    return ScoredResponse("said", outcome, reason, reward, dict.fromkeys(criteria, 0.5))


def test_only_criteria_that_every_process_has_are_kept() -> None:
    first = rank_result([_verdict("purpose", "rare"), _verdict("purpose")])
    second = rank_result([_verdict("purpose"), _verdict("other", "purpose")])

    assert common_criteria([first, second]) == {"purpose"}
    assert common_criteria([first]) == {"purpose", "rare"}
    assert only(_verdict("purpose", "rare"), {"purpose"}) == _verdict("purpose")


def test_the_allowed_share_is_of_all_responses_and_not_of_one_process() -> None:
    lost = rank_result([_verdict("a"), _verdict(reason="timeout")])
    fine = RankResult(responses=18, reasons=(), criteria=frozenset({"a"}))

    refuse_unreached([lost, fine], allowed=0.05)
    with pytest.raises(
        HeldoutAbortError, match=r"1 of 2 responses \(timeout 1\)"
    ) as caught:
        refuse_unreached([lost], allowed=0.05)
    assert caught.value.unavailable_frac == 0.5


def test_a_process_without_any_judgement_ends_the_run() -> None:
    """lm-eval would look for its rewards and find no such name."""
    lost = rank_result([_verdict(reason="timeout")])
    fine = RankResult(responses=99, reasons=(), criteria=frozenset({"a"}))

    with pytest.raises(HeldoutAbortError, match="all those of one process"):
        refuse_unreached([fine, lost], allowed=0.05)


def test_processes_that_nothing_joins_are_refused() -> None:
    result = rank_result([_verdict("a")])

    assert gathered(result, world_size=1) == [result]
    with pytest.raises(ConfigError, match="shared by 2 processes"):
        gathered(result, world_size=2)


def _task(number: int) -> Task:
    """Even ones, which the first process has, ask for one thing more."""
    criteria = [
        Criterion(id="purpose", weight=3.0, required_elements=("matrix", "rows"))
    ]
    if number % 2 == 0:
        criteria.append(
            Criterion(id="rare", weight=1.0, required_elements=("columns",))
        )
    return Task(
        question=f"What does function {number} do?",
        grounding=Grounding(f"The matrix is factorised by rows {number}"),
        rubric=Rubric(criteria=tuple(criteria)),
    )


def _evaluated(
    folder: Path, metadata: dict[str, str], *, processes: int
) -> tuple[Any, str]:
    """Results, and what the first process said."""
    started = [
        subprocess.Popen(
            [
                *(sys.executable, str(SCRIPT), str(rank), str(processes)),
                *(json.dumps(metadata), str(folder)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    said = [process.communicate(timeout=600)[0] for process in started]
    assert [process.returncode for process in started] == [0] * processes, "\n".join(
        said
    )
    return json.loads((folder / f"done_by_{processes}.json").read_text("utf-8")), said[
        0
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_score_what_one_does(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_tasks(tmp_path / "test.jsonl", [_task(number) for number in range(5)])
    (tmp_path / "judge.yaml").write_text("type: lexical\n", encoding="utf-8")
    metadata = {
        "data": "small",
        "questions": str(tmp_path / "test.jsonl"),
        "judge": str(tmp_path / "judge.yaml"),
        "ledger": str(tmp_path / "ledger.sqlite"),
    }

    two, said = _evaluated(tmp_path, metadata, processes=2)
    one, _ = _evaluated(tmp_path, metadata, processes=1)

    assert 0 < one["rubric_heldout"]["rubric_reward,none"] < 1
    lost = {
        name: one["rubric_heldout"].pop(name)
        for name in ("z_rare,none", "z_rare_stderr,none")
    }
    assert None not in lost.values()
    assert two == one
    assert "no mean of ['rare']" in said
