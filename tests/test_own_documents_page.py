"""docs/own_documents.md: its configurations are whole, and its commands lead to a report."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rubric_judge import ClaimConfig, JudgeConfig, read_judge_spec
from rubric_synth import load_config as load_synth_config
from rubric_synth.testing import generated_documents
from rubric_train_openrlhf import load_config

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "own_documents.md").read_text(
    "utf-8"
)
DOCUMENTS = 24
SHORT = (  # each is enough to write what the next command reads
    "--model.pretrain.steps 2 --sft.steps 2 --steps 1 --rollout.prompts 2 --rollout.group_size 2 "
    "--rollout.max_new_tokens 8 --validation.questions 2"
)


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with every file that the page shows."""
    for block in _blocks("yaml"):
        (name,) = re.findall(r"^# ([\w-]+\.yaml)", block)
        (tmp_path / name).write_text(block, "utf-8")
    return tmp_path


def test_every_configuration_of_the_page_is_whole(folder: Path) -> None:
    assert load_synth_config(folder / "synth.yaml").synthesiser.type == "llm"
    assert load_synth_config(folder / "limits.yaml").collect.min_document_words == 20
    assert isinstance(read_judge_spec(folder / "judge.yaml"), ClaimConfig)
    assert isinstance(read_judge_spec(folder / "judge-llm.yaml"), JudgeConfig)
    load_config(folder / "train-llm.yaml")
    rollout = load_config(folder / "train.yaml").rollout
    assert (
        f"--temperature {rollout.temperature} --max-tokens {rollout.max_new_tokens} "
        in PAGE
    )


@pytest.mark.slow
def test_the_commands_of_the_page_lead_from_a_folder_to_a_report(folder: Path) -> None:
    (commands,) = _blocks("bash")
    papers = folder / "papers"
    papers.mkdir()
    for number, document in enumerate(generated_documents(DOCUMENTS)):
        if number % 2:
            rest = re.sub(
                r"(?m)^#+ (.*)$", lambda line: f"{line[1]}\n{'=' * 80}", document.text
            )
            (papers / f"{number}.rst").write_text(
                f"{rest}\n\n.. toctree::\n\n   other\n", "utf-8"
            )
        else:
            (papers / f"{number}.md").write_text(document.text, "utf-8")

    for command in commands.splitlines():
        program, *arguments = command.split()
        if "train.yaml" in arguments:
            arguments += SHORT.split()
        done = subprocess.run(
            [Path(sys.executable).with_name(program), *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)

    assert (folder / "collected" / "documents.jsonl").read_text().count(
        "\n"
    ) == DOCUMENTS
    assert "best" in (folder / "evals" / "own" / "report.html").read_text("utf-8")
