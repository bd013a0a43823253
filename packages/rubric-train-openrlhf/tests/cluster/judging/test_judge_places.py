"""One limiter for all executors of a process; a stand-in counts the calls that arrive."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.sampling.samples import Verdict
from rubric_train_openrlhf.cluster.settings import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transformers import PreTrainedTokenizerBase as Tokenizer

    from rubric_core import Task
    from rubric_train_openrlhf.config.train import TrainConfig

pytestmark = [pytest.mark.openrlhf, pytest.mark.anyio]

BOUND = 6
RESPONSES = 5 * BOUND


class CountingCoordinator:
    """Judges nobody before as many calls are there as may be, and nobody else has come."""

    def __init__(self) -> None:
        self.judge = SimpleNamespace(remote=self._judge)
        self.most = self._now = self.done = 0
        self._full = asyncio.Event()

    async def _judge(self, task_id: str, response: str) -> Verdict:
        del response
        self._now += 1
        self.most = max(self.most, self._now)
        if self._now == BOUND:
            self._full.set()
        await self._full.wait()
        for _ in range(10 * RESPONSES):  # every other task has its turns
            await asyncio.sleep(0)
        self._now -= 1
        self.done += 1
        return Verdict(f"{task_id}:key", 0.5)


class Engine:
    """Has every response at once."""

    async def generate(
        self, prompt_token_ids: list[int], sampling_params: object, /
    ) -> Any:
        del prompt_token_ids, sampling_params
        completion = SimpleNamespace(
            token_ids=[5], logprobs=[{5: SimpleNamespace(logprob=-1.0)}]
        )
        completion.finish_reason = "stop"
        return SimpleNamespace(outputs=[completion])


@pytest.mark.parametrize("executors", [1, 3])
async def test_executors_of_a_process_share_its_judge_calls(
    executors: int,
    make_config: Callable[..., TrainConfig],
    tasks: Sequence[Task],
    tokenizer: Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from openrlhf.trainer.ray.vllm_engine import _load_agent_executor

    from rubric_train_openrlhf.cluster.sampling import judge_calls, samples

    config = make_config(judge={"workers": 2, "micro_batch": 3})
    PolicyRun.of(config, namespace="test").write(tmp_path / "run.json")
    monkeypatch.setenv(RUN_FILE, str(tmp_path / "run.json"))
    coordinator = CountingCoordinator()
    monkeypatch.setattr(judge_calls, "find_coordinator", lambda _: coordinator)
    agent = Path(samples.__file__).with_name("agent.py")
    loaded = [_load_agent_executor(str(agent)) for _ in range(executors)]

    made = await asyncio.gather(
        *(
            loaded[number % executors].execute(
                prompt="Question: why?\nAnswer:",
                label=tasks[0].task_id,
                sampling_params=SimpleNamespace(max_tokens=4),
                max_length=400,
                hf_tokenizer=tokenizer,
                llm_engine=Engine(),
            )
            for number in range(RESPONSES)
        )
    )

    assert coordinator.most == BOUND
    assert coordinator.done == RESPONSES
    assert {sample["reward"] for sample in made} == {0.5}
