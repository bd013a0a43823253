"""A response as OpenRLHF gets it; engine and judge are stand-ins here, the tokenizer is real."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import Answer, Reason
from rubric_train_openrlhf.cluster.sampling.samples import (
    JudgementId,
    SampleRequest,
    Verdict,
    judged_sample,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

    from rubric_train_openrlhf.policy import ChatCodec

pytestmark = pytest.mark.anyio
PROMPT = "Question: why?\nAnswer:"


class Engine:
    """Answers with given tokens, in the shape of vLLM's output."""

    def __init__(
        self,
        tokens: list[int],
        *,
        finish_reason: str | None = "stop",
        unfinished: int = 0,
    ) -> None:
        self._completion = SimpleNamespace(
            token_ids=tuple(tokens),
            logprobs=[{token: SimpleNamespace(logprob=-0.5)} for token in tokens],
            finish_reason=finish_reason,
        )
        self._unfinished = unfinished
        self.asked: list[tuple[list[int], Any]] = []

    async def generate(
        self, prompt_token_ids: list[int], sampling_params: Any, /
    ) -> Any:
        self.asked.append((prompt_token_ids, sampling_params))
        if len(self.asked) <= self._unfinished:
            cut = SimpleNamespace(token_ids=(), logprobs=[], finish_reason="error")
            return SimpleNamespace(outputs=[cut])
        return SimpleNamespace(outputs=[self._completion])


async def scored(task_id: str, answer: Answer) -> Verdict:
    assert answer == Answer("because")
    return Verdict(f"{task_id}:key", 0.25)


async def sample(
    tokenizer: Tokenizer,
    engine: Engine,
    *,
    max_tokens: int | None = 8,
    judge: Any = scored,
) -> dict[str, Any]:
    sampling = SimpleNamespace(max_tokens=max_tokens, seed=3)
    request = SampleRequest(PROMPT, "task", sampling, max_length=40)
    run: Any = SimpleNamespace(thoughts="cut", end_token_ids=(tokenizer.eos_token_id,))
    return await judged_sample(
        request, tokenizer=tokenizer, engine=engine, judge=judge, run=run
    )


async def test_a_response_is_laid_out_as_openrlhf_reads_it(
    tokenizer: Tokenizer, codec: ChatCodec
) -> None:
    prompt = tokenizer.encode(PROMPT, add_special_tokens=False)
    answer = [
        *tokenizer.encode(" because", add_special_tokens=False),
        codec.eos_token_id,
    ]
    engine = Engine(answer)

    made = await sample(tokenizer, engine)

    assert made["observation_tokens"] == prompt + answer
    assert made["action_ranges"] == [(len(prompt), len(prompt) + len(answer))]
    assert made["rollout_log_probs"] == [0.0] * len(prompt) + [-0.5] * len(answer)
    assert (made["reward"], made["scores"], made["truncated"]) == (0.25, 0.25, False)
    assert made["completion"] == ("because", Answer("because"))
    assert made["label"] == "task:key"
    assert made["extra_logs"]["rubric/judge_s"] >= 0
    ((asked_ids, sampling),) = engine.asked
    assert (asked_ids, sampling.max_tokens, sampling.seed) == (prompt, 8, 3)


@pytest.mark.parametrize("max_tokens", [None, 1000])
async def test_a_response_has_the_room_that_the_prompt_leaves(
    tokenizer: Tokenizer, max_tokens: int | None
) -> None:
    engine = Engine(
        tokenizer.encode(" because", add_special_tokens=False), finish_reason="length"
    )

    made = await sample(tokenizer, engine, max_tokens=max_tokens)

    ((asked_ids, sampling),) = engine.asked
    assert sampling.max_tokens == 40 - len(asked_ids)
    assert made["truncated"]


@pytest.mark.parametrize(
    "verdict", [Verdict("t:k", 0.0), Verdict.unreachable("t", Reason.TIMEOUT)]
)
async def test_a_failed_judgement_is_a_number_for_openrlhf_and_keeps_its_name(
    tokenizer: Tokenizer, verdict: Verdict
) -> None:
    async def failing(task_id: str, response: str) -> Verdict:
        del task_id, response
        return verdict

    made = await sample(tokenizer, Engine([5, 6]), judge=failing)

    assert made["reward"] == made["scores"] == 0.0
    assert made["label"] == verdict.judgement


@pytest.mark.parametrize("finish_reason", ["abort", "error", None])
@pytest.mark.parametrize("tokens", [[], [5, 6]])
async def test_a_response_that_the_engine_does_not_finish_is_masked_and_not_judged(
    tokenizer: Tokenizer, finish_reason: str | None, tokens: list[int]
) -> None:
    async def nobody(task_id: str, response: str) -> Verdict:
        raise AssertionError((task_id, response))

    engine = Engine(tokens, finish_reason=finish_reason)
    made = await sample(tokenizer, engine, judge=nobody)

    judgement = JudgementId.read(made["label"])
    assert len(engine.asked) == 3
    assert (judgement.reason, judgement.is_answer) == (Reason.NO_RESPONSE, False)
    assert made["truncated"]
    prompt = len(tokenizer.encode(PROMPT, add_special_tokens=False))
    assert (made["completion"].text, made["action_ranges"]) == ("", [(prompt, prompt)])
    assert made["rollout_log_probs"] == [0.0] * prompt


async def test_a_response_that_the_engine_dropped_is_generated_again(
    tokenizer: Tokenizer,
) -> None:
    tokens = tokenizer.encode(" because", add_special_tokens=False)
    made = await sample(tokenizer, Engine(tokens, unfinished=2))
    assert (made["reward"], made["completion"].text, made["truncated"]) == (
        0.25,
        "because",
        False,
    )


async def test_a_response_that_repeats_itself_is_cut_off_and_judged(
    tokenizer: Tokenizer,
) -> None:
    tokens = tokenizer.encode(" because", add_special_tokens=False)
    made = await sample(tokenizer, Engine(tokens, finish_reason="repetition"))
    assert (made["reward"], made["truncated"]) == (0.25, True)


async def test_an_engine_that_fails_is_not_given_a_reward(tokenizer: Tokenizer) -> None:
    class Dead(Engine):
        async def generate(self, *_: Any) -> Any:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await sample(tokenizer, Dead([1]))
