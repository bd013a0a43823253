from __future__ import annotations

import importlib
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rubric_train_openrlhf.cluster import cpu
from rubric_train_openrlhf.cluster.cpu import PATCHES, PatchingFinder
from rubric_train_openrlhf.cluster.settings import inherited
from rubric_train_openrlhf.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import ModuleType


@pytest.fixture
def patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """A module `greeting` whose code runs inside a patch; yields what happened, in order."""
    (tmp_path / "greeting.py").write_text("WORD = 'hello'\n")
    monkeypatch.syspath_prepend(tmp_path)
    happened: list[str] = []

    @contextmanager
    def patch(module: ModuleType) -> Generator[None]:
        happened.append(f"before: {hasattr(module, 'WORD')}")
        yield
        happened.append(f"after: {module.WORD}")
        module.WORD = "good day"

    monkeypatch.setattr(
        sys, "meta_path", [PatchingFinder({"greeting": patch}), *sys.meta_path]
    )
    yield happened
    sys.modules.pop("greeting", None)


def test_a_patch_is_entered_before_the_code_of_its_module_and_left_after(
    patched: list[str],
) -> None:
    module = importlib.import_module("greeting")
    assert patched == ["before: False", "after: hello"]
    assert module.WORD == "good day"


def test_a_module_is_patched_where_it_is_first_imported_alone(
    patched: list[str],
) -> None:
    importlib.import_module("greeting")
    importlib.import_module("greeting")
    assert len(patched) == 2


def test_a_patch_for_a_module_that_is_not_installed_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finder = PatchingFinder({"no_such_module_anywhere": PATCHES["openrlhf"]})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_anywhere")


def test_installing_twice_is_installing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    cpu.install()
    cpu.install()
    assert sum(isinstance(finder, PatchingFinder) for finder in sys.meta_path) == 1


def test_stand_ins_for_flash_attention_refuse_to_be_called_and_are_gone_afterwards() -> (
    None
):
    module = type(sys)("openrlhf.models.ring_attn_utils")
    with PATCHES["openrlhf.models.ring_attn_utils"](module):
        functions = importlib.import_module("flash_attn.bert_padding")
        with pytest.raises(
            ClusterError, match=r"flash_attn\.bert_padding\.pad_input .*'cpu'"
        ):
            functions.pad_input()
    assert "flash_attn" not in sys.modules


@pytest.mark.openrlhf
def test_nothing_is_loaded_that_is_for_no_text() -> None:
    """Each of a run's processes would pay a second for these."""
    program = (
        "import gc, sys; from rubric_train_openrlhf.cluster import cpu; cpu.install()\n"
        "import openrlhf.trainer.ppo_trainer\n"
        "import rubric_train_openrlhf.cluster.training.policy_actor\n"
        "import rubric_train_openrlhf.cluster.sampling.engine_actor\n"
        "print('loaded', *set(sys.argv) & set(sys.modules)); print('collects', gc.isenabled())"
    )
    names = ("boto3", "fastapi", "openai", "scipy", "sklearn", "vllm.v1.engine.core")
    names += ("torch._inductor.lowering", "vllm")
    environment = inherited() | {"DS_ACCELERATOR": "cpu", "TORCH_COMPILE_DISABLE": "1"}
    words = [sys.executable, "-c", program, *names]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode().splitlines()[-2:] == ["loaded vllm", "collects True"]


@pytest.mark.parametrize("loads_all", [False, True])
def test_nothing_is_left_out_where_all_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, *, loads_all: bool
) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.setenv("RUBRIC_TRAIN_LOAD_ALL", str(int(loads_all)))

    cpu.install()

    (finder,) = sys.meta_path
    patches = set(vars(finder)["_patches"])
    assert patches == set(cpu.NEEDED if loads_all else PATCHES)
    assert set(cpu.NEEDED) < set(PATCHES)


def test_what_is_left_out_can_be_loaded_afterwards() -> None:
    program = (
        "import sys, importlib; from rubric_train_openrlhf.cluster.cpu import PATCHES\n"
        "with PATCHES['vllm.multimodal.audio'](type(sys)('vllm.multimodal.audio')):\n"
        "    try: import scipy.signal\n"
        "    except ImportError: print('left out')\n"
        "print('scipy.signal' in sys.modules, importlib.import_module('scipy.signal').__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, check=True
    )
    assert done.stdout.decode().splitlines() == ["left out", "False scipy.signal"]
