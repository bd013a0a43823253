"""Generated documents, a model that counts what it is asked, and the command as a real process."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import yaml

from rubric_judge.testing import FakeEndpoint
from rubric_synth import collect
from rubric_synth.testing import generated_documents, scripted_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rubric_judge.testing import FakeCall

FINAL = (
    "train.jsonl",
    "validation.jsonl",
    "test.jsonl",
    "rejected.jsonl",
    "manifest.json",
)


@dataclass(frozen=True)
class Kill:
    """A moment after a process was killed."""

    at_s: float
    """What it had sent has arrived by then."""
    kept: Counter[str]
    """Replies that its folder holds."""


class Model:
    """A scripted model behind real HTTP that knows what it was asked, and what it answered when."""

    def __init__(self, *, latency: float = 0.02) -> None:
        self.answers: dict[int, float] = {}
        self.endpoint = FakeEndpoint(self._answer, latency=latency)
        self.known: dict[str, str] = {}

    @property
    def url(self) -> str:
        return self.endpoint.url

    @property
    def questions(self) -> Counter[str]:
        """Arrivals by what was asked; whether anybody is there is no question."""
        return Counter(
            _asked(call) for call in self.endpoint.calls if not _is_check(call)
        )

    def after_kill(self, out: Path) -> Kill:
        """Wait until nothing more arrives of what a killed process had sent, and note what it kept.

        Args:
            out: The folder of the run.
        """
        for _ in range(120):
            arrived = len(self.endpoint.calls)
            time.sleep(0.5)
            if len(self.endpoint.calls) == arrived:
                break
        lines = [
            line
            for file in sorted((out / "work").glob("calls-*.jsonl"))
            for line in file.read_bytes().splitlines()
        ]
        return Kill(
            at_s=time.monotonic(), kept=Counter(filter(None, map(_reply_in, lines)))
        )

    def asked_twice_without_need(self, kills: list[Kill]) -> list[str]:
        """Return questions that came again though no kill took the answer to their first asking."""
        arrivals: defaultdict[str, list[FakeCall]] = defaultdict(list)
        for call in self.endpoint.calls:
            if not _is_check(call):
                arrivals[_asked(call)].append(call)
        alike = Counter(self.known.values())
        return [
            question
            for question, calls in arrivals.items()
            for call in calls[:-1]
            if not any(
                call.at_s <= kill.at_s
                and kill.kept[self.known[question]] < alike[self.known[question]]
                for kill in kills
            )
        ]

    def _answer(self, call: FakeCall) -> str:
        question = _asked(call)
        if question not in self.known:
            self.known[question] = scripted_reply(call)
        self.answers[call.number] = time.monotonic()
        return self.known[question]


def _asked(call: FakeCall) -> str:
    return hashlib.sha256(json.dumps(call.messages).encode()).hexdigest()


def _reply_in(line: bytes) -> str | None:
    """Return the reply in a line of kept calls; None where a kill cut the line."""
    try:
        return json.loads(line)["body"]["call"]["text"]
    except ValueError:
        return None


def _is_check(call: FakeCall) -> bool:
    return call.messages[-1]["content"] == "Are you ready?"


@pytest.fixture
def model() -> Iterator[Model]:
    """A running model; it is the same from one run of a test to the next."""
    made = Model()
    with made.endpoint:
        yield made


@pytest.fixture
def generated(tmp_path: Path) -> Callable[[int], Path]:
    """Collect so many generated documents into a folder."""

    def make(count: int) -> Path:
        records = tmp_path / "records.jsonl"
        documents = generated_documents(count)
        rows = ({"id": d.source, "title": d.title, "text": d.text} for d in documents)
        records.write_text("".join(json.dumps(row) + "\n" for row in rows))
        collect([records], tmp_path / f"collected-{count}")
        return tmp_path / f"collected-{count}"

    return make


@pytest.fixture
def configured(tmp_path: Path, model: Model) -> Callable[..., Path]:
    """Write a configuration that asks the model."""

    def make(
        name: str = "synth", /, *, prices: bool = True, **settings: object
    ) -> Path:
        asked: dict[str, object] = {
            "model": "fake",
            "transport": "direct",
            "api_base": model.url,
        }
        if prices:
            asked["prices"] = {
                "prompt_usd_per_mtok": 1.0,
                "completion_usd_per_mtok": 2.0,
            }
        synthesiser = {"type": "llm", "model": asked, "questions_per_document": 1}
        content = {"synthesiser": synthesiser, **settings}
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        return path

    return make


class Command:
    """`rubric-synth run` in a process of its own."""

    def __init__(self, collected: Path, out: Path, config: Path, *options: str) -> None:
        command = [sys.executable, "-m", "rubric_synth.cli", "run", str(collected)]
        self.process = subprocess.Popen(
            [*command, "--out", str(out), "--config", str(config), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self, timeout_s: float = 600) -> tuple[int, str]:
        """Return the exit status and what was written to standard error."""
        _, errors = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, errors

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Wait for something to happen; False where the process ended before."""
        while not condition():
            if self.process.poll() is not None:
                return False
            threading.Event().wait(0.002)
        return True


@pytest.fixture
def command() -> type[Command]:
    return Command


@pytest.fixture
def final_files() -> Callable[[Path], dict[str, bytes]]:
    """Read the bytes of a dataset."""
    return lambda out: {name: (out / name).read_bytes() for name in FINAL}
