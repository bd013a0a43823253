"""Models that say what a script says, and a plan, a judge and a run of them."""

from __future__ import annotations

import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from rubric_core import Decoding, Reply
from rubric_eval.heldout.plan import HeldoutPlan
from rubric_eval.heldout.run import run_heldout
from rubric_eval.heldout.table import HeldoutTable
from rubric_eval.records.run import ModelEntry
from rubric_eval.responders.opening import OpenModel, fingerprint
from rubric_eval.scores.scoring import read_judges

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from pydantic import JsonValue

    from rubric_core import Ask, Task


class ScriptedResponder:
    """A `Responder` whose replies are a function of the ask."""

    def __init__(
        self, name: str, script: Callable[[Ask], str | Reply], *, weights: str
    ) -> None:
        """Take the script; the name and the weights are its identity."""
        self.asked: Counter[str] = Counter()
        """Times that each question was asked."""
        self.stops_after: int | None = None
        """Replies after which Ctrl-C comes while it waits."""
        self._identity: dict[str, JsonValue] = {"scripted": name, "weights": weights}
        self._script = script
        self._is_closed = False

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        return self._identity

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncIterator[tuple[int, Reply]]:
        assert not self._is_closed
        assert decoding.max_tokens
        for index, ask in enumerate(asks):
            await anyio.lowlevel.checkpoint()
            if index == self.stops_after:
                await anyio.wait_all_tasks_blocked()
                signal.raise_signal(signal.SIGINT)
                await anyio.sleep_forever()
            self.asked[ask.view.question] += 1
            reply = self._script(ask)
            yield (
                index,
                Reply.answered(reply, tokens=3) if isinstance(reply, str) else reply,
            )

    async def aclose(self) -> None:
        self._is_closed = True


@pytest.fixture
def scripted() -> Callable[..., OpenModel]:
    """Open a model of this name that says what a script says."""

    def open_scripted(
        name: str, script: Callable[[Ask], str | Reply], *, weights: str = ""
    ) -> OpenModel:
        responder = ScriptedResponder(name, script, weights=weights)
        entry = ModelEntry(
            name=name,
            spec=f"{name}=scripted:{name}",
            fingerprint=fingerprint(responder),
            identity=dict(responder.identity),
        )
        return OpenModel(entry, responder)

    return open_scripted


@pytest.fixture
def tasks(make_task: Callable[..., Task]) -> tuple[Task, ...]:
    """Twelve questions, three of each document."""
    return tuple(make_task(number, document=number // 3) for number in range(12))


@pytest.fixture
def make_plan(tasks: tuple[Task, ...]) -> Callable[..., HeldoutPlan]:
    """A plan for the questions, with what is given changed."""

    def make(**changed: Any) -> HeldoutPlan:
        given = {
            "tasks": tasks,
            "source": "test.jsonl",
            "decoding": Decoding(temperature=1.0),
        }
        return HeldoutPlan(**(given | changed))

    return make


@pytest.fixture
def judge_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a judge's file: the model behind an address."""

    def write(url: str, *, name: str = "judge", passage_chars: int = 50_000) -> Path:
        path = tmp_path / f"{name}.yaml"
        lines = [
            "type: llm",
            "model: openai/fake",
            f"api_base: {url}",
            "transport: direct",
        ]
        lines += [f"passage_chars: {passage_chars}", "max_transport_attempts: 1"]
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


@pytest.fixture
def evaluate(tmp_path: Path) -> Callable[..., HeldoutTable]:
    """Run an evaluation in the folder `eval` of a test."""

    def run(
        plan: HeldoutPlan, models: Sequence[OpenModel], judges: Sequence[Path | str]
    ) -> HeldoutTable:
        named = read_judges([str(judge) for judge in judges])
        return anyio.run(partial(run_heldout, tmp_path / "eval", plan, models, named))

    return run
