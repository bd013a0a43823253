"""The commands and the client of docs/judge/serve.md, run; and every address that it names."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import httpx
import pytest

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge import read_judge_spec
from rubric_judge.serve.schemas import STATUS, ProblemKind

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "judge" / "serve.md").read_text("utf-8")
PREFIXES = (ROOT / "docs" / "judge" / "prefix_sharing.md").read_text("utf-8")
COMMAND = "from rubric_judge.cli import main; main()"


def _blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the page's commands name."""
    shutil.copytree(ROOT / "configs" / "judge", tmp_path / "configs" / "judge")
    (tmp_path / "dataset").mkdir()
    task = Task(
        question="Which loss is minimised?",
        grounding=Grounding("The model minimises the cross entropy of the labels."),
        rubric=Rubric(
            criteria=(Criterion(id="a", weight=2, required_elements=("entropy",)),)
        ),
        reference_answer="The model minimises the cross entropy of its labels.",
    )
    write_tasks(tmp_path / "dataset" / "train.jsonl", [task])
    return tmp_path


@contextmanager
def _served(folder: Path, block: str) -> Iterator[str]:
    """Run a block of the page on a free port of this machine; give the address."""
    here = re.sub(r"--host \S+|--port \S+", "", block).rstrip() + " --port 0\n"
    program = f"rubric-judge() {{ exec {sys.executable} -c '{COMMAND}' \"$@\"; }}\n"
    process = subprocess.Popen(
        ["bash", "-ec", program + here], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=600)
    assert process.returncode == 0


def test_the_client_of_the_page_gets_a_judgement(folder: Path) -> None:
    (client,) = _blocks("python")
    with _served(folder, _blocks("bash")[0]) as address:
        done = subprocess.run(
            [sys.executable, "-c", client, address, "dataset/train.jsonl"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        metrics = httpx.get(f"{address}/metrics").text
        paths = httpx.get(f"{address}/openapi.json").json()["paths"]
    assert done.stdout.split() == ["scored", "1.0"]
    for name in re.findall(r"`(rubric_judge_\w+)`", TEXT):
        assert name in metrics or name == "rubric_judge_cached_token_share"
    assert {*re.findall(r"`(?:GET |POST )?(/[\w/]+)`", TEXT)} - {
        "/openapi.json"
    } <= set(paths)


def test_the_service_of_the_page_asks_for_its_token(folder: Path) -> None:
    with _served(folder, _blocks("bash")[1]) as address:
        assert httpx.get(f"{address}/metrics").status_code == 401
        assert httpx.get(f"{address}/healthz").status_code == 200


def test_the_page_lists_every_refusal_with_its_status() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*?) \|", TEXT, re.MULTILINE)
    listed = {
        kind: int(status)
        for status, kinds in rows
        for kind in re.findall(r"`(\w+)`", kinds)
    }

    assert listed == dict(STATUS)
    assert set(listed) == set(get_args(ProblemKind))


def test_the_judges_of_the_page_on_prefixes_are_configurations(tmp_path: Path) -> None:
    for number, block in enumerate(_blocks("yaml", PREFIXES)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        assert read_judge_spec(file).type == "llm"
