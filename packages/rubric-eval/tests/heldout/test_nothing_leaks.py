"""An evaluation with all its commands and every log on: which files hold the judge's side."""

from __future__ import annotations

import json
import logging
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from rubric_core import write_tasks
from rubric_eval.cli import main
from rubric_eval.records.inputs import EvalFolder
from rubric_judge.testing import FakeCall, FakeEndpoint, Fault, ServedModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_core import Task

CANARIES = ("PASSAGE-CANARY", "RUBRIC-CANARY", "REASONS-CANARY")
"""In every passage, every criterion's text, and all that the judge writes."""
FAULTS = [None] * 3 + [Fault.BAD_REQUEST, Fault.CONTENT_POLICY, Fault.SERVER_ERROR]


def _judged(call: FakeCall) -> str:
    """A judge that quotes all that it was given; one reply in four is no judgement."""
    quoted = f"REASONS-CANARY: {call.messages[-1]['content']}"
    if not call.weights:  # whether it is there
        return json.dumps({"ready": True})
    if call.number % 4 == 3:
        return quoted
    scores = {name: weight / 2 for name, weight in call.weights.items()}
    total, most = sum(scores.values()), sum(call.weights.values())
    return json.dumps(
        {"reasoning": quoted, "scores": scores, "total": total, "max_total": most}
    )


@pytest.fixture
def judge(tmp_path: Path) -> Callable[..., Path]:
    def write(url: str, transport: str) -> Path:
        path = tmp_path / "judge.yaml"
        path.write_text(
            f"type: llm\nmodel: openai/fake\napi_base: {url}\ntransport: {transport}\n"
            "max_transport_attempts: 2\nbackoff_s: 0.001\n",
            encoding="utf-8",
        )
        return path

    return write


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Every logger that there is, at its lowest level."""
    caplog.set_level(logging.DEBUG)
    for name in (
        "LiteLLM",
        "LiteLLM Router",
        "aiohttp",
        "asyncio",
        "httpx",
        "instructor",
        "openai",
    ):
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["rubric-eval", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def _holding(folder: Path) -> dict[Path, set[str]]:
    """The files of a folder that hold a canary, with those that they hold."""
    found = {
        path: {canary for canary in CANARIES if canary.encode() in path.read_bytes()}
        for path in folder.rglob("*")
        if path.is_file()
    }
    return {path: canaries for path, canaries in found.items() if canaries}


@pytest.mark.parametrize(
    "transport", ["direct", pytest.param("litellm", marks=pytest.mark.slow)]
)
def test_only_the_judges_own_files_hold_what_only_the_judge_may_see(  # noqa: PLR0917  # fixtures
    transport: str, judge: Callable[..., Path], tasks: tuple[Task, ...], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    everything_logged: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    write_tasks(tmp_path / "test.jsonl", tasks)
    folder = EvalFolder(tmp_path / "eval")
    page = tmp_path / "revealed"
    served = ServedModel(answer=lambda call: f"You ask: {call.messages[-1]['content']}")
    with (
        FakeEndpoint(served=served) as model,
        FakeEndpoint(_judged, faults=[None, *FAULTS]) as one,
    ):
        given = (
            "--tasks",
            tmp_path / "test.jsonl",
            "--judge",
            judge(one.url, transport),
        )
        names = [f"{name}=server:{model.url}#fake" for name in ("base", "tuned")]
        asked = ("--max-unavailable-frac", 0.5, "--workers", 1, "--verbose")
        assert (
            _run(monkeypatch, "heldout", *names, *given, "--out", folder.root, *asked)
            == 0
        )
        assert one.counts.total() > 12
    for command in (
        ("compare", folder.root),
        ("hacking", folder.root, "--tasks", tmp_path / "test.jsonl"),
        ("report", folder.root),
    ):
        assert _run(monkeypatch, *command) == 0
    shown = "".join(capfd.readouterr())
    logged = everything_logged.text

    holding = _holding(folder.root)
    judges_own = {folder.ledger, *(folder.root / "judgements").rglob("*.jsonl")}
    assert holding.keys() == judges_own
    assert set.union(*holding.values()) == set(CANARIES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}
    assert '"event": "judge.call.finished"' in shown
    assert [canary for canary in CANARIES if canary in shown] == []
    assert [canary for canary in CANARIES if canary in logged] == []

    revealed = ("--tasks", tmp_path / "test.jsonl", "--reveal-grounding", "--out", page)
    assert _run(monkeypatch, "report", folder.root, *revealed) == 0
    assert _holding(page) == {page / "report.html": set(CANARIES)}
