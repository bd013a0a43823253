"""The tool that keeps addresses out of the lock."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]

WRITTEN = """\
version = 1

[manifest]
members = [
    "one",
    "root",
]
overrides = [{ name = "torch", specifier = "==2.13.0" }]

[[package]]
name = "wheelhouse"
version = "1.2"
source = { registry = "https://index.example/all" }
dependencies = [
    { name = "numpy", version = "2.0", source = { registry = "https://index.example/all" } },
]
sdist = { url = "https://files.example/a/b/wheelhouse-1.2.tar.gz", hash = "sha256:aa", size = 10 }
wheels = [
    { url = "https://files.example/c/wheelhouse-1.2%2Bcpu-py3-none-any.whl", hash = "sha256:bb" },
]

[[package]]
name = "root"
version = "0.1"
source = { virtual = "." }
"""


@pytest.fixture(scope="module")
def portable_lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "portable_lock", ROOT / "tools/portable_lock.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_stripped_lock_holds_no_address(portable_lock: ModuleType) -> None:
    stripped = portable_lock.strip(WRITTEN, root_name="root")

    assert portable_lock.addresses(WRITTEN) == [13, 15, 17, 19]
    assert portable_lock.addresses(stripped) == []


def test_stripping_keeps_packages_versions_hashes_and_file_names(
    portable_lock: ModuleType,
) -> None:
    before = tomllib.loads(WRITTEN)["package"]
    after = tomllib.loads(portable_lock.strip(WRITTEN, root_name="root"))["package"]

    assert [(p["name"], p["version"]) for p in after] == [
        (p["name"], p["version"]) for p in before
    ]
    assert after[0]["source"] == {"registry": "pypi"}
    assert after[0]["sdist"] == {"path": "wheelhouse-1.2.tar.gz", "hash": "sha256:aa"}
    assert after[0]["wheels"][0]["path"] == "wheelhouse-1.2%2Bcpu-py3-none-any.whl"
    assert after[1]["source"] == {"virtual": "."}


def test_stripping_drops_what_only_some_indexes_state(
    portable_lock: ModuleType,
) -> None:
    told = WRITTEN.replace(
        '"sha256:bb" }', '"sha256:bb", upload-time = "2026-10-09T08:38:56Z" }'
    )
    silent = WRITTEN.replace(", size = 10", "")

    assert told != WRITTEN != silent
    assert portable_lock.strip(told, root_name="root") == portable_lock.strip(
        silent, root_name="root"
    )


def test_stripping_drops_the_root_among_the_members_and_nowhere_else(
    portable_lock: ModuleType,
) -> None:
    after = tomllib.loads(portable_lock.strip(WRITTEN, root_name="root"))

    assert after["manifest"]["members"] == ["one"]
    assert after["package"][1]["name"] == "root"


def test_stripping_twice_changes_nothing(portable_lock: ModuleType) -> None:
    once = portable_lock.strip(WRITTEN, root_name="root")

    assert portable_lock.strip(once, root_name="root") == once


def test_a_committed_lock_equal_to_the_stripped_one_has_no_fault(
    portable_lock: ModuleType,
) -> None:
    committed = portable_lock.strip(WRITTEN, root_name="root")

    assert portable_lock.faults(committed, WRITTEN, root_name="root") == []


def test_a_committed_address_is_a_fault_with_its_line(
    portable_lock: ModuleType,
) -> None:
    found = portable_lock.faults(WRITTEN, WRITTEN, root_name="root")

    assert "uv.lock:13: holds an address" in found


@pytest.mark.parametrize(
    ("old", "new"), [('version = "1.2"', 'version = "1.3"'), ("sha256:bb", "sha256:cc")]
)
def test_another_version_or_hash_is_a_fault(
    portable_lock: ModuleType, old: str, new: str
) -> None:
    committed = portable_lock.strip(WRITTEN, root_name="root")

    (fault,) = portable_lock.faults(
        committed, WRITTEN.replace(old, new), root_name="root"
    )

    assert new in fault


def test_the_committed_lock_is_portable_and_stripping_is_the_identity_on_it(
    portable_lock: ModuleType,
) -> None:
    staged = portable_lock._staged_lock()
    root_name = portable_lock._root_name()

    assert portable_lock.addresses(staged) == []
    assert portable_lock.strip(staged, root_name=root_name) == staged
    assert root_name not in tomllib.loads(staged)["manifest"]["members"]
