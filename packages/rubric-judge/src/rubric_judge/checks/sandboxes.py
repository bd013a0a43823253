"""Sandboxes that run the unit tests of `python_tests:`, which installed packages add.

A package adds one with `[project.entry-points."rubric.sandboxes"] NAME = "module:factory"`, where
`factory(config)` returns a `Sandbox`. That of `rubric-sandbox`, `linux`, comes with the extra
`sandbox`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rubric_core import ConfigError, MissingExtraError, PluginError
from rubric_core.errors import install_command
from rubric_core.plugins.entry_points import find_factory, plugin_names
from rubric_judge.config import SandboxConfig

SANDBOXES = "rubric.sandboxes"
_OURS = "linux"


@dataclass(frozen=True)
class Tally:
    """How the tests of one response ended."""

    passed: int
    note: str = ""
    """Why not all passed; no text of the response or the tests."""


@runtime_checkable
class Sandbox(Protocol):
    """Runs unit tests against the code of a response, which is untrusted.

    It is made of a `SandboxConfig`, whose limits it keeps. Its methods block, and are called from
    several threads at a time (`sandbox.at_once`).
    """

    def check_isolation(self) -> None:
        """See that code can be confined here as the settings ask; called when a judge is made.

        Raises:
            SandboxError: it cannot; says what is missing and what to set.
        """
        ...

    def run_tests(self, code: str, tests: str, *, check: Callable[[], object]) -> Tally:
        """Run tests against code.

        Args:
            code: the response's code; its names are those that the tests mention, and it can be
                imported as `solution`.
            tests: the source of the tests, from `rubric_judge.checks.python_tests`.
            check: to be called about ten times a second; what it raises ends the run and is raised.

        Returns:
            The number of tests that passed; 0 for code that runs past a limit. Whatever the code
            does ends in a tally, never in an error, which would mask the response.

        Raises:
            SandboxError: the code could not be run, for a reason that is the machine's.
        """
        ...


class SandboxFactory(Protocol):
    """Makes a sandbox; the target of an entry point."""

    def __call__(self, config: SandboxConfig, /) -> Sandbox:
        """Make the sandbox, or raise ConfigError for `options` that do not fit."""
        ...


def chosen_sandbox(config: SandboxConfig) -> str:
    """Return the name of the sandbox to use: the one that is configured, or the only one.

    Args:
        config: its settings.

    Raises:
        MissingExtraError: none is installed; says how.
        ConfigError: several are installed, and none is named.
    """
    installed = plugin_names(SANDBOXES)
    if config.name is None and len(installed) > 1:
        raise ConfigError(
            f"python_tests: {len(installed)} sandboxes are installed ({', '.join(installed)}), "
            f"and none is named; write one of them as `sandbox: {{name: {installed[0]}}}`",
            location="sandbox.name",
        )
    name = config.name or (installed[0] if installed else _OURS)
    if name == _OURS and name not in installed:
        remedy = install_command("rubric-judge", "sandbox", beside=("rubric-sandbox",))
        raise MissingExtraError(f"python_tests needs rubric-sandbox: {remedy}")
    return name


def make_sandbox(config: SandboxConfig) -> Sandbox:
    """Make the sandbox of a configuration; nothing is run.

    Args:
        config: its name, limits and options.

    Raises:
        MissingExtraError: none is installed.
        ConfigError: several are installed and none is named, or its options do not fit.
        PluginError: the one that is named is not installed, cannot be made, or is no `Sandbox`.
    """
    name = chosen_sandbox(config)
    sandbox = find_factory(name, group=SANDBOXES)(config)
    if not isinstance(sandbox, Sandbox):
        raise PluginError(
            f"{name!r} in {SANDBOXES!r} makes a {type(sandbox).__name__}, which is no Sandbox: "
            "it needs `check_isolation` and `run_tests`"
        )
    return sandbox


def sandbox_identity(config: SandboxConfig) -> str:
    """Return which sandbox runs tests, for a fingerprint; empty for that of `rubric-sandbox`.

    Fingerprints from before there was a choice are those of that one.

    Raises:
        MissingExtraError, ConfigError: as `chosen_sandbox`.
    """
    name = chosen_sandbox(config)
    if name == _OURS and not config.options:
        return ""
    return json.dumps([name, config.options], sort_keys=True)
