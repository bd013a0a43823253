"""What holds for every module, package and tracked file."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

LONGEST_MODULE_LINES = 480
LONGEST_FUNCTION_LINES = 80
FORBIDDEN_MODULE_NAMES = {
    "base",
    "common",
    "core",
    "handler",
    "handlers",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "types",
    "util",
    "utils",
}
PACKAGES = {
    "rubric_core",
    "rubric_eval",
    "rubric_judge",
    "rubric_sandbox",
    "rubric_synth",
    "rubric_train_openrlhf",
}

# Parts of another distribution that are published apart and installed with it.
PART_OF = {"markupsafe": "jinja2", "pydantic-core": "pydantic"}

# What these read is in our own wheel, or belongs to a process that can be killed.
READ_THEIR_OWN = {
    "rubric_core.files",
    "rubric_core.lazy",
    "rubric_judge.ui.page.rendering",
    "rubric_judge.quality.labels.model_writer",
    "rubric_judge.judges.llm.prompt",
    "rubric_judge.ui.starting",
    "rubric_synth.stages.llm.prompt",
    "rubric_synth.sources.converter",
    "rubric_synth.tables",
}

# The classes of one character keep these patterns from finding themselves.
INDEX_ADDRESS = re.compile(
    r"://[^/\s\"']*(?:p[y]pi|p[y]thonhosted|n[p]mjs|d[e]bian|p[y]torch)\.|://[^\s\"']*/simpl[e]\b"
)
MACHINE_PATH = re.compile(
    r"(?<![\w.~/-])(?:/wor[k]|/roo[t]|/hom[e]|/User[s]|/tm[p]|/op[t])/\w"
)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _project(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))["project"]


def test_the_workspace_holds_the_six_packages(package_folders: list[Path]) -> None:
    """The sixth holds what confines code, so that whoever runs none need not have it."""
    assert {folder.name for folder in package_folders} == PACKAGES


def test_files_are_opened_without_a_way_to_hang(modules: dict[str, ast.Module]) -> None:
    """Every file that may be somebody's pipe is read through `rubric_core.files`."""
    found = {
        f"{name}:{call.lineno}"
        for name, tree in modules.items()
        if name not in READ_THEIR_OWN
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _reads(call)
    }

    assert found == set()


def _reads(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr="read_text" | "read_bytes"):
            return True
        case ast.Attribute(attr="open") | ast.Name(id="open"):
            modes = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
            return any(str(mode) in {"r", "rb", "rt", "a", "ab"} for mode in modes)
        case _:
            return False


def test_no_module_is_too_long(package_folders: list[Path]) -> None:
    lines = {
        path: len(path.read_text("utf-8").splitlines())
        for folder in package_folders
        for path in folder.rglob("*.py")
    }

    assert {path: n for path, n in lines.items() if n > LONGEST_MODULE_LINES} == {}


def test_no_function_is_too_long(modules: dict[str, ast.Module]) -> None:
    lines = {
        f"{name}.{function.name}": (function.end_lineno or function.lineno)
        - function.lineno
        + 1
        for name, tree in modules.items()
        for function in _functions(tree)
    }

    assert {name: n for name, n in lines.items() if n > LONGEST_FUNCTION_LINES} == {}


def test_every_module_is_named_for_one_idea(modules: dict[str, ast.Module]) -> None:
    assert [
        name for name in modules if FORBIDDEN_MODULE_NAMES & set(name.split("."))
    ] == []


def test_every_module_says_what_lives_in_it(modules: dict[str, ast.Module]) -> None:
    assert [name for name, tree in modules.items() if not ast.get_docstring(tree)] == []


def test_every_package_ships_its_types(package_folders: list[Path]) -> None:
    assert [
        folder.name for folder in package_folders if not (folder / "py.typed").exists()
    ] == []


def test_every_package_explains_itself(root: Path) -> None:
    lines = {
        path.parent.name: len(path.read_text("utf-8").splitlines())
        for path in root.glob("packages/*/README.md")
    }

    assert len(lines) == len(PACKAGES)
    assert {name: n for name, n in lines.items() if n < 5} == {}  # more than a title


def test_the_root_passes_on_the_extras_of_its_members(root: Path) -> None:
    of_members = {
        extra
        for path in root.glob("packages/*/pyproject.toml")
        for extra in _project(path).get("optional-dependencies", {})
    }

    assert set(_project(root / "pyproject.toml")["optional-dependencies"]) == of_members


def test_every_dependency_of_a_member_is_a_range(root: Path) -> None:
    requirements = [
        requirement
        for path in root.glob("packages/*/pyproject.toml")
        for requirement in _project(path)["dependencies"]
    ]

    assert [name for name in requirements if "==" in name or ">=" not in name] == []


def _imports(tree: ast.Module) -> Iterator[str]:
    """The top-level names that a module imports, wherever in it that happens."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def _declared(project: dict[str, Any]) -> set[str]:
    """The distributions that a member names, in its dependencies or its extras."""
    extras = project.get("optional-dependencies", {}).values()
    requirements = [
        *project["dependencies"],
        *(name for extra in extras for name in extra),
    ]
    return {
        _normal(re.split(r"[\[<>=;~! ]", name, maxsplit=1)[0]) for name in requirements
    }


def _normal(name: str) -> str:
    name = name.lower().replace("_", "-")
    return PART_OF.get(name, name)


def test_every_package_declares_what_it_imports(
    package_folders: list[Path], modules: dict[str, ast.Module]
) -> None:
    distributions = packages_distributions()
    undeclared = {
        (folder.name, name)
        for folder in package_folders
        for declared in [_declared(_project(folder.parents[1] / "pyproject.toml"))]
        for module, tree in modules.items()
        if module.partition(".")[0] == folder.name
        for name in _imports(tree)
        if name not in sys.stdlib_module_names and name != folder.name
        if not {_normal(owner) for owner in distributions.get(name, [name])} & declared
    }

    assert undeclared == set()


def test_the_type_checker_reads_every_package(
    root: Path, package_folders: list[Path]
) -> None:
    tools = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]

    included = {root / folder for folder in tools["pyright"]["include"]}

    assert included == {
        root / "tests/typing",
        *(folder.parent for folder in package_folders),
    }


@pytest.mark.parametrize(
    "pattern", [INDEX_ADDRESS, MACHINE_PATH], ids=["index", "machine path"]
)
def test_no_tracked_file_depends_on_where_it_was_written(
    tracked_texts: dict[str, str], pattern: re.Pattern[str]
) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in tracked_texts.items()
        if name
        != "uv.lock"  # the working copy holds addresses; what git holds is tested apart
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]

    assert found == []


def test_pages_have_one_home(modules: dict[str, ast.Module]) -> None:
    """What makes a page, and what makes a text of a model safe to show, stands in one place."""
    furniture = {"inert_json", "render_page", "visible"}
    homes = {
        (node.name, name)
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in furniture
    }
    assert homes == {
        ("inert_json", "rubric_judge.ui.page.rendering"),
        ("render_page", "rubric_judge.ui.page.rendering"),
        ("visible", "rubric_judge.ui.page.rendering"),
    }
    packages = Path(__file__).parents[1] / "packages"
    home = packages / "rubric-judge/src/rubric_judge/ui/page"
    templates = {
        path: path.read_text("utf-8") for path in packages.glob("*/src/**/*.html.j2")
    }
    policies = [
        path for path, text in templates.items() if "Content-Security-Policy" in text
    ]
    assert policies == [home / "templates/frame.html.j2"]
    # Drawings, tables and the look are the kit's: a page names its pieces.
    elsewhere = {
        path: text for path, text in templates.items() if home not in path.parents
    }
    assert not {
        path.name for path, text in elsewhere.items() if re.search("<(svg|table)", text)
    }
    sheets = [
        path for path in packages.glob("*/src/**/*.css") if home not in path.parents
    ]
    assert sheets
    shared = r":root|prefers-color-scheme|#[0-9a-f]{3,6}\b|^(\*|html|body|h[1-6]|table|th|td|svg)\b"
    found = {
        path.name
        for path in sheets
        if re.search(shared, path.read_text("utf-8"), re.MULTILINE)
    }
    assert not found


def test_only_the_page_draws(modules: dict[str, ast.Module]) -> None:
    """Markup of drawings and tables is written in one place."""
    found = {
        name
        for name, tree in modules.items()
        if not name.startswith("rubric_judge.ui.page.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.search(
            r"<(svg|polyline|circle|rect|table|tr|td|style)\b[^>]*>?", node.value
        )
    }
    assert found == set()
    loading = {
        name
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "matplotlib" in {*ast.unparse(node).replace(".", " ").split()}
        and "figure" in ast.unparse(node)
    }
    assert loading == {"rubric_judge.ui.page.pictures"}


def _calls(tree: ast.Module) -> set[str]:
    """What a module calls, as it is written: `structlog.configure`, `Console`."""
    return {
        ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)
    }


def _replaces(node: ast.AST) -> bool:
    """Whether a file takes the place of another: `path.replace(other)`; texts take two words."""
    match node:
        case ast.Call(func=ast.Attribute(attr="replace"), args=[_], keywords=[]):
            return True
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="os"), attr="replace" | "rename")
        ):
            return True
        case _:
            return False


def test_consoles_locks_and_atomic_files_have_one_home(
    modules: dict[str, ast.Module],
) -> None:
    """Commands print through `ui/console`; locks and files are those of `rubric_core`."""
    calls = {name: _calls(tree) for name, tree in modules.items()}
    consoles = {name for name, tree in modules.items() if "rich" in _imports(tree)}
    logs = {name for name, found in calls.items() if found & {"structlog.configure"}}
    locks = {
        name for name, found in calls.items() if found & {"fcntl.flock", "fcntl.lockf"}
    }
    atomic = {
        name
        for name, tree in modules.items()
        if name != "rubric_core.files" and any(map(_replaces, ast.walk(tree)))
    }

    rooms = ("rubric_judge.ui.console.",)
    assert {name for name in consoles if not name.startswith(rooms)} == set()
    assert logs == {"rubric_judge.ui.console.command"}
    assert locks == {"rubric_core.locks"}
    assert atomic == set()


def test_the_paths_of_the_architecture_page_are_short_and_lead_through_what_is_there(
    root: Path,
) -> None:
    page = (root / "docs/architecture.md").read_text("utf-8")
    section = page.partition("## Paths")[2].partition("\n## ")[0]
    there = {
        path.relative_to(source).with_suffix("").as_posix()
        for source in root.glob("packages/*/src/*")
        for path in source.rglob("*.py")
    }
    for path in section.split("\n\n**")[1:]:
        named = [
            name
            for name in re.findall(r"`([a-z_/]+)`", path)
            if not name.startswith("rubric")
        ]
        assert [name for name in named if name not in there] == []
        assert 5 <= len(set(named)) <= 20


def test_the_types_of_the_architecture_page_are_where_it_says(root: Path) -> None:
    page = (root / "docs/architecture.md").read_text("utf-8")
    section = page.partition("## Types to know first")[2].partition("\n## ")[0]
    rows = [
        line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")
    ]
    for types, place in rows:
        module, package = re.findall(r"`([a-z_/]+)`", place)
        (path,) = root.glob(f"packages/*/src/{package}/{module}.py")
        text = path.read_text("utf-8")
        assert [
            name
            for name in re.findall(r"`(\w+)`", types)
            if f"class {name}" not in text
        ] == []


def test_the_tables_of_the_architecture_page_name_every_room(root: Path) -> None:
    page = (root / "docs/architecture.md").read_text("utf-8")
    house = page.partition("## The house")[2].partition("\n## ")[0]
    for source in root.glob("packages/*/src/*"):
        table = house.partition(f"\n`{source.name}`:")[2].partition("\n`rubric_")[0]
        rows = [
            line.split("|")[1:3] for line in table.splitlines() if line.startswith("| ")
        ]
        # The row "top" names its modules where the others say what lives there.
        named = {
            name.removesuffix(".py").rstrip("/")
            for first, second in rows
            for name in re.findall(
                r"`([a-z_./]+)`", second if first.strip() == "top" else first
            )
        }
        there = {
            path.stem
            for path in source.iterdir()
            if not path.name.startswith("__")
            and (path.is_dir() or path.suffix == ".py")
        }
        assert there - named == set(), source.name
