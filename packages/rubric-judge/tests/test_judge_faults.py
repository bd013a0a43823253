"""The benchmark of faults: that it sees what it looks for, and that it finds nothing."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from rubric_core import JudgeResult, JudgeView, Reason
from rubric_judge.testing import CallRecord, Fault

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "judge_faults.py"


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        yield importlib.import_module("judge_faults")


def _violations(folder: Path, *arguments: str) -> dict[str, Any]:
    report = folder / "report.json"
    command = [sys.executable, str(SCRIPT), "--json", str(report), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert report.exists(), done.stderr
    result = json.loads(report.read_text(encoding="utf-8"))
    assert result["value"] == 0, result["details"]
    return result["details"]


def test_no_judgement_of_an_unreliable_endpoint_is_lost_or_over_credited(
    tmp_path: Path,
) -> None:
    details = _violations(tmp_path, "--judgements", "600", "--litellm-share", "0")
    by_fault = details["direct"]["by_fault"]
    assert by_fault.keys() == {"None", *Fault}
    assert sum(counts.get("scored", 0) for counts in by_fault.values()) > 200


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_thousand_judgements_over_both_transports_hold_the_contract(
    tmp_path: Path,
) -> None:
    details = _violations(tmp_path, "--quick", "--litellm-share", "0.2")
    assert details.keys() == {"direct", "litellm"}
    assert details["direct"]["hostile_texts_unsent"] == 0


def _record(
    number: int, *, fault: Fault | None, share: float, view: int = 3
) -> CallRecord:
    awarded = {f"c{j}": (j + 0.5) * share for j in range(5)} if fault is None else {}
    return CallRecord(number, 0.0, view, fault, None, awarded)


def test_the_benchmark_sees_every_kind_of_violation(benchmark: ModuleType) -> None:
    share = benchmark.share(3)
    clean = [_record(7, fault=None, share=share)]
    spoilt = [_record(7, fault=Fault.PROSE, share=share)]

    def found(
        reason: Reason | None,
        credit: str,
        calls: list[CallRecord],
        *,
        attempts: int = 1,
        timed_out: bool = False,
    ) -> list[str]:
        row = benchmark.Row(reason, credit, attempts, timed_out)
        return list(benchmark.violations(row, calls))

    assert found(None, "fair", clean) == []
    assert found(Reason.NOT_JSON, "none", spoilt) == []
    assert found(None, "fair", []) == ["over-credited", "without its reason"]
    assert found(None, "above", clean) == ["over-credited"]
    assert found(None, "other", clean) == ["misplaced"]
    assert found(None, "fair", spoilt) == ["over-credited", "without its reason"]
    assert found(Reason.EMPTY, "none", spoilt) == ["without its reason"]
    assert found(Reason.TIMEOUT, "none", clean, timed_out=True) == []
    assert found(Reason.TIMEOUT, "none", clean) == ["without its reason"]
    assert found(Reason.JUDGE_ERROR, "none", spoilt) == ["crashed"]
    earlier = _record(6, fault=Fault.RESET, share=share)
    assert found(None, "fair", [*clean, earlier], attempts=2) == []
    assert found(None, "fair", [*clean, earlier]) == ["called more often than it says"]


@pytest.mark.parametrize(
    ("factor", "credit"),
    [(1.0, "fair"), (1.0 + 1e-12, "above"), (0.5, "other"), (None, "none")],
)
def test_the_benchmark_compares_every_score_with_what_was_earned(
    benchmark: ModuleType, factor: float | None, credit: str
) -> None:
    result = JudgeResult.invalid(Reason.EMPTY)
    if factor is not None:
        scores = {c.id: c.weight * benchmark.share(3) for c in benchmark.RUBRIC}
        scores["c2"] *= factor
        result = JudgeResult.scored(benchmark.RUBRIC, scores, judge="j", latency_s=0.1)
    assert benchmark.row(3, result).credit == credit


class _Pool:
    """A pool that goes wrong."""

    def __init__(self, results: int, positions: Sequence[int]) -> None:
        self._results = results
        self._positions = positions

    async def judge_all(
        self,
        views: Sequence[JudgeView],
        *,
        on_result: Callable[[int, JudgeResult], None],
    ) -> list[JudgeResult]:
        del views
        result = JudgeResult.invalid(Reason.EMPTY)
        for position in self._positions:
            on_result(position, result)
        if not self._results:
            raise RuntimeError("the pool broke")
        return [result] * self._results


@pytest.mark.parametrize(
    ("pool", "violations"),
    [
        (_Pool(3, [2, 0, 1]), {}),
        (_Pool(2, [0, 1]), {"lost": 2}),
        (_Pool(3, [0, 1, 1, 2]), {"doubled": 1}),
        (_Pool(0, []), {"crashed": 3}),
    ],
)
def test_the_benchmark_counts_what_a_pool_loses_doubles_and_lets_out(
    benchmark: ModuleType, pool: _Pool, violations: dict[str, int]
) -> None:
    run = benchmark.Run("direct", 3, ())
    anyio.run(run._judge_step, pool, range(3))
    assert +run.violations == violations
    assert len(run.rows) == pool._results or not pool._results
