"""Shares what real runs begin with: a judge over HTTP, and the command as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from rubric_judge.testing import FakeEndpoint
from rubric_train_openrlhf.config.train import dump_config
from rubric_train_openrlhf.run.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from rubric_train_openrlhf.config.train import TrainConfig

LIMIT_S = 900.0


@dataclass
class Ended:
    """A run that has ended, and what it printed."""

    config: TrainConfig
    status: int
    said: str

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.config.out)


@pytest.fixture(scope="session")
def open_judge() -> Callable[..., AbstractContextManager[dict[str, Any]]]:
    """Opens an endpoint that scores by a function; gives the section `judge` that asks it."""

    @contextmanager
    def opened(
        score: Callable[..., float], **settings: Any
    ) -> Iterator[dict[str, Any]]:
        with FakeEndpoint(score, seed=5, **settings) as endpoint:
            spec = {
                "type": "llm",
                "model": "openai/fake",
                "api_base": endpoint.url,
                "transport": "direct",
            }
            yield {"spec": spec, "workers": 2, "micro_batch": 2}

    return opened


@pytest.fixture(scope="session")
def run_to_end() -> Callable[..., Ended]:
    """Runs `rubric-train run` on a configuration, with more words if there are any."""

    def run(config: TrainConfig, *words: str) -> Ended:
        file = config.out.with_suffix(".yaml")
        file.write_text(dump_config(config))
        command = [sys.executable, "-m", "rubric_train_openrlhf.cli", "run", str(file)]
        done = subprocess.run(
            [*command, *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Ended(config, done.returncode, done.stdout + done.stderr)

    return run
