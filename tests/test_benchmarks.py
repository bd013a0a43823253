"""Every benchmark says what it claims, takes the same options and writes the same record."""

import ast
import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT / "benchmarks" / "record.py"
ALL = ROOT / "benchmarks" / "all.py"
SCRIPTS = sorted(set((ROOT / "benchmarks").glob("*.py")) - {SHARED, ALL})
RECORD = {"claim", "value", "target", "direction", "passed", "details"}
NEEDS_A_STACK = {"local_grpo_vs_trl.py"}


def _records(tree: ast.Module) -> list[set[str]]:
    """The keys of every dictionary that is written out and looks like a record."""
    keys = [
        {key.value for key in node.keys if isinstance(key, ast.Constant)}
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
    ]
    return [found for found in keys if "claim" in found]


def _ends(tree: ast.Module) -> list[str]:
    """What `main` calls last, and whatever else may end the process."""
    main = next(
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "main"
    )
    last = main.body[-1]
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    exits = [ast.unparse(call) for call in calls if ast.unparse(call).endswith("exit")]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        exits.append(ast.unparse(last.value.func))
    return exits


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_benchmark_has_a_claim_a_target_and_one_record(script: Path) -> None:
    tree = ast.parse(script.read_text("utf-8"))
    names = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    assert {"CLAIM", "TARGET"} <= names
    assert _records(tree) == [RECORD]
    assert f"benchmarks/{script.name}" in (ast.get_docstring(tree) or "")
    # Nothing of a benchmark comes after its end, and no other status does.
    assert _ends(tree) == ["finish"]


@pytest.mark.parametrize(("passed", "status"), [(True, 0), (False, 1)])
def test_a_benchmark_ends_with_its_record_and_whether_it_passed(
    tmp_path: Path, passed: object, status: int
) -> None:
    record = {"claim": "fast", "passed": passed, "value": 2.5}
    finish = runpy.run_path(str(SHARED))["finish"]

    with pytest.raises(SystemExit) as ended:
        finish(record, tmp_path / "record.json")

    assert ended.value.code == status
    assert json.loads((tmp_path / "record.json").read_text("utf-8")) == record


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "script",
    [path for path in SCRIPTS if path.name not in NEEDS_A_STACK],
    ids=lambda path: path.name,
)
def test_every_benchmark_tells_its_options(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In this process, which has imported what takes them seconds.
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.syspath_prepend(script.parent)

    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")

    assert ended.value.code in {0, None}
    assert set(re.findall(r"--\w+", capsys.readouterr().out)) >= {"--json", "--quick"}


@pytest.fixture
def run_all(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What benchmarks/all.py defines."""
    monkeypatch.syspath_prepend(ALL.parent)
    return runpy.run_path(str(ALL))


def test_one_command_knows_every_benchmark(run_all: dict[str, Any]) -> None:
    assert sorted(one.script for one in run_all["BENCHMARKS"]) == [
        path.stem for path in SCRIPTS
    ]


def test_the_page_holds_what_was_recorded_and_nobody_typed(
    run_all: dict[str, Any],
) -> None:
    page = run_all["PAGE"].read_text("utf-8")

    assert run_all["with_table"](page, run_all["read_records"]()) == page


def test_what_is_recorded_is_what_the_script_claims_today(
    run_all: dict[str, Any],
) -> None:
    claims = {
        path.stem: _constants(ast.parse(path.read_text("utf-8"))) for path in SCRIPTS
    }

    for name, entry in run_all["read_records"]().items():
        assert (entry["claim"], entry["target"]) == claims[name]


def _constants(tree: ast.Module) -> tuple[object, ...]:
    found = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) in {"CLAIM", "TARGET"}
    }
    return found["CLAIM"], found["TARGET"]


def test_a_row_has_the_median_of_the_runs_their_range_and_what_was_missed(
    run_all: dict[str, Any],
) -> None:
    benchmark = run_all["Benchmark"]("thing", "a over b")
    entry = {
        "values": [2.5, 3.126, 14],
        "target": 3.0,
        "direction": "at least",
        "passed": False,
    }

    assert run_all["row"](benchmark, entry) == (
        "| `thing.py` | a over b | 3.13 (missed) | 2.5 to 14 | 3 | ≥ 3 |"
    )
    assert (
        run_all["row"](benchmark, None) == "| `thing.py` | a over b | not run | | | |"
    )


SCRIPT = """
import argparse, json, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("--json", type=pathlib.Path)
parser.add_argument("--quick", action="store_true")
options = parser.parse_args()
if not options.quick:
    sys.exit("only quick")
record = {"claim": "c", "value": 2, "target": 1, "direction": "at least", "passed": True}
options.json.write_text(json.dumps(record | {"details": {"libraries": {"x": {"versions": PEERS}}}}))
"""


def test_a_script_is_run_as_often_as_asked_and_one_without_a_record_has_no_figure(
    run_all: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "benchmarks").mkdir()
    script = tmp_path / "benchmarks" / "thing.py"
    script.write_text(SCRIPT.replace("PEERS", '{"peer": "1.2"}'), "utf-8")
    measure = run_all["measure"]
    monkeypatch.setitem(measure.__globals__, "ROOT", tmp_path)
    benchmark = run_all["Benchmark"](
        "thing", "a over b", ("pydantic", "no-such-package")
    )

    entry = measure(benchmark, sys.executable, ["--quick"], 2)

    assert entry["values"] == [2, 2]
    assert set(entry["versions"]) == {"rubric-core", "pydantic", "peer"}
    assert entry["machine"]["cores"]
    with pytest.raises(
        run_all["NoFigureError"], match="ended with 1 and no record\nonly quick"
    ):
        measure(benchmark, sys.executable, [], 1)


def test_coverage_is_held_to_the_claim_and_to_chance_only_where_repetitions_are_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = ROOT / "benchmarks" / "calibration_coverage.py"
    monkeypatch.syspath_prepend(script.parent)
    found = runpy.run_path(str(script))
    uncovered, exceeded = found["uncovered"], found["exceeded"]

    assert [uncovered(share, 2000) for share in (0.93, 0.95, 0.97)] == pytest.approx(
        [0, 0, 0]
    )
    assert [uncovered(share, 2000) for share in (0.92, 0.98)] == pytest.approx(
        [0.01 / 0.95, 0]
    )
    assert (exceeded(0.05, 0.05, 2000), exceeded(0.06, 0.05, 2000)) == pytest.approx(
        (0, 0.2)
    )
    # 3 · √(.95 · .05 / 500) = .0292
    assert [uncovered(share, 500) for share in (0.921, 0.92)] == pytest.approx(
        [0, 8e-4], abs=5e-5
    )
    assert [exceeded(share, 0.05, 500) for share in (0.079, 0.08)] == pytest.approx(
        [0, 0.015], abs=1e-3
    )

    shares = dict.fromkeys(found["CORRECTED"], 0.95) | {"refused": 0.9}
    worst = {
        name: one for name, one in found["of_corrections"](shares, 2000).items() if one
    }
    assert worst == pytest.approx({"corrected, another model's answers": 0.1})
    plants = {found["KNOWN"]: {"violations": 0.1, "escalated": 0.75}}
    assert list(found["of_cascades"](plants, 2000).values()) == pytest.approx([1, 0.5])
