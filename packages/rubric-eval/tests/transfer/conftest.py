"""Models that say what a script says, and the small set's targets."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from rubric_core import Reply
from rubric_eval.records.run import ModelEntry
from rubric_eval.responders.opening import OpenModel, fingerprint

pytest.importorskip("lm_eval")

from rubric_eval.transfer.plan import TransferPlan, plan_transfer, run_transfer
from rubric_eval.transfer.table import TransferTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from rubric_core import Ask, Decoding


class ScriptedResponder:
    """A `Responder` whose replies, or whose likeliest choices, are a function of the prompt."""

    scores_choices = True

    def __init__(self, script: Callable[[str], str | Reply], *, weights: str) -> None:
        self.asked: Counter[str] = Counter()
        self.decodings: list[Decoding] = []
        self.is_closed = False
        self._weights = weights
        self._script = script

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        return {"kind": "scripted", "weights": self._weights}

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncIterator[tuple[int, Reply]]:
        assert not self.is_closed
        self.decodings.append(decoding)
        for index, ask in enumerate(asks):
            await anyio.lowlevel.checkpoint()
            self.asked[ask.view.question] += 1
            reply = self._script(ask.view.question)
            if ask.choices and isinstance(reply, str):
                reply = Reply.chosen(
                    ask.choices, [-1.0 - (reply != one) for one in ask.choices]
                )
            yield (
                index,
                Reply.answered(reply, tokens=7) if isinstance(reply, str) else reply,
            )

    async def aclose(self) -> None:
        self.is_closed = True


@pytest.fixture
def scripted() -> Callable[..., OpenModel]:
    """Open a model of this name that says what a script says."""

    def open_scripted(
        name: str, script: Callable[[str], str | Reply], *, weights: str | None = None
    ) -> OpenModel:
        responder = ScriptedResponder(
            script, weights=name if weights is None else weights
        )
        entry = ModelEntry(
            name=name,
            spec=f"{name}=scripted:{name}",
            fingerprint=fingerprint(responder),
            identity=dict(responder.identity),
        )
        return OpenModel(entry, responder)

    return open_scripted


@pytest.fixture(scope="session")
def plan() -> TransferPlan:
    """All benchmarks of the paper's suite, on the small set."""
    return plan_transfer(data="small")


@pytest.fixture(scope="session")
def oracle(plan: TransferPlan) -> Callable[[str], str]:
    """Say the right answer to every prompt of the plan."""
    targets: dict[str, str] = {}
    for built in plan.built:
        documents = built.task.dataset["test"]
        targets.update(
            zip(built.prompts, (one["target"] for one in documents), strict=True)
        )
    return lambda prompt: f"I think.\nThe answer is $\\boxed{{{targets[prompt]}}}$."


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., TransferTable]:
    """Run models on a plan, into one folder."""

    def run_models(
        plan: TransferPlan, *models: OpenModel, **options: object
    ) -> TransferTable:
        return anyio.run(partial(run_transfer, tmp_path / "t", plan, models, **options))

    return run_models


def responder_of(model: OpenModel) -> ScriptedResponder:
    """Return the script of a model."""
    assert isinstance(model.responder, ScriptedResponder)
    return model.responder


@pytest.fixture
def asked() -> Callable[[OpenModel], Counter[str]]:
    """How often a model was asked each prompt."""
    return lambda model: responder_of(model).asked


@pytest.fixture
def is_closed() -> Callable[[OpenModel], bool]:
    """Whether a model was let go of."""
    return lambda model: responder_of(model).is_closed
