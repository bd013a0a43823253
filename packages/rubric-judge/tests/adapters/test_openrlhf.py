"""The reward for OpenRLHF: its dictionary, and the response cut out of prompt and response."""

import asyncio
import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    ConfigError,
    JudgeResult,
    Reason,
    RewardShapeError,
    SchemaError,
    Task,
    UnavailableRewardError,
)
from rubric_judge import LexicalJudge
from rubric_judge.adapters.openrlhf import response_of, rubric_reward
from rubric_judge.testing import FailingJudge, ScriptedJudge

torch: Any = pytest.importorskip("torch")

PROMPT = (
    "<|im_start|>user\nWhich loss is\nminimised?<|im_end|>\n<|im_start|>assistant\n"
)
ANSWER = "It is the cross entropy."
SHARES = (
    "score",
    "invalid",
    "unavailable",
    "thought",
    "unclosed_thought",
    "empty_answer",
)
LOGS = tuple(f"rubric/{name}" for name in SHARES)


@pytest.mark.parametrize(
    "end",
    [
        *(
            "",
            "<|im_end|>",
            "</s>",
            "<|eot_id|>\n",
            "<eos><pad><pad>",
            "<｜end▁of▁sentence｜>",
        ),
        *("<turn|>\n", "<seed:eos>", "[e~["),  # Gemma 4, Seed OSS, MiniMax M2
    ],
)
def test_the_prompt_and_the_special_tokens_at_the_end_are_cut_off(end: str) -> None:
    assert response_of(f"{PROMPT}{ANSWER}{end}", PROMPT) == ANSWER


@pytest.mark.parametrize(
    "query",
    [
        f"<s> {PROMPT}{ANSWER}"[4:],
        PROMPT.replace("\n", " ") + ANSWER,
        PROMPT.replace("\n", "") + f" {ANSWER}",
        PROMPT[20:] + ANSWER,
        "\ufffd" + PROMPT[21:] + ANSWER,
    ],
    ids=[
        "leading space",
        "other space",
        "no space",
        "cut at its start",
        "cut in a character",
    ],
)
def test_a_prompt_that_the_tokenizer_changed_or_that_was_cut_is_found(
    query: str,
) -> None:
    assert response_of(query, PROMPT) == ANSWER


def test_a_response_that_repeats_its_prompt_keeps_its_own_words() -> None:
    assert response_of(f"{PROMPT}{PROMPT}{ANSWER}", PROMPT) == f"{PROMPT}{ANSWER}"
    assert response_of("a b a b a b", "a b ") == "a b a b"


def test_special_tokens_within_a_response_stay() -> None:
    assert response_of("x<|y|> and </s> z</s>", "x") == "<|y|> and </s> z"


def test_a_query_that_does_not_hold_its_prompt_is_refused() -> None:
    with pytest.raises(SchemaError, match="does not begin with its prompt") as caught:
        response_of("Quite another text, and an answer.", PROMPT)
    assert "answer" not in str(caught.value)


words = st.text("ab \n<|>", max_size=40)


@given(words, words)
def test_no_word_of_the_prompt_is_left_and_none_of_the_response_is_lost(
    prompt: str, response: str
) -> None:
    found = response_of(f"{prompt}{response}", prompt)

    assert response.startswith(found)


def test_a_response_of_special_tokens_alone_takes_no_time() -> None:
    assert response_of("x" + "<|a|> \n" * 20_000, "x") == ""
    assert response_of("x" + "\n" * 200_000 + "y", "x").endswith("y")


def test_the_reward_is_a_tensor_with_its_logs(
    tasks: dict[str, Task], task: Task
) -> None:
    reward = rubric_reward(judge=LexicalJudge(), tasks=tasks)

    found: Any = reward([f"{PROMPT}{ANSWER}</s>"], [PROMPT], [task.task_id])

    torch.testing.assert_close(found["rewards"], torch.tensor([0.75]))
    torch.testing.assert_close(found["scores"], torch.tensor([0.75]))
    logs = {name: value.tolist() for name, value in found["extra_logs"].items()}
    assert logs == {name: [0.75 if name == "rubric/score" else 0.0] for name in LOGS}


def test_a_label_may_be_a_line_of_the_task_file_or_a_row_with_its_rubric(
    task: Task, row: dict[str, Any]
) -> None:
    reward = rubric_reward(judge=LexicalJudge())
    line = task.to_json(reveal_grounding=True)
    labels = [json.dumps(line), line, json.dumps(row)]

    found: Any = reward([f"?{ANSWER}"] * 3, ["?"] * 3, labels)

    assert found["rewards"].tolist() == [0.75] * 3


def test_what_was_not_judged_is_0_and_marked(row: dict[str, Any]) -> None:
    outcomes = {"lost": JudgeResult.unavailable(Reason.TIMEOUT), "fine": 1.0}
    reward = rubric_reward(judge=ScriptedJudge(lambda view: outcomes[view.response]))
    label = json.dumps(row)

    found: Any = reward(["?lost", "?fine"], ["?", "?"], [label, label])

    assert found["rewards"].tolist() == [0.0, 1.0]
    assert found["extra_logs"]["rubric/unavailable"].tolist() == [1.0, 0.0]


def test_what_openrlhf_would_hide_is_logged(tasks: dict[str, Task], task: Task) -> None:
    reward = rubric_reward(judge=LexicalJudge(), tasks=tasks)
    failing = rubric_reward(judge=FailingJudge(), tasks=tasks, on_unavailable="raise")

    with structlog.testing.capture_logs() as logged:
        with pytest.raises(ConfigError):
            reward(["?y"], ["?"], ["unknown"])
        with pytest.raises(RewardShapeError):
            reward(["?y"], ["?"], [])
        with pytest.raises(UnavailableRewardError):
            failing(["?y"], ["?"], [task.task_id])
        with pytest.raises(SchemaError, match="a text is needed, not NoneType"):
            reward(cast("list[str]", [None]), ["?"], [task.task_id])

    assert [(entry["event"], entry["error"]) for entry in logged] == [
        ("judge.reward.failed", "ConfigError"),
        ("judge.reward.failed", "RewardShapeError"),
        ("judge.reward.failed", "UnavailableRewardError"),
        ("judge.reward.failed", "SchemaError"),
    ]


def test_a_policy_that_openrlhf_lacks_is_refused_when_the_reward_is_made() -> None:
    with pytest.raises(ConfigError, match="'zero' or 'raise', not 'mask'"):
        rubric_reward(judge=LexicalJudge(), on_unavailable="mask")


# --- OpenRLHF 0.11.2 ------------------------------------------------------------------------------


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`openrlhf.utils.agent`, without what the `__init__` beside it imports for other modules."""
    found = importlib.util.find_spec("openrlhf")
    if found is None or found.origin is None:
        pytest.skip("openrlhf is not installed")
    utils = ModuleType("openrlhf.utils")
    utils.__path__ = [str(Path(found.origin).parent / "utils")]
    monkeypatch.setitem(sys.modules, "openrlhf.utils", utils)
    monkeypatch.delitem(sys.modules, "openrlhf.utils.agent", raising=False)
    return importlib.import_module("openrlhf.utils.agent")


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_openrlhf_loads_the_file_and_takes_its_rewards(
    agent: Any, judge_file: str, tasks_file: str, task: Task, tmp_path: Path
) -> None:
    file = tmp_path / "reward.py"
    file.write_text(
        "from rubric_judge.adapters.openrlhf import rubric_reward\n\n"
        f"reward_func = rubric_reward(judge={judge_file!r}, tasks={tasks_file!r})\n"
    )
    executor = agent.SingleTurnAgentExecutor(str(file))

    class Tokenizer:
        """One character a token; 0 is the end of a response."""

        def __call__(self, text: str, **_: object) -> dict[str, torch.Tensor]:
            return {"input_ids": torch.tensor([[ord(character) for character in text]])}

        def decode(self, ids: list[int], **_: object) -> str:
            return "".join(chr(token) if token else "</s>" for token in ids)

    class Engine:
        async def generate(self, *_: object, **__: object) -> object:
            tokens = [*map(ord, ANSWER), 0]
            output = SimpleNamespace(
                token_ids=tokens, finish_reason="stop", logprobs=None
            )
            return SimpleNamespace(outputs=[output])

    async def run() -> list[dict[str, Any]]:
        sampling = SimpleNamespace(max_tokens=64, logprobs=None)
        arguments = (PROMPT, task.task_id, sampling, 512, Tokenizer(), Engine())
        return await asyncio.gather(*(executor.execute(*arguments) for _ in range(8)))

    outputs = asyncio.run(run())

    assert [output["reward"].tolist() for output in outputs] == [[0.75]] * 8
    assert [output["scores"].tolist() for output in outputs] == [[0.75]] * 8
    assert {tuple(output["extra_logs"]) for output in outputs} == {LOGS}
