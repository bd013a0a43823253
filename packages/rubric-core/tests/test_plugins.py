import asyncio
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core import (
    ConfigError,
    JudgeResult,
    PluginError,
    Task,
    find_judge,
    find_trainer,
    judge_names,
    trainer_names,
)
from rubric_core.plugins.entry_points import Judge, TrainerBackend

Install = Callable[..., None]
MODULE = """
from pathlib import Path

from rubric_core import ConfigError, JudgeResult


class Generous:
    def __init__(self, options):
        self.name = f"generous-{options['version']}"

    async def judge(self, view):
        return JudgeResult.scored(
            view.rubric, {c.id: c.weight for c in view.rubric}, judge=self.name
        )


class Trainer:
    name = "paper-planes"

    def plan(self, config):
        return f"fold {config['sheets']} sheets"

    def run(self, config, *, resume=False):
        return Path("out")


class Raising:
    def __init__(self, *options):
        if options and options[0] == "ours":
            raise ConfigError("my own words")
        raise ValueError(f"cannot use {options}\\nat all")


NOT_CALLABLE = 3
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution with one module and the entry points given, for this test."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def _install(name: str, *, judges: str = "", trainers: str = "") -> None:
        module = name.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(MODULE, "utf-8")
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(
            textwrap.dedent(f"""
                [rubric.judges]
                {judges}
                [rubric.trainers]
                {trainers}
            """)
        )
        monkeypatch.delitem(sys.modules, module, raising=False)

    return _install


def test_an_installed_judge_is_found_and_judges(install: Install, task: Task) -> None:
    install("acme-judges", judges="acme-generous = acme_judges:Generous")

    judge = find_judge("acme-generous")({"version": 2})
    result = asyncio.run(judge.judge(task.judge_view("y")))

    assert isinstance(judge, Judge)
    assert "acme-generous" in judge_names()
    assert isinstance(result, JudgeResult)
    assert (result.judge, result.total) == ("generous-2", 5.0)


def test_an_installed_trainer_is_found_and_plans(install: Install) -> None:
    install("acme-trainers", trainers="acme-planes = acme_trainers:Trainer")

    trainer = find_trainer("acme-planes")

    assert isinstance(trainer, TrainerBackend)
    assert "acme-planes" in trainer_names()
    assert trainer.plan({"sheets": 3}) == "fold 3 sheets"
    assert trainer.run({}) == Path("out")


def test_names_are_sorted(install: Install) -> None:
    install("acme-two", judges="zz = acme_two:Generous\naa = acme_two:Generous")

    assert list(judge_names()) == sorted(judge_names())
    assert {"aa", "zz"} <= set(judge_names())


def test_an_unknown_name_suggests_the_nearest(install: Install) -> None:
    install("acme-judges", judges="acme-generous = acme_judges:Generous")

    with pytest.raises(
        PluginError, match=r"'acme-genrous'.*did you mean 'acme-generous'\?"
    ):
        find_judge("acme-genrous")


def test_an_unknown_name_near_to_none_lists_what_is_there(install: Install) -> None:
    install("acme-judges", judges="acme-generous = acme_judges:Generous")

    with pytest.raises(PluginError, match=r"installed: .*acme-generous"):
        find_judge("qqqqqqqq")


def test_a_name_in_two_packages_is_ambiguous(install: Install) -> None:
    install("acme-one", judges="acme-generous = acme_one:Generous")
    install("acme-two", judges="acme-generous = acme_two:Generous")

    with pytest.raises(
        PluginError, match=r"\(acme-one, acme-two\): uninstall all but one"
    ):
        find_judge("acme-generous")


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("acme_absent:Generous", "does not load: No module named 'acme_absent'"),
        ("acme_judges:Absent", "does not load"),
        ("acme_judges:NOT_CALLABLE", "cannot be called"),
    ],
)
def test_a_target_that_is_no_factory_is_refused(
    install: Install, target: str, problem: str
) -> None:
    install("acme-judges", judges=f"acme-broken = {target}")

    with pytest.raises(PluginError, match=problem):
        find_judge("acme-broken")


def test_a_trainer_that_is_none_is_refused(install: Install) -> None:
    install("acme-trainers", trainers="acme-dict = builtins:dict")

    with pytest.raises(PluginError, match="makes a dict, not a TrainerBackend"):
        find_trainer("acme-dict")


def test_without_any_plugin_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])

    with pytest.raises(PluginError, match="installed: none"):
        find_trainer("local")


def test_a_factory_that_raises_is_an_error_of_the_plugin(install: Install) -> None:
    install(
        "acme-bad",
        judges="acme-bad = acme_bad:Raising",
        trainers="acme-bad = acme_bad:Raising",
    )

    with pytest.raises(
        PluginError, match=r"'acme-bad' .* built from its options: ValueError: .*3"
    ) as e:
        find_judge("acme-bad")({"size": 3})
    assert "at all" not in str(e.value)
    with pytest.raises(PluginError, match=r"options: ValueError$"):
        find_judge("acme-bad")({"key": "sk-abcdefghijklmnop1234"})
    with pytest.raises(PluginError, match="ValueError"):
        find_trainer("acme-bad")
    with pytest.raises(ConfigError, match="my own words"):
        find_judge("acme-bad")("ours")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("raise ValueError('no licence')", "does not load: ValueError: no licence"),
        ("raise SystemExit(3)", "does not load: SystemExit: 3"),
        ("def f(:", "does not load: SyntaxError"),
    ],
)
def test_a_module_that_fails_when_it_is_imported_is_named(
    install: Install, tmp_path: Path, statement: str, problem: str
) -> None:
    install("acme-broken", judges="acme-broken = acme_broken:Generous")
    (tmp_path / "acme_broken.py").write_text(statement)

    with pytest.raises(PluginError, match=problem):
        find_judge("acme-broken")
