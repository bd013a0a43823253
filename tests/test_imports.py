"""Importing a package does nothing but import, and pulls in no more than it must."""

import ast
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CORE_MAY_IMPORT = {
    "annotated_types",
    "numpy",
    "pydantic",
    "pydantic_core",
    "rubric_core",
    "typing_extensions",
    "typing_inspection",
}
PACKAGES = [
    "rubric_core",
    "rubric_eval",
    "rubric_judge",
    "rubric_sandbox",
    "rubric_synth",
    "rubric_train_openrlhf",
]

PROBE = textwrap.dedent("""
    import importlib, json, logging, os, signal, sys, threading, warnings

    def state():
        return {
            "cwd": os.getcwd(),
            # scikit-learn and torch set switches of their own native libraries.
            "environment": {
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("KMP_", "TORCHINDUCTOR_"))
            },
            "files": sorted(os.listdir()),
            "handlers": [repr(handler) for handler in logging.root.handlers],
            "level": logging.root.level,
            "signals": [repr(signal.getsignal(number)) for number in (2, 15)],
            "threads": threading.active_count(),
        }

    before, known = state(), set(sys.modules)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        importlib.import_module(sys.argv[1])
    after = state()
    print(json.dumps({
        "changed": [key for key in before if before[key] != after[key]],
        "modules": sorted({name.partition(".")[0] for name in set(sys.modules) - known}),
        "warnings": [str(warning.message) for warning in caught],
    }))
""")


def probe(module: str) -> dict[str, Any]:
    """Import a module in a fresh interpreter and an empty folder, and say what that changed."""
    command = [sys.executable, "-c", PROBE, module]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def probed() -> Callable[[str], dict[str, Any]]:
    """Probe each module once: torch alone takes seconds to import."""
    return functools.cache(probe)


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_has_no_side_effect(
    package: str, probed: Callable[[str], dict[str, Any]]
) -> None:
    found = probed(package)

    assert found["changed"] == []
    assert found["warnings"] == []


def test_the_core_needs_pydantic_and_numpy_alone(
    probed: Callable[[str], dict[str, Any]],
) -> None:
    modules = set(probed("rubric_core")["modules"]) - sys.stdlib_module_names

    # The build's own settings are standard library under a name that differs by platform.
    assert {
        n for n in modules - CORE_MAY_IMPORT if not n.startswith("_sysconfigdata")
    } == set()


def test_the_judge_imports_no_provider_before_it_is_asked_to(
    probed: Callable[[str], dict[str, Any]],
) -> None:
    modules = set(probed("rubric_judge")["modules"])

    assert (
        modules & {"instructor", "litellm", "openai", "ray", "torch", "transformers"}
        == set()
    )


def test_synthesis_imports_no_heavy_library_before_it_is_asked_to(
    probed: Callable[[str], dict[str, Any]],
) -> None:
    modules = set(probed("rubric_synth")["modules"])

    assert (
        modules & {"datasets", "jinja2", "numpy", "pyarrow", "ray", "rich", "sklearn"}
        == set()
    )


def test_training_imports_no_cluster_before_it_is_asked_to(
    probed: Callable[[str], dict[str, Any]],
) -> None:
    modules = set(probed("rubric_train_openrlhf")["modules"])

    assert modules & {"deepspeed", "openrlhf", "ray", "vllm"} == set()


COMMANDS = textwrap.dedent("""
    import contextlib, importlib, io, json, sys

    ends = []
    for package, words in json.loads(sys.argv[1]):
        known, said = set(sys.modules), io.StringIO()
        sys.argv = [package, *words]
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                importlib.import_module(f"{package}.cli").main()
        except SystemExit as end:
            loaded = sorted({name.partition(".")[0] for name in set(sys.modules) - known})
            ends.append([end.code, said.getvalue(), loaded])
    print(json.dumps(ends))
""")

HELP = [
    ("rubric_judge", ["--help"]),
    ("rubric_judge", ["score", "--help"]),
    ("rubric_synth", ["--help"]),
    ("rubric_synth", ["run", "--help"]),
    ("rubric_eval", ["--help"]),
    ("rubric_eval", ["heldout", "--help"]),
    ("rubric_train_openrlhf", ["--help"]),
    ("rubric_train_openrlhf", ["run", "--help"]),
]
HEAVY = {
    "datasets",
    "instructor",
    "litellm",
    "openai",
    "openrlhf",
    "ray",
    "torch",
    "transformers",
}


def outcomes(
    commands: list[tuple[str, list[str]]], folder: Path
) -> list[tuple[int, str, set[str]]]:
    """Run commands one after the other in a fresh interpreter.

    Returns:
        Of each its status, what it said on stderr, and the packages that it was first to load.
    """
    words = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    hidden = ("OPENAI_API_KEY", "FORCE_COLOR")
    environment = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251
        if name not in hidden
    }
    environment["COLUMNS"] = "400"
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [
        (status, said, set(loaded)) for status, said, loaded in json.loads(done.stdout)
    ]


def test_help_comes_before_anything_is_computed_or_asked(tmp_path: Path) -> None:
    ended = outcomes(HELP, tmp_path)

    assert [status for status, _, _ in ended] == [0] * len(HELP)
    loaded = set[str]().union(*(modules for _, _, modules in ended))
    assert (
        loaded & (HEAVY | {"aiohttp", "jinja2", "numpy", "pyarrow", "scipy"}) == set()
    )
    assert {"cyclopts", "pydantic", "rich"} <= loaded


def test_a_slip_and_a_missing_key_are_named_before_anything_heavy_is_loaded(
    root: Path, tmp_path: Path
) -> None:
    tiny = (root / "configs/train/quickstart_tiny.yaml").read_text("utf-8")
    (tmp_path / "train.yaml").write_text(f"{tiny}\nseeed: 1\n", encoding="utf-8")
    (tmp_path / "judge.yaml").write_text(
        "type: llm\nmdel: openai/x\n", encoding="utf-8"
    )
    (tmp_path / "synth.yaml").write_text("synthesser: {}\n", encoding="utf-8")
    started = outcomes([("rubric_judge", ["init", "try"])], tmp_path)
    assert started[0][0] == 0
    files = ["try/tasks.jsonl", "try/answers.jsonl", "--out", "judged.jsonl", "--judge"]
    keyless = str(root / "configs/judge/openai.yaml")
    heldout = ["heldout", "a=file:a.yaml", "--tasks", files[0], "--out", "e", "--judge"]
    slips = {
        "unknown key 'seeed': did you mean 'seed'?": [
            ("rubric_train_openrlhf", ["run", "train.yaml"]),
            ("rubric_train_openrlhf", ["plan", "train.yaml"]),
        ],
        "unknown key 'mdel': did you mean 'model'?": [
            ("rubric_judge", ["score", *files, "judge.yaml"]),
            ("rubric_eval", [*heldout, "judge.yaml"]),
        ],
        "unknown key 'synthesser': did you mean": [
            ("rubric_synth", ["run", "d", "--out", "o", "--config", "synth.yaml"])
        ],
        "OPENAI_API_KEY": [("rubric_judge", ["score", *files, keyless])],
    }
    said = [words for words, commands in slips.items() for _ in commands]

    ended = outcomes([one for commands in slips.values() for one in commands], tmp_path)

    assert [status for status, _, _ in ended] == [2] * len(said)
    assert [words in text for words, (_, text, _) in zip(said, ended, strict=True)] == [
        True
    ] * len(said), ended
    assert set[str]().union(*(modules for _, _, modules in ended)) & HEAVY == set()


def test_a_plan_loads_no_model_s_library(root: Path, tmp_path: Path) -> None:
    files = [*(root / "configs/train").glob("*.yaml")]
    assert len(files) > 5

    ended = outcomes(
        [("rubric_train_openrlhf", ["plan", str(file)]) for file in files], tmp_path
    )

    assert [status for status, _, _ in ended] == [0] * len(files), ended
    assert set[str]().union(*(modules for _, _, modules in ended)) & HEAVY == set()


def declared(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the target of every command and plugin of the six packages."""
    for path in sorted(root.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        groups = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
        for group in groups:
            yield from group.items()


def test_every_command_and_plugin_that_is_declared_exists(root: Path) -> None:
    missing = [
        f"{name} = {target}"
        for name, target in declared(root)
        if not hasattr(
            importlib.import_module(target.partition(":")[0]), target.partition(":")[2]
        )
    ]

    assert missing == []


def _imported(tree: ast.Module) -> set[str]:
    """Packages that a module imports when it is imported itself."""
    named = [
        node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return {
        name.partition(".")[0]
        for node in named
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }


@pytest.mark.slow
def test_every_module_imports_on_its_own(
    modules: dict[str, Any], tmp_path: Path
) -> None:
    stack = {"deepspeed", "openrlhf", "psutil", "vllm"}
    plain = [name for name, tree in modules.items() if not stack & _imported(tree)]
    assert len(modules) - len(plain) < 15, (
        "only the stack's side of a cluster run needs it"
    )
    script = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    command = [sys.executable, "-W", "error", "-c", script, *reversed(plain)]

    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
