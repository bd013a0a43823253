"""Tasks with known rubrics, and evaluations with known rewards."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rubric_core import Criterion, Grounding, Rubric, Task
from rubric_eval import Heldout
from rubric_eval.cli import main
from rubric_eval.comparison.folders import measured_of
from rubric_eval.records.digests import refusing_edits
from rubric_eval.records.files import read_finished_run
from rubric_eval.records.inputs import EvalFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from rubric_eval.records.run import Measured
    from rubric_judge.testing.vllm import VLLMServer

GENERATION_DEFAULTS = (
    '{"temperature": 0.1, "top_k": 1, "repetition_penalty": 1.3, "presence_penalty": 2.0, '
    '"frequency_penalty": 2.0}'
)
PASSAGE = "PASSAGE-CANARY the matrix is factorised by rows"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run `rubric-eval` with these arguments, which must end well."""

    def run(*arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", ["rubric-eval", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code

    return run


@pytest.fixture
def make_task() -> Callable[..., Task]:
    """A task of document `document` with weights 3 and 1."""

    def make(number: int, *, document: int | None = None) -> Task:
        return Task(
            question=f"What does function {number} do?",
            grounding=Grounding(
                f"{PASSAGE} {number if document is None else document}"
            ),
            rubric=Rubric(
                criteria=(
                    Criterion(id="purpose", weight=3.0, description="RUBRIC-CANARY"),
                    Criterion(id="returns", weight=1.0, description="RUBRIC-CANARY"),
                )
            ),
        )

    return make


@pytest.fixture
def read_heldout() -> Callable[..., Measured]:
    """Reads the rewards that a judge gave a model of a finished evaluation."""

    def read(folder: EvalFolder | Path, judge: str, model: str) -> Measured:
        folder = folder if isinstance(folder, EvalFolder) else EvalFolder(folder)
        with refusing_edits() as edits:
            run = read_finished_run(folder, edits=edits)
            measured = measured_of(folder, run, edits)
        return next(one for one in measured if (one.judge, one.model) == (judge, model))

    return read


@pytest.fixture
def make_heldout() -> Callable[..., Heldout]:
    """An evaluation with the given reward of each question."""

    def make(
        rewards_N: Sequence[float | None],
        *,
        task_ids: Sequence[str] | None = None,
        documents: Sequence[str] = (),
        judge: str = "lexical",
    ) -> Heldout:
        return Heldout(
            judge=judge,
            task_ids=tuple(task_ids or (f"q{i}" for i in range(len(rewards_N)))),
            documents=tuple(documents),
            rewards_N=tuple(rewards_N),
            samples=4,
            criteria={"purpose": 0.5},
            zero_frac=0.25,
            zero_by_reason={"scored": 0.25},
            invalid_frac=0.0,
            unavailable_frac=0.0,
            unavailable_by_reason={},
        )

    return make


@pytest.fixture(params=[0, 1, 4, 5])
def killed_at_writing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], AbstractContextManager[None]]:
    """End where a file takes its place, of the first ones or, with a single model and judge, of the
    table and the manifest at the end; nothing comes to the disk after.

    A process that is killed writes down no failure either.
    """
    replace_file = Path.replace

    @contextmanager
    def patched() -> Iterator[None]:
        count = 0

        def killed(self: Path, target: Path) -> Path:
            nonlocal count
            count += 1
            if count <= request.param:
                return replace_file(self, target)
            raise SystemExit(9)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", killed)
            with pytest.raises(SystemExit):
                yield

    return patched


@pytest.fixture(scope="session")
def positions() -> int:
    """Of the tiny model that answers: too few for some questions."""
    return 512


@pytest.fixture(scope="session")
def short_model(make_chat_model: Callable[..., Path], positions: int) -> Path:
    """A folder whose own defaults would change every answer."""
    folder = make_chat_model(positions, spread=4.0)
    (folder / "generation_config.json").write_text(GENERATION_DEFAULTS, "utf-8")
    return folder


@pytest.fixture(scope="module")
def vllm(
    short_model: Path, serve: Callable[[Path], VLLMServer]
) -> Iterator[VLLMServer]:
    """A server of one's own: that of all tests has more positions, and no defaults.

    It ends with the file: each server holds two gigabytes, and later tests start more.
    """
    with serve(short_model) as server:
        yield server
