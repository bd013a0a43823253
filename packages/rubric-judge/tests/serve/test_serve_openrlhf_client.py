"""OpenRLHF's own client of a remote reward, and what it makes of the answer."""

import asyncio
import importlib
import importlib.util
import json
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import uvicorn

from rubric_core import JudgeResult, JudgeView, Reason, Task
from rubric_judge import JudgePool
from rubric_judge.serve import JudgeService, ServeConfig, build_app
from rubric_judge.testing import ScriptedJudge

torch: Any = pytest.importorskip("torch")

pytestmark = [pytest.mark.stacks, pytest.mark.filterwarnings("ignore")]

PROMPT = "<|im_start|>user\nWhich loss is minimised?<|im_end|>\n<|im_start|>assistant\n"


class Tokenizer:
    """One character a token; 0 is the end of a response."""

    def __call__(self, text: str, **_: object) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.tensor([[ord(character) for character in text]])}

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(chr(token) if token else "<|im_end|>" for token in ids)


class Engine:
    def __init__(self, answer: str) -> None:
        self._tokens = [*map(ord, answer), 0]

    async def generate(self, *_: object, **__: object) -> object:
        output = SimpleNamespace(
            token_ids=self._tokens, finish_reason="stop", logprobs=None
        )
        return SimpleNamespace(outputs=[output])


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`openrlhf.utils.agent`, without what the `__init__` beside it imports for other modules."""
    found = importlib.util.find_spec("openrlhf")
    if found is None or found.origin is None:
        pytest.skip("openrlhf is not installed")
    utils = ModuleType("openrlhf.utils")
    utils.__path__ = [str(Path(found.origin).parent / "utils")]
    monkeypatch.setitem(sys.modules, "openrlhf.utils", utils)
    monkeypatch.delitem(sys.modules, "openrlhf.utils.agent", raising=False)
    return importlib.import_module("openrlhf.utils.agent")


def test_openrlhf_sends_its_queries_and_takes_the_rewards(agent: ModuleType) -> None:
    row = {"question": "Q?", "passage": "P.", "criteria": [{"id": "a", "weight": 4}]}
    task = Task.from_json(row)
    seen: list[str] = []

    def script(view: JudgeView) -> JudgeResult | float:
        seen.append(view.response)
        # The first call does not reach its judge, and is asked for again.
        return JudgeResult.unavailable(Reason.TIMEOUT) if len(seen) == 1 else 0.75

    service = JudgeService(
        JudgePool(ScriptedJudge(script)), {task.task_id: task}, config=ServeConfig()
    )
    config = uvicorn.Config(build_app(service), port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    executor = agent.SingleTurnAgentExecutor(f"http://127.0.0.1:{port}/openrlhf")

    async def run() -> list[dict[str, Any]]:
        sampling = SimpleNamespace(max_tokens=64, logprobs=None)
        labels = [task.task_id, json.dumps({"task_id": task.task_id})] * 4
        return await asyncio.gather(
            *(
                executor.execute(
                    PROMPT, label, sampling, 512, Tokenizer(), Engine(f"Answer {n}.")
                )
                for n, label in enumerate(labels)
            )
        )

    outputs = asyncio.run(run())
    server.should_exit = True
    thread.join()

    assert {*seen} == {f"Answer {number}." for number in range(8)}
    assert len(seen) == 9
    # As it does next: one number makes a tensor of one axis.
    for output in outputs:
        assert torch.tensor([output["reward"]]).tolist() == [0.75]
        assert torch.tensor([output["scores"]]).tolist() == [0.75]
        shapes = {
            name: torch.tensor([log]).shape
            for name, log in output["extra_logs"].items()
        }
        of_thoughts = {
            "rubric/thought",
            "rubric/unclosed_thought",
            "rubric/empty_answer",
        }
        of_judge = {"rubric/score", "rubric/invalid", "rubric/unavailable"}
        assert set(shapes) == of_judge | of_thoughts
        assert set(shapes.values()) == {(1,)}
