"""Which sandbox runs unit tests: none, one, another, or one of several."""

from collections.abc import Callable
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from rubric_core import (
    ConfigError,
    Criterion,
    JudgeView,
    MissingExtraError,
    PluginError,
    Rubric,
)
from rubric_core.plugins import entry_points
from rubric_judge import (
    HybridConfig,
    HybridJudge,
    Sandbox,
    SandboxConfig,
    judge_spec,
    load_judge,
    load_replicas,
)
from rubric_judge.checks.execute import Programs
from rubric_judge.checks.python_tests import read_python_tests
from rubric_judge.checks.sandboxes import make_sandbox, sandbox_identity
from rubric_judge.cli import main
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.testing import ScriptedJudge

Install = Callable[[str, str, dict[str, dict[str, str]]], Path]
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_sandbox")]

TESTED = {"judge": {"type": "lexical"}, "python_tests": True}
CODED = "```python\ndef f(): return 1\n```"
CODE = Criterion(
    id="code", weight=4.0, verification_method="python_tests:\nassert f()\nassert 0"
)
EXACTLY = (
    "python_tests needs rubric-sandbox: run `uv pip install --no-sources "
    "./packages/rubric-sandbox './packages/rubric-judge[sandbox]'` in the checkout"
)

# Sandboxes that an installed package registers: they say what they were asked.
REMOTE = """
from rubric_judge import SandboxError, Tally


class Remote:
    def __init__(self, config):
        self.config = config

    def check_isolation(self):
        if self.config.options.get("down"):
            raise SandboxError("the service is down")

    def run_tests(self, code, tests, *, check):
        check()
        return Tally(code.count("def"), f"within {self.config.timeout_s:g} s")


def nothing(config):
    return object()


def broken(config):
    raise OSError("no route")
"""


@pytest.fixture
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the sandbox of rubric-sandbox, where it is installed."""
    read = entry_points._read

    def hiding(changed: tuple[tuple[str, int], ...], group: str) -> EntryPoints:
        return EntryPoints(
            entry
            for entry in read(changed, group)
            if entry.group != "rubric.sandboxes" or entry.name != "linux"
        )

    monkeypatch.setattr(entry_points, "_read", hiding)


@pytest.fixture
def remote(install_plugin: Install) -> None:
    install_plugin(
        "remote-sandbox",
        REMOTE,
        {"rubric.sandboxes": {"remote": "remote_sandbox:Remote"}},
    )


@pytest.fixture
def several(install_plugin: Install) -> None:
    targets = {
        "remote": "remote_sandbox:Remote",
        "nothing": "remote_sandbox:nothing",
        "broken": "remote_sandbox:broken",
    }
    install_plugin("remote-sandbox", REMOTE, {"rubric.sandboxes": targets})


def _config(**sandbox: object) -> HybridConfig:
    return HybridConfig.model_validate({**TESTED, "sandbox": sandbox})


# --- none -----------------------------------------------------------------------------------------


def test_without_the_extra_the_error_says_what_to_install() -> None:
    spec = judge_spec({"type": "hybrid", **TESTED})

    for build in (load_judge, load_replicas):
        with pytest.raises(MissingExtraError) as raised:
            build(spec)
        assert str(raised.value) == EXACTLY
    with pytest.raises(MissingExtraError, match="needs rubric-sandbox"):
        Programs(_config(name="linux"))


def test_without_the_extra_a_command_ends_before_anything_is_judged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    judge = tmp_path / "judge.yaml"
    judge.write_text("type: hybrid\npython_tests: true\njudge:\n  type: lexical\n")
    with pytest.raises(SystemExit):
        _command(monkeypatch, "init", "try")
    files = ("try/tasks.jsonl", "try/answers.jsonl")

    with pytest.raises(SystemExit) as end:
        _command(monkeypatch, "score", *files, "--judge", "judge.yaml", "--out", "out")

    assert end.value.code == 2
    assert EXACTLY in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def _command(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["rubric-judge", *words])
    main()


async def test_without_the_extra_all_other_checks_run(
    make_view: Callable[..., JudgeView],
) -> None:
    config = HybridConfig.model_validate({"judge": {"type": "lexical"}})
    named = Criterion(id="named", weight=1.0, verification_method="contains_all: drag")
    reader = ScriptedJudge(0.5)

    result = await HybridJudge(reader, config).judge(
        make_view("The drag.", rubric=Rubric(criteria=(named, CODE)))
    )

    assert result.scores == {"named": 1.0, "code": 2.0}
    assert [call.rubric.ids for call in reader.calls] == [("code",)]


# --- another --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("remote")
async def test_the_only_sandbox_that_is_installed_runs_the_tests(
    make_view: Callable[..., JudgeView],
) -> None:
    judge = HybridJudge(ScriptedJudge(1.0), _config(timeout_s=7))

    result = await judge.judge(make_view(CODED, rubric=Rubric(criteria=(CODE,))))

    assert isinstance(make_sandbox(SandboxConfig()), Sandbox)
    assert result.scores == {"code": 2.0}
    assert "1 of 2 tests passed; within 7 s" in result.reasoning


@pytest.mark.usefixtures("remote")
async def test_a_sandbox_counts_no_more_tests_than_there_are() -> None:
    programs = Programs(_config())
    code = "```python\n" + "def f(): return 1\n" * 9 + "```"

    verdict = await programs.run(read_python_tests("assert f()\nassert 0"), code)

    assert verdict.share == 1.0


@pytest.mark.usefixtures("remote")
def test_options_reach_the_sandbox_when_the_judge_is_made() -> None:
    with pytest.raises(RuntimeError, match="the service is down"):
        Programs(_config(options={"down": True}))


@pytest.mark.usefixtures("remote")
def test_another_sandbox_is_another_judge_to_a_ledger() -> None:
    reader = ScriptedJudge(1.0)
    configs = (_config(), _config(name="remote"), _config(options={"region": "b"}))
    of_remote = [fingerprint(HybridJudge(reader, config)) for config in configs]
    unused = HybridConfig.model_validate({"judge": {"type": "lexical"}})

    assert of_remote[0] == of_remote[1]
    assert of_remote[0] != of_remote[2]
    # What it was before there was a choice.
    assert "hybrid_v2 c0863da0cc74e8cc + a" not in of_remote
    assert fingerprint(HybridJudge(ScriptedJudge(1.0, name="a"), unused)) == (
        "hybrid_v2 ddcfb5712d5ba7ed + a"
    )


def test_settings_that_name_no_sandbox_are_written_as_before() -> None:
    assert _config().model_dump()["sandbox"] == {
        "isolation": "full",
        "timeout_s": 10,
        "cpu_s": 5,
        "memory_mb": 512,
        "at_once": 2,
    }
    assert _config(name="remote").model_dump()["sandbox"]["name"] == "remote"


# --- several --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("several")
def test_one_of_several_has_to_be_named() -> None:
    with pytest.raises(
        ConfigError,
        match=r"3 sandboxes are installed \(broken, nothing, remote\), and none is named; "
        r"write one of them as `sandbox: \{name: broken\}`",
    ) as raised:
        Programs(_config())

    assert raised.value.location == "sandbox.name"
    assert Programs(_config(name="remote")).identity == '["remote", {}]'


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("remot", "nothing called 'remot' is installed .* did you mean 'remote'"),
        ("nothing", "makes a object, which is no Sandbox: it needs `check_isolation`"),
        ("broken", "could not be built from its options: OSError: no route"),
    ],
)
def test_a_sandbox_that_cannot_be_had_is_named(name: str, problem: str) -> None:
    with pytest.raises(PluginError, match=problem):
        make_sandbox(SandboxConfig(name=name))


@pytest.mark.usefixtures("several")
def test_that_of_rubric_sandbox_has_no_part_in_a_fingerprint() -> None:
    assert sandbox_identity(SandboxConfig(name="remote")) == '["remote", {}]'
    with pytest.raises(MissingExtraError):
        sandbox_identity(SandboxConfig(name="linux"))
