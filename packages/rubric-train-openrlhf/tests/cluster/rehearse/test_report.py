from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rubric_train_openrlhf.cli import main
from rubric_train_openrlhf.cluster.rehearse.checking import (
    TWO_STEPS,
    Check,
    Finding,
    Report,
    Request,
    Status,
    Subject,
    failed,
    passed,
    print_report,
    run_checks,
    unchecked,
    warning,
)
from rubric_train_openrlhf.cluster.rehearse.stage import run_process
from rubric_train_openrlhf.config.train import TrainConfig, parse_config
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return Subject(Request(source=tmp_path / "x.yaml", values={}, folder=tmp_path))


def saying(*findings: Finding) -> Callable[[Subject], Iterator[Finding]]:
    return lambda _: iter(findings)


def raising(error: Exception) -> Callable[[Subject], Iterator[Finding]]:
    def ask(_: Subject) -> Iterator[Finding]:
        raise error
        yield

    return ask


def test_a_failure_holds_back_only_what_builds_on_it(subject: Subject) -> None:
    checks = (
        Check("a", saying(failed("wrong", where="x.y", remedy="repair it"))),
        Check("b", saying(passed("right"))),
        Check("c", saying(passed("right")), needs=("a",)),
        Check("d", saying(passed("right")), needs=("c",)),
        Check("e", raising(TrainConfigError("no", location="k"))),
        Check("f", raising(ZeroDivisionError("oops"))),
        Check("g", lambda one: iter([passed(str(one.known))])),
        Check("h", saying()),
    )
    found = {one.check: one for one in run_checks(checks, subject)}
    assert [one.status for one in found.values()] == [
        Status.FAILED,
        Status.PASSED,
        Status.UNCHECKED,
        Status.UNCHECKED,
        Status.FAILED,
        Status.FAILED,
        Status.UNCHECKED,
        Status.PASSED,
    ]
    assert found["c"].detail == "needs 'a'"
    assert (found["e"].where, found["e"].detail) == ("k", "no")
    assert "ZeroDivisionError: oops" in found["f"].detail
    assert found["g"].detail == "needs 'configuration'"


def report(*findings: Finding) -> Report:
    return report_of(
        *(replace(one, check=f"check {n}") for n, one in enumerate(findings))
    )


def report_of(*findings: Finding) -> Report:
    return Report(
        config="p.yaml", stand_ins=("model: small",), findings=findings, wall_s=12.0
    )


def test_the_report_says_first_whether_it_passed() -> None:
    found = report(passed("a"), failed("b", where="k"), warning("c"), unchecked("d"))
    written = json.loads(found.to_json())
    assert list(written)[:2] == ["passed", "counts"]
    assert written["passed"] is False
    assert written["counts"] == {
        "passed": 1,
        "failed": 1,
        "warning": 1,
        "not checkable here": 1,
    }
    assert written["findings"][1]["where"] == "k"
    assert report(warning("c"), unchecked("d")).passed


def printed(found: Report) -> list[str]:
    with redirect_stdout(StringIO()) as out:
        print_report(found, folder=Path("runs", "rehearsals", "p"))
    return out.getvalue().splitlines()


def test_the_table_ends_with_what_to_do() -> None:
    lines = printed(
        report(passed("[fine]"), failed("[bad] value", where="a.b", remedy="change it"))
    )
    assert lines[0] == "stand-in: model: small"
    assert any("[fine]" in line for line in lines)
    assert lines[-4:] == [
        "✗ check 1: a.b: [bad] value",
        "  → change it",
        "report and logs: runs/rehearsals/p",
        "rehearsal FAILED in 12 s, without the two steps: 1 passed, 1 failed",
    ]


def test_what_need_not_be_repaired_comes_with_its_remedy_too() -> None:
    lines = printed(
        report(warning("slow", remedy="look"), unchecked("no model", remedy="copy it"))
    )
    assert [line.split("→")[1].strip() for line in lines if "→" in line] == [
        "look",
        "copy it",
    ]
    assert lines[-1].endswith(": 1 warning, 1 not checkable here")


def test_a_key_that_is_in_the_text_is_not_said_twice() -> None:
    found = failed("6 × 8 is not a.b=49", where="a.b")
    assert printed(report(found, found))[-3] == "✗ check 1: 6 × 8 is not a.b=49"


def test_the_verdict_says_whether_the_two_steps_were_run() -> None:
    ran, kept = (finding("said", check=TWO_STEPS) for finding in (passed, unchecked))
    assert report_of(ran).has_run
    assert printed(report_of(ran))[-1] == "rehearsal passed in 12 s: 1 passed"
    assert not report_of(kept).has_run


def test_the_command_fails_with_its_configuration(
    production: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "production.yaml"
    file.write_text(yaml.safe_dump(production.having(optim={"micro_batch": 6}).values))
    words = [
        "rehearse",
        str(file),
        "--checks-only",
        "--out",
        str(tmp_path / "rehearsal"),
    ]
    with pytest.raises(SystemExit) as exited:
        main(words)
    assert exited.value.code == 1
    assert "rehearsal FAILED" in capsys.readouterr().out
    with pytest.raises(SystemExit) as exited:
        main([*words, "--optim.micro_batch", "4"])
    assert exited.value.code == 0
    assert (
        json.loads((tmp_path / "rehearsal" / "rehearse.json").read_text())["passed"]
        is True
    )


def test_a_folder_of_something_else_is_left_alone(
    production: Any,
    check_only: Callable[..., Report],
    tmp_path: Path,
) -> None:
    precious = tmp_path / "rehearsal" / "precious"
    precious.parent.mkdir()
    precious.touch()
    with pytest.raises(TrainConfigError, match=r"holds no rehearse\.json"):
        check_only(production)
    assert precious.exists()


@pytest.fixture
def any_config(tmp_path: Path) -> TrainConfig:
    return parse_config(
        {
            "model": {"type": "path", "path": str(tmp_path / "no-model")},
            "data": {"train": str(tmp_path / "no-tasks.jsonl")},
            "steps": 1,
            "out": str(tmp_path / "run"),
        }
    )


@pytest.mark.slow
def test_the_process_names_what_ended_it(
    any_config: TrainConfig, tmp_path: Path
) -> None:
    ended = run_process(any_config, folder=tmp_path, deadline_s=120)
    assert ended.status == 2
    assert ended.cause.startswith("rubric-train: no task file at")


def test_the_deadline_ends_the_process(
    any_config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = tmp_path / "python"
    sleeper.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import time; time.sleep(60)'\n"
    )
    sleeper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(sleeper))
    ended = run_process(any_config, folder=tmp_path, deadline_s=1.0)
    assert ended.status is None
    assert ended.wall_s < 30
