"""A responder that counts what it is asked, and tasks for it."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

import pytest

from rubric_core import Ask, Decoding, Finish, Reason, Reply, Task
from rubric_eval.records.run import ModelEntry
from rubric_eval.responders.opening import OpenModel, fingerprint


class CountingResponder:
    """Answers with its name and the seed; fails where it is told to."""

    def __init__(
        self, name: str, *, fails: Callable[[int], bool] = lambda _: False
    ) -> None:
        self.name = name
        self.asked: list[Ask] = []
        self.fails = fails
        """Of the number of the question among all that were asked."""

    @property
    def identity(self) -> Mapping[str, str]:
        return {"kind": "counting", "name": self.name}

    async def respond(
        self, asks: Sequence[Ask], decoding: Decoding
    ) -> AsyncGenerator[tuple[int, Reply]]:
        del decoding
        for index in reversed(range(len(asks))):
            self.asked.append(asks[index])
            if self.fails(len(self.asked) - 1):
                yield index, Reply.unavailable(Reason.CONNECTION, "gone")
            else:
                text = f"{self.name} {asks[index].seed}"
                yield index, Reply.answered(text, finish=Finish.COMPLETE, tokens=2)

    async def aclose(self) -> None:
        return


@pytest.fixture
def make_model() -> Callable[..., tuple[OpenModel, CountingResponder]]:
    def make(
        name: str = "base", *, fails: Callable[[int], bool] = lambda _: False
    ) -> tuple[OpenModel, CountingResponder]:
        responder = CountingResponder(name, fails=fails)
        entry = ModelEntry(
            name="model",
            spec="s",
            fingerprint=fingerprint(responder),
            identity={"name": name},
        )
        return OpenModel(entry, responder), responder

    return make


@pytest.fixture
def tasks(make_task: Callable[..., Task]) -> list[Task]:
    return [make_task(number) for number in range(5)]
