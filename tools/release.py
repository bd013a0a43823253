# /// script
# requires-python = ">=3.11"
# dependencies = ["packaging>=24"]
# ///
"""Build the six packages, check that they are in step and whole, and try each wheel alone.

    uv run tools/release.py                      # all packages, every Python they name
    uv run tools/release.py --build-only --tag v0.1.0
    uv run tools/release.py --package rubric-core --python 3.11 --resolution lowest-direct
    uv run tools/release.py --no-tests --resolution newest      # above our ranges too

A trial (`wheel_trial.py`) installs a wheel and what it requires into an empty environment, imports
it, starts its command, checks every licence, and runs the package's own tests there. At the highest
versions it also writes a bill of materials (`materials.py`) beside the wheels; `--audit` makes it
look each version up among the known vulnerabilities. Ends with 1 where anything is wrong.
"""

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import materials
import wheel_trial
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
RESOLUTIONS = ("highest", "lowest-direct", "newest")
"""The two ends of our ranges, which a release is tried at, and what lies above them."""
UNTRIED = {"smollm2"}
"""Outside the workspace, which amends its metadata, it compiles llama.cpp; tests skip it."""


class Package(NamedTuple):
    """A member of the workspace."""

    folder: Path
    project: dict[str, Any]

    @property
    def name(self) -> str:
        """As it is installed: `rubric-core`."""
        return self.project["name"]

    @property
    def source(self) -> Path:
        """The folder that is imported."""
        return self.folder / "src" / self.name.replace("-", "_")

    @property
    def pythons(self) -> list[str]:
        """The versions that its classifiers name, ascending."""
        found = re.findall(r"Python :: (3\.\d+)", " ".join(self.project["classifiers"]))
        return sorted(found, key=Version)


def read_packages(root: Path) -> dict[str, Package]:
    """Return the members by name."""
    found = (
        Package(path.parent, tomllib.loads(path.read_text("utf-8"))["project"])
        for path in sorted(root.glob("packages/*/pyproject.toml"))
    )
    return {package.name: package for package in found}


def required_of_house(name: str, packages: dict[str, Package]) -> list[str]:
    """Return the members that a member requires, itself last."""
    needed = {Requirement(text).name for text in packages[name].project["dependencies"]}
    return [one for one in packages if one in needed] + [name]


def version_faults(root: Path, tag: str | None = None) -> list[str]:
    """Say where versions are out of step, with one another or with a tag `v1.2.3`."""
    packages = read_packages(root)
    workspace = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"][
        "version"
    ]
    faults: list[str] = []
    for name, package in packages.items():
        version = package.project["version"]
        if version != workspace:
            faults.append(
                f"{name}: version {version}, and the workspace has {workspace}"
            )
        if (imported := _version_of(package.source / "__init__.py")) != version:
            faults.append(f"{name}: version {version}, and __version__ is {imported}")
        faults += [
            f"{name}: requires {requirement}, which {workspace} is not in"
            for requirement in map(Requirement, declared_by(package))
            if requirement.name in packages
            and not requirement.specifier.contains(workspace)
        ]
    if tag is not None:
        if tag != f"v{workspace}":
            faults.append(
                f"tag {tag}, and the packages have version {workspace}: tag v{workspace}"
            )
        if f"## [{workspace}]" not in (root / "CHANGELOG.md").read_text("utf-8"):
            faults.append(
                f"CHANGELOG.md has no section [{workspace}]: give [Unreleased] its name"
            )
    return faults


def declared_by(package: Package) -> list[str]:
    """Return what a member requires, and what its extras do."""
    extras = package.project.get("optional-dependencies", {}).values()
    return [
        *package.project["dependencies"],
        *(one for extra in extras for one in extra),
    ]


def _version_of(module: Path) -> str | None:
    for node in ast.parse(module.read_text("utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__version__"
        ):
            return ast.literal_eval(node.value)
    return None


def build(out: Path, root: Path = ROOT) -> None:
    """Build every source archive, and every wheel from its source archive."""
    command = [
        "uv",
        "build",
        "--quiet",
        "--no-sources",
        "--all-packages",
        "--out-dir",
        str(out),
    ]
    subprocess.run(command, cwd=root, check=True)


def wheel_of(name: str, out: Path) -> Path:
    """Return the one wheel of a package.

    Raises:
        FileNotFoundError: there is none, or more than one.
    """
    found = sorted(out.glob(f"{name.replace('-', '_')}-*.whl"))
    if len(found) != 1:
        raise FileNotFoundError(
            f"{out}: {len(found)} wheels of {name}, not 1; empty the folder"
        )
    return found[0]


def content_faults(package: Package, out: Path) -> list[str]:
    """Say which files a wheel and its source archive hold too many or lack."""
    wheel = wheel_of(package.name, out)
    archive = out / f"{wheel.name.split('-py3')[0]}.tar.gz"
    there = {
        path
        for path in package.source.parent.rglob("*")  # a wheel may hold several modules
        if path.is_file() and path.suffix != ".pyc"
    }
    module = {path.relative_to(package.source.parent).as_posix() for path in there}
    with zipfile.ZipFile(wheel) as opened:
        files = {name for name in opened.namelist() if not name.endswith("/")}
    info = f"{wheel.name.split('-py3')[0]}.dist-info"
    licences = {f"licenses/{name}" for name in package.project["license-files"]}
    facts = {"METADATA", "RECORD", "WHEEL"} | licences
    if "scripts" in package.project or "entry-points" in package.project:
        facts.add("entry_points.txt")
    with tarfile.open(archive) as opened:
        sources = {
            member.name.partition("/")[2] for member in opened if member.isfile()
        }
        sources.discard("pyproject.toml.orig")  # newer releases of uv_build keep it
    beside = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    return [
        *_differences(wheel.name, files, module | {f"{info}/{name}" for name in facts}),
        *_differences(
            archive.name, sources, beside | {f"src/{name}" for name in module}
        ),
    ]


def _differences(where: str, found: set[str], expected: set[str]) -> Iterator[str]:
    yield from (f"{where}: lacks {name}" for name in sorted(expected - found))
    yield from (f"{where}: holds {name}" for name in sorted(found - expected))


def tried_extras(root: Path) -> dict[str, str]:
    """Return the extras that the tests of each package need, `ray,serve`: those of group `dev`."""
    groups = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))[
        "dependency-groups"
    ]
    found = map(Requirement, groups["dev"])
    return {one.name: ",".join(sorted(one.extras - UNTRIED)) for one in found}


def try_all(options: argparse.Namespace, packages: dict[str, Package]) -> list[str]:
    """Try the chosen wheels, print a row for each, and return what is wrong."""
    extras = tried_extras(ROOT)
    faults: list[str] = []
    for name in options.package or packages:
        wheels = [
            wheel_trial.Wheel(
                one, packages[one].folder, wheel_of(one, options.out), extras[one]
            )
            for one in required_of_house(name, packages)
        ]
        for python in options.python or packages[name].pythons:
            for resolution in options.resolution:
                with tempfile.TemporaryDirectory() as folder:
                    trial = wheel_trial.Trial(Path(folder), wheels, python, resolution)
                    faults += try_one(trial, options, set(packages))
    return faults


def try_one(
    trial: wheel_trial.Trial, options: argparse.Namespace, ours: set[str]
) -> list[str]:
    """Install, look at what came with it, test; print what was seen, and return what is wrong."""
    start, name = time.monotonic(), trial.wheels[-1].name
    print(f"{name}, Python {trial.python}, {trial.resolution}: ", end="", flush=True)
    try:
        trial.install()
        brought = materials.installed(trial.environment)
        print(
            f"{len(brought)} packages, {trial.size_mb():.0f} MB", end="; ", flush=True
        )
        faults = materials.licence_faults(brought)
        if trial.resolution == "highest":
            materials.write_bill(
                trial.environment, options.out / "bills" / f"{name}.cdx.json"
            )
            faults += materials.audit(trial.environment, ours) if options.audit else []
        if not options.no_tests:
            print(trial.test(options.pytest), end="; ", flush=True)
            faults += materials.licence_faults(materials.installed(trial.environment))
    except wheel_trial.FailedError as failure:
        faults = [str(failure)]
    print(
        f"{'FAILED' if faults else 'good'}, {time.monotonic() - start:.0f} s",
        flush=True,
    )
    for fault in faults:
        print(f"  {fault}", file=sys.stderr, flush=True)
    return faults


def entries(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing where there is none."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def is_written(place: Path) -> bool:
    """Tell whether a release writes such a thing, and may therefore replace it."""
    return any(map(place.match, ("*.whl", "*.tar.gz", "bills", "failed", ".gitignore")))


def main(arguments: list[str] | None = None) -> int:
    """Check, build and try; say each fault, and return 1 where there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="folder of the wheels"
    )
    parser.add_argument("--tag", help="`v1.2.3`, as it is about to be published")
    parser.add_argument("--build-only", action="store_true", help="try nothing")
    parser.add_argument("--package", nargs="+", choices=sorted(read_packages(ROOT)))
    parser.add_argument(
        "--python", nargs="+", help="versions, or paths; all that are supported"
    )
    parser.add_argument(
        "--resolution", nargs="+", choices=RESOLUTIONS, default=RESOLUTIONS[:2]
    )
    parser.add_argument(
        "--no-tests", action="store_true", help="install, import and start only"
    )
    parser.add_argument(
        "--audit", action="store_true", help="look for known vulnerabilities"
    )
    parser.add_argument(
        "--pytest", nargs="*", default=[], help="more arguments of pytest"
    )
    options = parser.parse_args(arguments)
    packages = read_packages(ROOT)
    faults = version_faults(ROOT, options.tag)
    if not faults:
        if strange := next(
            (one for one in entries(options.out) if not is_written(one)), None
        ):
            parser.error(
                f"--out {options.out} holds {strange.name}: name an empty folder"
            )
        shutil.rmtree(options.out, ignore_errors=True)
        build(options.out)
        faults = [
            fault
            for one in packages.values()
            for fault in content_faults(one, options.out)
        ]
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults and not options.build_only:
        faults = try_all(options, packages)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
