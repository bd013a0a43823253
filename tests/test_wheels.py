"""The wheels, and `tools/release.py`, which builds, checks and tries them."""

import email.message
import email.parser
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "tools"
WORKFLOWS = ROOT / ".github" / "workflows"
PACKAGES = sorted(path.name for path in (ROOT / "packages").iterdir())


@pytest.fixture(scope="module")
def tools() -> Any:
    """The module `release`, with `materials` and `wheel_trial` beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        import release

        return release


@pytest.fixture(scope="module")
def built(tools: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheels")
    tools.build(out)
    return out


def metadata_of(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (
            name for name in archive.namelist() if name.endswith(".dist-info/METADATA")
        )
        return email.parser.Parser().parsestr(archive.read(name).decode())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the check of versions reads."""
    files = ["pyproject.toml", "CHANGELOG.md"]
    for package in PACKAGES:
        folder = f"packages/{package}"
        files += [f"{folder}/pyproject.toml"]
        files += [f"{folder}/src/{package.replace('-', '_')}/__init__.py"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_all_versions_are_in_step(tools: Any) -> None:
    assert tools.version_faults(ROOT) == []


def test_each_version_out_of_step_is_named(tools: Any, checkout: Path) -> None:
    judge = checkout / "packages/rubric-judge/pyproject.toml"
    judge.write_text(
        judge.read_text("utf-8")
        .replace('version = "0.1.0"', 'version = "0.2.0"')
        .replace("rubric-sandbox>=0.1,<0.2", "rubric-sandbox>=0.2")
    )
    module = checkout / "packages/rubric-core/src/rubric_core/__init__.py"
    module.write_text(module.read_text("utf-8").replace('"0.1.0"', '"0.1.1"'))
    synth = checkout / "packages/rubric-synth/pyproject.toml"
    synth.write_text(
        synth.read_text("utf-8").replace("rubric-core>=0.1,<0.2", "rubric-core>=0.2")
    )

    assert tools.version_faults(checkout) == [
        "rubric-core: version 0.1.0, and __version__ is 0.1.1",
        "rubric-judge: version 0.2.0, and the workspace has 0.1.0",
        "rubric-judge: version 0.2.0, and __version__ is 0.1.0",
        "rubric-judge: requires rubric-sandbox>=0.2, which 0.1.0 is not in",
        "rubric-synth: requires rubric-core>=0.2, which 0.1.0 is not in",
    ]


def test_a_tag_is_that_of_the_version_and_of_a_section_of_the_changelog(
    tools: Any, checkout: Path
) -> None:
    assert len(tools.version_faults(checkout, "v0.2.0")) == 2
    changelog = checkout / "CHANGELOG.md"
    changelog.write_text(
        changelog.read_text("utf-8").replace("[Unreleased]", "[0.1.0]", 1)
    )

    assert tools.version_faults(checkout, "v0.1.0") == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_licence_is_that_of_the_repository(package: str) -> None:
    licence = ROOT / "packages" / package / "LICENSE"

    assert licence.read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_says_what_it_is(package: str, built: Path, tools: Any) -> None:
    metadata = metadata_of(tools.wheel_of(package, built))
    project = tools.read_packages(ROOT)[package].project

    assert metadata["Name"] == package
    assert metadata["Version"] == project["version"]
    assert metadata["Summary"] == project["description"]
    # rubric-judge holds tables made of WordNet, with the licence beside them.
    words = " AND LicenseRef-WordNet-3.0" if package == "rubric-judge" else ""
    assert metadata["License-Expression"] == f"Apache-2.0{words}"
    assert set(metadata.get_all("License-File") or ()) >= {"LICENSE"}
    assert metadata["Author"] == "The rubric-rewards authors"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert metadata["Keywords"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).startswith("# ")


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_and_its_source_archive_hold_every_file_of_the_package_and_no_other(
    package: str, built: Path, tools: Any
) -> None:
    found = tools.read_packages(ROOT)[package]

    assert tools.content_faults(found, built) == []
    assert (found.source / "py.typed").exists()


@pytest.mark.slow
def test_what_a_wheel_lacks_or_holds_too_much_is_named(
    built: Path, tools: Any, tmp_path: Path
) -> None:
    wheel = tools.wheel_of("rubric-core", built)
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    with (
        zipfile.ZipFile(wheel) as whole,
        zipfile.ZipFile(tmp_path / wheel.name, "w") as other,
    ):
        for name in whole.namelist():
            if name != "rubric_core/py.typed":
                other.writestr(name, whole.read(name))
        other.writestr("tests/test_core.py", "")

    assert tools.content_faults(tools.read_packages(ROOT)["rubric-core"], tmp_path) == [
        f"{wheel.name}: lacks rubric_core/py.typed",
        f"{wheel.name}: holds tests/test_core.py",
    ]


@pytest.mark.slow
def test_what_init_writes_and_what_pages_and_tables_are_made_of_is_in_the_wheels(
    built: Path, tools: Any
) -> None:
    names = {
        name
        for package in PACKAGES
        for name in zipfile.ZipFile(tools.wheel_of(package, built)).namelist()
    }

    assert names >= {
        "rubric_judge/starting/lexical.yaml",
        "rubric_judge/starting/tasks.jsonl",
        "rubric_judge/ui/page/templates/frame.html.j2",
        "rubric_sandbox/system_calls.txt",
        "rubric_synth/tables/facts.toml",
        "rubric_train_openrlhf/starting/tiny.yaml",
    }


def distribution(folder: Path, name: str, *facts: str) -> Distribution:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *facts]
    (info / "METADATA").write_text("\n".join(lines) + "\n", "utf-8")
    return Distribution.at(info)


@pytest.mark.parametrize(
    ("facts", "permissive"),
    [
        (["License-Expression: BSD-3-Clause AND Zlib"], True),
        (["License-Expression: GPL-2.0-only OR MIT"], True),
        (["License-Expression: Apache-2.0 WITH LLVM-exception"], True),
        (["License-Expression: MIT AND GPL-3.0-or-later"], False),
        (["License: MIT License"], True),
        (["License: All rights reserved"], False),
        (["License: Proprietary, limited use"], False),
        (
            [
                "Classifier: License :: OSI Approved :: GNU Affero General Public License v3"
            ],
            False,
        ),
        ([], False),
    ],
)
def test_a_licence_that_nobody_expects_is_a_fault(
    tools: Any, tmp_path: Path, facts: list[str], permissive: object
) -> None:
    found = [distribution(tmp_path, "thing", *facts)]

    assert (tools.materials.licence_faults(found) == []) is permissive
    assert tools.materials.licence_faults(found, {"thin*": "known"}) == []


def test_a_folder_with_other_things_in_it_is_not_replaced(
    tools: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")

    with pytest.raises(SystemExit, match="2"):
        tools.main(["--out", str(tmp_path), "--build-only"])
    assert "thesis.txt: name an empty folder" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def steps() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each job of each workflow with its steps, as `file:job`."""
    return [
        (f"{path.name}:{name}", job, step)
        for path in sorted(WORKFLOWS.glob("*.yml"))
        for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items()
        for step in job["steps"]
    ]


def test_continuous_integration_tries_every_package_on_every_python(tools: Any) -> None:
    jobs = yaml.safe_load((WORKFLOWS / "ci.yml").read_text("utf-8"))["jobs"]
    matrix = jobs["wheels"]["strategy"]["matrix"]

    assert matrix["package"] == PACKAGES
    for package in tools.read_packages(ROOT).values():
        assert matrix["python"] == package.pythons


@pytest.mark.parametrize("package", PACKAGES)
def test_the_tests_of_a_package_are_collected_where_it_is_installed_alone(
    tools: Any, package: str
) -> None:
    packages = tools.read_packages(ROOT)
    absent = packages.keys() - tools.required_of_house(package, packages)
    refused = tuple(f"from {packages[name].source.name}" for name in sorted(absent))
    tests = sorted((packages[package].folder / "tests").rglob("*.py"))

    unguarded = [
        (path, path.read_text("utf-8").partition("importorskip(")[0]) for path in tests
    ]
    lines = [(path, line) for path, text in unguarded for line in text.splitlines()]
    assert [(path, line) for path, line in lines if line.startswith(refused)] == []
    assert any(
        line.startswith(f"from {packages[package].source.name}") for _, line in lines
    )


def test_only_the_job_that_publishes_has_an_identity_and_none_has_a_secret() -> None:
    texts = [path.read_text("utf-8") for path in WORKFLOWS.glob("*.yml")]
    may = {name: job.get("permissions", {}) for name, job, _ in steps()}

    assert not [text for text in texts if "secrets." in text]
    assert {name: found for name, found in may.items() if found} == {
        "release.yml:publish": {"id-token": "write"}
    }
    assert all("permissions:\n  contents: read" in text for text in texts)


def test_workflows_call_the_release_tool_with_options_that_it_has(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [
        step["run"].removeprefix("uv run tools/release.py")
        for *_, step in steps()
        if step.get("run", "").startswith("uv run tools/release.py")
    ]
    filled = {
        '"$PACKAGE"': "rubric-core",
        '"$PYTHON"': "3.12",
        '"$GITHUB_REF_NAME"': "v9",
    }
    monkeypatch.setattr(tools, "version_faults", lambda *_: ["stop here"])
    for call in calls:
        words = [filled.get(word, word) for word in call.split()]
        assert tools.main(words) == 1

    assert len(calls) == 4


def test_the_newest_releases_are_tried_every_week_on_the_next_python_too(
    tools: Any,
) -> None:
    workflow = yaml.safe_load((WORKFLOWS / "newest.yml").read_text("utf-8"))
    matrix = workflow["jobs"]["wheels"]["strategy"]["matrix"]

    assert matrix["package"] == PACKAGES
    assert all(
        one.pythons[-1] < matrix["python"][-1]
        for one in tools.read_packages(ROOT).values()
    )
    assert workflow[True]["schedule"]  # YAML 1.1 reads `on` so


def test_the_newest_releases_are_those_above_our_ranges(tools: Any) -> None:
    declared = [
        "rubric-core>=0.1,<0.2",
        "numpy>=1.26; python_version < '3.13'",
        "lm-eval[api,hf]==0.4.13",
        "ray[default]>=2.55,<2.61; sys_platform == 'linux'",
    ]

    assert tools.wheel_trial.without_upper_bounds(declared) == [
        "lm-eval[api,hf]>=0.4.13",
        'ray[default]>=2.55; sys_platform == "linux"',
    ]


def test_only_the_extras_that_hold_others_back_are_locked_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    import newest_lock

    for path in [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]:
        whole = tomllib.loads(path.read_text("utf-8"))
        rest = tomllib.loads(newest_lock.without_extras(path.read_text("utf-8")))
        for name in newest_lock.HOLDING_BACK:
            whole["project"].get("optional-dependencies", {}).pop(name, None)
        whole.get("tool", {}).get("uv", {}).pop("conflicts", None)
        assert rest == whole


@pytest.mark.slow
def test_the_core_is_installed_alone_from_its_wheel_with_all_its_types(
    tools: Any, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tools.read_packages(ROOT)["rubric-core"]
    wheel = tools.wheel_trial.Wheel(
        package.name, package.folder, tools.wheel_of(package.name, built), ""
    )
    trial = tools.wheel_trial.Trial(tmp_path, [wheel], sys.executable, "highest")

    trial.install()

    installed = {one.name for one in tools.materials.installed(trial.environment)}
    assert {"numpy", "pydantic", "rubric-core"} <= installed
    assert not installed & {"rubric-judge", "torch", "pytest"}
    assert trial.size_mb() < 150
    # pyright reads the packages of the first Python on the path.
    monkeypatch.setenv("PATH", str(trial.environment / "bin"), prepend=os.pathsep)
    command = [
        str(Path(sys.executable).with_name("pyright")),
        "--verifytypes",
        "rubric_core",
    ]
    done = subprocess.run(
        [*command, "--ignoreexternal"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Type completeness score: 100%" in done.stdout
    assert str(trial.environment) in done.stdout
