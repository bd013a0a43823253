"""The check of compiled packages, on the packages that are installed here."""

import py_compile
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from rubric_train_openrlhf.cluster.rehearse.checking import Request, Status, Subject
from rubric_train_openrlhf.cluster.rehearse.configuration import check_bytecode


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Python looks for compiled modules: there are none yet."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(sys, "pycache_prefix", str(folder))
    return folder


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return Subject(Request(source=tmp_path / "any.yaml", values={}, folder=tmp_path))


def test_packages_that_each_process_would_compile_are_named(
    cache: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = check_bytecode(subject)
    assert found.status is Status.WARNING
    assert "torch, transformers" in found.detail
    assert found.where == "PYTHONDONTWRITEBYTECODE"
    assert not cache.exists()


def test_the_first_process_may_compile_for_the_others(
    cache: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    found = check_bytecode(subject)
    assert found.status is Status.PASSED
    assert not cache.exists()


@pytest.mark.usefixtures("cache")
def test_compiled_packages_are_in_order_whatever_the_switch(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "transformers", "ray", "deepspeed", "vllm", "openrlhf"):
        if (spec := find_spec(name)) is not None and spec.origin is not None:
            py_compile.compile(spec.origin, doraise=True)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = check_bytecode(subject)
    assert found.status is Status.PASSED
