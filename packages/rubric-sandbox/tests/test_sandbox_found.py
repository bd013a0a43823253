"""Judges find the sandbox: in this process, in Ray's workers and in a server."""

import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    Grounding,
    JudgeView,
    Outcome,
    Reason,
    Rubric,
    Task,
    write_tasks,
)
from rubric_judge import (
    HybridConfig,
    HybridJudge,
    RayJudgePool,
    SandboxConfig,
)
from rubric_judge.checks.sandboxes import make_sandbox
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.testing import ScriptedJudge
from rubric_sandbox import LinuxSandbox

pytestmark = pytest.mark.anyio

WITH_TESTS = HybridConfig.model_validate(
    {"judge": {"type": "lexical"}, "python_tests": True}
)
CODE = Criterion(
    id="code",
    weight=4.0,
    verification_method="python_tests:\nassert f(2) == 4\nassert f(3) == 9\nassert f(-1) == 1",
)
PROSE = Criterion(id="prose", weight=3.0, description="Explains why drag matters.")
CODED = "It squares.\n```python\ndef f(x):\n    return x * abs(x)\n```"
SAID = "code 0.667 (2 of 3 tests passed; the first failed test raised AssertionError)"


def _view(response: str, *criteria: Criterion) -> JudgeView:
    return JudgeView(
        task_id="t",
        question="Square a number.",
        grounding=Grounding("A square is a product."),
        response=response,
        rubric=Rubric(criteria=criteria),
    )


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> None:
    """Look for nothing: Ray leaves descriptors to the end of the process."""


async def test_unit_tests_give_the_share_that_passes() -> None:
    judge = HybridJudge(ScriptedJudge(1.0), WITH_TESTS)

    result = await judge.judge(_view(CODED, PROSE, CODE))
    without = await judge.judge(_view("No code.", CODE))

    assert result.scores == {"prose": 3.0, "code": pytest.approx(8 / 3)}
    assert SAID in result.reasoning
    assert without.scores == {"code": 0.0}


async def test_a_sandbox_that_does_not_start_is_not_the_responses_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge = HybridJudge(ScriptedJudge(1.0), WITH_TESTS)
    monkeypatch.setattr("sys.executable", "/nowhere/python")

    result = await judge.judge(_view(CODED, CODE))

    assert (result.outcome, result.reason) == (Outcome.UNAVAILABLE, Reason.JUDGE_ERROR)
    assert "no process could be started" in result.detail


def test_judgements_of_before_are_found_again_with_and_without_the_name() -> None:
    """The fingerprints are those of the release that had the sandbox in `rubric-judge`."""
    reader = ScriptedJudge(1.0, name="a")
    limits = {"isolation": "files_readable", "timeout_s": 4, "at_once": 9}
    found = [
        fingerprint(HybridJudge(reader, HybridConfig.model_validate(values)))
        for more in ({}, {"name": "linux"})
        for values in (
            {**WITH_TESTS.model_dump(exclude={"sandbox"}), "sandbox": more},
            {**WITH_TESTS.model_dump(exclude={"sandbox"}), "sandbox": limits | more},
        )
    ]

    assert found == 2 * [
        "hybrid_v2 c0863da0cc74e8cc + a",
        "hybrid_v2 425bec9b55a3c65f + a",
    ]


def test_it_has_a_name_and_no_options() -> None:
    assert isinstance(make_sandbox(SandboxConfig(name="linux")), LinuxSandbox)
    with pytest.raises(ConfigError, match="'linux' has no options, and 1 are given"):
        LinuxSandbox(SandboxConfig(options={"region": "b"}))


def test_beside_another_it_has_to_be_named(
    install_plugin: Callable[[str, str, dict[str, dict[str, str]]], Path],
) -> None:
    points = {"rubric.sandboxes": {"other": "other_sandbox:make"}}
    install_plugin("other-sandbox", "def make(config): ...\n", points)

    with pytest.raises(
        ConfigError, match=r"2 sandboxes are installed \(linux, other\)"
    ):
        make_sandbox(SandboxConfig())
    assert isinstance(make_sandbox(SandboxConfig(name="linux")), LinuxSandbox)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_workers_of_ray_find_it() -> None:
    pytest.importorskip("ray")
    pool = RayJudgePool(WITH_TESTS, actors=1)

    (result,) = await pool.judge_all([_view(CODED, CODE)])
    await pool.aclose()

    assert result.scores["code"] == pytest.approx(8 / 3)
    assert SAID in result.reasoning


@pytest.mark.slow
def test_a_server_finds_it(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    task = Task(
        question="Square a number.",
        grounding=Grounding("A square is a product."),
        rubric=Rubric(criteria=(CODE,)),
    )
    write_tasks(tmp_path / "tasks.jsonl", [task])
    judge = "type: hybrid\npython_tests: true\njudge:\n  type: lexical\n"
    (tmp_path / "judge.yaml").write_text(judge, "utf-8")
    call = "from rubric_judge.cli import main; main()"
    options = [
        "serve",
        "--judge",
        "judge.yaml",
        "--tasks",
        "tasks.jsonl",
        "--port",
        "0",
    ]
    body = {"items": [{"task_id": task.task_id, "response": CODED}]}

    with subprocess.Popen(
        [sys.executable, "-c", call, *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        watch = threading.Timer(600, server.kill)
        watch.start()
        try:
            assert server.stdout is not None
            (url,) = re.findall(r"http://\S+", server.stdout.readline())
            request = urllib.request.Request(  # noqa: S310  # our own
                f"{url}/v1/judge",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request) as answer:  # noqa: S310
                (row,) = json.load(answer)["results"]
        finally:
            watch.cancel()
            server.kill()

    assert row["reward"] == pytest.approx(2 / 3)
