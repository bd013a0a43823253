"""Responses to label, as objects and as the files that the command reads."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge.cli import main
from rubric_judge.quality.labels.rows import Label, LabelSource

COMMAND = "from rubric_judge.cli import main; main()"
WEIGHTS = {"fact": 3.0, "limit": 1.0, "tone": 0.5, "extra": 10.0, "note": 0.0}


def _source(tasks: int = 5, responses: int = 4, **texts: str) -> LabelSource:
    rubric = Rubric(
        criteria=tuple(
            Criterion(
                id=name,
                weight=weight,
                description=texts.get("criterion", f"Has {name}."),
            )
            for name, weight in WEIGHTS.items()
        )
    )
    made = [
        Task(
            question=f"{texts.get('question', 'Question')} {p}?",
            grounding=Grounding(texts.get("passage", f"Passage {p}.")),
            rubric=rubric,
        )
        for p in range(tasks)
    ]
    views = [
        task.judge_view(f"{texts.get('response', 'Answer')} {n} to {p}.")
        for p, task in enumerate(made)
        for n in range(responses)
    ]
    return LabelSource({task.task_id: task for task in made}, dict(enumerate(views, 1)))


@pytest.fixture
def make_source() -> Callable[..., LabelSource]:
    """Return a function that makes tasks with four criteria that count and one that does not."""
    return _source


@pytest.fixture(scope="session")
def source() -> LabelSource:
    return _source()


@pytest.fixture(scope="session")
def make_label() -> Callable[..., Label]:
    """Return a function that makes a label, with anything replaced."""

    task_ids = {line: view.task_id for line, view in (_source().views or {}).items()}

    def make(line: int = 1, criterion: str = "fact", **changes: Any) -> Label:
        fields = {"score": 1.0, "rater": "Anna", "task_id": task_ids[line]}
        return Label(line=line, criterion=criterion, **{**fields, **changes})

    return make


@pytest.fixture
def write_source() -> Callable[[Path, LabelSource], None]:
    """Return a function that writes `tasks.jsonl` and `answers.jsonl`."""

    def write(folder: Path, source: LabelSource) -> None:
        write_tasks(folder / "tasks.jsonl", source.tasks.values())
        views = (source.views or {}).values()
        rows = [{"task_id": one.task_id, "response": one.response} for one in views]
        (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")

    return write


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Return a function that runs `rubric-judge` in a folder and gives status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["rubric-judge", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    yield run
    structlog.reset_defaults()


@contextmanager
def _running(folder: Path, *words: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "label", "tasks.jsonl", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        found = re.search(r"http://\S+", said)
        assert found, said + (process.stderr.read() if process.stderr else "")
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def labelling() -> Callable[..., Any]:
    """Return a context manager that runs `rubric-judge label` in a folder and gives its address."""
    return lambda folder, *options: _running(
        folder, "answers.jsonl", "--out", "labels.jsonl", *options
    )


@pytest.fixture
def writing() -> Callable[..., Any]:
    """Return the same for answers that are written."""
    return lambda folder, *options: _running(
        folder, "--write", "--out", "written_answers.jsonl", *options
    )
