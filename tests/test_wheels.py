"""What is in the wheels that `uv build --all-packages` makes."""

from __future__ import annotations

import ast
import email.message
import email.parser
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(path.name for path in (ROOT / "packages").iterdir())
NOT_SHIPPED = {".pyc"}


class Wheel(NamedTuple):
    """One package, built."""

    files: set[str]
    licence: str
    metadata: email.message.Message


def declared(package: str) -> dict[str, Any]:
    text = (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")
    return tomllib.loads(text)["project"]


def importable(package: str) -> Path:
    return ROOT / "packages" / package / "src" / package.replace("-", "_")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Wheel]:
    out = tmp_path_factory.mktemp("wheels")
    # uv builds each wheel from its source archive, so that both are looked at.
    command = ["uv", "build", "--all-packages", "--out-dir", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    found: dict[str, Wheel] = {}
    for path in sorted(out.glob("*.whl")):
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            (licence,) = (name for name in names if name.endswith("licenses/LICENSE"))
            (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            found[path.name.partition("-")[0].replace("_", "-")] = Wheel(
                {name for name in names if ".dist-info/" not in name and not name.endswith("/")},
                archive.read(licence).decode(),
                email.parser.Parser().parsestr(archive.read(metadata).decode()),
            )
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_the_licence_and_the_version_are_those_of_the_repository(package: str) -> None:
    project = declared(package)
    module = ast.parse((importable(package) / "__init__.py").read_text("utf-8"))
    versions = [
        node.value.value
        for node in module.body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "__version__"
        and isinstance(node.value, ast.Constant)
    ]
    licence = ROOT / "packages" / package / "LICENSE"

    assert versions == [project["version"]]
    assert project["version"] == declared(PACKAGES[0])["version"]  # all in step
    assert licence.read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_says_what_it_is(package: str, wheels: dict[str, Wheel]) -> None:
    metadata, project = wheels[package].metadata, declared(package)

    assert metadata["Name"] == package
    assert metadata["Version"] == project["version"]
    assert metadata["Summary"] == project["description"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert wheels[package].licence == (ROOT / "LICENSE").read_text("utf-8")
    assert metadata["Author"] == "The rubric-rewards authors"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert metadata["Keywords"]
    assert str(metadata.get_payload()).startswith("# ")


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_holds_every_file_of_its_package(package: str, wheels: dict[str, Wheel]) -> None:
    folder = importable(package)
    expected = {
        path.relative_to(folder.parent).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in NOT_SHIPPED
    }

    assert wheels[package].files == expected
    assert f"{folder.name}/py.typed" in expected
    assert any(name.endswith((".yaml", ".jinja", ".j2", ".txt", ".json")) for name in expected) or (
        package == "rubric-core"  # has no data
    )


@pytest.mark.slow
def test_what_init_writes_is_in_the_wheels(wheels: dict[str, Wheel]) -> None:
    assert {"rubric_judge/starting/lexical.yaml", "rubric_judge/attack/tasks.jsonl"} <= (
        wheels["rubric-judge"].files
    )
    assert "rubric_train_openrlhf/starting/tiny.yaml" in wheels["rubric-train-openrlhf"].files
