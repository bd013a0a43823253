"""Checks that may take long, in processes that can be ended."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubric_core import Criterion, Grounding, JudgeView, Rubric
from rubric_judge import (
    HybridConfig,
    HybridJudge,
    LexicalConfig,
    LexicalJudge,
    SandboxError,
    parse_verification,
)
from rubric_judge.checks import execute
from rubric_judge.checks.deciding import (
    CheckResult,
    PastBoundError,
    QuickCheck,
    decide,
    decide_shortly,
)
from rubric_judge.checks.execute import run_check
from rubric_judge.testing import ScriptedJudge

pytestmark = pytest.mark.anyio

SLOW = "a" * 3_000 + "!"
PAST = CheckResult(0.0, "its pattern ran past 0.25 s")


def _check(method: str) -> QuickCheck:
    check = parse_verification(method)
    assert isinstance(check, QuickCheck)
    return check


BACKTRACKS = _check("regex: (a+)+$")


def _workers() -> list[int]:
    """Return the living children that decide checks."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        ours = int(state[1]) == os.getpid() and b"checks.worker" in command
        if ours and state[0] != "Z":
            found.append(int(folder.name))
    return found


async def _started() -> int:
    """Wait until some check is with a process, and return its number."""
    while not (found := _workers()):  # noqa: ASYNC110
        await anyio.sleep(0.01)  # another process says nothing to this loop
    return found[0]


@pytest.fixture
def no_process_from_before() -> None:
    execute._workers.end()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("regex: (a+)+$", SLOW),
        ("regex: ok$", "ok"),
        ("numeric: 5 m", "The value was 3 m, then 4 m. " * 600 + "It is 5 m."),
        ("numeric: 5 m; where=any", "1 " * 9_000),
        ("contains_all: drag | mass", "The drag of a mass. " * 9_000),
        ('json_schema: {"items": {"type": "integer"}}', json.dumps(list(range(9_000)))),
        ('json_schema: {"items": {"type": "integer"}}', json.dumps([0.5] * 9_000)),
        ('json_schema: {"contains": {"pattern": "(a+)+$"}}', json.dumps([SLOW] * 9)),
        ("json_schema: {}", "```json\n[]\n```" + " and" * 5_000),
    ],
)
async def test_a_check_is_decided_alike_here_and_there(method: str, text: str) -> None:
    check = _check(method)

    assert await run_check(check, text, regex_timeout_s=0.25) == decide(
        check, text, regex_timeout_s=0.25
    )


@pytest.mark.usefixtures("no_process_from_before")
async def test_what_is_quick_starts_no_process() -> None:
    for method in ("regex: ok$", "numeric: 5 m", "contains_any: ok", "json_schema: {}"):
        await run_check(_check(method), "It is 5 m, ok", regex_timeout_s=0.25)

    assert not _workers()


@pytest.mark.usefixtures("no_process_from_before")
async def test_the_event_loop_goes_on_while_a_check_runs() -> None:
    order: list[str] = []

    async def check() -> None:
        assert await run_check(BACKTRACKS, SLOW, regex_timeout_s=0.25) == PAST
        order.append("decided")

    async with anyio.create_task_group() as group:
        group.start_soon(check)
        await _started()
        order.append("went on")

    assert order == ["went on", "decided"]


@pytest.mark.usefixtures("no_process_from_before")
@pytest.mark.parametrize("kind", ["lexical", "hybrid"])
async def test_a_cancelled_judgement_ends_its_process(
    kind: str, make_view: Callable[..., JudgeView]
) -> None:
    rubric = Rubric(
        criteria=(Criterion(id="a", weight=1.0, verification_method="regex: (a+)+$"),)
    )
    judge = LexicalJudge(LexicalConfig(regex_timeout_s=60))
    if kind == "hybrid":
        config = HybridConfig.model_validate(
            {"judge": {"type": "lexical"}, "regex_timeout_s": 60}
        )
        judge = HybridJudge(ScriptedJudge(), config)

    with anyio.fail_after(600):
        async with anyio.create_task_group() as group:
            group.start_soon(judge.judge, make_view(SLOW, rubric=rubric))
            await _started()
            group.cancel_scope.cancel()

    assert not _workers()


@pytest.mark.slow
@pytest.mark.usefixtures("no_process_from_before")
async def test_a_process_that_somebody_ends_is_replaced() -> None:
    verdicts: list[CheckResult] = []

    async def check() -> None:
        verdicts.append(await run_check(BACKTRACKS, SLOW, regex_timeout_s=0.5))

    async with anyio.create_task_group() as group:
        group.start_soon(check)
        os.kill(await _started(), signal.SIGKILL)

    assert verdicts == [CheckResult(0.0, "its pattern ran past 0.5 s")]


class _Ends:
    """What ends the process that reads it."""

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return os.abort, ()


async def test_a_text_that_ends_its_process_every_time_earns_nothing() -> None:
    verdict = await anyio.to_thread.run_sync(
        execute._workers.decide,  # pyright: ignore[reportPrivateUsage]
        pickle.dumps(_Ends()),
        1.0,
    )

    assert verdict == CheckResult(0.0, "its check ended its process, twice")


@pytest.mark.usefixtures("no_process_from_before")
async def test_a_process_that_does_not_start_is_the_machines_doing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))

    with pytest.raises(SandboxError, match="did not start"):
        await run_check(BACKTRACKS, SLOW, regex_timeout_s=0.5)


@pytest.mark.usefixtures("no_process_from_before")
async def test_processor_time_has_a_limit_behind_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execute, "_CPU_S", 0.1)
    monkeypatch.setattr(execute, "_TRIES_OF_A_PATTERN", 0)

    verdict = await run_check(BACKTRACKS, SLOW, regex_timeout_s=60)

    assert verdict == CheckResult(0.0, "its check ran past 0.1 s of the processor")
    assert (await run_check(BACKTRACKS, SLOW, regex_timeout_s=0.01)).note


@pytest.mark.slow
@pytest.mark.usefixtures("no_process_from_before")
async def test_a_text_that_takes_too_much_memory_earns_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execute, "_MEMORY_BYTES", 190 << 20)

    verdict = await run_check(BACKTRACKS, SLOW + " " * (60 << 20), regex_timeout_s=0.25)

    assert verdict.share == 0.0
    assert verdict.note


METHODS = ("regex: drag", "regex: (a+)+$", "numeric: 12 m/s", "contains_any: lift | mass",
           'json_schema: {"type": "array"}', "", "sentences: first")  # fmt: skip


@given(
    st.lists(st.sampled_from(METHODS), min_size=1, max_size=4),
    st.text("a1[,] ", max_size=30),
    st.sampled_from([1, 700]),
)
@settings(max_examples=20, deadline=None)
async def test_the_lexical_judge_scores_alike_with_and_without_a_loop(
    methods: list[str], text: str, times: int
) -> None:
    rubric = Rubric(
        criteria=tuple(
            Criterion(id=f"c{n}", weight=1.0, verification_method=method)
            for n, method in enumerate(methods)
        )
    )
    view = JudgeView(
        task_id="t",
        question="q",
        grounding=Grounding("p"),
        response=f"The mass moves at 12 m/s. {text * times}",
        rubric=rubric,
    )

    assert await LexicalJudge().judge(view) == LexicalJudge().judge_now(view)


def test_what_is_quick_is_decided_within_a_hundredth_of_its_bounds() -> None:
    with pytest.raises(PastBoundError):
        decide_shortly(BACKTRACKS, SLOW)
    with pytest.raises(PastBoundError):
        decide_shortly(_check("numeric: 5 m"), "5 " * 9_000)
    with pytest.raises(PastBoundError):
        decide_shortly(_check("contains_all: a | b | c"), "a " * 50_000)
    assert decide_shortly(_check("regex: a"), "a " * 500_000) == CheckResult(1.0)


@pytest.mark.slow
def test_a_killed_judge_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "judge.py"
    script.write_text(
        "import anyio, os\n"
        "from rubric_judge import parse_verification\n"
        "from rubric_judge.checks.execute import run_check\n"
        "async def main():\n"
        "    check = parse_verification('regex: (a+)+$')\n"
        f"    await run_check(check, {SLOW!r}, regex_timeout_s=0.01)\n"
        "    if os.fork() == 0:  # has none of its parent's processes, and may start its own\n"
        "        print('child', flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "    print('up', flush=True)\n"
        f"    await run_check(check, {SLOW!r}, regex_timeout_s=3)\n"
        "anyio.run(main)\n"
    )
    judge = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert judge.stdout is not None
    lines = [judge.stdout.readline() for _ in range(2)]
    tasks = Path(f"/proc/{judge.pid}/task")
    children = [
        int(child)
        for task in tasks.iterdir()
        for child in (task / "children").read_text("utf-8").split()
    ]
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    judge.stdout.close()

    assert lines == [b"child\n", b"up\n"]
    assert children
    deadline_s = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
