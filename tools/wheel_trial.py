"""One wheel in an empty environment: installed alone, imported, started, tested."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]

TESTED_WITH = (
    "hypothesis>=6.120",
    "krippendorff>=0.8",
    "pytest>=9",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "scikit-learn>=1.5.2",
)
"""What `conftest.py` and the options in `pyproject.toml` need; the ranges are those of `dev`."""

PROBE = """
import importlib, importlib.metadata, sys
name, version = sys.argv[1:]
module = importlib.import_module(name.replace("-", "_"))
assert "site-packages" in module.__file__, module.__file__
assert module.__version__ == importlib.metadata.version(name) == version
for public in module.__all__:
    try:
        getattr(module, public)
    except ImportError as error:
        assert type(error).__name__ == "MissingExtraError", f"{public}: {error!r}"
"""
SHOWN_LINES = 15


class Wheel(NamedTuple):
    """A built member of the workspace, with the extras that its tests need: `ray,serve`."""

    name: str
    folder: Path
    path: Path
    extras: str


class FailedError(Exception):
    """A step of a trial ended badly; the message names it and holds the end of what it said."""


def without_upper_bounds(declared: Iterable[str]) -> list[str]:
    """Return the requirements that have upper bounds, without them: uv takes these instead.

    Members of the house keep theirs: they come from here.
    """
    opened: set[str] = set()
    for one in map(Requirement, declared):
        bounds = [
            str(part) for part in one.specifier if part.operator in {">", ">=", "!="}
        ]
        is_bounded = len(bounds) < len(one.specifier)
        pinned = [
            part.version for part in one.specifier if part.operator in {"==", "~="}
        ]
        one.specifier = SpecifierSet(
            ",".join(bounds + [f">={version}" for version in pinned])
        )
        if is_bounded and not one.name.startswith("rubric-"):
            opened.add(str(one))
    return sorted(opened)


@dataclass
class Trial:
    """The last of some wheels, tried with the others, which it requires.

    With `lowest-direct` every range that the house declares, those of the required members too, is
    at its lower bound, and what those in turn require at the highest version that fits. With
    `newest` the ranges of the house have no upper bounds.
    """

    folder: Path
    wheels: list[Wheel]
    python: str
    resolution: str

    @property
    def log(self) -> Path:
        """Where all that a failed step said is kept, beside the wheels."""
        wheel, python = self.wheels[-1], Path(self.python).name
        return (
            wheel.path.parent
            / "failed"
            / f"{wheel.name}-{python}-{self.resolution}.txt"
        )

    @property
    def environment(self) -> Path:
        """The virtual environment."""
        return self.folder / "environment"

    def install(self) -> None:
        """Install the wheel with nothing but what it requires; import it and start its commands.

        Raises:
            FailedError: the message says which step, and what it said.
        """
        venv = ["uv", "venv", "--quiet", "--python", self.python, str(self.environment)]
        self._call("making an environment", venv)
        self._install(extras=False)
        name = self.wheels[-1].name
        version = self.wheels[-1].path.name.split("-")[1]
        self._call("importing", [str(self._python), "-I", "-c", PROBE, name, version])
        for command in sorted((self.environment / "bin").glob("rubric-*")):
            self._call(f"{command.name} --help", [str(command), "--help"])

    def size_mb(self) -> float:
        """The environment on disk, bytecode included."""
        files = (path for path in self.environment.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files) / 1e6

    def test(self, arguments: list[str]) -> str:
        """Run the tests of the package in the checkout, without its sources on the path.

        Raises:
            FailedError: as `install`.

        Returns:
            How many passed, as pytest says it.
        """
        self._install(extras=True)
        tests = self.wheels[-1].folder / "tests"
        command = [
            str(self.environment / "bin/pytest"),
            "--quiet",
            "--rootdir",
            str(ROOT),
        ]
        command += [
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "-p",
            "no:cacheprovider",
        ]
        # What other releases warn of is no fault of ours; those of the lock are tested strictly.
        command += ["--tb=short", "--override-ini", "filterwarnings=default"]
        said = self._call("its tests", [*command, str(tests), *arguments], cwd=ROOT)
        # What a process says at its end comes after the count.
        return re.findall(r"^(\d+ passed.*) in [\d.]+s", said, re.MULTILINE)[-1]

    def _install(self, *, extras: bool) -> None:
        """Resolve from what the members declare, and install that and our wheels."""
        wanted = {
            name for wheel in self.wheels for name in wheel.extras.split(",") if name
        }
        tools = self.folder / "tools.txt"
        tools.write_text("\n".join(TESTED_WITH if extras else ()), "utf-8")
        pins = self.folder / "pins.txt"
        options = ["--resolution", self.resolution]
        if self.resolution == "newest":
            open_ended = self.folder / "open_ended.txt"
            open_ended.write_text(
                "\n".join(without_upper_bounds(self._declared())), "utf-8"
            )
            options = ["--resolution", "highest", "--override", str(open_ended)]
        links = [
            "--find-links",
            str(self.wheels[0].path.parent),
            "--no-sources",
            "--no-config",
        ]
        self._call(
            "resolving",
            ["uv", "pip", "compile", "--quiet", *options, *links]
            + ["--python", str(self._python), "--output-file", str(pins), "--no-header"]
            + [
                part
                for wheel in self.wheels
                for part in ("--no-emit-package", wheel.name)
            ]
            + [part for name in sorted(wanted) if extras for part in ("--extra", name)]
            + [str(wheel.folder / "pyproject.toml") for wheel in self.wheels]
            + [str(tools)],
        )
        install = [
            "uv",
            "pip",
            "install",
            "--quiet",
            "--no-config",
            "--python",
            str(self._python),
        ]
        self._call("installing what it requires", [*install, "-r", str(pins)])
        # Their requirements are met now; with `--no-deps` a wheel of the house comes from here.
        wheels = [str(wheel.path) for wheel in self.wheels]
        self._call("installing the wheel", [*install, "--no-deps", *wheels])
        self._call(
            "checking requirements",
            ["uv", "pip", "check", "--python", str(self._python)],
        )

    def _declared(self) -> Iterator[str]:
        for wheel in self.wheels:
            text = (wheel.folder / "pyproject.toml").read_text("utf-8")
            project = tomllib.loads(text)["project"]
            yield from project["dependencies"]
            for extra in project.get("optional-dependencies", {}).values():
                yield from extra

    @property
    def _python(self) -> Path:
        return self.environment / "bin/python"

    def _call(self, step: str, command: list[str], cwd: Path | None = None) -> str:
        # Neither a path to sources nor an active environment may stand in for what is installed.
        hidden = {"PYTHONPATH", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "PYTHONHOME"}
        kept = {name: value for name, value in os.environ.items() if name not in hidden}  # noqa: TID251  # passed on to a child
        path = f"{self.environment / 'bin'}{os.pathsep}{kept.get('PATH', '')}"
        done = subprocess.run(
            command,
            cwd=cwd or self.folder,
            env={**kept, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            self.log.parent.mkdir(exist_ok=True)
            self.log.write_text(done.stdout, "utf-8")
            # Libraries may say more at a process's end than fits after what failed.
            said = done.stdout.strip().rpartition("short test summary info")
            lines = said[2].splitlines()
            end = "\n".join(
                lines[1 : SHOWN_LINES + 1] if said[1] else lines[-SHOWN_LINES:]
            )
            raise FailedError(
                f"{step} ended with {done.returncode}, all of it in {self.log}\n{end}"
            )
        return done.stdout


if __name__ == "__main__":
    sys.exit("Run tools/release.py, which builds the wheels first.")
