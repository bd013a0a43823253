"""docs/train/first_run_on_a_cpu.md: its model, its configuration and its figures fit together."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from rubric_core import write_tasks
from rubric_train_openrlhf import load_config
from rubric_train_openrlhf.cluster.launching.preparation import (
    CPU_HEAD_WIDTHS,
    check_cpu_heads,
)
from rubric_train_openrlhf.cluster.rehearse.stand_ins import made_tasks
from rubric_train_openrlhf.config.sections import PathModel
from rubric_train_openrlhf.config.train import parse_config
from rubric_train_openrlhf.policy import ChatCodec, load_policy

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "train" / "first_run_on_a_cpu.md").read_text("utf-8")
CONFIG = ROOT / "configs" / "train" / "first_run_cpu.yaml"


def test_the_page_names_the_widths_that_are_checked() -> None:
    (named,) = re.findall(r"compiled for heads of ([\d,\s]+or\s+\d+)", TEXT)

    assert tuple(map(int, re.findall(r"\d+", named))) == CPU_HEAD_WIDTHS


def test_the_commands_hand_on_what_the_configuration_reads() -> None:
    config = load_config(CONFIG)

    assert isinstance(config.model, PathModel)
    assert f"--tasks {config.data.train} --out {config.model.path}" in TEXT
    assert f"--out {config.data.train.parent}\n" in TEXT
    assert f"rubric-train run {CONFIG.relative_to(ROOT)}" in TEXT
    assert f"`{config.out}/report.html`" in TEXT


@pytest.mark.filterwarnings(
    "ignore:Cyclopts application invoked without tokens:UserWarning"
)
def test_the_small_policy_is_one_that_vllm_can_run_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tasks(tmp_path / "train.jsonl", made_tasks())
    command = [str(ROOT / "examples" / "small_policy.py"), "--steps", "1"]
    command += [
        "--tasks",
        str(tmp_path / "train.jsonl"),
        "--out",
        str(tmp_path / "small"),
    ]
    monkeypatch.setattr(sys, "argv", command)

    with pytest.raises(
        SystemExit
    ) as ended:  # in this process, which has imported torch
        runpy.run_path(command[0], run_name="__main__")
    assert "small_policy: warm start: 1 of 1 steps" in capsys.readouterr().err

    assert ended.value.code == 0
    codec = load_policy(tmp_path / "small").codec
    assert isinstance(codec, ChatCodec)
    view = made_tasks()[0].policy_view()
    assert (
        codec.prompt_text(view) == f"Question: {view.question}\nAnswer:"
    )  # as it was taught
    values = load_config(CONFIG).model_dump()
    values["model"] = {"type": "path", "path": tmp_path / "small"}
    check_cpu_heads(parse_config(values))
