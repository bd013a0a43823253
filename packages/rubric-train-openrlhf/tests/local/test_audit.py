"""Runs with an audit judge: what is audited, what an alarm does, and that a kill is not seen."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import JudgeResult, Reason
from rubric_judge.testing import ScriptedJudge
from rubric_judge.ui.console.progress import Phase, Progress
from rubric_train_openrlhf.errors import ResumeError, TrainConfigError
from rubric_train_openrlhf.local.plan import describe_plan
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.report.page import write_report
from rubric_train_openrlhf.report.reading import read_run
from rubric_train_openrlhf.run.checkpoints import checkpoint_path
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rubric_core import JudgeView
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.run.records import RunSummary

    MakeConfig = Callable[..., TrainConfig]

LEXICAL = {"type": "lexical"}
AUDIT: dict[str, Any] = {"spec": LEXICAL, "start": 16, "training_frac": 0.5}


def by_length(view: JudgeView) -> float:
    return (len(view.response) % 7) / 7


def low(_: JudgeView) -> float:
    return 0.1


class Fooled:
    """A training judge that gives everything more from its hundredth answer on."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, view: JudgeView) -> float:
        self.calls += 1
        base = by_length(view) / 10
        return base + 0.1 if self.calls < 60 else base + 0.9


def run(
    config: TrainConfig,
    training: Callable[..., Any],
    audit: Callable[..., Any] = low,
    **more: Any,
) -> RunSummary:
    return run_grpo(
        config,
        judge=ScriptedJudge(training, name="training"),
        audit_judge=ScriptedJudge(audit, name="audit"),
        **more,
    )


def test_figures_of_a_step_and_of_a_pass(make_config: MakeConfig) -> None:
    config = make_config(audit=AUDIT)
    run(config, by_length)
    folder = RunFolder(config.out)

    rows = folder.read_audit()
    assert [(row.source, row.step) for row in rows] == [
        ("heldout", 0),
        ("training", 1),
        ("training", 2),
        ("heldout", 2),
        ("training", 3),
        ("training", 4),
        ("heldout", 4),
    ]
    for row in rows:
        assert row.chosen == row.used == (4 if row.source == "heldout" else 8)
        assert len(row.gaps) == 4  # two responses to each of four prompts
        assert row.audit_mean == pytest.approx(0.1)
        assert row.gap == pytest.approx(sum(row.gaps) / 4)
        assert row.training_mean is not None
        assert row.gap == pytest.approx(row.training_mean - 0.1)
    for metrics in folder.read_metrics():
        assert metrics.audit is not None
        assert metrics.audit.used == 8
        assert metrics.monitor.keys() >= {"length", "self_praise", "diversity"}
        assert metrics.monitor["length"] > 1
    assert all(row.audit is not None for row in folder.read_heldout())
    page = write_report(config.out).read_text("utf-8")
    assert "Rise of the gap since the start" in page
    assert "There are too few audits to tell." in page


def test_an_audit_changes_nothing_of_the_training(
    make_config: MakeConfig, tmp_path: Any
) -> None:
    weights: list[bytes] = []
    rewards: list[list[float]] = []
    for name, changes in (("plain", {}), ("audited", {"audit": AUDIT})):
        config = make_config(out=tmp_path / name, **changes)
        run(config, by_length)
        folder = RunFolder(config.out)
        path = checkpoint_path(folder.checkpoints, step=4) / "model.safetensors"
        weights.append(path.read_bytes())
        rewards.append([row.reward_mean for row in folder.read_metrics()])
    assert weights[0] == weights[1]
    assert rewards[0] == rewards[1]


def test_a_plain_run_writes_no_word_of_it(make_config: MakeConfig) -> None:
    config = make_config(steps=1)
    run_grpo(config, judge=ScriptedJudge(by_length))
    assert not (config.out / "audit.jsonl").exists()
    for name in (
        "config.resolved.yaml",
        "metrics.jsonl",
        "heldout.jsonl",
        "summary.json",
    ):
        text = (config.out / name).read_text("utf-8")
        for word in ("audit", "monitor", "best_by", "alarm", "onset"):
            assert word not in text, (name, word)


@pytest.mark.parametrize("on_divergence", ["log", "stop", "rollback"])
def test_what_an_alarm_does(make_config: MakeConfig, on_divergence: str) -> None:
    audit = {
        **AUDIT,
        "training_frac": 1.0,
        "on_divergence": on_divergence,
        "alpha": 0.2,
    }
    config = make_config(
        steps=14,
        audit=audit,
        checkpoint={"every": 1, "keep": 1},
        validation={"every": 50},
    )
    summary = run(config, Fooled())
    folder = RunFolder(config.out)

    assert summary.alarm_step is not None
    alarm = summary.alarm_step
    assert 4 <= alarm < 14
    assert summary.warning is not None
    assert f"alarm at step {alarm}" in summary.warning
    assert folder.read_audit()[-1].state == "alarm"
    if on_divergence == "log":
        assert (summary.status, summary.steps) == ("finished", 14)
        return
    assert (summary.status, summary.steps) == ("diverged", alarm)
    assert checkpoint_path(folder.checkpoints, step=alarm).exists()
    best = (folder.checkpoints / "best").resolve().name
    if on_divergence == "rollback":
        assert summary.onset is not None
        assert best == f"step_{summary.onset - 1:06d}"
        assert (
            f"`best` is the checkpoint of step {summary.onset - 1}" in summary.warning
        )
    page = write_report(config.out).read_text("utf-8")
    assert "Ended by the alarm of its audit judge" in page
    assert f"Alarm at step {alarm}" in page
    head = page[: page.index("<main>")]
    assert (
        f"The training judge left the audit judge behind: alarm at step {alarm}" in head
    )

    # It stays ended, until it is told to go on.
    again = run(config, Fooled(), resume=True)
    assert (again.status, again.steps) == ("diverged", alarm)
    on = make_config(
        steps=alarm + 1,
        audit={**audit, "on_divergence": "log"},
        checkpoint={"every": 1, "keep": 1},
        validation={"every": 50},
    )
    assert (run(on, Fooled(), resume=True)).steps == alarm + 1


class KilledError(Exception):
    pass


@pytest.mark.parametrize("step", [3, 5])
def test_a_run_that_goes_on_has_the_numbers_of_one_that_was_never_stopped(
    make_config: MakeConfig, tmp_path: Any, step: int
) -> None:
    changes: dict[str, Any] = {"steps": 6, "audit": AUDIT, "checkpoint": {"every": 2}}
    whole = make_config(out=tmp_path / "whole", **changes)
    run(whole, by_length)
    parts = make_config(out=tmp_path / "parts", **changes)

    def stop(row: Any) -> None:
        if row.step == step:
            raise KilledError

    with pytest.raises(KilledError):
        run(parts, by_length, on_step=stop)
    run(parts, by_length, resume=True)

    assert (parts.out / "audit.jsonl").read_bytes() == (
        whole.out / "audit.jsonl"
    ).read_bytes()


def test_a_lost_row_of_audits_is_told_and_not_passed_over(
    make_config: MakeConfig,
) -> None:
    config = make_config(steps=2, audit=AUDIT)
    run(config, by_length)
    path = config.out / "audit.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{}\n", *lines[2:]]))

    with pytest.raises(ResumeError, match=r"lacks the audits of step 1: line 2 is"):
        run(make_config(steps=3, audit=AUDIT), by_length, resume=True)

    assert path.read_bytes().splitlines(keepends=True)[2:] == lines[2:]


def test_failing_audits_are_no_numbers_and_no_all_clear(
    make_config: MakeConfig,
) -> None:
    calls = 0

    def failing(_: JudgeView) -> float | JudgeResult:
        nonlocal calls
        calls += 1
        failures = (
            JudgeResult.unavailable(Reason.TIMEOUT),
            JudgeResult.invalid(Reason.NOT_JSON),
        )
        return (*failures, 0.1)[calls % 3]

    config = make_config(steps=6, audit={**AUDIT, "training_frac": 1.0})
    run(config, by_length, failing)

    rows = [
        row for row in RunFolder(config.out).read_audit() if row.source == "training"
    ]
    for row in rows:
        assert row.invalid > 0
        assert row.unavailable > 0
        assert row.used + row.invalid + row.unavailable == row.chosen == 16
        assert row.audit_mean == pytest.approx(0.1)
    assert rows[-1].state == "cannot_tell"


def test_best_may_follow_the_audit_judge(make_config: MakeConfig) -> None:
    passes = {"training": 0, "audit": 0}

    def rising(_: JudgeView) -> float:
        passes["training"] += 1
        return min(passes["training"] / 1000, 1.0)

    def falling(_: JudgeView) -> float:
        passes["audit"] += 1
        return max(1 - passes["audit"] / 1000, 0.0)

    audit = {"spec": LEXICAL, "start": 16}
    config = make_config(audit=audit, checkpoint={"best_by": "audit"})
    summary = run(config, rising, falling)
    assert summary.best_step == 0
    assert (config.out / "checkpoints" / "best").resolve().name == "step_000000"
    shown = read_run(config.out).best
    assert shown is not None
    assert shown.step == 0


@pytest.mark.parametrize("audit", [None, AUDIT])
def test_a_model_that_audits_is_asked_and_nothing_else_is(
    make_config: MakeConfig, audit: dict[str, Any] | None
) -> None:
    """Neither without an audit nor where it is a program is there a phase of asking."""
    phases: list[str] = []

    class Listed(Progress):
        @contextmanager
        def phase(
            self, name: str, *, total: int | None = None, unit: str = ""
        ) -> Generator[Phase]:
            phases.append(name)
            with super().phase(name, total=total, unit=unit) as begun:
                yield begun

    with Listed.silent() as progress:
        config = make_config(steps=1, **({} if audit is None else {"audit": audit}))
        run_grpo(config, judge=ScriptedJudge(by_length), progress=progress)
    assert "reading tasks" in phases
    assert "asking the audit judge" not in phases


def test_a_pass_whose_audits_mostly_fail_is_not_the_best(
    make_config: MakeConfig,
) -> None:
    calls = 0

    def failing(_: JudgeView) -> float | JudgeResult:
        """Score all of the first pass, one answer of the second, and all of the third."""
        nonlocal calls
        calls += 1
        if 5 <= calls <= 7:
            return JudgeResult.unavailable(Reason.TIMEOUT)
        return {8: 1.0}.get(calls, calls / 100)

    audit = {"spec": LEXICAL, "start": 16, "workers": 1}
    config = make_config(audit=audit, checkpoint={"best_by": "audit"})
    summary = run(config, by_length, failing)

    passes = RunFolder(config.out).read_heldout()
    assert [row.audit.used for row in passes if row.audit is not None] == [4, 1, 4]
    assert [row.best for row in passes] == [True, False, True]
    assert summary.best_step == 4


def test_a_judge_that_audits_itself_is_refused(make_config: MakeConfig) -> None:
    with pytest.raises(
        TrainConfigError, match=r"audit.spec is judge.spec: a judge that"
    ):
        make_config(judge={"spec": LEXICAL}, audit={"spec": LEXICAL})
    config = make_config(audit=AUDIT)
    with pytest.raises(
        TrainConfigError, match=r"make one judge \(scripted\)"
    ) as caught:
        run_grpo(
            config,
            judge=ScriptedJudge(by_length),
            audit_judge=ScriptedJudge(low),
        )
    assert caught.value.location == "audit.spec"
    assert not (config.out / "config.resolved.yaml").exists()

    # Another address makes no other judge; nobody is asked.
    spec = {"type": "llm", "model": "openai/x", "api_base": "http://127.0.0.1:9/v1"}
    other = {**spec, "api_base": "http://127.0.0.1:7/v1", "timeout_s": 3}
    config = make_config(judge={"spec": spec}, audit={"spec": other})
    with pytest.raises(TrainConfigError, match=r"an address, a key or limits do not"):
        run_grpo(config)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"audit": {"spec": LEXICAL, "heldout_frac": 0.0}}, "has nothing to score"),
        ({"checkpoint": {"best_by": "audit"}}, "needs an audit judge"),
        (
            {
                "audit": {"spec": LEXICAL, "heldout_frac": 0.0, "training_frac": 0.1},
                "checkpoint": {"best_by": "audit"},
            },
            "compares held-out passes",
        ),
        (
            {"audit": {"spec": {"type": "listwise", "model": "openai/x"}}},
            "type='listwise'",
        ),
        ({"audit": {"spec": LEXICAL, "alpha": 0}}, "alpha"),
        ({"audit": {"spec": LEXICAL, "tolerance": 1.0}}, "tolerance"),
        ({"audit": {"spec": LEXICAL, "start": 1}}, "start"),
        ({"audit": {"spec": LEXICAL, "on_divergence": "panic"}}, "on_divergence"),
        ({"audit": {}}, "audit.spec"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(
    make_config: MakeConfig, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(TrainConfigError, match=words.replace(".", r"\.")):
        make_config(**changes)


def test_a_plan_says_what_is_audited(make_config: MakeConfig) -> None:
    plan = describe_plan(make_config(audit=AUDIT))
    assert (
        "audit: 8 responses a step, to 4 questions and 100% of the held-out questions, by a "
        "judge 'lexical' that is in no reward; at a rise of its gap above 0.05: log"
    ) in plan
    assert "audit" not in describe_plan(make_config()).replace(
        str(make_config().out), ""
    )


def test_monitors_without_an_audit(make_config: MakeConfig) -> None:
    config = make_config(steps=1, monitors=True)
    run_grpo(config, judge=ScriptedJudge(by_length))
    text = (config.out / "metrics.jsonl").read_text("utf-8")
    assert set(json.loads(text)["monitor"]) == {
        "length",
        "hedging",
        "self_praise",
        "echo",
        "refusal",
        "common_run",
        "diversity",
        "thoughts",
    }
    assert not (config.out / "audit.jsonl").exists()
    assert "Shares of responses" in write_report(config.out).read_text("utf-8")
